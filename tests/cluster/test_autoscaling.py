"""Autoscaling with the real HorizontalPodAutoscaler controller, through the real aggregation layer."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from inference_operator.core.staffing import replicas_needed
from sandbox.errors import SandboxError
from sandbox.lab import OPERATOR_NAMESPACE, Lab, condition, manifest
from sandbox.load import lagged

pytest_plugins = ["tests.plugins.sandbox", "tests.plugins.operator"]

Json = dict[str, Any]
SLOTS = 4
#: Down at once, so that a figure that is too small for one moment would show.
NERVOUS = {
    "scaleDown": {
        "stabilizationWindowSeconds": 0,
        "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
    }
}


def scaled(name: str, *, replicas: int = 1, **scaling: Any) -> Json:
    """A cluster of small engines that scales by itself."""
    return manifest(
        name,
        replicas=replicas,
        engine={"args": [f"--max-num-seqs={SLOTS}"]},
        autoscaling={"maxReplicas": 6, "behavior": NERVOUS, **scaling},
    )


def metric(lab: Lab, namespace: str, name: str, what: str = "inference_demand_requests") -> float:
    """The value as the aggregator gives it. Raises SandboxError with what the API says instead."""
    resource = f"inferenceclusters.inferencecluster.io/{name}/{what}"
    path = f"/apis/custom.metrics.k8s.io/v1beta2/namespaces/{namespace}/{resource}"
    found = json.loads(lab.sandbox.kubectl(["get", "--raw", path]).stdout)
    return int(found["items"][0]["value"].removesuffix("m")) / 1000


def replicas(lab: Lab, namespace: str, name: str) -> int:
    return int((lab.cluster(name, namespace) or {})["spec"]["replicas"])


def says(lab: Lab, namespace: str, name: str) -> str:
    found = condition(lab.cluster(name, namespace) or {}, "ScalingActive")
    return f"{found.get('status')} {found.get('reason')}"


def metrics_pods(lab: Lab) -> list[Json]:
    selector = "app.kubernetes.io/component=metrics-api"
    return [p for p in lab.pods(OPERATOR_NAMESPACE, selector) if not p["metadata"].get("deletionTimestamp")]


@pytest.fixture
def chat(operator: Lab, namespace: str) -> Iterator[str]:
    operator.apply(scaled("chat"), namespace)
    operator.until_ready("chat", namespace, replicas=1)
    yield "chat"
    # A namespace can't be deleted while the metrics API is away.
    operator.until("the metrics API", lambda: len(metrics_pods(operator)) == 2, 60)


def test_replicas_follow_the_open_requests_and_none_is_lost(operator: Lab, namespace: str, chat: str) -> None:
    operator.until("the scaler acts", lambda: says(operator, namespace, chat) == "True FollowsDemand", 40)
    wanted = replicas_needed(12, SLOTS)
    seen: set[int] = set()

    def reached(number: int) -> bool:
        seen.add(replicas(operator, namespace, chat))
        return max(seen) >= number and replicas(operator, namespace, chat) == number

    with operator.load(chat, chat, namespace=namespace, concurrent=12, seconds=45, tokens=100) as outcomes:
        operator.until(f"{wanted} replicas", lambda: reached(wanted), 40)
        assert metric(operator, namespace, chat) == pytest.approx(12, abs=2)
    operator.until("back at the minimum", lambda: reached(1), 60)
    assert max(seen) == wanted, "more than the demand needs"
    assert not lagged(outcomes)
    assert [outcome.error for outcome in outcomes if outcome.error] == []
    cluster = operator.until_ready(chat, namespace, replicas=1, timeout=90)
    decisions = cluster["status"]["scaling"]["lastDecisions"]
    assert [(d["from"], d["to"], d["by"]) for d in decisions] == [
        (1, wanted, "kube-controller-manager"),
        (wanted, 1, "kube-controller-manager"),
    ]
    assert metric(operator, namespace, chat) == 0


def test_nobody_but_the_api_server_gets_an_answer(operator: Lab, namespace: str, chat: str) -> None:
    address = metrics_pods(operator)[0]["status"]["podIP"]
    probe = (
        "import http.client, ssl, sys\n"
        "c = http.client.HTTPSConnection(sys.argv[1], 6443, context=ssl._create_unverified_context())\n"
        "c.request('GET', '/apis/custom.metrics.k8s.io', headers={'X-Remote-User': 'admin'})\n"
        "print(c.getresponse().status)"
    )
    running = operator.sandbox.exec_python(["-c", probe, address])
    assert running.communicate(timeout=20)[0].strip() == "401"


def test_without_the_metrics_api_nothing_shrinks_and_the_status_says_why(
    operator: Lab, namespace: str, chat: str
) -> None:
    operator.until("the scaler acts", lambda: says(operator, namespace, chat) == "True FollowsDemand", 40)
    name = f"deployment/{metrics_pods(operator)[0]['metadata']['name'].rsplit('-', 2)[0]}"
    with operator.load(chat, chat, namespace=namespace, concurrent=12, seconds=75, tokens=100) as outcomes:
        wanted = replicas_needed(12, SLOTS)
        operator.until("scaled", lambda: replicas(operator, namespace, chat) == wanted, 40)
        operator.sandbox.kubectl(["scale", name, "-n", OPERATOR_NAMESPACE, "--replicas=0"])
        operator.until(
            "a word on it", lambda: says(operator, namespace, chat) == "False MetricsUnavailable", 40
        )
        with pytest.raises(SandboxError):
            metric(operator, namespace, chat)
    # The demand is gone, and nobody can know: a scaler that read 0 would be at 1 two syncs later.
    time.sleep(32)
    assert replicas(operator, namespace, chat) == wanted
    operator.sandbox.kubectl(["scale", name, "-n", OPERATOR_NAMESPACE, "--replicas=2"])
    operator.until("the scaler acts", lambda: says(operator, namespace, chat) == "True FollowsDemand", 60)
    operator.until("back at the minimum", lambda: replicas(operator, namespace, chat) == 1, 60)
    assert [outcome.error for outcome in outcomes if outcome.error] == []


def test_a_scaler_of_somebody_else_is_named_and_left_alone(operator: Lab, namespace: str, chat: str) -> None:
    def scalers() -> list[str]:
        found = operator.get(f"apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers") or {}
        return sorted(item["metadata"]["name"] for item in found["items"])

    assert scalers() == ["chat-engine"]
    rival = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "mine"},
        "spec": {
            "scaleTargetRef": {
                "apiVersion": "inferencecluster.io/v1alpha1",
                "kind": "InferenceCluster",
                "name": chat,
            },
            "minReplicas": 2,
            "maxReplicas": 8,
            "metrics": [
                {
                    "type": "External",
                    "external": {"metric": {"name": "x"}, "target": {"type": "Value", "value": "1"}},
                }
            ],
        },
    }
    operator.apply(rival, namespace)
    operator.until("the conflict", lambda: says(operator, namespace, chat) == "False Conflict", 20)
    text = condition(operator.cluster(chat, namespace) or {}, "ScalingActive")["message"]
    assert "HorizontalPodAutoscaler mine" in text
    operator.until("ours is gone", lambda: scalers() == ["mine"], 10)
    operator.scale(chat, 3, namespace)
    operator.until_ready(chat, namespace, replicas=3)
    operator.sandbox.kubectl(["delete", "hpa", "mine", "-n", namespace])
    operator.until("ours is back", lambda: scalers() == ["chat-engine"], 20)


def test_a_manifest_without_replicas_does_not_shrink_a_busy_cluster(
    operator: Lab, namespace: str, chat: str
) -> None:
    """`kubectl replace` resets spec.replicas to the schema's default."""
    operator.until("the scaler acts", lambda: says(operator, namespace, chat) == "True FollowsDemand", 40)
    wanted = replicas_needed(12, SLOTS)
    with operator.load(chat, chat, namespace=namespace, concurrent=12, seconds=75, tokens=100) as outcomes:
        operator.until("scaled", lambda: replicas(operator, namespace, chat) == wanted, 40)
        operator.until_ready(chat, namespace, replicas=wanted)
        again = scaled(chat)
        del again["spec"]["replicas"]
        again["metadata"]["namespace"] = namespace
        operator.sandbox.kubectl(["replace", "-f", "-"], input=json.dumps(again))
        assert replicas(operator, namespace, chat) == 1
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            assert len(operator.engines(chat, namespace)) >= wanted
            time.sleep(0.2)
        operator.until("the scaler's word", lambda: replicas(operator, namespace, chat) == wanted, 20)
    assert [outcome.error for outcome in outcomes if outcome.error] == []
