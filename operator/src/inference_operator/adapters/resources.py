"""Every kind that this project reads or writes, known statically.

Discovery would cost three or more requests at each start, leave a cache file that is wrong after a CRD
changes, and need rights of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..api import names


@dataclass(frozen=True)
class Resource:
    """Where a kind lives in the API."""

    api_version: str
    plural: str
    namespaced: bool = True

    @property
    def root(self) -> str:
        """`/api/v1` for the core group, `/apis/<group>/<version>` for all others."""
        return f"/{'apis' if '/' in self.api_version else 'api'}/{self.api_version}"

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str = "") -> str:
        """URL path of one object, or of the collection in a namespace or (None) in all of them."""
        parts = [self.root]
        if self.namespaced and namespace is not None:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name is not None:
            parts.append(name)
        if subresource:
            parts.append(subresource)
        return "/".join(parts)


RESOURCES: Final[dict[str, Resource]] = {
    "APIService": Resource("apiregistration.k8s.io/v1", "apiservices", namespaced=False),
    names.KIND: Resource(names.API_VERSION, names.PLURAL),
    "ConfigMap": Resource("v1", "configmaps"),
    "ControllerRevision": Resource("apps/v1", "controllerrevisions"),
    "CustomResourceDefinition": Resource(
        "apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False
    ),
    "Deployment": Resource("apps/v1", "deployments"),
    "EndpointSlice": Resource("discovery.k8s.io/v1", "endpointslices"),
    "Event": Resource("events.k8s.io/v1", "events"),
    "HorizontalPodAutoscaler": Resource("autoscaling/v2", "horizontalpodautoscalers"),
    "Lease": Resource("coordination.k8s.io/v1", "leases"),
    "NetworkPolicy": Resource("networking.k8s.io/v1", "networkpolicies"),
    "Node": Resource("v1", "nodes", namespaced=False),
    "Pod": Resource("v1", "pods"),
    "PodDisruptionBudget": Resource("policy/v1", "poddisruptionbudgets"),
    "Role": Resource("rbac.authorization.k8s.io/v1", "roles"),
    "RoleBinding": Resource("rbac.authorization.k8s.io/v1", "rolebindings"),
    "Service": Resource("v1", "services"),
    "ServiceAccount": Resource("v1", "serviceaccounts"),
}
