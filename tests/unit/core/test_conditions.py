"""The conditions of each situation (the rows of docs/reference/conditions.md)."""

from __future__ import annotations

import pytest

from inference_operator.api.conditions import ConditionType, Reason
from inference_operator.api.v1alpha1 import (
    ConditionStatus,
    InferenceClusterStatus,
)
from inference_operator.core.decide import decide
from inference_operator.core.model import Problem
from inference_operator.core.status import compute_status

from .builders import (
    NOW,
    engines_of,
    gateway,
    make_spec,
    observed,
    report,
    revision,
)
from .statuses import (
    DOWN,
    FIRST,
    HALF,
    LOST,
    NEVER_SEEN,
    NO_GATEWAY,
    PROBLEM,
    ROLLING,
    SERVED,
    SERVING,
    SETTLED,
    UNSYNCED,
    known,
    message,
    says,
    status,
)

# --- Ready ---


@pytest.mark.parametrize(
    ("got", "want"),
    [
        (status(SERVING), "True Serving"),
        (status(HALF), "True Scaling"),
        (status(HALF, before=SERVED), "True Degraded"),
        (status(HALF, before=LOST), "True Degraded"),
        (status(SERVING, n=5), "True Scaling"),
        (status(SERVING, n=5, before=SERVED), "True Scaling"),
        (status(*ROLLING, target="b"), "False Progressing"),
        (status(DOWN, before=FIRST), "False Progressing"),
        (status(n=0), "False Stopped"),
        (status(SERVING, problems=[PROBLEM]), "False Invalid"),
        (status(SERVING, foreign=["Service/llama-gateway"]), "False Invalid"),
        (status(DOWN), "False Progressing"),
        (status(DOWN, before=SERVED), "False Unavailable"),
        (status(SERVING, gates=NO_GATEWAY), "False Unavailable"),
        (status(SERVING, spec={"suspend": True}), "False Suspended"),
        (status(SERVING, gates=NEVER_SEEN), "Unknown NotObserved"),
    ],
)
def test_ready(got: InferenceClusterStatus, want: str) -> None:
    assert says(got, ConditionType.READY) == want


def test_ready_is_false_while_an_old_revision_still_has_engines() -> None:
    """Acceptance D4: old pods must not make a new generation look ready."""
    made = (revision("a", engines_of("a", 2), age=5000), revision("b", engines_of("b", 2), age=100))
    assert says(status(*made, target="b"), ConditionType.READY) == "False Progressing"


def test_a_rollout_that_waits_for_a_gateway_says_so() -> None:
    gates = gateway(report("g-0", a_0="UP", a_1="UP", b_0="UP"), report("g-1", a_0="UP", a_1="UP"))
    text = message(status(*ROLLING, target="b", gates=gates), ConditionType.READY)
    assert text == (
        "Revision b takes over from a: 1 of 2 engines ready (1 not yet UP at every gateway); "
        "revision a still has 2 ready"
    )


@pytest.mark.parametrize("n", [1, 2, 3, 9])
def test_a_change_of_replicas_alone_never_unsets_ready_nor_sets_reconciling(n: int) -> None:
    got = status(SERVING, n=n)
    assert says(got, ConditionType.READY).startswith("True")
    assert says(got, ConditionType.RECONCILING) == "False Settled"


# --- Available, GatewayReady ---


@pytest.mark.parametrize(
    ("got", "want"),
    [
        (status(SERVING), "True EnginesReady"),
        (status(*ROLLING, target="b"), "True EnginesReady"),
        (status(SERVING, problems=[PROBLEM]), "True EnginesReady"),
        (status(DOWN), "False NoEngine"),
        (status(SERVING, gates=NO_GATEWAY), "False NoGateway"),
        (status(n=0), "False Stopped"),
        (status(SERVING, gates=NEVER_SEEN), "Unknown NotObserved"),
        (status(SERVING, gates=gateway(report("g-0", a_0="DOWN", a_1="DOWN"))), "False NoEngine"),
        (status(SERVING, gates=gateway(report("g-0", a_0="UP", a_1="DOWN"))), "True EnginesReady"),
    ],
)
def test_available(got: InferenceClusterStatus, want: str) -> None:
    assert says(got, ConditionType.AVAILABLE) == want


ACCEPTED = known((ConditionType.GATEWAY_READY, ConditionStatus.TRUE, Reason.ACCEPTING))


@pytest.mark.parametrize(
    ("got", "want"),
    [
        (status(SERVING), "True Accepting"),
        (status(SERVING, gates=gateway()), "True Accepting"),
        (status(SERVING, gates=gateway(report("g-0"), report("g-1", ready=False))), "True Accepting"),
        (status(SERVING, gates=UNSYNCED), "False Starting"),
        (status(SERVING, gates=NO_GATEWAY), "False Starting"),
        (status(SERVING, gates=NO_GATEWAY, before=ACCEPTED), "False Unavailable"),
        (status(SERVING, gates=NEVER_SEEN), "Unknown NotObserved"),
    ],
)
def test_gateway_ready(got: InferenceClusterStatus, want: str) -> None:
    assert says(got, ConditionType.GATEWAY_READY) == want


def test_readiness_without_a_report_is_said_to_be_just_that() -> None:
    assert "none has reported yet" in message(status(SERVING, gates=gateway()), ConditionType.GATEWAY_READY)


# --- SpecValid, Planned ---


def test_all_problems_are_told_and_the_first_gives_the_reason() -> None:
    second = Problem("spec.engine.args[0]", Reason.ARGUMENT_UNKNOWN, "no such flag")
    got = status(SERVING, problems=[PROBLEM, second])
    assert says(got, ConditionType.SPEC_VALID) == "False UnknownModel"
    want = "spec.model.id: not in the catalogue; spec.engine.args[0]: no such flag"
    assert message(got, ConditionType.SPEC_VALID) == want
    assert says(got, ConditionType.PLANNED) == "False SpecInvalid"
    assert says(status(SERVING), ConditionType.SPEC_VALID) == "True Valid"


def test_a_taken_name_is_told_with_what_to_do() -> None:
    got = status(SERVING, foreign=["Service/llama-gateway"])
    assert says(got, ConditionType.SPEC_VALID) == "False NameTaken"
    assert "Service/llama-gateway exists" in message(got, ConditionType.SPEC_VALID)


def test_planned() -> None:
    assert says(status(SERVING), ConditionType.PLANNED) == "True Planned"
    assert says(status(SERVING, plan=None), ConditionType.PLANNED) == "Unknown NotObserved"


def test_a_spec_that_cannot_be_read_still_gets_a_whole_status() -> None:
    state = observed(SERVING, status=SETTLED)
    got = compute_status(None, state, None, plan=None, now=NOW, problems=[PROBLEM])
    assert says(got, ConditionType.READY) == "False Invalid"
    assert says(got, ConditionType.AVAILABLE) == "True EnginesReady"
    assert (got.replicas, got.ready_replicas) == (2, 2)


# --- a spec that never held ---


@pytest.mark.parametrize("readable", [True, False])
def test_of_a_new_cluster_with_an_invalid_spec_nothing_is_made_and_nothing_else_is_said(
    readable: bool,
) -> None:
    state = observed(status=FIRST, gateway=NEVER_SEEN)
    spec = make_spec(replicas=1) if readable else None
    decision = decide(spec, None, state, NOW) if spec else None
    got = compute_status(spec, state, decision, plan=None, now=NOW, problems=[PROBLEM])
    for kind in (
        ConditionType.AVAILABLE,
        ConditionType.GATEWAY_READY,
        ConditionType.CAPACITY_AVAILABLE,
        ConditionType.DEGRADED,
        ConditionType.FAILOVER_ACTIVE,
        ConditionType.UPDATE_AVAILABLE,
    ):
        assert says(got, kind) == "Unknown NotObserved"
        assert message(got, kind) == "Not made: the spec is invalid, see SpecValid"
    assert says(got, ConditionType.READY) == "False Invalid"
    assert says(got, ConditionType.RECONCILING) == "False FirstCreation"
    assert got.endpoint == ""


# --- UpdateAvailable ---


@pytest.mark.parametrize(
    ("rendering", "want"),
    [("d" * 16, "False UpToDate"), ("e" * 16, "True NewRendering"), (None, "Unknown NotObserved")],
)
def test_update_available(rendering: str | None, want: str) -> None:
    assert says(status(SERVING, rendering=rendering), ConditionType.UPDATE_AVAILABLE) == want
