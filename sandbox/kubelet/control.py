"""The control socket: faults of nodes and containers on command, one JSON object per line."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from sandbox.kubelet import procfs
from sandbox.kubelet.api import JSON
from sandbox.kubelet.node import Node
from sandbox.kubelet.pod import Pod
from sandbox.kubelet.runtime import Process

_CHOICES = 20


class ControlError(Exception):
    """The request can't be carried out: what, where, what to do."""


class Control:
    """Serves requests `{"op": ..., ...}` with `{"ok": true, ...}` or `{"ok": false, "error": text}`."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self._nodes = nodes
        self._node_lock = asyncio.Lock()
        self._operations: dict[str, Callable[[JSON], Awaitable[JSON]]] = {
            "node-kill": self._node_kill,
            "node-start": self._node_start,
            "node-cut": self._node_cut,
            "node-heal": self._node_heal,
            "process-kill": self._process_kill,
            "process-freeze": self._process_freeze,
            "process-thaw": self._process_thaw,
            "pods": self._pods,
        }

    async def serve(self, path: Path) -> None:
        """Listen on the unix socket; returns when it listens."""
        await asyncio.to_thread(path.unlink, missing_ok=True)
        await asyncio.start_unix_server(self._talk, path)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                answer = await self._answer(line)
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def _answer(self, line: bytes) -> JSON:
        try:
            request = json.loads(line)
            operation = self._operations.get(request.get("op", ""))
            if operation is None:
                known = ", ".join(self._operations)
                raise ControlError(f"op {request.get('op')!r} is unknown: use one of {known}")
            return {"ok": True, **await operation(request)}
        except KeyError as error:
            return {"ok": False, "error": f"the request lacks the field {error}: add it"}
        except (ControlError, ValueError, AttributeError, OSError) as error:
            return {"ok": False, "error": str(error)}

    async def _node_kill(self, request: JSON) -> JSON:
        async with self._node_lock:
            node = self._node(request)
            if node.state != "off":
                await node.lose_power()
            return {}

    async def _node_start(self, request: JSON) -> JSON:
        async with self._node_lock:
            await self._node_in(request, "off", "kill").boot()
            return {}

    async def _node_cut(self, request: JSON) -> JSON:
        async with self._node_lock:
            node = self._node(request)
            if node.state == "off":
                raise ControlError(f"node {node.name} is off: use `node start {node.name}` before cutting it")
            await node.cut()
            return {}

    async def _node_heal(self, request: JSON) -> JSON:
        async with self._node_lock:
            await self._node_in(request, "cut", "cut").heal()
            return {}

    async def _process_kill(self, request: JSON) -> JSON:
        name = f"SIG{request.get('signal', 'KILL')}"
        if name not in signal.Signals.__members__:
            raise ControlError(f"signal {request['signal']!r} is unknown: use a name like KILL or TERM")
        process = self._running(request)
        process.signal(signal.Signals[name])
        return {"pid": process.pid}

    async def _process_freeze(self, request: JSON) -> JSON:
        return await self._signal_all(request, signal.SIGSTOP)

    async def _process_thaw(self, request: JSON) -> JSON:
        return await self._signal_all(request, signal.SIGCONT)

    async def _signal_all(self, request: JSON, number: signal.Signals) -> JSON:
        pid = self._running(request).pid
        return {"processes": await asyncio.to_thread(procfs.signal_all, pid, number)}

    async def _pods(self, request: JSON) -> JSON:
        pods = [pod for node in self._nodes.values() for pod in node.pods.values()]
        described = [_describe(pod) for pod in pods]
        pids = [each["pid"] for pod in described for each in pod["containers"]]
        frozen = await asyncio.to_thread(procfs.stopped, pids)
        for pod in described:
            for each in pod["containers"]:
                each["frozen"] = each["pid"] in frozen
        return {"nodes": {node.name: node.state for node in self._nodes.values()}, "pods": described}

    def _node(self, request: JSON) -> Node:
        name = request["node"]
        if name not in self._nodes:
            raise ControlError(f"there is no node {name!r}: the kubelet runs {', '.join(self._nodes)}")
        return self._nodes[name]

    def _node_in(self, request: JSON, state: str, operation: str) -> Node:
        node = self._node(request)
        if node.state != state:
            raise ControlError(
                f"node {node.name} is {node.state}, not {state}: use `node {operation} {node.name}` first"
            )
        return node

    def _running(self, request: JSON) -> Process:
        namespace, _, name = request["pod"].partition("/")
        found = [pod for node in self._nodes.values() if (pod := node.find(namespace, name))]
        if not found:
            raise ControlError(f"no pod {request['pod']!r} on any node here: {self._choices(namespace)}")
        pod = found[0]
        names = [container.name for container in pod.containers]
        wanted = request.get("container") or pod.mains[0].name
        container = next((each for each in pod.containers if each.name == wanted), None)
        if container is None:
            raise ControlError(f"pod {pod.title} has no container {wanted!r}: it has {', '.join(names)}")
        if container.process is None:
            state = next(iter(container.status()["state"]))
            raise ControlError(f"container {wanted} of {pod.title} is {state}: wait until it's running")
        return container.process

    def _choices(self, namespace: str) -> str:
        """The pods there are: those of the namespace before all others."""
        titles = sorted(pod.title for node in self._nodes.values() for pod in node.pods.values())
        titles = [title for title in titles if title.startswith(f"{namespace}/")] or titles
        if not titles:
            return "none runs a pod"
        more = f" and {len(titles) - _CHOICES} more" if len(titles) > _CHOICES else ""
        return f"use one of {', '.join(titles[:_CHOICES])}{more}"


def _describe(pod: Pod) -> JSON:
    return {
        "pod": pod.title,
        "uid": pod.uid,
        "node": pod.node.name,
        "ip": pod.network.ip if pod.interfaces else "",
        "network": pod.network.path if pod.interfaces else "",
        "directory": str(pod.directory),
        "phase": pod.status()["phase"],
        "containers": [
            {**container.status(), "pid": container.process.pid if container.process else 0}
            for container in pod.containers
        ],
    }
