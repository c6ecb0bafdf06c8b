"""Reconciling and Stalled: does it move, and if not, does it wait for a person?"""

from __future__ import annotations

from typing import Any

import pytest

from inference_operator.api.conditions import ConditionType, Reason
from inference_operator.api.v1alpha1 import (
    ConditionStatus,
    InferenceClusterStatus,
)

from .builders import (
    NOW,
    engine,
    engines_of,
    loading,
    revision,
)
from .statuses import (
    DOWN,
    FIRST,
    HALF,
    NO_GATEWAY,
    PROBLEM,
    ROLLING,
    SERVING,
    known,
    message,
    says,
    status,
)

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
