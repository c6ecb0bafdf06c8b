"""Real HAProxy and the real agent on loopback, stub engines as processes, Kubernetes played by the test."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import aiohttp

from inference_operator.agent.bootstrap import bootstrap
from inference_operator.agent.model import Engine
from inference_operator.agent.run import Agent
from inference_operator.agent.settings import Settings
from inference_operator.api.routing import Drain, Routing, Track

ROOT = Path(__file__).resolve().parents[2]
HAPROXY = os.environ.get("HAPROXY", "haproxy")
CLUSTER = ("team-a", "llama")


def free_port() -> int:
    """A port that is free on every loopback address."""
    with socket.socket() as probe:
        probe.bind(("0.0.0.0", 0))
        return int(probe.getsockname()[1])


async def until(what: Callable[[], Any] | Callable[[], Awaitable[Any]], seconds: float = 10.0) -> float:
    """Wait for a condition; returns the seconds that it took."""
    start = time.monotonic()
    while True:
        result = what()
        if isinstance(result, Awaitable):
            result = await result
        if result:
            return time.monotonic() - start
        if time.monotonic() - start > seconds:
            raise AssertionError(f"not within {seconds} s: {what}")
        await asyncio.sleep(0.01)


def track(revision: str, share: int, port: int, *, concurrency: int = 16, **changes: Any) -> Track:
    """One track with its Service named after the revision."""
    values = {
        "revision": revision,
        "service": f"llama-{revision}",
        "share": share,
        "port": port,
        "health_path": "/health",
        "metrics_path": "/metrics",
        "concurrency": concurrency,
        **changes,
    }
    return Track.model_validate(values)


def routing(*tracks: Track, drains: Sequence[str] = (), **changes: Any) -> Routing:
    """The routing document of the test's cluster."""
    values = {
        "cluster": CLUSTER[1],
        "namespace": CLUSTER[0],
        "served_name": "llama",
        "tracks": tracks,
        "drains": tuple(Drain(pod=pod, since=0.0) for pod in drains),
        "queue_length": 100,
        "queue_timeout_seconds": 5.0,
        "drain_timeout_seconds": 60.0,
        **changes,
    }
    return Routing.model_validate(values)


def endpoint_slice(service: str, engines: Sequence[Engine]) -> dict[str, Any]:
    """A trimmed slice."""
    return {
        "metadata": {"namespace": CLUSTER[0], "name": service, "resourceVersion": "1"},
        "service": service,
        "endpoints": [
            {
                "address": engine.address,
                "conditions": {
                    "ready": not engine.draining,
                    "serving": True,
                    "terminating": engine.draining,
                },
                "node": engine.node,
                "pod": engine.pod,
            }
            for engine in engines
        ],
    }


@dataclass
class Process:
    """A child process that ends with the test."""

    inner: asyncio.subprocess.Process

    @classmethod
    async def start(cls, *command: str, log: Path, prefix: Sequence[str] = ()) -> Process:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        with log.open("ab") as output:
            inner = await asyncio.create_subprocess_exec(
                *prefix, *command, stdout=output, stderr=output, env=environment, cwd=ROOT
            )
        return cls(inner)

    def signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            self.inner.send_signal(number)

    async def end(self) -> None:
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGKILL)
        await self.inner.wait()


@dataclass
class Rig:
    """One gateway pod and its engines."""

    directory: Path
    port: int = field(default_factory=free_port)
    engine_port: int = field(default_factory=free_port)
    engines: dict[str, Engine] = field(default_factory=dict)
    processes: dict[str, Process] = field(default_factory=dict)
    #: Service name -> pods.
    members: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.settings = Settings(
            pod="gateway-0",
            namespace=CLUSTER[0],
            pod_ip="127.0.0.1",
            directory=self.directory,
            port=self.port,
            agent_port=free_port(),
            log_port=free_port(),
        )
        self.haproxy: Process | None = None
        self.agent = Agent(self.settings, (CLUSTER,))
        self.task: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return (self.directory / "haproxy.log").read_text()

    async def start_haproxy(self) -> None:
        command = (HAPROXY, "-W", "-db", "-S", str(self.settings.master_socket), "-f")
        self.haproxy = await Process.start(
            *command, str(self.settings.config_file), log=self.directory / "haproxy.log"
        )

    async def start(self) -> None:
        bootstrap(self.settings)
        await self.start_haproxy()
        self.start_agent()

    def start_agent(self) -> None:
        self.task = asyncio.create_task(self.agent.run())

    async def restart_agent(self) -> None:
        """A new process would start like this: nothing is kept but the files."""
        await self.stop_agent()
        self.agent = Agent(self.settings, (CLUSTER,))
        self.start_agent()

    async def stop_agent(self) -> None:
        if self.task is not None:
            self.task.cancel()
            with suppress(asyncio.CancelledError):
                await self.task

    async def add_engine(
        self,
        pod: str,
        address: str,
        service: str = "llama-v1",
        *,
        node: str = "",
        modes: Sequence[str] = (),
        prefix: Sequence[str] = (),
    ) -> None:
        """Start a stub and make it an endpoint once it answers."""
        self.processes[pod] = await Process.start(
            sys.executable,
            "-m",
            "tests.gateway.stub_engine",
            address,
            str(self.engine_port),
            *modes,
            log=self.directory / "engines.log",
            prefix=prefix,
        )
        await until(lambda: _listens(address, self.engine_port), 20)
        self.engines[pod] = Engine(pod, address, node or f"node-{pod}")
        self.members.setdefault(service, []).append(pod)
        self.publish()

    def terminating(self, pod: str) -> None:
        self.engines[pod] = replace(self.engines[pod], draining=True)
        self.publish()

    def remove(self, pod: str) -> None:
        """The pod is no endpoint any more."""
        for pods in self.members.values():
            if pod in pods:
                pods.remove(pod)
        self.publish()

    def publish(self) -> None:
        slices = [
            endpoint_slice(service, [self.engines[pod] for pod in pods])
            for service, pods in self.members.items()
        ]
        self.agent.inputs.slices(CLUSTER, slices)

    def route(self, document: Routing) -> None:
        self.agent.inputs.routing_text(CLUSTER, document.model_dump_json())

    def states(self) -> dict[str, str]:
        return {e.pod: e.state for track in self.agent.control.status.tracks for e in track.engines}

    async def serving(self, *pods: str, seconds: float = 10.0) -> None:
        """Wait until just these engines are up."""
        await until(lambda: {p for p, s in self.states().items() if s == "UP"} == set(pods), seconds)

    def events(self, kind: str) -> list[Any]:
        return [event for event in self.agent.monitor.events(CLUSTER) if event.kind == kind]

    async def get(self, path: str) -> tuple[int, bytes]:
        """Ask the agent."""
        url = f"http://127.0.0.1:{self.settings.agent_port}{path}"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            return answer.status, await answer.read()

    async def gone(self, pod: str) -> None:
        """Wait until HAProxy has deleted the server."""
        workers = await self.agent.haproxy.workers()
        assert workers.current is not None
        pid = workers.current

        async def absent() -> bool:
            return f" {pod} " not in await self.agent.haproxy.read(pid, "show servers state")

        await until(absent)

    async def stop(self) -> None:
        await self.stop_agent()
        for process in [*self.processes.values(), *([self.haproxy] if self.haproxy else [])]:
            await process.end()


async def _listens(address: str, port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(address, port)
    except OSError:
        return False
    writer.close()
    return True
