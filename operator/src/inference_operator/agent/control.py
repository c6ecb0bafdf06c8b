"""The control loop: what is wanted, what HAProxy has, and the difference, several times a second.

    inputs -> structure changed?  write the file, reload        (streams go on in the old worker)
           -> servers, limits, shares changed?  runtime commands, and the file follows
           -> monitor: dead servers, events

Level-triggered: a restart of the agent, of HAProxy or of one of its workers is just another difference.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from . import config, share, stat, sync, view, words
from .files import replace_later
from .haproxy import Command, CommandError, Haproxy, ReloadError, UnreachableError, Workers
from .inputs import Inputs
from .metrics import Metrics
from .model import Gateway, within
from .monitor import Monitor
from .peers import Peers
from .settings import Settings

log = logging.getLogger(__name__)

_CALM_SECONDS: Final = 0.5
#: While a server is down or a command failed.
_ALERT_SECONDS: Final = 0.2
_RETRY_REFUSED_SECONDS: Final = 60.0
_SHARE_SECONDS: Final = 1.0


@dataclass
class Status:
    """What the last tick found; read by the HTTP server and the reports."""

    #: The structure that HAProxy runs is the one that is wanted, or the last one that it accepted.
    in_force: bool = False
    reachable: bool = False
    #: Monotonic time of the end of the last tick that got through.
    ticked: float = 0.0
    tracks: tuple[view.TrackView, ...] = ()


class Control:
    """Owns HAProxy: nobody else sends it commands or writes its files."""

    def __init__(
        self,
        settings: Settings,
        inputs: Inputs,
        haproxy: Haproxy,
        monitor: Monitor,
        peers: Peers,
        metrics: Metrics,
    ) -> None:
        self._settings = settings
        self._inputs = inputs
        self._haproxy = haproxy
        self._monitor = monitor
        self._peers = peers
        self._metrics = metrics
        self._wake = asyncio.Event()
        self._structure: str | None = None
        self._refused: tuple[str, float] = ("", 0.0)
        self._gateway = Gateway()
        self._limits: tuple[float, Gateway, dict[str, int]] = (0.0, self._gateway, {})
        self._written: tuple[str, str] = ("", "")
        self.status = Status(ticked=time.monotonic())
        #: Set when this pod is on its way out: streams are still looked after, but nothing is reloaded, since
        #: that would start a worker behind the one that has just stopped listening.
        self.leaving = False

    def wake(self) -> None:
        """Look again now."""
        self._wake.set()

    async def run(self) -> None:
        """Tick until cancelled, or until HAProxy has gone while leaving."""
        while True:
            self._wake.clear()
            pause = _ALERT_SECONDS
            try:
                pause = await self._tick()
                self.status.reachable = True
            except UnreachableError as error:
                if self.leaving:
                    log.info("HAProxy has gone")
                    return
                if self.status.reachable:
                    log.warning("HAProxy is away", extra={"reason": str(error)})
                self.status.reachable = False
                self.status.ticked = time.monotonic()
            except Exception:
                # A defect of ours must not take the gateway with it: HAProxy serves on from what it has. If
                # the defect stays, /healthz sees that no pass gets through and the agent alone is restarted.
                log.exception("a pass failed, HAProxy goes on with what it has")
                pause = _CALM_SECONDS
            else:
                self.status.ticked = time.monotonic()
            try:
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _tick(self) -> float:
        workers = await self._haproxy.workers()
        if workers.current is None:
            return _ALERT_SECONDS
        if self._inputs.complete:
            workers = await self._bring_structure(workers)
        if workers.current is None or self._structure is None:
            return _ALERT_SECONDS
        snapshot = stat.parse(await self._haproxy.read(workers.current, *stat.COMMANDS))
        old = await self._old_workers(workers.old)
        self.status.tracks = view.tracks(self._gateway, snapshot, old.values())
        limits = self._current_limits()
        actions = self._monitor.tick(self._gateway, snapshot.servers, time.monotonic(), time.time())
        clean = await self._execute(
            workers.current,
            sync.close_sessions(actions.close)
            + sync.health(actions.eject, "down")
            + sync.health(actions.revive, "up")
            + sync.commands(self._gateway, snapshot, limits)
            + await self._shares(workers.current),
        )
        for pid, theirs in old.items():
            await self._look_after(pid, theirs, actions.dead)
        await self._write_files(limits)
        calm = clean and not any(server.dead for server in snapshot.servers)
        return _CALM_SECONDS if calm else _ALERT_SECONDS

    def _current_limits(self) -> dict[str, int]:
        """Once a second: a limit that follows every request would be a command per server and tick."""
        at, gateway, limits = self._limits
        now = time.monotonic()
        if gateway != self._gateway or now - at >= _SHARE_SECONDS:
            limits = share.limits(self._gateway, view.demand(self.status.tracks), self._peers.live())
            self._limits = (now, self._gateway, limits)
        return limits

    async def _bring_structure(self, workers: Workers) -> Workers:
        """Reload if another structure is wanted than runs; when it is refused, the old one goes on."""
        wanted = self._inputs.gateway(time.monotonic())
        structure = config.structure(wanted, self._settings)
        if structure == self._structure:
            self._gateway = wanted
            return workers
        self._gateway = within(self._gateway, wanted)
        text, since = self._refused
        again = text != structure or time.monotonic() - since > _RETRY_REFUSED_SECONDS
        if self.leaving or not again:
            return workers
        try:
            await self._reload(wanted, workers)
        except (ReloadError, words.RefusedError) as error:
            await self._restore_files()
            if text != structure:
                self._metrics.refused.inc()
                for cluster in self._inputs.clusters:
                    self._monitor.refused(cluster, time.time(), str(error))
            log.error("keeping the old configuration", extra={"reason": str(error)})
            self._refused = (structure, time.monotonic())
            # Without any accepted structure the bootstrap's one is in force: it answers 503 to everything.
            return workers
        self._structure, self._gateway, self._refused = structure, wanted, ("", 0.0)
        self.status.in_force = True
        self._metrics.reloads.inc()
        return await self._haproxy.workers()

    async def _reload(self, wanted: Gateway, workers: Workers) -> None:
        log.info("reloading HAProxy", extra={"pools": len(wanted.pools)})
        limits = share.limits(wanted, view.demand(self.status.tracks), self._peers.live())
        text, shares = config.file(wanted, self._settings, limits), config.shares(wanted)
        # Without their states, dead servers would be up in the new worker until its checks have failed.
        states = await self._haproxy.read(workers.current or 0, "show servers state")
        await replace_later(self._settings.server_state_file, states)
        await replace_later(self._settings.shares_file, shares)
        await replace_later(self._settings.config_file, text)
        try:
            await self._haproxy.reload()
        finally:
            # A later start of HAProxy must not believe states from now.
            await replace_later(self._settings.server_state_file, config.NO_STATES)
        self._written = (text, shares)

    async def _write_files(self, limits: dict[str, int]) -> None:
        """HAProxy must come back right from a crash, whatever was changed at run time since the reload."""
        text, shares = config.file(self._gateway, self._settings, limits), config.shares(self._gateway)
        if shares != self._written[1]:
            await replace_later(self._settings.shares_file, shares)
        if text != self._written[0]:
            await replace_later(self._settings.config_file, text)
        self._written = (text, shares)
        await self._inputs.save(self._settings.state_file)

    async def _restore_files(self) -> None:
        text, shares = self._written
        if text:
            await replace_later(self._settings.shares_file, shares)
            await replace_later(self._settings.config_file, text)

    async def _shares(self, pid: int) -> list[Command]:
        if not self._gateway.pools:
            return []
        name = str(self._settings.shares_file)
        actual = sync.parse_map(await self._haproxy.read(pid, f"show map {name}"))
        return sync.shares(self._gateway, actual, name)

    async def _old_workers(self, pids: Iterable[int]) -> dict[int, stat.Snapshot]:
        result = {}
        for pid in pids:
            # A worker that has just ended gives an answer without tables, or (3.2) none.
            with suppress(UnreachableError):
                result[pid] = stat.parse(await self._haproxy.read(pid, *stat.COMMANDS))
        return result

    async def _look_after(self, pid: int, old: stat.Snapshot, dead: frozenset[tuple[str, str]]) -> None:
        """An old worker checks nothing: the current one tells which of its streams are dead."""
        close = [server.key for server in old.servers if server.key in dead and server.current]
        if close:
            with suppress(UnreachableError):
                await self._execute(pid, sync.close_old(await self._haproxy.read(pid, "show sess"), close))

    async def _execute(self, pid: int, commands: list[Command]) -> bool:
        """False: at least one was refused; the next tick sees what is left to do."""
        clean = True
        for command in commands:
            try:
                await self._haproxy.execute(pid, command)
            except CommandError as error:
                clean = False
                self._metrics.command_errors.inc()
                log.warning("command refused", extra={"reason": str(error)})
        return clean
