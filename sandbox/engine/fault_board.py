"""The faults in force in a running engine, and the control port that changes them."""

import asyncio
import dataclasses
import os
import sys
from collections.abc import Callable
from typing import Final

import orjson
from aiohttp import web

from sandbox.engine.core import EngineCore
from sandbox.engine.faults import LOAD_ONLY, FaultError, Faults, Share

# The API server's watchdog ends the process about 5 s after it lost the engine core (measured on 0.32.0).
DEATH_WATCH_SECONDS: Final = 5.0


class FaultBoard:
    """Applies faults at their time. `core` is attached once the engine has loaded."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        # Set with every change, for whoever waits during the load.
        self.changed = asyncio.Event()
        self._core: EngineCore | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self._errors = Share()
        self._cuts = Share()
        self._since = asyncio.get_running_loop().time()
        self._arm()

    def attach(self, core: EngineCore) -> None:
        """The engine is loaded: faults of the core act from now on."""
        self._core = core
        self._arm()

    def set(self, faults: Faults) -> None:
        """Replace the faults; all seconds count from now. Raises FaultError for one that comes too late."""
        late = [name for name in LOAD_ONLY if getattr(faults, name) != getattr(self.faults, name)]
        if self._core is not None and late:
            raise FaultError(
                f"{', '.join(late)} act only before the model is loaded: set INFERENCE_SIM_FAULTS"
            )
        self.faults = faults
        self._since = asyncio.get_running_loop().time()
        self._arm()
        self.changed.set()

    def clear(self) -> None:
        """Heal the engine; what acted at load stays on record, as it can't be undone."""
        kept = {} if self._core is None else {name: getattr(self.faults, name) for name in LOAD_ONLY}
        self.set(dataclasses.replace(Faults(), **kept))

    def fails_now(self) -> bool:
        """Whether this request is one of those that error_rate lets fail."""
        return self._errors.take(self.faults.error_rate)

    def cuts_now(self) -> int | None:
        """Tokens after which this stream is cut, or None."""
        return self.faults.truncate_after_tokens if self._cuts.take(self.faults.truncate_rate) else None

    def _arm(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        faults = self.faults
        self._after(faults.crash_after_seconds, lambda: _exit(1))
        self._after(faults.exit0_after_seconds, lambda: _exit(0))
        if self._core is None:
            return
        self._core.slow = faults.slow
        if faults.freeze_core_after_seconds is None:
            self._core.thaw()
        self._after(faults.freeze_core_after_seconds, self._core.freeze)
        self._after(faults.core_dead_after_seconds, self._kill_core)

    def _after(self, seconds: float | None, act: Callable[[], None]) -> None:
        if seconds is not None:
            self._timers.append(asyncio.get_running_loop().call_at(self._since + seconds, act))

    def _kill_core(self) -> None:
        if self._core is not None:
            self._core.kill()
            # Not among the timers: a dead core can't be healed by DELETE /faults.
            asyncio.get_running_loop().call_later(DEATH_WATCH_SECONDS, _exit, 1)


def _exit(code: int) -> None:
    # No clean-up of any kind: open connections end with the process, as after a segmentation fault.
    sys.stdout.flush()
    os._exit(code)


def control_app(board: FaultBoard) -> web.Application:
    """GET /faults shows, POST /faults adds, DELETE /faults clears; each answers with the faults in force."""

    def shown() -> web.Response:
        return web.Response(body=orjson.dumps(board.faults.active()), content_type="application/json")

    async def get(_: web.Request) -> web.Response:
        return shown()

    async def post(request: web.Request) -> web.Response:
        try:
            changes = orjson.loads(await request.read())
            if not isinstance(changes, dict):
                raise FaultError(f"the body must be a JSON object of faults, got {changes!r}")
            board.set(board.faults.merged(changes))
        except ValueError as error:
            body = orjson.dumps({"error": str(error)})
            return web.Response(body=body, status=400, content_type="application/json")
        return shown()

    async def delete(_: web.Request) -> web.Response:
        board.clear()
        return shown()

    app = web.Application()
    app.router.add_get("/faults", get)
    app.router.add_post("/faults", post)
    app.router.add_delete("/faults", delete)
    return app
