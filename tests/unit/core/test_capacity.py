"""What keeps engines from being made or from getting a node, and who can help."""

from __future__ import annotations

from typing import Any

import pytest

from inference_operator.api.conditions import ConditionType
from inference_operator.api.v1alpha1 import (
    InferenceClusterStatus,
)
from inference_operator.core.model import Revision

from .builders import (
    engines_of,
    loading,
    make_plan,
    revision,
    unschedulable,
)
from .statuses import (
    FIRST,
    SERVED,
    message,
    says,
    status,
)

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


def test_what_an_earlier_revision_could_not_create_is_over_with_the_next_one() -> None:
    error = 'pods "a-" is forbidden: no PriorityClass with name nope was found'
    refused = revision("a", [], 2, age=5000, create_error=error)
    got = status(refused, revision("b", [loading("b-0"), loading("b-1")], 2, age=100), target="b")
    assert says(got, ConditionType.CAPACITY_AVAILABLE) == "True Scheduled"
    got = status(refused, revision("b", [], 2, age=100, create_error="exceeded quota"), target="b")
    assert says(got, ConditionType.CAPACITY_AVAILABLE) == "False QuotaExceeded"


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
