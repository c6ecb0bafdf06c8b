"""What is told when a status differs from the one before, and that nothing is told twice."""

from __future__ import annotations

import pytest

from inference_operator.api.routing import GatewayEvent, GatewayReport
from inference_operator.api.v1alpha1 import FailoverEvent, InferenceClusterStatus
from inference_operator.core.edges import edges, same_event
from inference_operator.core.status import rfc3339

from .builders import NOW, engine, engines_of, gateway, loading, report, revision, unschedulable
from .statuses import DOWN, FIRST, HALF, PROBLEM, SERVING, SETTLED, down, status, up

SERVES = status(SERVING)
CRASHING = revision(
    "a", [loading("a-0", restarts=3, last_exit="Error (1)", ended=NOW - 5, last_run=4.0)], replicas=1
)
WAITS = revision("a", [engine("a-0"), unschedulable("a-1")])


def told(before: InferenceClusterStatus, after: InferenceClusterStatus) -> list[tuple[str, str]]:
    return [(note.type, note.reason) for note in edges(before, after)]


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        (FIRST, status(before=FIRST), []),
        (FIRST, SERVES, []),
        (SERVES, status(SERVING, n=3, before=SERVES), []),
        (status(n=0), status(DOWN, before=status(n=0)), []),
        (SERVES, status(DOWN, before=SERVES), [("Warning", "Unavailable")]),
        (status(DOWN, before=SERVES), SERVES, [("Normal", "Serving")]),
        (SERVES, status(WAITS, before=SERVES), [("Warning", "Unschedulable")]),
        (status(WAITS), SERVES, [("Normal", "CapacityAvailable")]),
        (FIRST, status(CRASHING, n=1, before=FIRST), [("Warning", "Stalled")]),
        (status(CRASHING, n=1, before=FIRST), SERVES, [("Normal", "Resumed")]),
        (SERVES, status(SERVING, before=SERVES, problems=[PROBLEM]), [("Warning", "UnknownModel")]),
        (status(SERVING, problems=[PROBLEM]), SERVES, [("Normal", "Resumed")]),
    ],
    ids=[
        "created",
        "served at once",
        "scale-up",
        "start after a stop",
        "nobody serves",
        "serves again",
        "no GPU",
        "GPUs came free",
        "stalled",
        "no longer stalled",
        "refused",
        "corrected",
    ],
)
def test_a_condition_that_turns_is_told(
    before: InferenceClusterStatus, after: InferenceClusterStatus, want: list[tuple[str, str]]
) -> None:
    assert told(before, after) == want
    assert told(after, after) == [], "nothing is told twice, after a restart of the operator neither"


def test_a_held_rollout_is_told_by_its_own_event_alone() -> None:
    made = (revision("a", engines_of("a", 1), age=5000), revision("b", [unschedulable("b-0")], age=100))
    before = status(made[0], n=1)
    assert told(before, status(*made, n=1, target="b", before=before)) == []


def with_events(*reports: GatewayReport, before: InferenceClusterStatus = SERVES) -> InferenceClusterStatus:
    return status(SERVING, gates=gateway(*reports), before=before)


def seen(name: str, *events: GatewayEvent) -> GatewayReport:
    return report(name, events=events, a_0="UP", a_1="UP")


def test_a_loss_and_a_return_are_told_once_with_what_they_cost() -> None:
    lost = with_events(seen("g-0", down("a-1", 30)), seen("g-1"))
    notes = list(edges(SERVES, lost))
    assert [(note.type, note.reason) for note in notes] == [("Warning", "EngineDown")]
    want = f"Engine a-1 was taken out of service within 900 ms at {rfc3339(NOW - 30)}; streams cut: 3"
    assert notes[0].message == want

    both = with_events(seen("g-0", down("a-1", 30)), seen("g-1", down("a-1", 31)), before=lost)
    assert told(lost, both) == [], "the other gateway saw the same"

    back = with_events(seen("g-0", down("a-1", 30), up("a-1", 10)), before=both)
    assert told(both, back) == [("Normal", "EngineUp")]


def test_a_loss_is_told_when_its_cut_streams_are_counted() -> None:
    uncounted = down("a-1", 30).model_copy(update={"streams_cut": None})
    first = with_events(seen("g-0", uncounted), seen("g-1"))
    assert told(SERVES, first) == []
    counted = with_events(seen("g-0", down("a-1", 30)), seen("g-1"), before=first)
    assert told(first, counted) == [("Warning", "EngineDown")]
    assert counted.failover is not None
    assert [event.streams_cut for event in counted.failover.last_events] == [3]


def test_a_gateway_that_dies_before_it_counted_does_not_hide_the_loss() -> None:
    uncounted = down("a-1", 31).model_copy(update={"streams_cut": None})
    first = with_events(seen("g-0", uncounted))
    other = with_events(seen("g-1", down("a-1", 30)), before=first)
    assert told(first, other) == [("Warning", "EngineDown")]


@pytest.mark.parametrize("time", ["yesterday", "", "2026-13-01T00:00:00Z"])
def test_a_time_that_is_none_is_no_event_of_now(time: str) -> None:
    # model_construct: what the API server refuses today was stored by yesterday's CRD.
    odd = FailoverEvent.model_construct(time=time, kind="EngineDown", pod="a-1", gateway="g", streams_cut=1)
    fine = odd.model_copy(update={"time": rfc3339(NOW)})
    assert not same_event(odd, fine)
    assert same_event(odd, odd)
    assert not same_event(odd, odd.model_copy(update={"pod": "a-2"}))


def test_a_message_that_changes_is_no_edge() -> None:
    short = status(WAITS)
    shorter = status(revision("a", [unschedulable("a-0"), unschedulable("a-1")]), before=short)
    assert ("Warning", "Unschedulable") not in told(short, shorter)
    assert told(SETTLED, status(HALF)) == []
