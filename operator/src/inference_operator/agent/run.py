"""Composition of the agent: what is made, what runs beside what, and how it ends."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from contextlib import suppress
from functools import partial
from typing import Final

from aiohttp import web

from ..adapters.kube import KubeClient
from ..api import names
from ..api.routing import GatewayReport
from . import haproxylog, view
from .client import AgentClient
from .control import Control
from .haproxy import Haproxy
from .inputs import Cluster, Inputs
from .metrics import Metrics
from .monitor import Monitor
from .peers import Peers
from .report import Reporter
from .scraper import Scraper
from .server import Server
from .settings import Settings
from .watches import Watches

log = logging.getLogger(__name__)

#: A field manager's name may have 128 characters.
_MANAGER_LENGTH: Final = 128
#: Beyond the longest drain of any cluster: HAProxy's preStop, and its own orderly end.
_LEAVE_SECONDS: Final = 60.0


class Agent:
    """One gateway pod's agent, without the Kubernetes side."""

    def __init__(self, settings: Settings, clusters: tuple[Cluster, ...]) -> None:
        self.settings = settings
        self.monitor = Monitor()
        self.inputs = Inputs(clusters, on_refused=self._refused, on_change=self._changed)
        self.peers = Peers(lambda: self.inputs.peers(settings.pod), settings.agent_port)
        self.scraper = Scraper(settings.pod, lambda: self.inputs.gateway(time.monotonic()), self.peers.names)
        self.metrics = Metrics(lambda: self.control.status.tracks, lambda: self.scraper.totals)
        self.haproxy = Haproxy(settings.master_socket)
        self.control = Control(settings, self.inputs, self.haproxy, self.monitor, self.peers, self.metrics)
        self.server = Server(
            settings,
            self.inputs,
            self.control,
            self.monitor,
            self.metrics,
            self._watches_alive,
            lambda: self.scraper.windows,
        )
        self._watches: Watches | None = None
        self.inputs.restore(settings.state_file)

    def _watches_alive(self) -> bool:
        return self._watches is None or self._watches.alive

    def report(self, cluster: Cluster) -> GatewayReport:
        """What the operator is told of one cluster."""
        tracks = [t for t in self.control.status.tracks if (t.namespace, t.cluster) == cluster]
        return GatewayReport(
            gateway=self.settings.pod,
            ready=self.server.synced,
            routing_digest=self.inputs.digest(cluster),
            engines=view.reports(tracks),
            events=self.monitor.events(cluster),
        )

    async def run(self, client: KubeClient | None = None) -> None:
        """Work until HAProxy has gone after `leave`. Without a client nothing is watched and reported."""
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(
            lambda: haproxylog.Receiver(self._line), local_addr=("127.0.0.1", self.settings.log_port)
        )
        runner = web.AppRunner(self.server.application(), access_log=None)
        await runner.setup()
        host = "::" if ":" in self.settings.pod_ip else "0.0.0.0"  # noqa: S104 - probes come from the node
        await web.TCPSite(runner, host, self.settings.agent_port).start()
        try:
            await self._work(client)
        finally:
            await runner.cleanup()
            transport.close()

    def leave(self) -> None:
        """The pod is on its way out: go on until HAProxy has finished its streams."""
        log.info("leaving once HAProxy has finished its streams")
        self.control.leaving = True
        self.control.wake()

    async def _work(self, client: KubeClient | None) -> None:
        coroutines = [self.peers.run(), self.scraper.run()]
        if client is not None:
            self._watches = Watches(client, self.inputs, self.settings.pod)
            coroutines.append(self._watches.run())
            for cluster, copy in self._watches.reports.items():
                current = partial(self.report, cluster)
                reporter = Reporter(client, copy, cluster, current, self.metrics.report_writes.inc)
                coroutines.append(reporter.run())
        async with asyncio.TaskGroup() as group:
            others = [group.create_task(coroutine) for coroutine in coroutines]
            control = group.create_task(self.control.run())
            await asyncio.wait([control])
            for task in others:
                task.cancel()

    def _line(self, line: haproxylog.Line) -> None:
        now = time.monotonic()
        match line:
            case haproxylog.Request():
                self.metrics.request(line)
                key = (line.backend, line.server)
                if line.cut:
                    self.monitor.stream_cut(key, now)
                if self.monitor.request_ended(key, line.failed, now):
                    self.control.wake()
                if line.cut or line.lost:
                    told = {"backend": line.backend, "engine": line.server, "end": line.end}
                    log.warning("stream cut" if line.cut else "request lost", extra=told)
            case haproxylog.CheckFailed():
                self.monitor.check_failed((line.backend, line.server), now - line.duration)
            case haproxylog.Changed():
                self.control.wake()
            case None:
                pass

    def _refused(self, cluster: Cluster, message: str) -> None:
        self.monitor.refused(cluster, time.time(), message)

    def _changed(self) -> None:
        self.control.wake()


async def serve(settings: Settings, clusters: tuple[Cluster, ...], kubeconfig: str | None) -> None:
    """The whole agent, until SIGTERM and the end of HAProxy's streams."""
    manager = f"{names.AGENT_FIELD_MANAGER}-{settings.pod}"[:_MANAGER_LENGTH]
    client = await AgentClient.connect(kubeconfig=kubeconfig, field_manager=manager)
    agent = Agent(settings, clusters)
    loop = asyncio.get_running_loop()
    deadline: list[asyncio.TimerHandle] = []

    def leave() -> None:
        agent.leave()
        drain = agent.inputs.gateway(time.monotonic()).drain_timeout_seconds
        deadline.append(loop.call_later(drain + _LEAVE_SECONDS, work.cancel))

    work = asyncio.ensure_future(agent.run(client))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, leave)
    try:
        with suppress(asyncio.CancelledError):
            await work
    finally:
        await client.close()
