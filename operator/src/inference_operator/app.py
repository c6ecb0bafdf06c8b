"""Composition root of the operator: makes every part, connects them, runs them, stops them in order.

    kopf thread --event--> directory, queue      informers --child changed--> queue
    elector --leads--> list all clusters -> workers -> reconciler -> API server

A standby runs everything but the workers, so that it starts to work with full caches.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from .adapters.clock import SystemClock
from .adapters.config_file import ConfigError, ConfigFile
from .adapters.fenced import FencedKube
from .adapters.gateways import AgentGateways
from .adapters.kube import KubeClient
from .adapters.lease import Elector
from .adapters.store import ChildStore
from .adapters.telemetry import Telemetry
from .api import names
from .engine.directory import Directory
from .engine.queue import WorkQueue
from .engine.reconciler import Reconciler
from .engine.workers import Workers
from .ports import KubeError
from .render.settings import RenderSettings
from .shell.crd import CrdState, wait_for_crd
from .shell.probes import LoopLag, Probes, ProbeServer
from .shell.watch import ClusterWatch

log = logging.getLogger(__name__)

LEASE_NAME: Final = "inference-operator"
LIST_RETRY_SECONDS: Final = 2.0
#: The gate HPAConfigurableTolerance is on by default.
HPA_TOLERANCE_SINCE: Final = (1, 35)


class StartError(Exception):
    """The operator can't start: says why and what to do."""


@dataclass(frozen=True)
class Config:
    """What the command line gives."""

    #: Empty: all namespaces.
    namespaces: tuple[str, ...]
    #: None: the pod's ServiceAccount.
    kubeconfig: str | None
    agent_image: str
    haproxy_image: str
    #: "<namespace>/<name>" of our metrics API's Service; "" = not installed.
    metrics_service: str
    port: int
    lease_namespace: str
    #: File with the operator configuration; None = its defaults.
    config_file: Path | None = None


async def run(config: Config) -> None:
    """Run until SIGTERM or SIGINT. Raises StartError; any other error ends the process for a restart."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    config_file = ConfigFile(config.config_file)
    try:
        config_file.load()
    except ConfigError as error:
        raise StartError(f"operator configuration: {error}") from error
    try:
        kube = await KubeClient.connect(kubeconfig=config.kubeconfig)
    except KubeError as error:
        raise StartError(str(error)) from error
    operator = Operator(config, config_file, kube)
    try:
        async with _serving(operator.probe_server, config.port):
            await _until(stop, operator.run())
    finally:
        await kube.close()


class Operator:
    """One process's parts."""

    def __init__(self, config: Config, config_file: ConfigFile, kube: KubeClient) -> None:
        self._kube = kube
        self._config_file = config_file
        self._clock = clock = SystemClock()
        jitter = random.random
        loop = asyncio.get_running_loop()
        self._telemetry = telemetry = Telemetry()
        self._crd = CrdState("the CustomResourceDefinition wasn't looked at yet")
        #: The watches run.
        self._began = False
        self._queue = WorkQueue(clock=clock, metrics=telemetry, jitter=jitter, call_later=loop.call_later)
        self._directory = Directory(self._queue.add)
        self._store = ChildStore(
            kube,
            namespaces=config.namespaces,
            on_cluster=self._queue.add,
            on_metrics_api=self._queue_everything,
            metrics_service=config.metrics_service,
            clock=clock,
        )
        self._settings = RenderSettings(agent_image=config.agent_image, haproxy_image=config.haproxy_image)
        self._watch = ClusterWatch(
            credentials=kube.credentials,
            on_event=self._cluster_event,
            crd=self._wait_for_crd,
            namespaces=config.namespaces,
            clock=clock,
        )
        self._namespaces: tuple[str | None, ...] = config.namespaces or (None,)
        self._elector = Elector(
            kube,
            namespace=config.lease_namespace,
            name=LEASE_NAME,
            identity=os.uname().nodename,
            clock=clock,
            on_change=telemetry.leading,
        )
        reconciler = Reconciler(
            kube=FencedKube(kube, lambda: self._elector.leading),
            store=self._store,
            directory=self._directory,
            clock=clock,
            metrics=telemetry,
            jitter=jitter,
            settings=lambda: self._settings,
            gateways=AgentGateways(),
            prices=lambda: config_file.current.prices,
        )
        self._workers = Workers(
            self._queue, reconciler.reconcile, clock=clock, metrics=telemetry, jitter=jitter
        )
        self._lag = LoopLag(clock)
        self.probe_server = ProbeServer(
            Probes(
                clock=clock,
                longest_pass=self._workers.longest_pass,
                watches=self._watches,
                loop_lag=lambda: self._lag.worst,
                not_ready=self._not_ready,
                metrics=telemetry.render,
            ),
            config.port,
        )
        for kind in {informer.kind for informer in self._store.informers}:
            telemetry.watch_age(kind, partial(self._watch_age, kind))
        telemetry.watch_age(names.KIND, lambda: clock.monotonic() - self._watch.last_seen)

    async def run(self) -> None:
        """Wait for the CRD, then watch, and work while leading."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._lag.run())
            group.create_task(self._config_file.run(self._queue_everything, self._telemetry.config_read))
            await self._wait_for_crd()
            self._began = True
            group.create_task(self._store.run())
            group.create_task(self._watch.run())
            await self._elector.run(self._lead)

    async def _lead(self) -> None:
        await self._store.wait_synced()
        while True:
            try:
                version = await self._kube.server_version()
                await self._list_clusters()
                break
            except KubeError as error:
                log.warning("can't list the clusters", extra={"reason": str(error)})
                await asyncio.sleep(LIST_RETRY_SECONDS)
        self._settings = replace(self._settings, hpa_tolerance=version >= HPA_TOLERANCE_SINCE)
        self._queue.hasten()
        await self._workers.run()

    async def _list_clusters(self) -> None:
        """Know every cluster before the first pass, so that the agents' Role is complete from the start."""
        for namespace in self._namespaces:
            async for page in self._kube.pages(names.KIND, namespace=namespace):
                for cluster in page:
                    meta = cluster["metadata"]
                    self._cluster_event(meta["namespace"], meta["name"], meta["uid"], False)

    def _cluster_event(self, namespace: str, name: str, uid: str, gone: bool) -> None:
        if gone:
            self._directory.gone(namespace, name)
        else:
            self._directory.seen(namespace, name, uid)
        self._queue.add((namespace, name))

    def _queue_everything(self) -> None:
        for key in self._directory.everything():
            self._queue.add(key)

    async def _wait_for_crd(self) -> None:
        await wait_for_crd(self._kube, on_state=self._crd_state)

    def _crd_state(self, state: CrdState) -> None:
        self._crd = state
        self._telemetry.schema_outdated(bool(state.missing))

    def _not_ready(self) -> str:
        if self._crd.problem:
            return self._crd.problem
        return "" if self._store.synced else "the first list of the children isn't complete"

    def _watch_age(self, kind: str) -> float:
        """Of the oldest, where several namespaces are watched."""
        last = min(informer.last_seen for informer in self._store.informers if informer.kind == kind)
        return self._clock.monotonic() - last

    def _watches(self) -> Mapping[str, float]:
        if not self._began:
            return {}
        seen = {f"{i.kind} in {i.namespace or 'all namespaces'}": i.last_seen for i in self._store.informers}
        # Without the CRD nothing watches the clusters, and no restart would change that.
        return seen if self._crd.problem else {names.KIND: self._watch.last_seen, **seen}


@asynccontextmanager
async def _serving(server: ProbeServer, port: int) -> AsyncIterator[None]:
    try:
        await server.start()
    except OSError as error:
        raise StartError(f"can't listen on port {port}: {error}; choose another one with --port") from error
    try:
        yield
    finally:
        await server.stop()


async def _until(stop: asyncio.Event, work: Awaitable[None]) -> None:
    """Run until the work ends (and raise what it raised) or the signal comes (and stop it)."""
    task = asyncio.ensure_future(work)
    signalled = asyncio.ensure_future(stop.wait())
    await asyncio.wait({task, signalled}, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        signalled.cancel()
        task.result()
        return
    log.info("stopping")
    task.cancel()
    await asyncio.wait({task}, timeout=5.0)
