"""Rules around a cluster's pods: disruption budgets, network policies, and the agents' rights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..api import names
from ..core.model import ClusterRef
from .common import Object, child, owner_reference, stamped


def engine_budget(ref: ClusterRef) -> Object:
    """Engines of all revisions, one at a time."""
    return _budget(ref, names.engine_name(ref.name), names.COMPONENT_ENGINE, names.engine_selector(ref.name))


def gateway_budget(ref: ClusterRef) -> Object:
    """Gateway pods, one at a time."""
    return _budget(
        ref, names.gateway_name(ref.name), names.COMPONENT_GATEWAY, names.gateway_selector(ref.name)
    )


def _budget(ref: ClusterRef, name: str, component: str, selector: Mapping[str, str]) -> Object:
    """Only for two or more: a budget over one pod blocks every node drain (acceptance G8).

    AlwaysAllow, since with the default two broken pods block a drain too (seen: eviction 429).
    """
    body = {
        "maxUnavailable": 1,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {"matchLabels": dict(selector)},
    }
    return child("policy/v1", "PodDisruptionBudget", name, ref, component, {"spec": body})


def engine_policy(ref: ClusterRef) -> Object:
    """Engines answer this cluster's gateway only. Ingress only: rules for egress would cut the agents off
    from the API server in many network plugins. (Probes come from the node and are let through by all of
    them.)"""
    gateway = {"podSelector": {"matchLabels": names.gateway_selector(ref.name)}}
    ingress = [{"from": [gateway], "ports": [_port(names.ENGINE_PORT)]}]
    return _policy(
        ref, names.engine_name(ref.name), names.COMPONENT_ENGINE, names.engine_selector(ref.name), ingress
    )


def gateway_policy(ref: ClusterRef) -> Object:
    """Clients come from anywhere; figures and probes from inside the Kubernetes cluster."""
    ingress = [
        {"ports": [_port(names.GATEWAY_PORT)]},
        {"from": [{"namespaceSelector": {}}], "ports": [_port(names.AGENT_PORT)]},
    ]
    return _policy(
        ref, names.gateway_name(ref.name), names.COMPONENT_GATEWAY, names.gateway_selector(ref.name), ingress
    )


def _port(number: int) -> Object:
    return {"protocol": "TCP", "port": number}


def _policy(
    ref: ClusterRef, name: str, component: str, selector: Mapping[str, str], ingress: list[Object]
) -> Object:
    body = {
        "podSelector": {"matchLabels": dict(selector)},
        "policyTypes": ["Ingress"],
        "ingress": ingress,
    }
    return child("networking.k8s.io/v1", "NetworkPolicy", name, ref, component, {"spec": body})


def agent_access(namespace: str, clusters: Iterable[tuple[str, str]]) -> list[Object]:
    """Role and RoleBinding of all agents of a namespace. `clusters` are (name, uid) of those that exist.

    One pair per namespace, owned by each of its clusters: the last one's deletion removes it. Empty = no
    objects.
    """
    found = sorted(clusters)
    if not found:
        return []
    metadata = {
        "name": names.AGENT_ROLE,
        "namespace": namespace,
        "labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY},
        "ownerReferences": [owner_reference(name, uid, controller=False) for name, uid in found],
    }
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": metadata}
    routing = [names.routing_name(name) for name, _ in found]
    reports = [names.report_name(name) for name, _ in found]
    read = ["list", "watch"]
    rules = [
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": read},
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": routing + reports, "verbs": read},
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": reports, "verbs": ["patch"]},
    ]
    subjects = [
        {"kind": "ServiceAccount", "name": names.gateway_name(name), "namespace": namespace}
        for name, _ in found
    ]
    role_ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": names.AGENT_ROLE}
    return [
        stamped({**rbac, "kind": "Role", "rules": rules}),
        stamped({**rbac, "kind": "RoleBinding", "roleRef": role_ref, "subjects": subjects}),
    ]
