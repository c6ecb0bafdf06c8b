"""The watched children of all clusters, trimmed, found by (namespace, cluster).

One informer per kind and namespace, selected on the server by `app.kubernetes.io/managed-by`. Any change of a
child calls `on_cluster` with the key of its InferenceCluster (an empty name for what a namespace's clusters
share); a node's change of readiness does so for every cluster with a pod on it. HorizontalPodAutoscalers are
those that target an InferenceCluster, whoever made them. What becomes of the metrics API concerns every
cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from ..api import names
from ..core.model import NO_METRICS_API, MetricsApi
from ..core.observe_scaling import SCALER_KIND
from ..ports import Clock, Object
from .clock import SystemClock
from .informer import Informer
from .kube import KubeClient
from .trim import trim_api_service, trim_child, trim_node, trim_scaler

Key = tuple[str, str]

CHILD_KINDS: Final = (
    "ConfigMap",
    "ControllerRevision",
    "Deployment",
    SCALER_KIND,
    "NetworkPolicy",
    "Pod",
    "PodDisruptionBudget",
    "Role",
    "RoleBinding",
    "Service",
    "ServiceAccount",
)
#: Its newest version stands for the group: whoever has it has the other one too.
_METRICS_API: Final = "v1beta2.custom.metrics.k8s.io"
_METRICS_API_OLD: Final = "v1beta1.custom.metrics.k8s.io"
_SELECTOR: Final = f"{names.LABEL_MANAGED_BY}={names.MANAGED_BY}"


class ChildStore:
    """Implements `ports.Store`."""

    def __init__(
        self,
        client: KubeClient,
        *,
        namespaces: Sequence[str] = (),
        on_cluster: Callable[[Key], None],
        on_metrics_api: Callable[[], None] = lambda: None,
        metrics_service: str = "",
        clock: Clock | None = None,
    ) -> None:
        """`namespaces` empty: all of them. `metrics_service`: "<namespace>/<name>" of our metrics API's
        Service."""
        self._on_cluster = on_cluster
        self._metrics_service = metrics_service
        self._clock = clock or SystemClock()
        self._ready: dict[str, bool] = {}
        self._children = {
            kind: [self._informer(client, kind, namespace) for namespace in namespaces or (None,)]
            for kind in CHILD_KINDS
        }
        self._nodes = Informer(
            client, "Node", trim=trim_node, on_change=self._node_changed, clock=self._clock
        )
        self._apis = Informer(
            client,
            "APIService",
            trim=_only_metrics_api,
            on_change=lambda event_type, obj: on_metrics_api(),
            clock=self._clock,
        )

    @property
    def informers(self) -> list[Informer]:
        """All informers, to see their age."""
        return [
            self._nodes,
            self._apis,
            *(informer for group in self._children.values() for informer in group),
        ]

    @property
    def synced(self) -> bool:
        """Every kind was listed once."""
        return all(informer.synced.is_set() for informer in self.informers)

    async def wait_synced(self) -> None:
        """Return when every kind was listed once."""
        for informer in self.informers:
            await informer.synced.wait()

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self.informers:
                group.create_task(informer.run(), name=f"informer {informer.kind}")

    def children(self, kind: str, namespace: str, cluster: str) -> Sequence[Object]:
        """Trimmed objects of one kind that carry the cluster's label."""
        found: list[Object] = []
        for informer in self._children[kind]:
            found += informer.indexed((namespace, cluster))
        return found

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        """One trimmed object that carries our managed-by label, whatever its cluster."""
        for informer in self._children[kind]:
            found = informer.get(namespace, name)
            if found is not None:
                return found
        return None

    def node_ready(self, name: str) -> bool:
        """False only for a node known to be NotReady or gone; a pod without a node is on none of these."""
        if not name or not self._nodes.synced.is_set():
            return True
        return self._ready.get(name, False)

    def metrics_api(self) -> MetricsApi:
        """Who answers custom.metrics.k8s.io."""
        found = self._apis.get("", _METRICS_API) or self._apis.get("", _METRICS_API_OLD)
        if found is None:
            return NO_METRICS_API
        service = found["service"]
        return MetricsApi(service, service == self._metrics_service, found["available"])

    def upsert(self, kind: str, obj: Object) -> None:
        """Take over the answer of our own write, so that the next pass doesn't read older state."""
        namespace = obj["metadata"]["namespace"]
        for informer in self._children[kind]:
            if informer.namespace in (None, namespace):
                informer.upsert(obj)

    def _informer(self, client: KubeClient, kind: str, namespace: str | None) -> Informer:
        scaler = kind == SCALER_KIND
        return Informer(
            client,
            kind,
            namespace=namespace,
            label_selector="" if scaler else _SELECTOR,
            trim=trim_scaler if scaler else trim_child,
            index_by=_cluster_key,
            on_change=self._child_changed,
            clock=self._clock,
        )

    def _child_changed(self, event_type: str, obj: Object) -> None:
        self._on_cluster(_cluster_key(obj) or (obj["metadata"]["namespace"], ""))

    def _node_changed(self, event_type: str, node: Object) -> None:
        name = node["metadata"]["name"]
        ready = event_type != "DELETED" and bool(node["ready"])
        before = self._ready.get(name)
        if event_type == "DELETED":
            self._ready.pop(name, None)
        else:
            self._ready[name] = ready
        if before is None or before == ready:
            return
        on_node = (pod for pod in self._pods() if pod["spec"].get("nodeName") == name)
        for key in {_cluster_key(pod) for pod in on_node}:
            if key is not None:
                self._on_cluster(key)

    def _pods(self) -> Iterator[Object]:
        for informer in self._children["Pod"]:
            yield from informer.list()


def _only_metrics_api(obj: Object) -> Object | None:
    return trim_api_service(obj) if obj["metadata"]["name"] in (_METRICS_API, _METRICS_API_OLD) else None


def _cluster_key(obj: dict[str, Any]) -> Key | None:
    meta = obj["metadata"]
    if obj["kind"] == SCALER_KIND:
        return meta["namespace"], obj["spec"]["scaleTargetRef"]["name"]
    cluster = meta.get("labels", {}).get(names.LABEL_CLUSTER)
    return (meta["namespace"], cluster) if cluster else None
