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


def test_a_service_account_that_was_deleted_replaces_the_gateways_without_a_lost_request(
    operator: Lab, namespace: str
) -> None:
    operator.apply(manifest("llama", replicas=2), namespace)
    operator.until_ready("llama", namespace, replicas=2, timeout=120)
    kubectl = operator.sandbox.kubectl

    def uids() -> set[str]:
        return {pod["metadata"]["uid"] for pod in operator.gateways("llama", namespace)}

    # The Deployment and its account are told apart by seconds.
    time.sleep(2)
    before = uids()
    with operator.load("llama", "llama", namespace=namespace, rate=8, seconds=45, tokens=20) as outcomes:
        kubectl(["delete", "serviceaccount", "llama-gateway", "-n", namespace])
        operator.until("other gateways", lambda: len(uids()) == 2 and not uids() & before, timeout=60)
    assert lost(outcomes) == []
    # What they are told still reaches them: an engine that is replaced takes requests again.
    victim = operator.engines("llama", namespace)[0]["metadata"]["name"]
    kubectl(["delete", "pod", victim, "-n", namespace, "--wait=false"])
    operator.until(
        "another engine", lambda: victim not in str(operator.engines("llama", namespace)), timeout=60
    )
    operator.until_ready("llama", namespace, replicas=2, timeout=60)
    with operator.load("llama", "llama", namespace=namespace, rate=8, seconds=5, tokens=20) as outcomes:
        pass
    assert lost(outcomes) == []
    answered = {outcome.engine for outcome in outcomes}
    assert answered == {pod["metadata"]["name"] for pod in operator.engines("llama", namespace)}


def test_a_pod_that_lost_its_labels_goes_with_the_cluster(operator: Lab, namespace: str) -> None:
    operator.apply(manifest("llama", replicas=1), namespace)
    operator.until_ready("llama", namespace, replicas=1, timeout=120)
    lost_pod = operator.engines("llama", namespace)[0]["metadata"]["name"]
    kubectl = operator.sandbox.kubectl
    kubectl(["label", "pod", lost_pod, "-n", namespace, "inferencecluster.io/revision-"])
    operator.until(
        "the cluster owns the pod",
        lambda: "InferenceCluster" in str(pod_owners(operator, namespace, lost_pod)),
        timeout=30,
    )
    operator.until_ready("llama", namespace, replicas=1, timeout=60)
    operator.delete("llama", namespace)
    operator.until("deletion", lambda: not operator.pods(namespace), timeout=90)


def pod_owners(lab: Lab, namespace: str, name: str) -> object:
    pod = lab.get(f"api/v1/namespaces/{namespace}/pods/{name}") or {}
    return pod.get("metadata", {}).get("ownerReferences")
