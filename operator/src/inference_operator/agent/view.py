"""What the gateway looks like right now, over all of HAProxy's workers: pure, made anew at each tick."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..api.routing import EngineReport
from .model import Gateway, Pool
from .stat import Admin, Server, Snapshot


@dataclass(frozen=True)
class EngineView:
    """One engine of a track."""

    pod: str
    #: UP, DOWN, DRAIN; "" = wanted, but HAProxy doesn't have it yet.
    state: str
    in_flight: int
    #: Requests that wait for this very engine.
    queued: int
    maxconn: int


@dataclass(frozen=True)
class TrackView:
    """One track of a cluster."""

    namespace: str
    cluster: str
    revision: str
    share: int
    retries: int
    #: Requests that one engine works on at once within the SLO.
    concurrency: int
    queued: int
    #: Requests on engines, those that are no endpoints any more included.
    in_flight: int
    engines: tuple[EngineView, ...]

    @property
    def demand(self) -> int:
        """Requests that wait or run here."""
        return self.queued + self.in_flight


def tracks(gateway: Gateway, current: Snapshot, old: Iterable[Snapshot]) -> tuple[TrackView, ...]:
    """Join what is wanted with what the workers say. `old`: workers that finish their streams."""
    workers = [current, *old]
    servers = {server.key: server for server in current.servers}
    return tuple(_track(pool, servers, workers) for pool in gateway.pools)


def demand(views: Iterable[TrackView]) -> dict[str, int]:
    """`namespace/cluster` -> requests that wait or run here."""
    result: dict[str, int] = {}
    for view in views:
        name = f"{view.namespace}/{view.cluster}"
        result[name] = result.get(name, 0) + view.demand
    return result


def concurrency(views: Sequence[TrackView]) -> int:
    """Requests that one engine of a cluster works on at once: of its tracks, by their share of the traffic.

    0 = no routing yet. Without any share (no engine yet) the smallest: rather a replica too many.
    """
    total = sum(view.share for view in views)
    if not total:
        return min((view.concurrency for view in views), default=0)
    return max(1, sum(view.share * view.concurrency for view in views) // total)


def reports(views: Iterable[TrackView]) -> tuple[EngineReport, ...]:
    """The slow facts of these tracks. An engine that HAProxy doesn't have yet is left out."""
    return tuple(
        EngineReport(
            pod=engine.pod,
            revision=view.revision,
            state=engine.state,
            idle=engine.state == "DRAIN" and engine.in_flight + engine.queued == 0,
        )
        for view in views
        for engine in view.engines
        if engine.state
    )


def _track(pool: Pool, servers: dict[tuple[str, str], Server], workers: list[Snapshot]) -> TrackView:
    load: Counter[str] = Counter()
    waiting: Counter[str] = Counter()
    for worker in workers:
        for server in worker.servers:
            if server.backend == pool.backend:
                load[server.name] += server.current
                waiting[server.name] += server.queued
    # An old worker can't be told of drains: what waits in it may still go to any engine.
    undirected = sum(worker.queued.get(pool.backend, 0) for worker in workers[1:])
    engines = []
    for engine in pool.engines:
        found = servers.get((pool.backend, engine.pod))
        engines.append(
            EngineView(
                pod=engine.pod,
                state=_state(engine.draining, found),
                in_flight=load[engine.pod],
                queued=waiting[engine.pod] + (undirected if engine.draining else 0),
                maxconn=found.maxconn if found else 0,
            )
        )
    return TrackView(
        namespace=pool.namespace,
        cluster=pool.cluster,
        revision=pool.track.revision,
        share=pool.track.share,
        retries=pool.retries,
        concurrency=pool.track.concurrency,
        queued=waiting.total() + sum(worker.queued.get(pool.backend, 0) for worker in workers),
        in_flight=load.total(),
        engines=tuple(engines),
    )


def _state(draining: bool, server: Server | None) -> str:
    if draining:
        # Only once HAProxy knows: until then a new request may still go there.
        return "DRAIN" if server is None or server.admin is not Admin.READY else "UP"
    if server is None:
        return ""
    return "UP" if not server.dead and server.admin is Admin.READY else "DOWN"
