"""Spec, target revision and what exists -> what to do now. The only place where the parts come together.

Pure and level-triggered: the same observation gives the same decision, and applying a decision twice, in
part, or from a second process leads to the same end. What happened before is read from status and children
only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from ..api import defaults
from ..api.routing import Drain
from ..api.v1alpha1 import InferenceClusterSpec, RolloutStrategy
from .model import Decision, Observed, Revision
from .notes import notes
from .rollout import UNSCHEDULABLE_AFTER, Sizes, engines, shares, sizes
from .scaledown import Scaled, scale
from .scaling import total

#: How long after an EngineDown event a missing engine counts as a failover that is going on. Seconds.
FAILOVER_WINDOW = 300.0


def decide(
    spec: InferenceClusterSpec,
    target: str | None,
    observed: Observed,
    now: float,
    loads: Mapping[str, int] | None = None,
) -> Decision:
    """`target` is the revision that the spec asks for; None = the spec has no plan, so what is stable stays.

    `loads` are requests by engine pod. A decision that chose an engine to go without them is `blind`: it
    holds, and a better one can be had with them.
    Returns a decision without any size when there is neither a target nor anything stable.
    """
    stable = stable_revision(observed, target)
    target = target or stable
    if target is None:
        return Decision(stable=None, target=None)
    wanted_total = total(spec, observed)
    n = wanted_total.replicas
    olds = _removal_order(observed, target, stable)
    wanted = sizes(
        n,
        target,
        observed.revision(target),
        olds,
        observed.gateway,
        stable=stable,
        recreate=spec.rollout.strategy is RolloutStrategy.RECREATE,
        now=now,
    )
    timeout = defaults.seconds(spec.engine.drain_timeout or defaults.DRAIN_TIMEOUT)
    scaled = _scaled(wanted, observed, target, timeout, now, loads)
    taken_over = _taken_over(n, observed.revision(target), olds)
    if taken_over:
        stable = target
    retire = tuple(old.name for old in olds if old.name != stable and _gone(old))
    if taken_over:
        retire += tuple(name for name in observed.unrecorded if name != target)
    drains = tuple(drain for part in scaled.values() for drain in part.drains)
    kept = [revision for revision in observed.revisions if revision.name not in retire]
    decision = Decision(
        stable=stable,
        target=target,
        total=n,
        limited_by=wanted_total.limited_by,
        replicas={name: part.replicas for name, part in scaled.items() if name not in retire},
        shares=shares(n, target, kept, (drain.pod for drain in drains)),
        drains=drains,
        blind=loads is None and _chosen_blindly(observed, drains),
        cheapest=tuple(pod for part in scaled.values() for pod in part.cheapest),
        retire=retire,
        held=wanted.held,
        wake=min(_wakes(spec, observed, scaled, target, now), default=None),
    )
    rolling = stable != target or any(engines(old) for old in olds)
    return replace(decision, notes=tuple(notes(n, observed, decision, rolling=rolling)))


def stable_revision(observed: Observed, target: str | None) -> str | None:
    """What the status says, while it exists. A lost status is replaced by what serves most."""
    known = observed.status.revisions.stable if observed.status.revisions else None
    if observed.revision(known) is not None:
        return known
    best = max(observed.revisions, key=lambda r: (len(r.ready), engines(r), -r.created), default=None)
    return best.name if best is not None and engines(best) else target


def _removal_order(observed: Observed, target: str, stable: str | None) -> list[Revision]:
    """What came between stable and target goes first, the newest of it ahead; the stable revision last."""
    olds = [revision for revision in observed.revisions if revision.name != target]
    return sorted(olds, key=lambda revision: (revision.name == stable, -revision.created, revision.name))


def _chosen_blindly(observed: Observed, drains: Iterable[Drain]) -> bool:
    """Is an engine that serves newly chosen, where another one could have been?"""
    before = {drain.pod for drain in observed.gateway.drains}
    new = {drain.pod for drain in drains} - before
    return any(
        new & {pod.name for pod in revision.ready} and len(revision.ready) > 1
        for revision in observed.revisions
    )


def _scaled(
    wanted: Sizes,
    observed: Observed,
    target: str,
    timeout: float,
    now: float,
    loads: Mapping[str, int] | None,
) -> Mapping[str, Scaled]:
    scaled: dict[str, Scaled] = {}
    for name, count in wanted.want.items():
        revision = observed.revision(name)
        if revision is None:
            scaled[name] = Scaled(count)
        elif revision.replicas is not None or name == target:
            scaled[name] = scale(revision, count, observed.gateway, timeout, now, loads or {})
    return scaled


def _taken_over(n: int, target: Revision | None, olds: list[Revision]) -> bool:
    """Does the target alone serve?

    All N ready, or one less: nothing old is left that could be gone back to, so a last engine that waits for
    a node is a missing engine (Degraded), no rollout that still runs.
    """
    if any(engines(old) for old in olds):
        return False
    return n == 0 or (target is not None and len(target.ready) >= max(1, n - 1))


def _gone(revision: Revision) -> bool:
    """No engine left and none leaving, but for pods on lost nodes, which nobody can confirm."""
    leaving = (p for p in revision.pods if p.phase not in ("Failed", "Succeeded") and not p.node_lost)
    return not engines(revision) and not any(leaving)


def _wakes(
    spec: InferenceClusterSpec, observed: Observed, scaled: Mapping[str, Scaled], target: str, now: float
) -> Iterator[float]:
    """Seconds to each moment at which time alone changes a decision or the status."""
    yield from (part.wake for part in scaled.values() if part.wake is not None)
    load = defaults.seconds(spec.engine.load_timeout or defaults.LOAD_TIMEOUT)
    for revision in observed.revisions:
        for pod in revision.live:
            moments = [pod.created + UNSCHEDULABLE_AFTER] if pod.unschedulable else []
            if revision.name == target and not pod.ready and pod.loading_since is not None:
                moments.append(pod.loading_since + load)
            yield from (moment - now for moment in moments if moment > now)
    for report in observed.gateway.reports:
        for event in report.events:
            if event.kind == "EngineDown" and event.time + FAILOVER_WINDOW > now:
                yield event.time + FAILOVER_WINDOW - now
