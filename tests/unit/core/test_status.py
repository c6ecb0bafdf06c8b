"""The status as a whole: numbers, names, transition times and the last failovers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from inference_operator.api.conditions import MESSAGE_LIMIT, REASONS, ConditionType, Reason
from inference_operator.api.routing import Drain, GatewayEvent
from inference_operator.api.v1alpha1 import (
    FailoverEvent,
    FailoverStatus,
    InferenceClusterStatus,
    RevisionsStatus,
)
from inference_operator.core.decide import decide
from inference_operator.core.model import Observed, Problem, Revision
from inference_operator.core.status import compute_status, rfc3339

from .builders import (
    NOW,
    PLAN,
    engines_of,
    gateway,
    loading,
    make_spec,
    observed,
    report,
    revision,
    seen_by_both,
)
from .statuses import (
    FIRST,
    HALF,
    NEVER_SEEN,
    ROLLING,
    SERVING,
    SETTLED,
    down,
    message,
    status,
)

# --- the numbers ---


@pytest.mark.parametrize(
    ("revisions", "n", "target", "want"),
    [
        ([SERVING], 2, "a", (2, 2)),
        ([HALF], 2, "a", (2, 1)),
        ([revision("a", engines_of("a", 4))], 2, "a", (2, 2)),
        ([revision("a", engines_of("a", 2), 4)], 4, "a", (4, 2)),
        ([revision("a", engines_of("a", 2), 4, create_error="exceeded quota")], 4, "a", (2, 2)),
        ([SERVING, revision("b", engines_of("b", 1), age=10)], 2, "b", (2, 2)),
        ([revision("a", engines_of("a", 1)), revision("b", [loading("b-0")], age=10)], 2, "b", (2, 1)),
        ([], 2, "a", (0, 0)),
        ([SERVING], 0, "a", (0, 0)),
    ],
    ids=["all", "one loads", "two drain", "growing", "quota", "surge", "replaced", "none yet", "stopping"],
)
def test_replicas_are_those_of_the_wanted_total_that_exist(
    revisions: list[Revision], n: int, target: str, want: tuple[int, int]
) -> None:
    got = status(*revisions, n=n, target=target)
    assert (got.replicas, got.ready_replicas) == want


def test_while_suspended_the_numbers_are_what_runs() -> None:
    got = status(revision("a", engines_of("a", 3)), n=1, spec={"suspend": True})
    assert (got.replicas, got.ready_replicas) == (3, 3)
    assert message(got, ConditionType.AVAILABLE) == "3 engines can take requests"
    stopped = status(SERVING, n=0, spec={"suspend": True})
    assert stopped.ready_replicas == 2
    assert message(stopped, ConditionType.AVAILABLE) == "2 engines can take requests"


def test_there_is_no_endpoint_while_its_service_is_missing_or_somebody_elses() -> None:
    assert status(before=FIRST, gates=NEVER_SEEN).endpoint == ""
    assert status(SERVING, foreign=["Service/llama-gateway"]).endpoint == ""
    kept = SETTLED.model_copy(update={"endpoint": "http://llama-gateway.ml.svc:80/v1"})
    assert status(SERVING, before=kept, gates=NEVER_SEEN).endpoint == kept.endpoint


def test_a_drained_engine_is_not_counted_as_ready() -> None:
    drains = [Drain(pod="a-1", since=NOW)]
    assert status(SERVING, gates=seen_by_both([SERVING], drains)).ready_replicas == 1


def test_what_a_scaler_and_a_client_need_is_there_from_the_first_pass() -> None:
    got = status(before=FIRST)
    assert got.selector == "inferencecluster.io/cluster=llama,inferencecluster.io/component=engine"
    assert got.endpoint == "http://llama-gateway.ml.svc:80/v1"
    assert got.observed_generation == 3
    assert got.plan is not None
    assert (got.plan.model, got.plan.gpus, got.plan.max_concurrency) == (PLAN.model_id, 1, 64)


def test_the_plan_of_before_stays_when_none_was_made() -> None:
    before = replace_plan(status(SERVING))
    assert status(SERVING, plan=None, before=before).plan == before.plan


def replace_plan(given: InferenceClusterStatus) -> InferenceClusterStatus:
    return SETTLED.model_copy(update={"plan": given.plan})


def test_revisions_are_told() -> None:
    got = status(*ROLLING, target="b").revisions
    assert got == RevisionsStatus(stable="a", target="b", updated_replicas=1)


# --- the whole ---


def test_every_condition_is_set_on_every_pass_with_a_reason_of_its_table() -> None:
    for got in (status(before=FIRST), status(SERVING), status(SERVING, gates=NEVER_SEEN), status(n=0)):
        assert {c.type for c in got.conditions} == {kind.value for kind in ConditionType}
        for found in got.conditions:
            allowed = REASONS[ConditionType(found.type)][found.status.value]
            assert found.reason in {reason.value for reason in allowed}
            assert found.observed_generation == 3
            assert found.message


def test_a_transition_time_changes_on_a_flip_only() -> None:
    first = status(SERVING, before=FIRST)
    state: Observed = replace(observed(HALF, stable="a"), status=first)
    later = NOW + 100
    again = compute_status(
        make_spec(replicas=2), state, decide(make_spec(replicas=2), "a", state, later), plan=PLAN, now=later
    )
    times = {c.type: c.last_transition_time for c in again.conditions}
    assert times["Ready"] == rfc3339(NOW), "True before and after, though with another reason"
    assert times["Degraded"] == rfc3339(later)


def test_the_same_facts_later_give_the_same_status() -> None:
    first = status(SERVING)
    state = replace(observed(SERVING), status=first)
    spec = make_spec(replicas=2)
    later = compute_status(spec, state, decide(spec, "a", state, NOW + 500), plan=PLAN, now=NOW + 500)
    assert later == first


def test_a_long_message_is_cut_to_what_the_schema_allows() -> None:
    got = status(SERVING, problems=[Problem("spec", Reason.SCHEMA_VIOLATION, "x" * 3000)])
    assert len(message(got, ConditionType.SPEC_VALID)) == MESSAGE_LIMIT


# --- failover events ---


def failovers(*gates: Any, before: Sequence[FailoverEvent] = ()) -> list[FailoverEvent]:
    known_ = SETTLED.model_copy(update={"failover": FailoverStatus(last_events=list(before))})
    got = status(SERVING, gates=gateway(*gates), before=known_).failover
    return got.last_events if got else []


def test_two_gateways_that_see_one_engine_go_down_are_one_event() -> None:
    got = failovers(report("g-0", events=[down("a-9", 30)]), report("g-1", events=[down("a-9", 29)]))
    want = FailoverEvent(
        time=rfc3339(NOW - 30), kind="EngineDown", pod="a-9", gateway="g-0", detection_ms=900, streams_cut=3
    )
    assert got == [want]


def test_an_engine_that_goes_down_again_later_is_a_new_event() -> None:
    got = failovers(report("g-0", events=[down("a-9", 100), down("a-9", 30)]))
    assert [event.time for event in got] == [rfc3339(NOW - 100), rfc3339(NOW - 30)]


def test_events_outlive_the_gateway_that_reported_them_and_are_not_doubled() -> None:
    before = failovers(report("g-9", events=[down("a-9", 100)]))
    assert failovers(before=before) == before
    assert failovers(report("g-9", events=[down("a-9", 100)]), before=before) == before


def test_the_last_ten_are_kept() -> None:
    events = [down(f"a-{i:02}", 500 - 20 * i) for i in range(12)]
    got = failovers(report("g-0", events=events))
    assert [event.pod for event in got] == [f"a-{i:02}" for i in range(2, 12)]


def test_other_events_are_not_failovers() -> None:
    refused = GatewayEvent(kind="ConfigRefused", time=NOW, message="bad")
    assert failovers(report("g-0", events=[refused])) == []


@pytest.mark.parametrize(
    ("seconds", "want"),
    [
        (1_796_040_000.9, "2026-11-30T12:00:00Z"),
        (1e300, "9999-12-31T23:59:59Z"),
        (float("inf"), "9999-12-31T23:59:59Z"),
        (-1e300, "1970-01-01T00:00:00Z"),
        (float("nan"), "1970-01-01T00:00:00Z"),
    ],
)
def test_every_number_of_seconds_has_a_time(seconds: float, want: str) -> None:
    assert rfc3339(seconds) == want
