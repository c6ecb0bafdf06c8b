"""Moves worth an Event: what a decision changes against what was observed. The same state again gives
none."""

from __future__ import annotations

from collections.abc import Iterator

from ..api.conditions import ConditionType, Reason
from ..api.v1alpha1 import Condition, ConditionStatus, InferenceClusterStatus
from .diagnosis import some
from .model import Decision, Note, Observed
from .rollout import engines

#: How a held rollout's message begins, in CapacityAvailable and in the Event.
HELD = "Rollout held"
#: Pods that an Event names.
_NAMED = 3


def notes(n: int, observed: Observed, decision: Decision, *, rolling: bool) -> Iterator[Note]:
    """`n` is the wanted total; `rolling`: more than one revision has engines, or is about to."""
    yield from _began(n, observed, decision)
    yield from _sizes(n, observed, decision, rolling=rolling)
    yield from _drains(observed, decision)
    if decision.held and not _was_held(observed.status):
        yield Note("Warning", "RolloutHeld", decision.held)
    if _was_rolling(observed.status) and not rolling and decision.stable == decision.target:
        yield Note("Normal", "RolloutDone", f"Revision {decision.target} alone serves now")


def condition(status: InferenceClusterStatus, kind: ConditionType) -> Condition | None:
    """A condition as it was written last."""
    return next((c for c in status.conditions if c.type == kind.value), None)


def _was_held(status: InferenceClusterStatus) -> bool:
    before = condition(status, ConditionType.CAPACITY_AVAILABLE)
    return before is not None and before.message.startswith(HELD)


def _was_rolling(status: InferenceClusterStatus) -> bool:
    before = condition(status, ConditionType.RECONCILING)
    if before is None or before.status is not ConditionStatus.TRUE:
        return False
    known = status.revisions
    return before.reason == Reason.ROLLING_OUT.value or (known is not None and known.stable != known.target)


def _began(n: int, observed: Observed, decision: Decision) -> Iterator[Note]:
    known = observed.status.revisions.target if observed.status.revisions else None
    target = decision.target
    if not observed.revisions:
        yield Note("Normal", "Created", f"Creating revision {target} with {some(n)}")
    elif known is not None and known != target:
        way = "Going back to stable" if target == decision.stable else "Rolling out"
        yield Note("Normal", "RolloutStarted", f"{way} revision {target}; before, {known} was wanted")


def _sizes(n: int, observed: Observed, decision: Decision, *, rolling: bool) -> Iterator[Note]:
    moves = [
        (revision, revision.replicas, decision.replicas[revision.name])
        for revision in observed.revisions
        if revision.replicas is not None
        and decision.replicas.get(revision.name) not in (None, revision.replicas)
    ]
    new = {name: count for name, count in decision.replicas.items() if observed.revision(name) is None}
    if not moves and not (rolling and new):
        return
    before = sum(engines(revision) for revision in observed.revisions)
    after = sum(decision.replicas.values())
    text = ", ".join(
        [f"{revision.name} from {old} to {wanted}" for revision, old, wanted in moves]
        + [f"{name} to {count}" for name, count in sorted(new.items())]
    )
    if after == 0 and before > 0 and n == 0:
        yield Note("Normal", "Stopped", "All engines are drained and gone, since spec.replicas is 0")
    elif rolling and n > 0:
        yield Note("Normal", "RolloutStep", f"Scaling revision {text}; {some(n)} wanted")
    elif after > sum(old for _, old, _ in moves):
        yield Note("Normal", "ScaledUp", f"Scaling revision {text}; {some(n)} wanted")
    else:
        later = f": those that don't serve go first, {after - n} more once they are idle" if after > n else ""
        yield Note("Normal", "ScaledDown", f"Scaling revision {text}; {some(n)} wanted{later}")


def _drains(observed: Observed, decision: Decision) -> Iterator[Note]:
    before = {drain.pod for drain in observed.gateway.drains}
    new = [drain.pod for drain in decision.drains if drain.pod not in before]
    if new:
        pods = ", ".join(new) if len(new) <= _NAMED else f"{len(new)} engines (first: {new[0]})"
        yield Note("Normal", "Draining", f"No new requests for {pods}: removed when idle")
