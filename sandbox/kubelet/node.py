"""One node: its object and lease, the pods bound to it, and what can befall it."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp

from sandbox.kubelet.api import JSON, STRATEGIC, Api, ApiError
from sandbox.kubelet.gpus import RESOURCE, Gpus
from sandbox.kubelet.network import Network, PodNetwork
from sandbox.kubelet.pod import Pod
from sandbox.kubelet.quantity import parse
from sandbox.kubelet.status import timestamp
from sandbox.kubelet.store import Store

_LOG = logging.getLogger(__name__)
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_LEASE_PERIOD = 1.0
# The lease shows life; the status itself is sent this seldom (nodeStatusReportFrequency) and when it's wrong.
_STATUS_PERIOD = 300.0


@dataclass(frozen=True)
class Host:
    """What all nodes share."""

    api: Api
    store: Store
    network: Network
    state: Path


class Node:
    """A simulated machine. `online` is set while it has power and network."""

    def __init__(self, host: Host, spec: JSON, ip: str) -> None:
        self.host, self.ip = host, ip
        self.name: str = spec["name"]
        self.capacity: dict[str, str] = spec["capacity"]
        self.online = asyncio.Event()
        self.pods: dict[str, Pod] = {}
        self._spec = spec
        self._has_power = False
        self.gpus = self._new_gpus()
        self._boot_id = str(uuid.uuid4())
        self._ready_since = timestamp(time.time())
        self._dead: list[Pod] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._workers: dict[str, asyncio.Task[None]] = {}

    def _new_gpus(self) -> Gpus:
        return Gpus(self.name, int(parse(self.capacity.get(RESOURCE, "0"))))

    async def register(self) -> None:
        """Create or renew the Node object and its lease, then go to work."""
        labels = {
            "kubernetes.io/hostname": self.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            **(self._spec.get("labels") or {}),
        }
        body = {
            "metadata": {"name": self.name, "labels": labels},
            "spec": {"taints": self._spec.get("taints") or []},
        }
        await self._create_or_patch("/api/v1/nodes", body)
        await self.boot()

    async def boot(self) -> None:
        """Give the node power; pods that are bound to it start as after a reboot."""
        self._has_power = True
        self.gpus = self._new_gpus()
        self._boot_id = str(uuid.uuid4())
        await self.host.network.heal(pod.network.interface for pod in self._dead)
        for pod in self._dead:
            await self.host.network.delete(pod.network)
        self._dead.clear()
        await self._connect()

    async def lose_power(self) -> None:
        """All processes end at once and no packet leaves any more, not even a RST."""
        await self.host.network.cut(self._interfaces())
        await self._disconnect()
        self._has_power = False
        pods, workers = list(self.pods.values()), list(self._workers.values())
        self.pods, self._workers = {}, {}
        await _cancel(workers)
        # Interfaces stay, cut, until the next boot: a dead machine answers nothing, "no route" included.
        self._dead += [pod for pod in pods if pod.interfaces]
        await asyncio.gather(*(pod.lose_power() for pod in pods))

    async def cut(self) -> None:
        """Cut the network of the node and its pods; everything on it goes on."""
        await self.host.network.cut(self._interfaces())
        await self._disconnect()

    async def heal(self) -> None:
        """Undo `cut`."""
        await self.host.network.heal(self._interfaces())
        await self._connect()

    async def attach(self, network: PodNetwork) -> None:
        """Take a new pod's network in: on a node that is cut off it's cut off, too."""
        if not self.online.is_set():
            await self.host.network.cut([network.interface])

    @property
    def state(self) -> str:
        """ "on", "cut" or "off"."""
        if not self._has_power:
            return "off"
        return "on" if self.online.is_set() else "cut"

    def find(self, namespace: str, name: str) -> Pod | None:
        """The pod of that name which isn't being replaced: the youngest one."""
        found = [pod for pod in self.pods.values() if (pod.namespace, pod.name) == (namespace, name)]
        return found[-1] if found else None

    def object_changed(self, node: JSON) -> None:
        """The Node object has changed: put our word right where somebody else (node lifecycle) changed it."""
        if self.online.is_set() and _ready_condition(node) != "True":
            self._spawn(self._send_status())

    def event(self, pod: JSON, kind: str, reason: str, message: str) -> None:
        """Record an Event about a pod, without waiting; a lost one is no harm."""
        _LOG.info(
            "%s %s/%s: %s: %s",
            self.name,
            pod["metadata"]["namespace"],
            pod["metadata"]["name"],
            reason,
            message,
        )
        if self.online.is_set():
            self._spawn(self._send_event(pod, kind, reason, message))

    def _interfaces(self) -> list[str]:
        return [name for pod in self.pods.values() for name in pod.interfaces]

    async def _connect(self) -> None:
        self.online.set()
        self._ready_since = timestamp(time.time())
        await self._renew_lease()
        await self._send_status()
        for work in (self._keep_lease(), self._keep_status(), self._watch_pods()):
            self._spawn(work)

    async def _disconnect(self) -> None:
        self.online.clear()
        await _cancel(self._tasks)

    async def _watch_pods(self) -> None:
        selector = f"spec.nodeName={self.name}"
        async for event, item in self.host.api.watch("/api/v1/pods", fieldSelector=selector):
            if event == "SYNC":
                listed = {pod["metadata"]["uid"] for pod in item["items"]}
                for uid in self.pods.keys() - listed:
                    self.pods[uid].removed(None)
                for pod in item["items"]:
                    self._apply(pod)
            elif event == "DELETED":
                if known := self.pods.get(item["metadata"]["uid"]):
                    known.removed(item["metadata"].get("deletionGracePeriodSeconds"))
            else:
                self._apply(item)

    def _apply(self, item: JSON) -> None:
        uid = item["metadata"]["uid"]
        if uid not in self.pods:
            self.pods[uid] = Pod(self, item)
            worker = asyncio.create_task(self._run_pod(self.pods[uid]))
            self._workers[uid] = worker
        self.pods[uid].update(item)

    async def _run_pod(self, pod: Pod) -> None:
        try:
            await pod.run()
        except Exception:
            _LOG.exception("pod %s: the kubelet's worker failed", pod.title)
            raise
        finally:
            if self.pods.get(pod.uid) is pod:
                del self.pods[pod.uid], self._workers[pod.uid]

    async def _keep_lease(self) -> None:
        while True:
            await asyncio.sleep(_LEASE_PERIOD)
            try:
                await self.host.api.patch(f"{_LEASES}/{self.name}", {"spec": {"renewTime": _micro_time()}})
            except (ApiError, aiohttp.ClientError, TimeoutError, OSError) as error:
                _LOG.warning("lease of %s: %r", self.name, error)

    async def _renew_lease(self) -> None:
        spec = {"holderIdentity": self.name, "leaseDurationSeconds": 40, "renewTime": _micro_time()}
        await self._create_or_patch(_LEASES, {"metadata": {"name": self.name}, "spec": spec})

    async def _create_or_patch(self, path: str, body: JSON) -> None:
        try:
            await self.host.api.create(path, body)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            await self.host.api.patch(f"{path}/{self.name}", body)

    async def _keep_status(self) -> None:
        while True:
            await asyncio.sleep(_STATUS_PERIOD)
            await self._send_status()

    async def _send_status(self) -> None:
        try:
            await self.host.api.patch(
                f"/api/v1/nodes/{self.name}/status", {"status": self._status()}, STRATEGIC
            )
        except (ApiError, aiohttp.ClientError, TimeoutError, OSError) as error:
            _LOG.warning("status of node %s: %r", self.name, error)

    def _status(self) -> JSON:
        now = timestamp(time.time())

        def condition(kind: str, status: str, reason: str) -> JSON:
            return {
                "type": kind,
                "status": status,
                "reason": reason,
                "message": "",
                "lastHeartbeatTime": now,
                "lastTransitionTime": self._ready_since,
            }

        return {
            "capacity": self.capacity,
            "allocatable": self.capacity,
            "addresses": [
                {"type": "InternalIP", "address": self.ip},
                {"type": "Hostname", "address": self.name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            # Lets the API server pass the WebSocket of `kubectl exec` on instead of translating it to SPDY.
            "declaredFeatures": ["ExtendWebSocketsToKubelet"],
            "conditions": [
                condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
                condition("DiskPressure", "False", "KubeletHasNoDiskPressure"),
                condition("PIDPressure", "False", "KubeletHasSufficientPID"),
                condition("Ready", "True", "KubeletReady"),
            ],
            "nodeInfo": {
                "architecture": "amd64",
                "operatingSystem": "linux",
                "osImage": "inference-operator sandbox",
                "kernelVersion": "sandbox",
                "kubeletVersion": "v1.37.2",
                "kubeProxyVersion": "v1.37.2",
                "containerRuntimeVersion": "sandbox://1",
                "machineID": self.name,
                "systemUUID": self.name,
                "bootID": self._boot_id,
            },
        }

    async def _send_event(self, pod: JSON, kind: str, reason: str, message: str) -> None:
        metadata, now = pod["metadata"], timestamp(time.time())
        body = {
            "metadata": {"generateName": f"{metadata['name'][:200]}.", "namespace": metadata["namespace"]},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "uid": metadata["uid"],
            },
            "type": kind,
            "reason": reason,
            "message": message[:1000],
            "source": {"component": "kubelet", "host": self.name},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        try:
            await self.host.api.create(f"/api/v1/namespaces/{metadata['namespace']}/events", body)
        except (ApiError, aiohttp.ClientError, TimeoutError, OSError) as error:
            _LOG.info("event of %s: %r", metadata["name"], error)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _LOG.error("node %s: %s", self.name, task.get_coro(), exc_info=task.exception())


async def _cancel(tasks: Iterable[asyncio.Task[None]]) -> None:
    cancelled = tuple(tasks)
    for task in cancelled:
        task.cancel()
    await asyncio.gather(*cancelled, return_exceptions=True)


def _micro_time() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _ready_condition(node: JSON) -> str:
    for condition in (node.get("status") or {}).get("conditions") or []:
        if condition["type"] == "Ready":
            return str(condition["status"])
    return ""
