"""Asks the gateways' agents when a figure is wanted, and keeps the last answer of each.

A figure is wanted every 15 seconds for each cluster (the HPA's period), so asking then is less work than a
poll, and fresher. Requests for the same cluster that come together share one round.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, Final

import aiohttp

from ..adapters.informer import Informer
from ..adapters.kube import KubeClient
from ..adapters.web import host, read_json
from ..api import names
from . import demand
from .demand import Answer, Demand, GatewayPod

log = logging.getLogger(__name__)

Key = tuple[str, str]

#: A hung agent must not keep the HPA from going on with the others' word. Seconds.
_TIMEOUT: Final = aiohttp.ClientTimeout(total=0.5)
#: Connections at once, over all gateways.
_CONNECTIONS: Final = 100
_LONGEST_ANSWER: Final = 1 << 20
_SELECTOR: Final = (
    f"{names.LABEL_MANAGED_BY}={names.MANAGED_BY},{names.LABEL_COMPONENT}={names.COMPONENT_GATEWAY}"
)


class Collector:
    """Demand by cluster."""

    def __init__(
        self,
        client: KubeClient,
        *,
        namespaces: tuple[str, ...] = (),
        port: int = names.AGENT_PORT,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`namespaces` empty: all of them."""
        self._port = port
        self._now = monotonic
        self._pods = [
            Informer(
                client,
                "Pod",
                namespace=namespace,
                label_selector=_SELECTOR,
                trim=_trim,
                index_by=lambda pod: (pod["metadata"]["namespace"], pod["cluster"]),
                on_change=self._changed,
            )
            for namespace in namespaces or (None,)
        ]
        self._answers: dict[Key, dict[str, Answer]] = {}
        self._rounds: dict[Key, asyncio.Task[Demand]] = {}
        self._session: aiohttp.ClientSession | None = None

    @property
    def synced(self) -> bool:
        """The gateway pods are known."""
        return all(informer.synced.is_set() for informer in self._pods)

    @property
    def last_seen(self) -> float:
        """Monotonic time at which the oldest watch told something last."""
        return min(informer.last_seen for informer in self._pods)

    def clusters(self, namespace: str) -> list[str]:
        """Names of the clusters of a namespace that have a gateway pod."""
        pods = (pod for informer in self._pods for pod in informer.list(namespace))
        return sorted({pod["cluster"] for pod in pods})

    async def run(self) -> None:
        """Watch the gateway pods until cancelled."""
        connector = aiohttp.TCPConnector(limit=_CONNECTIONS, limit_per_host=2, keepalive_timeout=40)
        async with aiohttp.ClientSession(timeout=_TIMEOUT, connector=connector) as session:
            self._session = session
            async with asyncio.TaskGroup() as group:
                for informer in self._pods:
                    group.create_task(informer.run())

    async def demand(self, namespace: str, cluster: str) -> Demand:
        """The sum now. Raises demand.Unknown; KeyError when the cluster has no gateway pod at all."""
        key = namespace, cluster
        found = self._rounds.get(key)
        if found is None:
            found = self._rounds[key] = asyncio.create_task(self._round(key))
            found.add_done_callback(lambda _: self._rounds.pop(key, None))
        # One client that goes away must not end the round of the others.
        return await asyncio.shield(found)

    async def _round(self, key: Key) -> Demand:
        pods = self._gateways(key)
        if not pods:
            raise KeyError(key)
        await asyncio.gather(*(self._ask(key, pod) for pod in pods if pod.address))
        # A pod without an address has never had a request.
        return demand.total(
            [pod for pod in self._gateways(key) if pod.address], self._answers.get(key, {}), self._now()
        )

    def _gateways(self, key: Key) -> list[GatewayPod]:
        found = [pod for informer in self._pods for pod in informer.indexed(key)]
        return [GatewayPod(pod["metadata"]["name"], pod["address"]) for pod in found]

    async def _ask(self, key: Key, pod: GatewayPod) -> None:
        assert self._session is not None  # noqa: S101 - the pods are known since `run`
        try:
            url = f"http://{host(pod.address)}:{self._port}/demand"
            async with self._session.get(url) as answer:
                answer.raise_for_status()
                said = (await read_json(answer, _LONGEST_ANSWER))["clusters"]["/".join(key)]
            kept = Answer(self._now(), max(0, int(said["demand"])), max(0, int(said["concurrency"])))
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError, KeyError, TypeError) as error:
            log.debug(
                "a gateway doesn't answer",
                extra={"gateway": pod.name, "reason": str(error) or type(error).__name__},
            )
            return
        self._answers.setdefault(key, {})[pod.name] = kept

    def _changed(self, event_type: str, pod: dict[str, Any]) -> None:
        """A pod that is gone has no requests any more; a name never comes back."""
        if event_type != "DELETED":
            return
        key = pod["metadata"]["namespace"], pod["cluster"]
        answers = self._answers.get(key, {})
        answers.pop(pod["metadata"]["name"], None)
        if not answers:
            self._answers.pop(key, None)


def _trim(pod: dict[str, Any]) -> dict[str, Any] | None:
    """Name, cluster and address; None for one that has ended and can hold nothing."""
    meta, status = pod["metadata"], pod.get("status") or {}
    cluster = (meta.get("labels") or {}).get(names.LABEL_CLUSTER)
    if not cluster or status.get("phase") in ("Succeeded", "Failed"):
        return None
    return {
        "metadata": {key: meta[key] for key in ("name", "namespace", "resourceVersion")},
        "cluster": cluster,
        "address": status.get("podIP") or "",
    }
