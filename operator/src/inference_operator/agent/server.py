"""The agent's HTTP interface on port 9101: /readyz, /healthz, /metrics, /state, /demand."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Final

import orjson
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from . import view
from .control import Control
from .inputs import Inputs
from .metrics import Metrics
from .monitor import Monitor
from .settings import Settings
from .tokens import TokenWindow
from .view import TrackView

#: The control loop ticks every half second; a reload may take ten.
_STUCK_SECONDS: Final = 30.0
_CONNECT_SECONDS: Final = 0.5


class Server:
    """Answers from the last tick; nothing here changes anything."""

    def __init__(
        self,
        settings: Settings,
        inputs: Inputs,
        control: Control,
        monitor: Monitor,
        metrics: Metrics,
        watches_alive: Callable[[], bool],
        windows: Callable[[], Mapping[tuple[str, str], TokenWindow]],
    ) -> None:
        """`windows`: tokens of the last minutes by namespace and cluster."""
        self._settings = settings
        self._inputs = inputs
        self._control = control
        self._monitor = monitor
        self._metrics = metrics
        self._watches_alive = watches_alive
        self._windows = windows

    def application(self) -> web.Application:
        """Routes."""
        application = web.Application()
        application.add_routes(
            [
                web.get("/readyz", self._readyz),
                web.get("/healthz", self._healthz),
                web.get("/metrics", self._get_metrics),
                web.get("/state", self._state),
                web.get("/demand", self._demand),
            ]
        )
        return application

    @property
    def synced(self) -> bool:
        """Routing and endpoints of every cluster have reached HAProxy once."""
        return self._inputs.complete and self._control.status.in_force and self._control.status.reachable

    async def _readyz(self, request: web.Request) -> web.Response:
        if not self._inputs.complete:
            return _text("waiting for the routing documents and endpoints", 503)
        if not self.synced:
            return _text("HAProxy has not taken over the routing yet", 503)
        if not await _accepts(self._settings):
            return _text(f"HAProxy accepts no connections on port {self._settings.port}", 503)
        return _text("ok")

    async def _healthz(self, request: web.Request) -> web.Response:
        age = time.monotonic() - self._control.status.ticked
        if age > _STUCK_SECONDS:
            return _text(f"the control loop is stuck for {age:.0f} s", 503)
        if not self._watches_alive():
            return _text("a watch has ended", 503)
        return _text("ok")

    async def _get_metrics(self, request: web.Request) -> web.Response:
        body = generate_latest(self._metrics.registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _state(self, request: web.Request) -> web.Response:
        windows, now = self._windows(), time.monotonic()
        return _json(
            {
                "gateway": self._settings.pod,
                "ready": self.synced,
                "clusters": {
                    "/".join(cluster): {
                        "routing_digest": self._inputs.digest(cluster),
                        "tracks": [asdict(track) for track in self._tracks(cluster)],
                        "drains": self._drains(cluster),
                        # A cluster without a revision has just begun.
                        "tokens": windows.get(cluster, TokenWindow(now)).counted(now),
                        "events": [event.model_dump() for event in self._monitor.events(cluster)],
                    }
                    for cluster in self._inputs.clusters
                },
            }
        )

    async def _demand(self, request: web.Request) -> web.Response:
        clusters = {}
        for cluster in self._inputs.clusters:
            tracks = self._tracks(cluster)
            queued = sum(track.queued for track in tracks)
            in_flight = sum(track.in_flight for track in tracks)
            # Nothing is held before a track is drawn: without an engine the answer is 503 at once.
            clusters["/".join(cluster)] = {
                "held": 0,
                "queued": queued,
                "in_flight": in_flight,
                "demand": queued + in_flight,
                "concurrency": view.concurrency(tracks),
            }
        return _json({"gateway": self._settings.pod, "clusters": clusters})

    def _tracks(self, cluster: tuple[str, str]) -> list[TrackView]:
        return [t for t in self._control.status.tracks if (t.namespace, t.cluster) == cluster]

    def _drains(self, cluster: tuple[str, str]) -> list[str]:
        return [e.pod for track in self._tracks(cluster) for e in track.engines if e.state == "DRAIN"]


async def _accepts(settings: Settings) -> bool:
    """A connection as a client makes it. A full HAProxy still accepts: the kernel queues for it."""
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            _, writer = await asyncio.open_connection("127.0.0.1", settings.port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


def _text(text: str, status: int = 200) -> web.Response:
    return web.Response(text=text + "\n", status=status)


def _json(value: object) -> web.Response:
    return web.Response(body=orjson.dumps(value), content_type="application/json")
