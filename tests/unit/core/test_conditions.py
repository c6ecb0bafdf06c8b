"""The conditions of each situation (the rows of docs/reference/conditions.md)."""

from __future__ import annotations

from typing import Any

import pytest

from inference_operator.api.conditions import ConditionType, Reason
from inference_operator.api.v1alpha1 import (
    ConditionStatus,
    InferenceClusterStatus,
)
from inference_operator.core.decide import decide
from inference_operator.core.model import GatewayObserved, Problem, Revision
from inference_operator.core.status import compute_status, rfc3339

from .builders import (
    NOW,
    engine,
    engines_of,
    gateway,
    loading,
    make_plan,
    make_spec,
    observed,
    report,
    revision,
    seen_by_both,
    unschedulable,
)
from .statuses import (
    DOWN,
    FIRST,
    HALF,
    NEVER_SEEN,
    NO_GATEWAY,
    PROBLEM,
    ROLLING,
    SERVING,
    SETTLED,
    UNSYNCED,
    down,
    known,
    message,
    says,
    status,
    up,
)

#: Two engines were ready when the status was written.
SERVED = SETTLED.model_copy(update={"ready_replicas": 2})
ONE = revision("a", engines_of("a", 1), age=5000)
LOST = known((ConditionType.DEGRADED, ConditionStatus.TRUE, Reason.ENGINES_MISSING))

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


# --- CapacityAvailable ---


def waiting(count: int, **changes: Any) -> Revision:
    return revision("a", [unschedulable(f"a-{i}", **changes) for i in range(count)], plan=make_plan(gpus=4))


def test_engines_without_gpus_are_counted_with_the_schedulers_own_words() -> None:
    got = status(waiting(2))
    assert says(got, ConditionType.CAPACITY_AVAILABLE) == "False Unschedulable"
    text = message(got, ConditionType.CAPACITY_AVAILABLE)
    assert text.startswith("2 engines can't be scheduled, 8 x nvidia.com/gpu (H100) missing: 0/3 nodes")


def test_a_moment_without_a_gpu_is_no_shortage() -> None:
    assert says(status(waiting(2, age=9)), ConditionType.CAPACITY_AVAILABLE) == "True Scheduled"


@pytest.mark.parametrize(
    ("error", "want"),
    [
        ('pods "x" is forbidden: exceeded quota: gpus', "False QuotaExceeded"),
        ('pods "x" is forbidden: violates PodSecurity', "False CreateFailed"),
    ],
)
def test_pods_that_cannot_be_created(error: str, want: str) -> None:
    got = status(revision("a", engines_of("a", 1), 2, create_error=error))
    assert says(got, ConditionType.CAPACITY_AVAILABLE) == want
    assert message(got, ConditionType.CAPACITY_AVAILABLE) == f"1 engine can't be created: {error}"


def test_an_old_create_error_of_a_revision_that_has_its_pods_is_over() -> None:
    got = status(revision("a", engines_of("a", 2), 2, create_error="exceeded quota"))
    assert says(got, ConditionType.CAPACITY_AVAILABLE) == "True Scheduled"


def test_a_held_rollout_says_so() -> None:
    made = (revision("a", engines_of("a", 1), age=5000), revision("b", [unschedulable("b-0")], age=100))
    got = status(*made, n=1, target="b")
    assert message(got, ConditionType.CAPACITY_AVAILABLE).startswith("Rollout held")
    assert message(got, ConditionType.READY).startswith("Rollout held")


NO_CLAIM = '0/3 nodes are available: persistentvolumeclaim "weights" not found.'
NO_PRIORITY = 'pods "a-" is forbidden: no PriorityClass with name inference was found'
NO_SECRET = {
    "waiting": "CreateContainerConfigError",
    "waiting_message": 'secret "hub" not found',
    "phase": "Pending",
}


@pytest.mark.parametrize(
    ("made", "stalled", "part"),
    [
        (revision("a", [], 2, create_error=NO_PRIORITY), "True MissingObject", "no PriorityClass"),
        (
            revision("a", [], 2, create_error='pods "a-" is forbidden: violates PodSecurity'),
            "True CreateFailed",
            "violates PodSecurity",
        ),
        (waiting(2, unschedulable=NO_CLAIM), "True MissingObject", "create the PersistentVolumeClaim"),
        (revision("a", [loading("a-0", **NO_SECRET)], 1), "True ContainerConfig", 'secret "hub" not found'),
        (waiting(2), "False NotStalled", "8 x nvidia.com/gpu (H100) missing"),
        (waiting(2, unschedulable="0/3 nodes: untolerated taint"), "False NotStalled", "untolerated taint"),
        (
            revision("a", [], 2, create_error='pods "a-" is forbidden: exceeded quota: gpus'),
            "False NotStalled",
            "exceeded quota",
        ),
        (
            revision("a", [], 2, create_error="is forbidden: error looking up service account ml/default"),
            "False NotStalled",
            "service account",
        ),
    ],
    ids=["priority class", "policy", "volume", "secret", "GPUs", "taint", "quota", "service account"],
)
@pytest.mark.parametrize("before", [FIRST, SERVED], ids=["first", "served"])
def test_what_keeps_a_cluster_without_any_engine_stands_in_ready_and_stalled(
    made: Revision, stalled: str, part: str, before: InferenceClusterStatus
) -> None:
    got = status(made, before=before)
    assert says(got, ConditionType.STALLED) == stalled
    assert part in message(got, ConditionType.STALLED)
    assert part in message(got, ConditionType.READY)


def test_a_missing_claim_is_no_missing_gpu_and_told_at_once_but_stalled_after_a_moment() -> None:
    got = status(waiting(2, unschedulable=NO_CLAIM, age=1), before=FIRST)
    assert says(got, ConditionType.CAPACITY_AVAILABLE) == "False Unschedulable"
    text = message(got, ConditionType.CAPACITY_AVAILABLE)
    assert text == f"2 engines can't be scheduled (needs 8 x nvidia.com/gpu (H100)): {NO_CLAIM}"
    assert says(got, ConditionType.STALLED) == "False NotStalled"


def test_engines_beyond_the_pool_stall_nothing_and_are_no_loss() -> None:
    made = revision("a", [*engines_of("a", 2), unschedulable("a-2")])
    got = status(made, n=3, before=SERVED)
    assert says(got, ConditionType.READY) == "True Scaling"
    assert says(got, ConditionType.STALLED) == "False NotStalled"
    assert "1 x nvidia.com/gpu (H100) missing" in message(got, ConditionType.STALLED)


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


# --- Degraded, FailoverActive ---


def test_degraded() -> None:
    assert says(status(SERVING), ConditionType.DEGRADED) == "False AllReady"
    assert says(status(n=0), ConditionType.DEGRADED) == "False AllReady"
    lost = status(HALF, before=SERVED)
    assert says(lost, ConditionType.DEGRADED) == "True EnginesMissing"
    assert message(lost, ConditionType.DEGRADED) == "1 of 2 engines ready (1 loading)"


@pytest.mark.parametrize(
    ("got", "want"),
    [
        (status(HALF, before=SERVED), "True EnginesMissing"),
        (status(HALF, before=status(HALF, before=SERVED)), "True EnginesMissing"),
        (status(revision("a", [engine("a-0"), loading("a-1", restarts=1)])), "True EnginesMissing"),
        (status(revision("a", [engine("a-0"), engine("a-1", node_lost=True)])), "True EnginesMissing"),
        (status(SERVING, gates=gateway(report("g-0", a_0="UP", a_1="DOWN"))), "True EnginesMissing"),
        (status(HALF), "False Scaling"),
        (status(SERVING, n=3, before=SERVED), "False Scaling"),
        (status(HALF, n=1, before=SERVED), "False AllReady"),
        (status(ONE, revision("b", [loading("b-0")], age=10), target="b", before=SERVED), "False RollingOut"),
        (status(SERVING, before=LOST), "False AllReady"),
    ],
    ids=[
        "fewer than before",
        "and a pass later",
        "restarted",
        "node lost",
        "down",
        "new",
        "scale-up",
        "scale-down",
        "exchanged",
        "all back",
    ],
)
def test_an_engine_that_is_merely_new_is_no_loss(got: InferenceClusterStatus, want: str) -> None:
    assert says(got, ConditionType.DEGRADED) == want


@pytest.mark.parametrize(
    ("revision_", "gates", "want"),
    [
        (SERVING, seen_by_both([SERVING]), "False NoFailover"),
        (SERVING, gateway(report("g-0", a_0="UP", a_1="DOWN")), "True EngineDown"),
        (HALF, gateway(report("g-0", events=[down("a-1", 100)], a_0="UP")), "True EngineDown"),
        (HALF, gateway(report("g-0", events=[down("a-1", 301)], a_0="UP")), "False NoFailover"),
        (HALF, gateway(report("g-0", events=[down("a-9", 100)], a_0="UP")), "False NoFailover"),
        (HALF, gateway(report("g-0", events=[down("a-1", 100), up("a-1", 90)])), "False NoFailover"),
        (HALF, gateway(report("g-0", events=[down("a-0", 100)], a_0="UP")), "False NoFailover"),
        (SERVING, gateway(report("g-0", events=[down("a-9", 5)], a_0="UP", a_1="UP")), "False NoFailover"),
        (SERVING, gateway(), "Unknown NotObserved"),
    ],
    ids=[
        "nothing lost",
        "down, still ready",
        "lost, not back",
        "long ago",
        "gone, its successor is a new engine",
        "was back since",
        "is back, another one is new",
        "replaced",
        "no report",
    ],
)
def test_failover_active(revision_: Revision, gates: GatewayObserved, want: str) -> None:
    assert says(status(revision_, gates=gates), ConditionType.FAILOVER_ACTIVE) == want


def test_an_engine_that_one_gateway_still_reaches_is_not_down() -> None:
    gates = gateway(report("g-0", a_0="UP", a_1="DOWN"), report("g-1", a_0="UP", a_1="UP"))
    got = status(SERVING, gates=gates)
    assert got.ready_replicas == 2
    assert says(got, ConditionType.FAILOVER_ACTIVE) == "False NoFailover"


def test_the_last_loss_is_told_with_what_became_of_it() -> None:
    def told(*revisions: Revision, pod: str = "a-1") -> str:
        gates = gateway(report("g-0", events=[down(pod, 400)], a_0="UP", a_1="UP"))
        return message(status(*revisions, gates=gates), ConditionType.FAILOVER_ACTIVE)

    at = rfc3339(NOW - 400)
    assert told(SERVING) == f"The last loss was a-1 at {at}: it is back"
    assert told(SERVING, pod="a-9") == f"The last loss was a-9 at {at}: it is gone, and replaced"
    assert told(HALF, pod="a-9") == f"The last loss was a-9 at {at}: it is gone"
    assert told(HALF) == f"The last loss was a-1 at {at}"
    assert "No gateway" in message(status(SERVING), ConditionType.FAILOVER_ACTIVE)


# --- UpdateAvailable ---


@pytest.mark.parametrize(
    ("rendering", "want"),
    [("d" * 16, "False UpToDate"), ("e" * 16, "True NewRendering"), (None, "Unknown NotObserved")],
)
def test_update_available(rendering: str | None, want: str) -> None:
    assert says(status(SERVING, rendering=rendering), ConditionType.UPDATE_AVAILABLE) == want


# --- Reconciling, Stalled ---


@pytest.mark.parametrize(
    ("got", "want"),
    [
        (status(before=FIRST), "True FirstCreation"),
        (status(DOWN, before=FIRST), "True FirstCreation"),
        (status(HALF, before=FIRST), "False Settled"),
        (status(DOWN), "False Settled"),
        (status(*ROLLING, target="b"), "True RollingOut"),
        (status(*ROLLING, target="a"), "True RollingOut"),
        (status(n=0, before=FIRST), "False FirstCreation"),
        (status(n=0), "False Settled"),
        (status(spec={"suspend": True}, before=FIRST), "False FirstCreation"),
        (status(*ROLLING, target="b", spec={"suspend": True}), "False Settled"),
        (status(*ROLLING, target="b", problems=[PROBLEM]), "False Settled"),
    ],
)
def test_reconciling(got: InferenceClusterStatus, want: str) -> None:
    assert says(got, ConditionType.RECONCILING) == want


def test_a_first_creation_goes_on_until_the_cluster_serves() -> None:
    creating = known((ConditionType.RECONCILING, ConditionStatus.TRUE, Reason.FIRST_CREATION))
    assert says(status(DOWN, before=creating), ConditionType.RECONCILING) == "True FirstCreation"
    without = status(SERVING, before=creating, gates=NO_GATEWAY)
    assert says(without, ConditionType.RECONCILING) == "True FirstCreation", "nobody can be served yet"
    assert says(without, ConditionType.READY) == "False Progressing"
    assert says(status(SERVING, before=creating), ConditionType.RECONCILING) == "False Settled"


CRASHING = {"restarts": 3, "last_exit": "OOMKilled (137)", "ended": NOW - 5, "last_run": 4.0}
UNMADE = {
    "waiting": "CreateContainerConfigError",
    "waiting_message": 'secret "hub" not found',
    "phase": "Pending",
}
PULLING = {"waiting": "ImagePullBackOff", "waiting_message": "manifest unknown", "phase": "Pending"}
SLOW = {"created": NOW - 1900, "loading_since": NOW - 1800}


@pytest.mark.parametrize(
    ("pod", "want", "part"),
    [
        (CRASHING, "True CrashLoop", "last exit OOMKilled (137)"),
        (PULLING, "True ImagePull", "manifest unknown"),
        (SLOW, "True LoadTimeout", "spec.engine.loadTimeout"),
        (UNMADE, "True ContainerConfig", 'secret "hub" not found'),
        ({**CRASHING, **SLOW}, "True CrashLoop", "last exit OOMKilled (137)"),
        ({**CRASHING, **SLOW, "last_run": 1800.0}, "True LoadTimeout", "list llama-8b at /v1/models"),
        ({**CRASHING, "restarts": 1}, "False NotStalled", ""),
        ({**CRASHING, "ended": NOW - 900}, "False NotStalled", ""),
        ({**SLOW, "loading_since": NOW - 1799}, "False NotStalled", ""),
        ({**SLOW, "loading_since": None}, "False NotStalled", ""),
    ],
    ids=[
        "crash loop",
        "image",
        "too slow",
        "secret",
        "crash loop for long",
        "ended by the startup probe",
        "one crash",
        "crashed before it was ready last",
        "nearly too slow",
        "has no node yet",
    ],
)
def test_a_first_creation_that_needs_a_person_is_stalled(pod: dict[str, Any], want: str, part: str) -> None:
    got = status(revision("a", [loading("a-0", **pod)]), n=1, before=FIRST)
    assert says(got, ConditionType.STALLED) == want
    assert part in message(got, ConditionType.STALLED)
    if want.startswith("True"):
        assert says(got, ConditionType.RECONCILING) == "False FirstCreation", "kstatus takes one of them"
        assert part in message(got, ConditionType.READY)


@pytest.mark.parametrize(
    "on_the_way",
    [
        {"revisions": [revision("a", [loading("a-0", **CRASHING)])]},
        {"revisions": [revision("a", [loading("a-0")])], "problems": [PROBLEM]},
        {"revisions": [], "n": 0},
    ],
    ids=["a failure", "a refused spec", "no replicas"],
)
def test_a_first_creation_stays_one_whatever_comes_on_the_way(on_the_way: dict[str, Any]) -> None:
    made = on_the_way.pop("revisions")
    first = status(*made, **{"n": 1, "before": FIRST, **on_the_way})
    again = status(revision("a", [loading("a-0")]), n=1, before=first)
    assert says(again, ConditionType.RECONCILING) == "True FirstCreation"
    failed = status(revision("a", [loading("a-0", **CRASHING)]), n=1, before=again)
    assert says(failed, ConditionType.STALLED) == "True CrashLoop"
    still = status(revision("a", [loading("a-0", **CRASHING)]), n=1, before=failed)
    assert says(still, ConditionType.STALLED) == "True CrashLoop"


def test_a_rollout_whose_target_fails_is_stalled_while_the_old_revision_serves() -> None:
    made = (revision("a", engines_of("a", 2), age=5000), revision("b", [loading("b-0", **CRASHING)], age=100))
    got = status(*made, target="b")
    assert says(got, ConditionType.STALLED) == "True CrashLoop"
    assert says(got, ConditionType.AVAILABLE) == "True EnginesReady"
    assert "b doesn't take over" in message(got, ConditionType.READY)


def test_a_crash_in_a_settled_cluster_is_degraded_and_not_stalled() -> None:
    got = status(revision("a", [engine("a-0"), loading("a-1", **CRASHING)]))
    assert says(got, ConditionType.STALLED) == "False NotStalled"
    assert "OOMKilled (137)" in message(got, ConditionType.DEGRADED)


@pytest.mark.parametrize(
    ("extra", "want"),
    [
        ({"problems": [PROBLEM]}, "True SpecInvalid"),
        ({"errors": ["Deployment llama-a: 403"]}, "True ApplyFailed"),
        ({}, "False NotStalled"),
    ],
)
def test_stalled(extra: dict[str, Any], want: str) -> None:
    assert says(status(SERVING, **extra), ConditionType.STALLED) == want
