"""Fewer engines of one revision without cutting a stream.

    choose -> drain at every gateway -> idle or the drain timeout -> mark as the first to go -> lower replicas

The ReplicaSet controller picks the pods that go: unassigned and not ready ones first, then the lowest
deletion cost, then the newest. So our choice follows the same order, and the replicas are lowered only when
every other engine is ready: else an engine that is restarting would go in place of the drained one, which
would stay drained (seen on a real API server: a drained pod with cost -100 survived and a busy one was
deleted).

Nothing is remembered: who drains since when stands in the routing document, who is marked on the pods, and
both are dropped as soon as the engine is wanted again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..api.routing import Drain
from .gateways import DRAIN_SETTLE, idle
from .model import Decision, EnginePod, GatewayObserved, Observed, Revision

#: Our value of controller.kubernetes.io/pod-deletion-cost. Unmarked pods count as 0.
FIRST_TO_GO = -1000


@dataclass(frozen=True)
class Scaled:
    """What one revision needs to get to its wanted size."""

    #: spec.replicas of its Deployment, now.
    replicas: int
    drains: tuple[Drain, ...] = ()
    #: Pods that may go, by name.
    cheapest: tuple[str, ...] = ()
    #: Seconds until a drain is over at the latest.
    wake: float | None = None


def scale(
    revision: Revision,
    want: int,
    gateway: GatewayObserved,
    drain_timeout: float,
    now: float,
    loads: Mapping[str, int],
) -> Scaled:
    """Up at once, down by draining. `want` is the size to get to, `drain_timeout` in seconds.

    `loads` are requests by pod, as far as they are known: of engines that serve, the least busy goes.
    """
    live = revision.live
    if revision.replicas is None or want >= len(live):
        # Replicas beyond the live pods exist on paper only (quota, admission): nothing to drain.
        return Scaled(want)
    since = {drain.pod: drain.since for drain in gateway.drains}
    victims = sorted(live, key=lambda pod: _order(pod, since, loads))[: len(live) - want]
    drains = tuple(Drain(pod=pod.name, since=since.get(pod.name, now)) for pod in victims)
    done = {
        drain.pod
        for drain, pod in zip(drains, victims, strict=True)
        if _drained(pod, drain, gateway, drain_timeout, now)
    }
    gone = [pod for pod in victims if pod.name in done and pod.deletion_cost == FIRST_TO_GO]
    if not _taken_first(gone, [pod for pod in live if pod not in victims]):
        gone = []
    # Never up again while pods are to go: an earlier lowering may not have reached the pods yet.
    replicas = max(want, min(revision.replicas, len(live) - len(gone)))
    waits = [wait for drain in drains if drain.pod not in done for wait in _waits(drain, drain_timeout, now)]
    return Scaled(
        replicas, drains, tuple(pod.name for pod in victims if pod.name in done), min(waits, default=None)
    )


def marks(observed: Observed, decision: Decision) -> Mapping[str, str | None]:
    """Deletion costs to write, by pod name: our value for those that are to go, None where it no longer
    applies.

    Costs that someone else set are left alone until their pod is to go.
    """
    changes: dict[str, str | None] = {}
    for revision in observed.revisions:
        for pod in revision.live:
            if pod.name in decision.cheapest:
                if pod.deletion_cost != FIRST_TO_GO:
                    changes[pod.name] = str(FIRST_TO_GO)
            elif pod.deletion_cost == FIRST_TO_GO:
                changes[pod.name] = None
    return changes


def _serves(pod: EnginePod) -> bool:
    return pod.ready and not pod.node_lost


def _order(
    pod: EnginePod, since: Mapping[str, float], loads: Mapping[str, int]
) -> tuple[bool, bool, float, int, float, str]:
    """First to go first: not ready, unassigned, longest drained, least busy, newest.

    A drain that has begun goes on, however busy the engine is: to change one's mind costs two engines.
    """
    serves = _serves(pod)
    drained = since.get(pod.name, float("inf")) if serves else 0.0
    return serves, bool(pod.node), drained, loads.get(pod.name, 0), -pod.created, pod.name


def _drained(pod: EnginePod, drain: Drain, gateway: GatewayObserved, timeout: float, now: float) -> bool:
    if not _serves(pod) or now >= drain.since + timeout:
        return True
    return now >= drain.since + DRAIN_SETTLE and idle(gateway, pod)


def _taken_first(gone: list[EnginePod], survivors: list[EnginePod]) -> bool:
    """Will the ReplicaSet controller take these, rather than engines that are to stay and serve?"""
    return all(pod.ready for pod in survivors) or not any(_serves(pod) for pod in gone)


def _waits(drain: Drain, timeout: float, now: float) -> Iterator[float]:
    """Seconds to the moments at which time alone changes something."""
    yield drain.since + timeout - now
    if now < drain.since + DRAIN_SETTLE:
        yield drain.since + DRAIN_SETTLE - now
