"""The operator's rights are those that it uses, and those that it grants to the agents. No more, no less."""

from __future__ import annotations

from itertools import product
from typing import Any

from sandbox.lab import OPERATOR_NAMESPACE, RELEASE, Lab, manifest
from tests.cluster.operator_lab import describe, operator_events

pytest_plugins = ["tests.plugins.sandbox", "tests.plugins.operator"]

Json = dict[str, Any]
Triple = tuple[str, str, str]


def granted(role: Json) -> set[Triple]:
    """(group, resource, verb) of a Role or ClusterRole."""
    return {
        triple
        for rule in role["rules"]
        for triple in product(rule["apiGroups"], rule["resources"], rule["verbs"])
    }


def records(lab: Lab, namespace: str) -> list[str]:
    return [o for o in lab.children("llama", namespace) if o.startswith("controllerrevisions/")]


def used(lab: Lab) -> set[Triple]:
    found = set()
    for event in operator_events(lab.sandbox, reads=True):
        ref = event.get("objectRef")
        if ref is None or event["responseStatus"]["code"] == 403:
            continue
        resource = ref["resource"] + (f"/{ref['subresource']}" if ref.get("subresource") else "")
        found.add((ref.get("apiGroup", ""), resource, event["verb"]))
        if event["verb"] == "patch" and event["responseStatus"]["code"] == 201:
            # A server-side apply that creates needs both rights and is audited as what was sent.
            found.add((ref.get("apiGroup", ""), resource, "create"))
    return found


def test_every_right_is_used_and_no_request_is_refused(operator: Lab, namespace: str) -> None:
    # Everything that the operator does: create, scale down (a pod is marked), roll out (a revision retires),
    # hand the replicas to a scaler and take them back.
    operator.apply(manifest("llama", replicas=2, autoscaling={"minReplicas": 2}), namespace)
    operator.until_ready("llama", namespace, replicas=2, timeout=120)
    operator.apply(manifest("llama", replicas=2), namespace)
    scalers = f"apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers"
    operator.until("no scaler", lambda: (operator.get(scalers) or {}).get("items") == [], timeout=20)
    operator.scale("llama", 1, namespace)
    operator.until("one engine left", lambda: len(operator.engines("llama", namespace)) == 1, timeout=60)
    before = records(operator, namespace)
    operator.apply(manifest("llama", "Qwen/Qwen2.5-7B-Instruct", replicas=1), namespace)
    operator.until(
        "the new revision serves alone",
        lambda: records(operator, namespace) not in ([], before) and len(records(operator, namespace)) == 1,
        timeout=120,
    )

    rbac = "apis/rbac.authorization.k8s.io/v1"
    cluster_role = granted(operator.get(f"{rbac}/clusterroles/{RELEASE}") or {})
    leader = granted(operator.get(f"{rbac}/namespaces/{OPERATOR_NAMESPACE}/roles/{RELEASE}-leader") or {})
    agents = granted(operator.get(f"{rbac}/namespaces/{namespace}/roles/inference-gateway-agents") or {})
    events = operator_events(operator.sandbox, reads=True)
    refused = {
        describe(event)
        for event in events
        if event["responseStatus"]["code"] == 403
        # A pass may overlap with the end of its namespace, which answers the same code.
        and "because it is being terminated" not in event["responseStatus"].get("message", "")
    }
    assert refused == set()
    assert len(cluster_role) <= 60
    assert used(operator) | agents == cluster_role | leader
