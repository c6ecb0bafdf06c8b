"""When HAProxy finds a server dead: what to do about its streams, and what to tell people.

    UP -> DOWN                  event EngineDown
    DOWN and a check has failed
                                close its sessions: streams end, requests without a first byte are sent to
                                another server by HAProxy's first pass. Without that pass the sessions had to
                                be left alone for 0.6 s (measured: 2 to 10 requests lost); with it nothing was
                                lost in 28 runs on 2.6 and 3.2, and requests waited 1.2 s at most instead of 2
    DOWN by failed connections, and a check failed within the last 2 s
                                the same: HAProxy forgets the result of a check that ran when connections
                                took the server out; streams hung for 2.7 s until the next failed (tried)
    three requests fail in a row
                                out of the pool although the checks are fine, for 2, 4, … 30 s, unless half of
                                the pool is out already: what all engines answer alike is not their death. Its
                                streams may be fine: nothing is closed before a check fails too
    all DOWN, some by failed connections alone
                                those are put back: when the network itself failed for a moment, waiting for
                                two good checks each would only prolong it
    DOWN -> UP                  event EngineUp

Pure state machine: times come from the caller, actions and events go back to it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from ..api.routing import GatewayEvent
from .model import Gateway, Pool
from .stat import Admin, Server

Key = tuple[str, str]

#: Log lines of closed streams have arrived by then.
_COUNT_AFTER_SECONDS: Final = 0.5
#: A failed check or a cut stream older than this before DOWN belongs to something else.
_SIGN_SECONDS: Final = 2.0
_KEPT_EVENTS: Final = 10
_FAILURES: Final = 3
_HOLD_MAX_SECONDS: Final = 30.0
_FORGIVE_SECONDS: Final = 60.0


@dataclass(frozen=True)
class Actions:
    """Servers (backend, name) that need something now."""

    close: tuple[Key, ...] = ()
    #: Dead beyond doubt, with or without requests in the worker that was looked at.
    dead: frozenset[Key] = frozenset()
    #: Take out although the checks are fine, and put back what HAProxy took out.
    eject: tuple[Key, ...] = ()
    revive: tuple[Key, ...] = ()


@dataclass
class _Watch:
    """One server's troubles."""

    down_at: float | None = None
    #: The server was wanted for new requests and people were told that it is down.
    told: bool = False
    event: int | None = None
    closed_at: float | None = None
    #: Requests that failed since the last good one.
    failures: int = 0
    #: Times taken out for that, and how long it lasts although the checks are fine.
    ejections: int = 0
    held_until: float = 0.0
    #: Begin of the last check that failed, and of what else spoke against it: failed checks and requests.
    check_failed: float = -math.inf
    signs: deque[float] = field(default_factory=lambda: deque(maxlen=64))
    cuts: deque[float] = field(default_factory=lambda: deque(maxlen=4096))

    def doubtful(self, server: Server, now: float) -> bool:
        """Down by failed connections alone: nothing that a check has confirmed."""
        unchecked = server.checked == "HANA"
        return server.passive and not (unchecked and now - self.check_failed <= _SIGN_SECONDS)

    def bad(self, now: float) -> bool:
        """Its requests fail, or failed until a moment ago."""
        return self.failures >= _FAILURES or now < self.held_until

    def eject(self, now: float) -> None:
        """For 2, 4, … 30 s: an engine that fails for ever must not come back with every good check."""
        if self.failures < _FAILURES:
            return
        if now - self.held_until > _FORGIVE_SECONDS:
            self.ejections = 0
        self.ejections += 1
        self.failures = 0
        self.held_until = now + min(2.0**self.ejections, _HOLD_MAX_SECONDS)


class Monitor:
    """Follows all servers of all clusters through the ticks of the control loop."""

    def __init__(self) -> None:
        self._watches: dict[Key, _Watch] = {}
        self._serving: dict[Key, Pool] = {}
        self._events: dict[tuple[str, str], dict[int, GatewayEvent]] = {}
        self._sequence = 0

    def events(self, cluster: tuple[str, str]) -> tuple[GatewayEvent, ...]:
        """The last ten of a cluster, oldest first."""
        return tuple(self._events.get(cluster, {}).values())

    def check_failed(self, key: Key, at: float) -> None:
        """A check that began at monotonic time `at` failed."""
        watch = self._watch(key)
        watch.check_failed = at
        watch.signs.append(at)

    def stream_cut(self, key: Key, at: float) -> None:
        """A running stream of this server was cut."""
        self._watch(key).cuts.append(at)

    def request_ended(self, key: Key, failed: bool, at: float) -> bool:
        """A request on this server ended; True: it should be taken out now."""
        watch = self._watch(key)
        if not failed:
            watch.failures = 0
            return False
        watch.failures += 1
        watch.signs.append(at)
        return watch.failures >= _FAILURES

    def refused(self, cluster: tuple[str, str], wall: float, message: str) -> None:
        """A routing document or a configuration was refused; the old one stays in force."""
        self._emit(cluster, GatewayEvent(kind="ConfigRefused", time=wall, message=message[:500]))

    def tick(self, gateway: Gateway, servers: Iterable[Server], now: float, wall: float) -> Actions:
        """Look at the servers as they are at `now` (monotonic) and `wall` (since the epoch)."""
        rows = {server.key: server for server in servers}
        serving = {(pool.backend, engine.pod): pool for pool in gateway.pools for engine in pool.serving}
        pools = {pool.backend: pool for pool in gateway.pools}
        dead = []
        for key, server in rows.items():
            if self._follow(key, server, serving.get(key), now, wall):
                dead.append(key)
        self._left(pools, serving, now, wall)
        self._count(pools, rows, now)
        self._serving = serving
        for key in [key for key in self._watches if key not in rows and key not in serving]:
            watch = self._watches[key]
            if not watch.told or key[0] not in pools:
                del self._watches[key]
        eject, revive = self._passive(rows.values(), now)
        close = tuple(key for key in dead if rows[key].current)
        return Actions(close, frozenset(dead), eject, revive)

    def _passive(self, servers: Iterable[Server], now: float) -> tuple[tuple[Key, ...], tuple[Key, ...]]:
        """Servers to eject, at most half of each pool, and to revive when a pool has nothing else."""
        pools: dict[str, list[Server]] = {}
        for server in servers:
            if server.admin is Admin.READY:
                pools.setdefault(server.backend, []).append(server)
        eject: list[Key] = []
        revive: list[Key] = []
        for pool in pools.values():
            bad = [s.key for s in pool if not s.dead and self._watch(s.key).bad(now)]
            dead = sum(server.dead for server in pool)
            room = max(0, len(pool) // 2 - dead)
            eject += bad[:room]
            if dead == len(pool):
                revive += [s.key for s in pool if self._watch(s.key).doubtful(s, now)]
            for key in bad[:room]:
                self._watch(key).eject(now)
        return tuple(eject), tuple(revive)

    def _follow(self, key: Key, server: Server, pool: Pool | None, now: float, wall: float) -> bool:
        """Take in one server; True: it is dead beyond doubt, and its sessions are to be closed."""
        watch = self._watch(key)
        if not server.dead:
            if server.checked == "L7OK":
                watch.check_failed = -math.inf
            if now < watch.held_until:
                return False
            if watch.told and pool is not None:
                self._up(key, watch, pool, wall)
            if pool is not None or not watch.told:
                watch.down_at = watch.closed_at = None
            return False
        if watch.down_at is None:
            watch.down_at = now
        if pool is not None and server.admin is Admin.READY and not watch.told:
            self._down(key, watch, pool, wall, f"out of the pool, last check: {server.check or 'none'}")
        if watch.doubtful(server, now):
            return False
        watch.closed_at = watch.closed_at or now
        return True

    def _left(self, pools: dict[str, Pool], serving: dict[Key, Pool], now: float, wall: float) -> None:
        """Engines that took requests a moment ago and are no endpoints now, without having been drained."""
        for key, pool in self._serving.items():
            if key in serving or key[0] not in pools:
                continue
            watch = self._watch(key)
            draining = any(engine.pod == key[1] for engine in pools[key[0]].engines)
            if not draining and not watch.told:
                watch.down_at = watch.down_at or now
                self._down(key, watch, pool, wall, "no longer a ready endpoint in Kubernetes")

    def _count(self, pools: dict[str, Pool], rows: dict[Key, Server], now: float) -> None:
        """Complete the events of servers whose streams have ended by now."""
        for key, watch in self._watches.items():
            if watch.event is None or watch.down_at is None or key[0] not in pools:
                continue
            if key in rows and rows[key].dead and rows[key].current:
                continue
            if now - (watch.closed_at or watch.down_at) < _COUNT_AFTER_SECONDS:
                continue
            pool = pools[key[0]]
            events = self._events[pool.namespace, pool.cluster]
            if watch.event in events:
                cut = sum(at >= watch.down_at - _SIGN_SECONDS for at in watch.cuts)
                events[watch.event] = events[watch.event].model_copy(update={"streams_cut": cut})
            watch.event = None
            watch.cuts.clear()

    def _down(self, key: Key, watch: _Watch, pool: Pool, wall: float, message: str) -> None:
        assert watch.down_at is not None  # noqa: S101 - set by both callers
        signs = [at for at in watch.signs if 0 <= watch.down_at - at <= _SIGN_SECONDS]
        watch.told = True
        watch.event = self._emit(
            (pool.namespace, pool.cluster),
            GatewayEvent(
                kind="EngineDown",
                pod=key[1],
                revision=pool.track.revision,
                time=wall,
                detection_ms=round((watch.down_at - min(signs)) * 1000) if signs else None,
                message=message,
            ),
        )

    def _up(self, key: Key, watch: _Watch, pool: Pool, wall: float) -> None:
        watch.told = False
        watch.signs.clear()
        self._emit(
            (pool.namespace, pool.cluster),
            GatewayEvent(kind="EngineUp", pod=key[1], revision=pool.track.revision, time=wall),
        )

    def _emit(self, cluster: tuple[str, str], event: GatewayEvent) -> int:
        self._sequence += 1
        events = self._events.setdefault(cluster, {})
        events[self._sequence] = event
        while len(events) > _KEPT_EVENTS:
            del events[next(iter(events))]
        return self._sequence

    def _watch(self, key: Key) -> _Watch:
        return self._watches.setdefault(key, _Watch())
