"""Passes over a cluster that scales by itself."""

from __future__ import annotations

import json
from typing import Any

import pytest

from inference_operator.api import names
from inference_operator.api.routing import EngineReport, GatewayReport
from inference_operator.core.model import MetricsApi
from tests.unit.engine.fake_kube import Object
from tests.unit.engine.rig import Rig, cluster

SCALER = "HorizontalPodAutoscaler"


@pytest.fixture
def rig() -> Rig:
    made = Rig()
    made.kube.create(cluster(autoscaling={"maxReplicas": 10}))
    return made


def rival() -> Object:
    target = {"apiVersion": names.API_VERSION, "kind": names.KIND, "name": "llama"}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": SCALER,
        "metadata": {"name": "mine", "namespace": "ns"},
        "spec": {"scaleTargetRef": target},
    }


def decided(rig: Rig, desired: int) -> None:
    """The HPA controller has looked."""
    active = {"type": "ScalingActive", "status": "True", "reason": "ValidMetricFound"}
    rig.child(SCALER)[0]["status"] = {"desiredReplicas": desired, "conditions": [active]}


async def test_a_scaler_is_made_and_goes_when_it_is_not_wanted(rig: Rig) -> None:
    await rig.run_until_quiet()
    assert [obj["metadata"]["name"] for obj in rig.child(SCALER)] == ["llama-engine"]
    assert rig.condition("ScalingActive")["status"] == "Unknown"
    decided(rig, 2)
    await rig.run_until_quiet()
    assert rig.condition("ScalingActive")["status"] == "True"
    rig.kube.update_spec("llama", autoscaling={"mode": "Disabled"})
    await rig.run_until_quiet()
    assert rig.child(SCALER) == []
    assert rig.condition("ScalingActive")["reason"] == "Disabled"


async def test_no_write_of_ours_holds_the_clusters_replicas(rig: Rig) -> None:
    """Acceptance E1: spec.replicas has one writer, and it isn't us."""
    written: list[Object] = []
    for verb in ("apply", "apply_status"):
        original = getattr(rig.kube, verb)

        async def spy(obj: Object, original: Any = original) -> Object:
            written.append(obj)
            return await original(obj)  # type: ignore[no-any-return]

        setattr(rig.kube, verb, spy)
    await rig.run_until_quiet()
    for _ in range(100):
        rig.kube.update_spec("llama", replicas=3)
        await rig.run()
    ours = [obj for obj in written if obj["kind"] == names.KIND]
    assert ours
    assert all("spec" not in obj for obj in ours)
    assert rig.kube.named(names.KIND, "llama")["spec"]["replicas"] == 3


async def test_a_rival_takes_ours_away_and_is_never_written(rig: Rig) -> None:
    await rig.run_until_quiet()
    rig.kube.create(rival())
    await rig.run_until_quiet()
    assert [obj["metadata"]["name"] for obj in rig.child(SCALER)] == ["mine"]
    assert "HorizontalPodAutoscaler mine" in rig.condition("ScalingActive")["message"]
    assert rig.condition("SpecValid")["status"] == "True"
    assert not any(write.endswith("mine") for write in rig.kube.writes)


async def test_without_a_metrics_api_there_is_no_scaler(rig: Rig) -> None:
    rig.store.api = MetricsApi("monitoring/adapter", ours=False, available=True)
    await rig.run_until_quiet()
    assert rig.child(SCALER) == []
    assert rig.condition("ScalingActive")["reason"] == "Conflict"


async def test_a_reset_of_replicas_is_held_until_the_scaler_agrees(rig: Rig) -> None:
    rig.kube.update_spec("llama", replicas=6)
    await rig.run_until_quiet()
    decided(rig, 6)
    rig.kube.update_spec("llama", replicas=1)
    await rig.run_until_quiet()
    engines = [d for d in rig.child("Deployment") if d["metadata"]["name"] != "llama-gateway"]
    assert [d["spec"]["replicas"] for d in engines] == [6]
    assert rig.status()["scaling"]["limitedBy"] == "Autoscaler"
    decided(rig, 1)
    await rig.run_until_quiet()
    engines = [d for d in rig.child("Deployment") if d["metadata"]["name"] != "llama-gateway"]
    assert [d["spec"]["replicas"] for d in engines] == [1]


# --- who goes ---


def pod(name: str, deployment: str, labels: dict[str, str], address: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "ns",
            "labels": labels,
            "ownerReferences": [
                {"kind": "ReplicaSet", "name": f"{deployment}-abc", "uid": "rs", "controller": True}
            ],
        },
        "spec": {"nodeName": "n1"},
        "status": {
            "phase": "Running",
            "podIP": address,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


async def serving(rig: Rig, engines: int) -> None:
    """Engines and two gateways that see all of them."""
    rig.kube.update_spec("llama", replicas=engines)
    await rig.run_until_quiet()
    found = {d["metadata"]["name"]: d for d in rig.child("Deployment")}
    for name, deployment in found.items():
        gateway = name == "llama-gateway"
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        for i in range(2 if gateway else engines):
            part = "g" if gateway else "e"
            rig.kube.create(pod(f"{name}-abc-{part}{i}", name, labels, f"10.0.{int(gateway)}.{i}"))
    names_ = [p["metadata"]["name"] for p in rig.child("Pod") if "-e" in p["metadata"]["name"][-3:]]
    reports = {
        f"{names.REPORT_KEY_PREFIX}llama-gateway-abc-g{i}": GatewayReport(
            gateway=f"llama-gateway-abc-g{i}",
            ready=True,
            routing_digest="",
            engines=tuple(EngineReport(pod=p, revision="", state="UP") for p in names_),
        ).model_dump_json()
        for i in range(2)
    }
    rig.kube.named("ConfigMap", "llama-gateway-report")["data"] = reports
    await rig.run_until_quiet()


def drains(rig: Rig) -> list[str]:
    data = rig.kube.named("ConfigMap", "llama-routing")["data"][names.ROUTING_KEY]
    return [drain["pod"][-2:] for drain in json.loads(data)["drains"]]


async def test_the_gateways_are_asked_for_the_least_busy_engine_and_only_then(rig: Rig) -> None:
    await serving(rig, 3)
    assert rig.gateways.asked == []
    busy = {"e0": 5, "e1": 1, "e2": 4}
    rig.gateways.by_pod = {
        p["metadata"]["name"]: busy[p["metadata"]["name"][-2:]]
        for p in rig.child("Pod")
        if p["metadata"]["name"][-2:] in busy
    }
    decided(rig, 2)
    rig.kube.update_spec("llama", replicas=2)
    await rig.run_until_quiet()
    assert drains(rig) == ["e1"]
    assert rig.gateways.asked == [("10.0.1.0", "10.0.1.1")]


async def test_with_no_gateway_that_says_anything_the_newest_goes(rig: Rig) -> None:
    await serving(rig, 3)
    decided(rig, 2)
    rig.kube.update_spec("llama", replicas=2)
    await rig.run_until_quiet()
    assert len(drains(rig)) == 1
