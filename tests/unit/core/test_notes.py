"""What a move is called for people."""

from __future__ import annotations

import pytest

from inference_operator.core.decide import decide
from inference_operator.core.scaledown import FIRST_TO_GO

from .builders import NOW, engines_of, make_spec, observed, revision, seen_by_both, unschedulable


@pytest.mark.parametrize(
    ("running", "wanted", "pods"),
    [(4, 1, "a-3, a-2, a-1"), (30, 2, "28 engines (first: a-29)")],
    ids=["few", "many"],
)
def test_drained_engines_are_named_while_they_are_few(running: int, wanted: int, pods: str) -> None:
    made = revision("a", engines_of("a", running))
    notes = decide(make_spec(replicas=wanted), "a", observed(made, stable="a"), NOW).notes
    drained = [note.message for note in notes if note.reason == "Draining"]
    assert drained == [f"No new requests for {pods}: removed when idle"]


def test_a_scale_down_that_begins_with_engines_that_never_ran_says_so() -> None:
    waiting = [unschedulable(f"a-9{i}", deletion_cost=FIRST_TO_GO) for i in range(6)]
    serving = revision("a", engines_of("a", 24))
    made = revision("a", [*serving.pods, *waiting])
    state = observed(made, stable="a", gateway=seen_by_both([serving]))
    notes = decide(make_spec(replicas=2), "a", state, NOW).notes
    scaled = [note.message for note in notes if note.reason == "ScaledDown"]
    assert scaled == [
        "Scaling revision a from 30 to 24; 2 engines wanted: those that don't serve go first, 22 more once "
        "they are idle"
    ]
