"""The store of children: what is kept, found and told."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from inference_operator.adapters.informer import Informer
from inference_operator.adapters.kube import KubeClient
from inference_operator.adapters.store import CHILD_KINDS, ChildStore
from inference_operator.adapters.trim import trim_child, trim_node
from inference_operator.api import names
from inference_operator.engine import reconciler
from tests.unit.adapters.scripted_api import ScriptedApi, serve

Json = dict[str, Any]


def child(kind: str, name: str, *, cluster: str | None = "llama", version: int = 1, **parts: Any) -> Json:
    labels = {names.LABEL_MANAGED_BY: names.MANAGED_BY}
    if cluster:
        labels[names.LABEL_CLUSTER] = cluster
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": f"uid-{name}",
            "resourceVersion": str(version),
            "labels": labels,
        },
        **parts,
    }


def node(name: str, ready: str, version: int) -> Json:
    return {
        "kind": "Node",
        "metadata": {"name": name, "resourceVersion": str(version)},
        "status": {"conditions": [{"type": "Ready", "status": ready}], "images": ["large"] * 50},
    }


class Rig:
    def __init__(self, client: KubeClient) -> None:
        self.told: list[tuple[str, str]] = []
        self.store = ChildStore(client, on_cluster=self.told.append)

    def informer(self, kind: str) -> Informer:
        return next(informer for informer in self.store.informers if informer.kind == kind)

    def see(self, event: str, obj: Json) -> list[tuple[str, str]]:
        """As if the watch had told this; returns the keys that came of it."""
        self.told.clear()
        self.informer(obj["kind"])._take({"type": event, "object": copy.deepcopy(obj)})
        return list(self.told)


@pytest.fixture
async def rig(tmp_path: Path) -> Any:
    async with serve(ScriptedApi(), tmp_path) as client:
        yield Rig(client)


def test_every_kind_that_a_pass_reads_is_watched() -> None:
    assert set(reconciler.CHILD_KINDS) <= set(CHILD_KINDS)


async def test_a_change_of_a_child_queues_its_cluster(rig: Rig) -> None:
    assert rig.see("ADDED", child("Service", "s", version=2)) == [("ns", "llama")]
    assert rig.see("DELETED", child("Service", "s", version=3)) == [("ns", "llama")]


async def test_a_child_that_changes_its_cluster_queues_both(rig: Rig) -> None:
    rig.see("ADDED", child("Service", "s", version=2))
    changed = rig.see("MODIFIED", child("Service", "s", cluster="qwen", version=3))
    assert changed == [("ns", "llama"), ("ns", "qwen")]


async def test_a_child_that_loses_its_label_queues_the_cluster_that_misses_it(rig: Rig) -> None:
    rig.see("ADDED", child("Service", "s", version=2))
    assert ("ns", "llama") in rig.see("MODIFIED", child("Service", "s", cluster=None, version=3))
    assert rig.store.children("Service", "ns", "llama") == []


async def test_what_the_clusters_of_a_namespace_share_queues_the_namespace(rig: Rig) -> None:
    assert rig.see("ADDED", child("Role", names.AGENT_ROLE, cluster=None, version=2)) == [("ns", "")]
    assert rig.store.get("Role", "ns", names.AGENT_ROLE) is not None


async def test_a_node_queues_clusters_with_pods_there_and_only_when_its_readiness_flips(rig: Rig) -> None:
    rig.informer("Node").synced.set()
    rig.see("ADDED", child("Pod", "p1", version=2, spec={"nodeName": "n1"}))
    rig.see("ADDED", child("Pod", "p2", version=3, cluster="qwen", spec={"nodeName": "n2"}))
    assert rig.see("ADDED", node("n1", "True", 4)) == []
    assert rig.store.node_ready("n1")
    assert rig.see("MODIFIED", node("n1", "True", 5)) == []
    assert rig.see("MODIFIED", node("n1", "Unknown", 6)) == [("ns", "llama")]
    assert not rig.store.node_ready("n1")
    assert rig.see("MODIFIED", node("n1", "True", 7)) == [("ns", "llama")]
    assert rig.see("DELETED", node("n1", "True", 8)) == [("ns", "llama")]
    assert not rig.store.node_ready("n1")


async def test_before_the_first_list_no_node_counts_as_lost(rig: Rig) -> None:
    assert rig.store.node_ready("n1")
    assert rig.store.node_ready("")


async def test_our_own_write_is_seen_at_once_and_queues_nothing(rig: Rig) -> None:
    rig.told.clear()
    rig.store.upsert("Service", child("Service", "s", version=9))
    assert [obj["metadata"]["name"] for obj in rig.store.children("Service", "ns", "llama")] == ["s"]
    assert rig.told == []


def test_a_pod_is_trimmed_to_what_the_core_reads() -> None:
    pod = child(
        "Pod",
        "p",
        spec={
            "nodeName": "n1",
            "containers": [{"name": "engine", "env": ["x"] * 100}],
            "volumes": ["v"] * 20,
        },
        status={
            "phase": "Running",
            "podIP": "10.0.0.1",
            "conditions": [{"type": "Ready", "status": "True", "lastProbeTime": None}],
            "containerStatuses": [{"name": "engine", "ready": True, "restartCount": 1, "imageID": "long"}],
        },
    )
    pod["metadata"]["managedFields"] = [{"manager": "kubelet"}] * 10
    kept = trim_child(pod)
    assert kept["spec"] == {"nodeName": "n1"}
    assert kept["status"] == {
        "phase": "Running",
        "podIP": "10.0.0.1",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": "engine", "ready": True, "restartCount": 1}],
    }
    assert "managedFields" not in kept["metadata"]


def test_of_the_managed_fields_one_digest_is_kept() -> None:
    service = child("Service", "s")
    ours = {"manager": names.FIELD_MANAGER, "operation": "Apply", "fieldsV1": {"f:spec": {}}}
    service["metadata"]["managedFields"] = [{"manager": "kubectl", "operation": "Update"}, ours]
    kept = trim_child(service)
    assert len(kept["managed"]) == 16
    assert "managedFields" not in kept["metadata"]
    ours["fieldsV1"] = {"f:spec": {"f:type": {}}}
    assert trim_child(service)["managed"] != kept["managed"]


def test_of_a_node_its_readiness_is_kept() -> None:
    assert trim_node(node("n1", "True", 3)) == {
        "metadata": {"name": "n1", "resourceVersion": "3"},
        "ready": True,
    }
