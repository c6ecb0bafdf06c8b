"""API objects that a cluster installer would create: cluster DNS and endpoints of `kubernetes.default`."""

from __future__ import annotations

from typing import Any

from sandbox import net

Object = dict[str, Any]


def all_objects() -> list[tuple[str, Object]]:
    """(collection path, object) in the order to create them."""
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    slices = "/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices"
    return [
        (f"{rbac}/clusterroles", _dns_role()),
        (f"{rbac}/clusterrolebindings", _dns_binding()),
        ("/api/v1/namespaces/kube-system/services", _dns_service()),
        (slices.format("kube-system"), _dns_endpoints()),
        (slices.format("default"), _api_endpoints()),
    ]


def _dns_role() -> Object:
    reads = ["list", "watch"]
    return {
        "metadata": {"name": "system:coredns"},
        "rules": [
            {"apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": reads},
            {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": reads},
        ],
    }


def _dns_binding() -> Object:
    return {
        "metadata": {"name": "system:coredns"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:coredns"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:coredns"}],
    }


def _dns_service() -> Object:
    return {
        "metadata": {"name": "kube-dns", "labels": {"k8s-app": "kube-dns"}},
        "spec": {
            "clusterIP": net.DNS_SERVICE,
            "ports": [
                {"name": "dns", "port": 53, "protocol": "UDP"},
                {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
            ],
        },
    }


def _dns_endpoints() -> Object:
    return _endpoints(
        "kube-dns",
        net.DNS_BACKEND,
        [{"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "dns-tcp", "port": 53, "protocol": "TCP"}],
    )


def _api_endpoints() -> Object:
    # With --endpoint-reconciler-type=none nobody else writes it, and in-cluster clients would find no server.
    return _endpoints(
        "kubernetes", net.PLANE_ADDRESS, [{"name": "https", "port": net.API_PORT, "protocol": "TCP"}]
    )


def _endpoints(service: str, address: str, ports: list[Object]) -> Object:
    return {
        "metadata": {
            "name": service,
            "labels": {
                "kubernetes.io/service-name": service,
                "endpointslice.kubernetes.io/managed-by": "sandbox",
            },
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": ports,
    }
