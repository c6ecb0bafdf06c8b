"""HTTP: /healthz (should the kubelet restart us?), /readyz (could we work?), /metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from aiohttp import web

from ..ports import Clock

#: A pass is some tens of requests of 10 s at most each; this long means that it hangs.
PASS_LIMIT: Final = 600.0
#: A watch that is silent for this long while another one is alive: bookmarks come every 60 s.
WATCH_LIMIT: Final = 300.0
#: All watches silent: an API outage, which a restart doesn't heal; it does heal a replaced cluster CA.
OUTAGE_LIMIT: Final = 1800.0
#: The loop is late by this much: something blocks it.
LAG_LIMIT: Final = 30.0
_LAG_EVERY: Final = 1.0


class LoopLag:
    """How late the event loop is, measured every second by a task."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.worst = 0.0

    async def run(self) -> None:
        """Measure until cancelled; `worst` decays, so that one hiccup isn't remembered for ever."""
        while True:
            before = self._clock.monotonic()
            await asyncio.sleep(_LAG_EVERY)
            late = self._clock.monotonic() - before - _LAG_EVERY
            self.worst = max(late, self.worst * 0.9)


class Probes:
    """The answers; all inputs are functions, read at each request."""

    def __init__(
        self,
        *,
        clock: Clock,
        longest_pass: Callable[[], float],
        watches: Callable[[], Mapping[str, float]],
        loop_lag: Callable[[], float],
        not_ready: Callable[[], str],
        metrics: Callable[[], bytes],
    ) -> None:
        """`watches`: monotonic time of the last sign of life by name. `not_ready`: why, "" = ready."""
        self._clock = clock
        self._longest_pass = longest_pass
        self._watches = watches
        self._loop_lag = loop_lag
        self._not_ready = not_ready
        self._metrics = metrics

    def unhealthy(self) -> str:
        """Why this process should be restarted; "" = it works."""
        busy = self._longest_pass()
        if busy > PASS_LIMIT:
            return f"a reconcile pass has been running for {busy:.0f} s"
        lag = self._loop_lag()
        if lag > LAG_LIMIT:
            return f"the event loop is {lag:.0f} s late"
        now = self._clock.monotonic()
        seen = self._watches()
        newest = max(seen.values(), default=now)
        for name, last in seen.items():
            if newest - last > WATCH_LIMIT:
                return f"the watch of {name} has been silent for {now - last:.0f} s while others are alive"
        if now - newest > OUTAGE_LIMIT:
            return f"no watch has heard from the API server for {now - newest:.0f} s"
        return ""

    def application(self) -> web.Application:
        """The routes."""
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._serve_metrics)
        return app

    async def _healthz(self, _: web.Request) -> web.Response:
        return _answer(self.unhealthy())

    async def _readyz(self, _: web.Request) -> web.Response:
        return _answer(self._not_ready())

    async def _serve_metrics(self, _: web.Request) -> web.Response:
        return web.Response(
            body=self._metrics(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        )


def _answer(problem: str) -> web.Response:
    return web.Response(text=problem or "ok", status=503 if problem else 200)


class ProbeServer:
    """Serves on all addresses of the pod."""

    def __init__(self, probes: Probes, port: int) -> None:
        self._probes = probes
        self._port = port
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Listen. Raises OSError when the port is taken."""
        self._runner = web.AppRunner(self._probes.application(), access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        await web.TCPSite(self._runner, port=self._port).start()

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()
