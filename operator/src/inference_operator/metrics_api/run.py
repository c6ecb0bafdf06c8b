"""Composition of the metrics API: what is made, what runs beside what, and how it ends."""

from __future__ import annotations

import asyncio
import logging
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aiohttp import web

from ..adapters.kube import KubeClient
from ..ports import KubeError
from .collector import Collector
from .frontproxy import FrontProxy
from .server import MetricsServer

log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 2.0
#: Requests that are being answered when SIGTERM comes. Seconds.
_GRACE_SECONDS: Final = 3.0
#: Until every kube-proxy has dropped this pod, the aggregator still asks it. Seconds.
_LINGER_SECONDS: Final = 5.0


@dataclass(frozen=True)
class Config:
    """What the command line gives."""

    #: Empty: all namespaces.
    namespaces: tuple[str, ...]
    #: None: the pod's ServiceAccount.
    kubeconfig: str | None
    certificate: Path
    key: Path
    port: int
    probe_port: int


class StartError(Exception):
    """It can't start: says why and what to do."""


async def run(config: Config) -> None:
    """Serve until SIGTERM or SIGINT. Raises StartError; any other error ends the process for a restart."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        client = await KubeClient.connect(kubeconfig=config.kubeconfig, field_manager="inference-metrics")
    except KubeError as error:
        raise StartError(str(error)) from error
    collector = Collector(client, namespaces=config.namespaces)
    front = FrontProxy(client, config.certificate, config.key)
    server = MetricsServer(collector, front)
    runners: list[web.AppRunner] = []
    tasks = {asyncio.create_task(collector.run()), asyncio.create_task(stop.wait())}
    try:
        runners.append(await _serve(server.probes(), config.probe_port))
        await _trust(front, stop)
        tasks.add(asyncio.create_task(front.run()))
        runners.append(await _serve(server.api(), config.port, front))
        log.info("serving", extra={"port": config.port})
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        log.info("stopping")
        await asyncio.sleep(_LINGER_SECONDS)
    finally:
        for runner in reversed(runners):
            await runner.cleanup()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await client.close()


async def _serve(application: web.Application, port: int, front: FrontProxy | None = None) -> web.AppRunner:
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=_GRACE_SECONDS)
    await runner.setup()
    try:
        await web.TCPSite(runner, port=port, ssl_context=front.context if front else None).start()
    except OSError as error:
        await runner.cleanup()
        raise StartError(f"can't listen on port {port}: {error}") from error
    return runner


async def _trust(front: FrontProxy, stop: asyncio.Event) -> None:
    """Wait for the API server's word on whom to trust."""
    while not stop.is_set():
        try:
            await front.start()
            return
        except OSError as error:
            raise StartError(f"can't read the serving certificate: {error}") from error
        except (KubeError, ValueError) as error:
            log.warning("can't read whom to trust", extra={"reason": str(error)})
        try:
            async with asyncio.timeout(_RETRY_SECONDS):
                await stop.wait()
        except TimeoutError:
            continue
