"""One pod on one node, from admission to the deletion of its object."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp

from sandbox.kubelet import status
from sandbox.kubelet.api import JSON, STRATEGIC, ApiError
from sandbox.kubelet.assembly import runs_as_root, write_pod_etc
from sandbox.kubelet.container import Container, Kind
from sandbox.kubelet.gpus import AdmissionError
from sandbox.kubelet.handlers import Handlers
from sandbox.kubelet.network import NetworkError, PodNetwork
from sandbox.kubelet.timing import Deadline, now
from sandbox.kubelet.volumes import PodFacts, VolumeError, Volumes

if TYPE_CHECKING:
    from sandbox.kubelet.node import Node

_LOG = logging.getLogger(__name__)
_RETRY = 1.0
_EVENT_SECONDS = 60.0
_FINISHED = ("Succeeded", "Failed")


class Pod:
    """The kubelet's worker for one pod. `object` is the newest version of its API object."""

    def __init__(self, node: Node, pod: JSON) -> None:
        self.node, self.host, self.object = node, node.host, pod
        metadata = pod["metadata"]
        self.namespace, self.name, self.uid = metadata["namespace"], metadata["name"], metadata["uid"]
        self.title = f"{self.namespace}/{self.name}"
        self.spec: JSON = pod["spec"]
        self.hostname: str = self.spec.get("hostname") or self.name
        self.directory: Path = self.host.state / "pods" / f"{self.namespace}_{self.name}_{self.uid}"
        self.has_inits = bool(self.spec.get("initContainers"))
        self.network: PodNetwork
        self.handlers: Handlers
        self.volumes: Volumes
        self._is_set_up = False
        self._devices: dict[str, list[str]] = {}
        self._rejection: JSON = {}
        self._over = False
        self._gone = False
        self._deletion = asyncio.Event()
        self._deadline: Deadline | None = None
        self._dirty = asyncio.Event()
        self._sent: JSON = {}
        self._started_at = status.timestamp(time.time())
        self._conditions: list[JSON] = (pod.get("status") or {}).get("conditions") or []
        self._tasks: set[asyncio.Task[None]] = set()
        self._runs: set[asyncio.Task[None]] = set()
        self._freshener: asyncio.Task[None] | None = None
        self._events: dict[tuple[str, str], float] = {}
        self.inits = [
            self._container(each, Kind.SIDECAR if status.is_sidecar(each) else Kind.INIT)
            for each in self.spec.get("initContainers") or []
        ]
        self.mains = [self._container(each, Kind.MAIN) for each in self.spec["containers"]]

    def _container(self, spec: JSON, kind: Kind) -> Container:
        known = self.object.get("status") or {}
        statuses = (known.get("initContainerStatuses") or []) + (known.get("containerStatuses") or [])
        return Container(self, spec, kind, next((s for s in statuses if s["name"] == spec["name"]), None))

    @property
    def containers(self) -> list[Container]:
        return self.inits + self.mains

    @property
    def grace_seconds(self) -> float:
        return float(self.spec.get("terminationGracePeriodSeconds", 30))

    @property
    def interfaces(self) -> list[str]:
        """Names of the pod's network interface on the node, none before it has one."""
        return [self.network.interface] if self._is_set_up else []

    def device_environment(self, container: str) -> dict[str, str]:
        devices = self._devices.get(container)
        return {"NVIDIA_VISIBLE_DEVICES": ",".join(devices)} if devices else {}

    def update(self, pod: JSON) -> None:
        """Take a newer version of the object: labels, readiness gates, deletion."""
        before, self.object = self.object, pod
        if not self._shows_our_conditions():
            # kube-controller-manager marks the pods of an unreachable node as not ready.
            self._sent = {}
        words = ("labels", "annotations")
        if self._is_set_up and any(before["metadata"].get(w) != pod["metadata"].get(w) for w in words):
            self.volumes.pod_changed()
        if "deletionTimestamp" in pod["metadata"]:
            self._delete(pod["metadata"].get("deletionGracePeriodSeconds"))
        self.changed()

    def _shows_our_conditions(self) -> bool:
        shown = {
            each["type"]: each["status"] for each in (self.object.get("status") or {}).get("conditions") or []
        }
        return all(shown.get(each["type"]) == each["status"] for each in self._conditions)

    def removed(self, grace: float | None) -> None:
        """The object has gone without our doing (a forced deletion): stop, and report nothing."""
        self._gone = True
        self._delete(grace)

    def _delete(self, grace: float | None) -> None:
        # The kubelet gives at least one second, even to a forced deletion.
        seconds = max(self.grace_seconds if grace is None else grace, 1.0)
        if self._deadline is None:
            self._deadline = Deadline(seconds)
        self._deadline.shorten(seconds)
        self._deletion.set()

    async def run(self) -> None:
        """The pod's whole life; ends when its object has gone."""
        if (self.object.get("status") or {}).get("phase") in _FINISHED:
            await self._deletion.wait()
        elif "deletionTimestamp" not in self.object["metadata"]:
            self.spawn(self._report_changes())
            await self._live()
            self._over = True
            self.changed()
            await self._tear_down()
            await self._deletion.wait()
            await self._report_last()
        await self._finalize()
        self.cancel()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a task that ends with the pod at the latest."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)
        return task

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _LOG.error("pod %s: %s", self.title, task.get_coro(), exc_info=task.exception())

    def cancel(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()

    async def lose_power(self) -> None:
        """Kill everything at once and report nothing. The network stays; its owner is the node now."""
        self.cancel()
        processes = [each.process for each in self.containers if each.process is not None]
        for container in self.containers:
            container.kill()
        await asyncio.gather(*(asyncio.shield(process.exited) for process in processes))
        if self._is_set_up:
            await self.handlers.close()
            await self.volumes.unmount()
        self.node.gpus.release(self.uid)

    async def _live(self) -> None:
        """Run the containers until all are over or the pod is deleted; nothing runs afterwards."""
        life, deletion = self.spawn(self._start_containers()), self.spawn(_wait(self._deletion))
        await asyncio.wait({life, deletion}, return_when=asyncio.FIRST_COMPLETED)
        await self._stop_containers()
        life.cancel()
        # A container that was just being created comes to its end here.
        await asyncio.wait({life, *self._runs})

    async def _start_containers(self) -> None:
        try:
            self._devices = self.node.gpus.allocate(self.object)
        except AdmissionError as error:
            self._rejection = {"reason": error.reason, "message": str(error)}
            self.event("Warning", error.reason, str(error))
            for container in self.containers:
                container.forbid()
            return
        await self._set_up()
        self._freshener = self.spawn(self.volumes.keep_fresh())
        for container in self.inits:
            task = self._run(container)
            if container.kind is Kind.SIDECAR:
                await container.started.wait()
                continue
            await asyncio.wait({task})
            if container.exit_code != 0:
                return
        await asyncio.wait({self._run(container) for container in self.mains})

    def _run(self, container: Container) -> asyncio.Task[None]:
        task = self.spawn(container.run())
        self._runs.add(task)
        return task

    async def _set_up(self) -> None:
        """Network, /etc files and volumes; tries again until it works."""
        self.changed()
        while not self._is_set_up:
            try:
                self.network = await self.host.network.create()
            except (NetworkError, OSError) as error:
                self.event("Warning", "FailedCreatePodSandBox", str(error))
                await asyncio.sleep(_RETRY)
                continue
            await self.node.attach(self.network)
            self.handlers = Handlers(self.network)
            facts = PodFacts(
                pod=lambda: self.object,
                pod_ip=self.network.ip,
                host_ip=self.node.ip,
                allocatable=self.node.capacity,
                as_root=any(runs_as_root(self.spec, container.spec) for container in self.containers),
            )
            self.volumes = Volumes(self.directory / "volumes", facts, self.host.api, self.host.store)
            self._is_set_up = True
        etc = self.directory / "etc"
        await asyncio.to_thread(write_pod_etc, etc, self.object, self.hostname, self.network.ip)
        while True:
            try:
                await self.volumes.mount()
            except (VolumeError, ApiError, OSError, aiohttp.ClientError) as error:
                self.event("Warning", "FailedMount", str(error))
                await asyncio.sleep(_RETRY)
            else:
                return

    async def _stop_containers(self) -> None:
        """The main containers together, then the sidecars, last started first, within one grace period.

        As in the kubelet, preStop hooks all run at once and only the signal waits for its turn.
        """
        deadline = self._deadline or Deadline(self.grace_seconds)
        for container in self.containers:
            container.forbid()
        sidecars = [container for container in self.inits if container.kind is Kind.SIDECAR]
        others = [container for container in self.containers if container.kind is not Kind.SIDECAR]
        stops = [self.spawn(_all(container.stop(deadline) for container in others))]
        for container in reversed(sidecars):
            stops.append(self.spawn(container.stop(deadline, turn=stops[-1])))
        await asyncio.wait(stops)

    async def _tear_down(self) -> None:
        self.node.gpus.release(self.uid)
        if self._is_set_up:
            if self._freshener is not None:
                self._freshener.cancel()
                await asyncio.wait({self._freshener})
            await self.handlers.close()
            await self.volumes.unmount()
            try:
                await self.host.network.delete(self.network)
            except (NetworkError, OSError) as error:
                _LOG.warning("pod %s: %s", self.title, error)
            self._is_set_up = False

    def changed(self) -> None:
        """Something that the status shows may have changed."""
        self._dirty.set()

    def event(self, kind: str, reason: str, message: str) -> None:
        """Record an Event; the same words again within a minute are left out."""
        last = self._events.get((reason, message), -_EVENT_SECONDS)
        if now() - last >= _EVENT_SECONDS:
            self._events[reason, message] = now()
            self.node.event(self.object, kind, reason, message)

    def status(self) -> JSON:
        """The pod's status as far as a kubelet writes it."""
        inits = [container.status() for container in self.inits]
        mains = [container.status() for container in self.mains]
        phase = status.phase(self.spec, inits, mains, over=self._over)
        at = status.timestamp(time.time())
        self._conditions = status.conditions(self.object, phase, inits, mains, self._conditions, at)
        known = {"hostIP": self.node.ip, "hostIPs": [{"ip": self.node.ip}], "startTime": self._started_at}
        if self._is_set_up:
            # podIPs merges by address: after a reboot the old one would stay beside the new one.
            known |= {"podIP": self.network.ip, "podIPs": [{"$patch": "replace"}, {"ip": self.network.ip}]}
        return {
            "phase": phase,
            "conditions": self._conditions,
            "containerStatuses": mains,
            "initContainerStatuses": inits,
            **known,
            **self._rejection,
        }

    async def _report_changes(self) -> None:
        """One PATCH for each change, as long as the node is on the network."""
        while not self._gone:
            await self._dirty.wait()
            self._dirty.clear()
            await self.node.online.wait()
            if not await self._report():
                await asyncio.sleep(_RETRY)
                self._dirty.set()

    async def _report_last(self) -> None:
        while not self._gone:
            await self.node.online.wait()
            if await self._report():
                return
            await asyncio.sleep(_RETRY)

    async def _report(self) -> bool:
        """Send the status if it differs from the one sent last; False when it has to be tried again."""
        fresh = self.status()
        if fresh == self._sent:
            return True
        # The uid makes the server refuse it (409) for another pod of the same name.
        body = {"metadata": {"uid": self.uid}, "status": fresh}
        try:
            await self.host.api.patch(f"{self._path}/status", body, STRATEGIC)
        except ApiError as error:
            if error.status == 404:
                self._gone = True
                return True
            _LOG.warning("pod %s: %s", self.title, error)
            return False
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            _LOG.warning("pod %s: %r", self.title, error)
            return False
        self._sent = fresh
        return True

    @property
    def _path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"

    async def _finalize(self) -> None:
        """Delete the object: nothing of the pod is left on the node."""
        while not self._gone:
            await self.node.online.wait()
            try:
                await self.host.api.delete(
                    self._path, {"gracePeriodSeconds": 0, "preconditions": {"uid": self.uid}}
                )
            except ApiError as error:
                if error.status == 404:
                    return
                # 409: another pod of that name by now; the watch is about to tell that ours has gone.
                _LOG.warning("pod %s: %s", self.title, error)
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                _LOG.warning("pod %s: %r", self.title, error)
            else:
                return
            await asyncio.sleep(_RETRY)


async def _all(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    await asyncio.gather(*work)


async def _wait(event: asyncio.Event) -> None:
    await event.wait()
