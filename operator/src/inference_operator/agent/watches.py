"""Three watches per cluster: routing and slices feed the inputs, the report ConfigMap feeds the reporter."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from ..adapters.informer import Informer
from ..adapters.kube import KubeClient
from ..api import names
from . import endpoints, report
from .inputs import Cluster, Inputs


def trim_config_map(obj: dict[str, Any]) -> dict[str, Any]:
    """Keep the routing document."""
    meta = obj["metadata"]
    return {
        "metadata": {key: meta[key] for key in ("namespace", "name", "resourceVersion")},
        "routing": (obj.get("data") or {}).get(names.ROUTING_KEY),
    }


class Watches:
    """Runs the informers of all clusters."""

    def __init__(self, client: KubeClient, inputs: Inputs, pod: str) -> None:
        self._client = client
        self._inputs = inputs
        #: The report ConfigMap of each cluster, as far as it is this pod's.
        self.reports = {cluster: self._report(cluster, pod) for cluster in inputs.clusters}
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def alive(self) -> bool:
        """An informer never ends by itself; one that has is a bug, and the agent must start anew."""
        return all(not task.done() for task in self._tasks)

    async def run(self) -> None:
        """Watch until cancelled. Raises what ended an informer."""
        async with asyncio.TaskGroup() as group:
            for cluster in self._inputs.clusters:
                self._tasks += [
                    group.create_task(self._routing(cluster).run()),
                    group.create_task(self._follow_slices(cluster)),
                    group.create_task(self.reports[cluster].run()),
                ]

    def _routing(self, cluster: Cluster) -> Informer:
        namespace, name = cluster

        def changed(event_type: str, obj: dict[str, Any]) -> None:
            # A deleted document changes nothing: the last good one goes on.
            if event_type != "DELETED" and obj["routing"] is not None:
                self._inputs.routing_text(cluster, obj["routing"])

        return self._config_map(namespace, names.routing_name(name), trim=trim_config_map, on_change=changed)

    def _report(self, cluster: Cluster, pod: str) -> Informer:
        namespace, name = cluster
        return self._config_map(namespace, names.report_name(name), trim=partial(report.trim, pod=pod))

    def _config_map(self, namespace: str, name: str, **options: Any) -> Informer:
        """The agent's Role names its ConfigMaps; a list is allowed only with this selector."""
        selector = f"metadata.name={name}"
        return Informer(self._client, "ConfigMap", namespace=namespace, field_selector=selector, **options)

    async def _follow_slices(self, cluster: Cluster) -> None:
        namespace, name = cluster

        def changed(event_type: str, obj: dict[str, Any]) -> None:
            # During the first list this is called object by object: a part of it is not to be acted on.
            if informer.synced.is_set():
                self._inputs.slices(cluster, informer.list())

        informer = Informer(
            self._client,
            "EndpointSlice",
            namespace=namespace,
            # Slices carry the labels of their Service: this covers all tracks and the gateway's own Service.
            label_selector=f"{names.LABEL_CLUSTER}={name}",
            trim=endpoints.trim,
            on_change=changed,
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(informer.run())
            await informer.synced.wait()
            self._inputs.slices(cluster, informer.list())
