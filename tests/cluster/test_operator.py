"""The operator on a real API server: children, drift, deletion, and no write without a reason."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from sandbox.lab import OPERATOR_NAMESPACE, RELEASE, Lab, condition, manifest
from tests.cluster.operator_lab import operator_writes

pytest_plugins = ["tests.plugins.sandbox", "tests.plugins.operator"]

Json = dict[str, Any]


def ready(lab: Lab, namespace: str, **options: Any) -> Json:
    lab.apply(manifest("llama", **options), namespace)
    return lab.until_ready("llama", namespace, replicas=options.get("replicas", 1), timeout=120)


def settle(lab: Lab, seconds: float = 4.0) -> None:
    """Wait until the operator has written nothing for a while."""
    deadline = time.monotonic() + 60
    count = -1
    while time.monotonic() < deadline:
        now = len(operator_writes(lab.sandbox))
        if now == count:
            return
        count = now
        time.sleep(seconds)
    raise AssertionError("the operator doesn't come to rest")


def test_a_cluster_becomes_ready_and_leaves_nothing_behind(operator: Lab, namespace: str) -> None:
    cluster = ready(operator, namespace, replicas=2)
    kinds = {child.split("/")[0] for child in operator.children("llama", namespace)}
    assert kinds == {
        "configmaps",
        "controllerrevisions",
        "deployments",
        "endpointslices",
        "networkpolicies",
        "poddisruptionbudgets",
        "pods",
        "replicasets",
        "serviceaccounts",
        "services",
    }
    status = cluster["status"]
    assert (status["replicas"], status["readyReplicas"]) == (2, 2)
    assert status["endpoint"] == f"http://llama-gateway.{namespace}.svc:80/v1"

    operator.delete("llama", namespace)
    # The garbage collector learns of a new CRD within 30 s.
    operator.until("all children gone", lambda: not operator.children("llama", namespace), timeout=150)
    roles = f"apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles/inference-gateway-agents"
    operator.until("the shared Role gone", lambda: operator.get(roles) is None, timeout=30)


def test_foreign_edits_are_repaired_and_foreign_fields_survive(operator: Lab, namespace: str) -> None:
    ready(operator, namespace)
    kubectl = operator.sandbox.kubectl

    def patch(kind: str, name: str, change: Json) -> None:
        kubectl(["patch", kind, name, "-n", namespace, "--type=merge", "-p", json.dumps(change)])

    patch("deployment", "llama-gateway", {"metadata": {"labels": {"team": "blue"}}, "spec": {"replicas": 5}})
    patch("service", "llama-gateway", {"spec": {"selector": {"app": "evil"}}})
    patch("configmap", "llama-routing", {"data": {"routing.json": "{}"}})
    patch("networkpolicy", "llama-engine", {"metadata": {"labels": {"inferencecluster.io/cluster": None}}})
    kubectl(["delete", "pdb", "llama-gateway", "-n", namespace])
    base = f"namespaces/{namespace}"

    def repaired() -> bool:
        gateway = operator.get(f"apis/apps/v1/{base}/deployments/llama-gateway") or {}
        service = operator.get(f"api/v1/{base}/services/llama-gateway") or {}
        routing = operator.get(f"api/v1/{base}/configmaps/llama-routing") or {}
        policy = operator.get(f"apis/networking.k8s.io/v1/{base}/networkpolicies/llama-engine") or {}
        budget = operator.get(f"apis/policy/v1/{base}/poddisruptionbudgets/llama-gateway")
        return (
            gateway["spec"]["replicas"] == 2
            and "app" not in service["spec"]["selector"]
            and routing["data"]["routing.json"] != "{}"
            and policy["metadata"]["labels"].get("inferencecluster.io/cluster") == "llama"
            and budget is not None
        )

    operator.until("all five edits repaired", repaired, timeout=20)
    gateway = operator.get(f"apis/apps/v1/{base}/deployments/llama-gateway") or {}
    assert gateway["metadata"]["labels"]["team"] == "blue"


def test_nothing_is_written_while_nothing_happens_nor_after_a_restart(operator: Lab, namespace: str) -> None:
    ready(operator, namespace)
    settle(operator)
    before = operator_writes(operator.sandbox)
    operator.sandbox.kubectl(["rollout", "restart", f"deployment/{RELEASE}", "-n", OPERATOR_NAMESPACE])
    operator.sandbox.kubectl(
        ["rollout", "status", f"deployment/{RELEASE}", "-n", OPERATOR_NAMESPACE, "--timeout=90s"]
    )
    time.sleep(15)
    assert operator_writes(operator.sandbox)[len(before) :] == []


def test_an_object_of_someone_else_is_left_alone_and_named(operator: Lab, namespace: str) -> None:
    foreign = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "llama-gateway"},
        "spec": {"selector": {"app": "mine"}, "ports": [{"port": 80}]},
    }
    operator.sandbox.kubectl(["apply", "-n", namespace, "-f", "-"], input=json.dumps(foreign))
    operator.apply(manifest("llama"), namespace)

    def refused() -> Json:
        found = condition(operator.cluster("llama", namespace) or {}, "SpecValid")
        return found if found.get("reason") == "NameTaken" else {}

    verdict = operator.until("SpecValid says NameTaken", refused, timeout=30)
    assert "Service/llama-gateway" in verdict["message"]
    service = operator.get(f"api/v1/namespaces/{namespace}/services/llama-gateway") or {}
    assert service["spec"]["selector"] == {"app": "mine"}
    assert "ownerReferences" not in service["metadata"]

    operator.sandbox.kubectl(["delete", "service", "llama-gateway", "-n", namespace])
    operator.sandbox.kubectl(["annotate", "ic", "llama", "-n", namespace, "note=look-again"])
    operator.until_ready("llama", namespace, timeout=120)


def test_a_suspended_cluster_goes_on_and_nothing_of_it_is_changed(operator: Lab, namespace: str) -> None:
    ready(operator, namespace)
    patch = ["patch", "ic", "llama", "-n", namespace, "--type=merge", "-p"]
    operator.sandbox.kubectl([*patch, '{"spec": {"suspend": true, "replicas": 3}}'])

    def suspended() -> bool:
        return condition(operator.cluster("llama", namespace) or {}, "Ready").get("reason") == "Suspended"

    operator.until("Ready says Suspended", suspended, timeout=15)
    operator.sandbox.kubectl(["delete", "pdb", "llama-gateway", "-n", namespace])
    time.sleep(3)
    budget = f"apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/llama-gateway"
    assert operator.get(budget) is None
    assert len(operator.engines("llama", namespace)) == 1

    operator.sandbox.kubectl([*patch, '{"spec": {"suspend": false}}'])
    operator.until_ready("llama", namespace, replicas=3, timeout=120)


@pytest.mark.parametrize("bad", [{"model": {"id": "nobody/has-this-model"}}])
def test_a_spec_without_a_plan_changes_nothing_of_what_runs(operator: Lab, namespace: str, bad: Json) -> None:
    ready(operator, namespace)
    before = sorted(child for child in operator.children("llama", namespace) if child.startswith("deploy"))
    operator.sandbox.kubectl(
        ["patch", "ic", "llama", "-n", namespace, "--type=merge", "-p", json.dumps({"spec": bad})]
    )

    def refused() -> bool:
        found = operator.cluster("llama", namespace) or {}
        return condition(found, "SpecValid").get("status") == "False"

    operator.until("SpecValid is False", refused, timeout=15)
    after = sorted(child for child in operator.children("llama", namespace) if child.startswith("deploy"))
    assert after == before
    assert len(operator.engines("llama", namespace)) == 1
    cluster = operator.cluster("llama", namespace) or {}
    assert condition(cluster, "Available")["status"] == "True"
