"""What the gateway should look like: frozen data, made from routing documents and EndpointSlices."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..api.routing import Routing, Track
from . import words


@dataclass(frozen=True)
class Engine:
    """One engine pod that is, or was just now, fit for requests."""

    pod: str
    address: str
    node: str
    #: No new requests; running ones go on.
    draining: bool = False


@dataclass(frozen=True)
class Pool:
    """One track (revision) of one cluster with its engines: a backend of HAProxy."""

    namespace: str
    cluster: str
    track: Track
    engines: tuple[Engine, ...]
    retries: int
    queue_length: int
    queue_timeout_seconds: float

    @property
    def backend(self) -> str:
        """Name of the backend in HAProxy."""
        return words.backend_name(self.namespace, self.cluster, self.track.revision)

    @property
    def serving(self) -> tuple[Engine, ...]:
        """Engines that take new requests."""
        return tuple(engine for engine in self.engines if not engine.draining)


@dataclass(frozen=True)
class Gateway:
    """Everything that one gateway pod serves."""

    pools: tuple[Pool, ...] = ()
    #: Longest drain time of any cluster.
    drain_timeout_seconds: float = 0.0
    #: (namespace, cluster) of every cluster, with and without tracks.
    clusters: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class ClusterInput:
    """What is known of one cluster: its routing document and the engines of each of its tracks."""

    routing: Routing
    #: Name of a track's headless Service -> its engines.
    engines: dict[str, tuple[Engine, ...]]
    #: Retries per revision, see `topology`.
    retries: dict[str, int]


def within(structure: Gateway, wanted: Gateway) -> Gateway:
    """As much of `wanted` as needs no reload: engines and shares of the backends of `structure`."""
    found = {pool.backend: pool for pool in wanted.pools}
    pools = []
    for pool in structure.pools:
        new = found.get(pool.backend)
        engines = new.engines if new else tuple(replace(e, draining=True) for e in pool.engines)
        track = pool.track.model_copy(update={"share": new.track.share if new else 0})
        pools.append(replace(pool, engines=engines, track=track))
    return replace(structure, pools=tuple(pools))


def check_routing(routing: Routing) -> None:
    """Refuse a routing document with a string that may not reach HAProxy. Raises words.RefusedError."""
    revisions = [track.revision for track in routing.tracks]
    if len(set(revisions)) != len(revisions):
        raise words.RefusedError("tracks[].revision: a revision is listed twice")
    for track in routing.tracks:
        words.backend_name(routing.namespace, routing.cluster, track.revision)
        words.label(track.service, "tracks[].service")
        words.path(track.health_path, "tracks[].health_path")


def gateway(inputs: dict[tuple[str, str], ClusterInput]) -> Gateway:
    """The gateway that these clusters ask for, in a stable order."""
    pools = []
    for key in sorted(inputs):
        cluster = inputs[key]
        drained = {drain.pod for drain in cluster.routing.drains}
        for track in sorted(cluster.routing.tracks, key=lambda t: t.revision):
            engines = tuple(
                replace(e, draining=e.draining or e.pod in drained)
                for e in cluster.engines.get(track.service, ())
            )
            pools.append(
                Pool(
                    namespace=cluster.routing.namespace,
                    cluster=cluster.routing.cluster,
                    track=track,
                    engines=engines,
                    retries=cluster.retries.get(track.revision, 1),
                    queue_length=cluster.routing.queue_length,
                    queue_timeout_seconds=cluster.routing.queue_timeout_seconds,
                )
            )
    timeouts = [cluster.routing.drain_timeout_seconds for cluster in inputs.values()]
    return Gateway(tuple(pools), max(timeouts, default=0.0), tuple(sorted(inputs)))
