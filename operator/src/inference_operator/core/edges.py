"""What differs between two statuses and is worth an Event: losses of engines, and conditions that turn.

The status written before is the memory: what stands in it has been told. So nothing is told twice, after a
restart of the operator neither, and what was seen by two gateways is told once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..api.conditions import ConditionType, Reason
from ..api.v1alpha1 import Condition, ConditionStatus, FailoverEvent, InferenceClusterStatus
from .model import Note
from .notes import HELD, condition
from .observe import timestamp

#: Two gateways see the same engine go down at nearly the same time: one event. Seconds.
_SAME_EVENT = 10.0


def edges(before: InferenceClusterStatus, after: InferenceClusterStatus) -> Iterator[Note]:
    """One Note per engine that went down or came back, and per condition that turned bad or good again."""
    yield from _engines(_failovers(before), _failovers(after))
    yield from _refusal(before, after)
    yield from _turns(before, after)


def same_event(event: FailoverEvent, other: FailoverEvent) -> bool:
    """Do both tell of the same loss (or return) of the same engine?"""
    if (event.kind, event.pod) != (other.kind, other.pod):
        return False
    return abs(timestamp(event.time) - timestamp(other.time)) <= _SAME_EVENT


def _failovers(status: InferenceClusterStatus) -> Sequence[FailoverEvent]:
    return status.failover.last_events if status.failover else ()


def _engines(before: Sequence[FailoverEvent], after: Sequence[FailoverEvent]) -> Iterator[Note]:
    told = [event for event in before if _complete(event)]
    for event in after:
        if not _complete(event) or any(same_event(event, other) for other in told):
            continue
        if event.kind == "EngineUp":
            yield Note("Normal", "EngineUp", f"Engine {event.pod} takes requests again, since {event.time}")
            continue
        detected = f" within {event.detection_ms} ms" if event.detection_ms is not None else ""
        yield Note(
            "Warning",
            "EngineDown",
            f"Engine {event.pod} was taken out of service{detected} at {event.time}; streams cut: "
            f"{event.streams_cut}",
        )


def _complete(event: FailoverEvent) -> bool:
    """A gateway counts the streams that a loss cut about a second after it."""
    return event.kind == "EngineUp" or event.streams_cut is not None


def _refusal(before: InferenceClusterStatus, after: InferenceClusterStatus) -> Iterator[Note]:
    """A spec that doesn't hold is told once per wording."""
    was, now = _pair(before, after, ConditionType.SPEC_VALID)
    if now.status is ConditionStatus.FALSE and (was is None or was.message != now.message):
        yield Note("Warning", now.reason, now.message)


def _turns(before: InferenceClusterStatus, after: InferenceClusterStatus) -> Iterator[Note]:
    was, now = _pair(before, after, ConditionType.STALLED)
    if _stalled(now) and not _stalled(was):
        yield Note("Warning", "Stalled", f"{now.reason}: {now.message}")
    elif was is not None and was.status is ConditionStatus.TRUE and now.status is ConditionStatus.FALSE:
        yield Note("Normal", "Resumed", f"{was.reason} is over. {now.message}")
    was, now = _pair(before, after, ConditionType.CAPACITY_AVAILABLE)
    if _short(now) and not _short(was):
        yield Note("Warning", now.reason, now.message)
    elif _short(was) and now.status is ConditionStatus.TRUE:
        yield Note("Normal", "CapacityAvailable", now.message)
    was, now = _pair(before, after, ConditionType.READY)
    if _unavailable(now) and not _unavailable(was):
        yield Note("Warning", "Unavailable", now.message)
    elif _unavailable(was) and now.status is ConditionStatus.TRUE:
        yield Note("Normal", "Serving", f"Serves again: {now.message}")
    was, now = _pair(before, after, ConditionType.WITHIN_BUDGET)
    if _over_budget(now) and not _over_budget(was):
        yield Note("Warning", "OverBudget", now.message)
    elif _over_budget(was) and now.status is ConditionStatus.TRUE:
        yield Note("Normal", "WithinBudget", now.message)


def _pair(
    before: InferenceClusterStatus, after: InferenceClusterStatus, kind: ConditionType
) -> tuple[Condition | None, Condition]:
    now = condition(after, kind)
    assert now is not None  # noqa: S101 - every status has every condition
    return condition(before, kind), now


def _stalled(found: Condition | None) -> bool:
    """A refused spec is told by its own Event."""
    true = found is not None and found.status is ConditionStatus.TRUE
    return true and found is not None and found.reason != Reason.SPEC_INVALID.value


def _short(found: Condition | None) -> bool:
    """A held rollout is told by its own Event."""
    if found is None or found.status is not ConditionStatus.FALSE:
        return False
    return not found.message.startswith(HELD)


def _over_budget(found: Condition | None) -> bool:
    return found is not None and found.status is ConditionStatus.FALSE


def _unavailable(found: Condition | None) -> bool:
    return found is not None and found.reason == Reason.UNAVAILABLE.value
