"""What people delete by hand, under traffic."""

from __future__ import annotations

import time

from sandbox.lab import Lab, condition, manifest
from sandbox.load import Outcome, lagged

pytest_plugins = ["tests.plugins.sandbox", "tests.plugins.operator"]


def lost(outcomes: list[Outcome]) -> list[str]:
    assert not lagged(outcomes)
    return [outcome.error for outcome in outcomes if outcome.error]


def test_deleting_both_gateways_or_the_stable_revisions_record_loses_no_request(
    operator: Lab, namespace: str
) -> None:
    good = manifest("llama", replicas=2)
    operator.apply(good, namespace)
    stable = operator.until_ready("llama", namespace, replicas=2, timeout=120)["status"]["revisions"][
        "stable"
    ]
    kubectl = operator.sandbox.kubectl

    with operator.load("llama", "llama", namespace=namespace, rate=8, seconds=20, tokens=20) as outcomes:
        time.sleep(1)
        names = [pod["metadata"]["name"] for pod in operator.gateways("llama", namespace)]
        kubectl(["delete", "pod", *names, "-n", namespace, "--wait=false"])
    assert len(names) == 2
    assert lost(outcomes) == []

    def stalled() -> bool:
        found = condition(operator.cluster("llama", namespace) or {}, "Stalled")
        return found.get("reason") == "ImagePull"

    with operator.load("llama", "llama", namespace=namespace, rate=8, seconds=12, tokens=20) as outcomes:
        broken = {"image": "vllm/vllm-openai:v0.32.0-broken"}
        operator.apply(manifest("llama", replicas=2, engine=broken), namespace)
        operator.until("a rollout that can't go on", stalled, timeout=10)
        kubectl(["delete", "controllerrevision", f"llama-{stable}", "-n", namespace])
    assert lost(outcomes) == []
    assert stalled()
    record = f"apis/apps/v1/namespaces/{namespace}/controllerrevisions/llama-{stable}"
    operator.until("the record made again", lambda: operator.get(record), timeout=5)
    operator.apply(good, namespace)
    back = operator.until_ready("llama", namespace, replicas=2, timeout=60)
    assert back["status"]["revisions"]["stable"] == stable
