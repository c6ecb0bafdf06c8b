"""ScalingActive and status.scaling: what people see of the autoscaler."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from inference_operator.api.conditions import ConditionType
from inference_operator.api.v1alpha1 import InferenceClusterStatus, ScalingDecision, ScalingStatus
from inference_operator.core.decide import decide
from inference_operator.core.model import MetricsApi, ScalerObserved, ScalingObserved
from inference_operator.core.observe_scaling import observe_scaling
from inference_operator.core.status import compute_status

from .builders import NOW, PLAN, engines_of, make_spec, observed, revision
from .statuses import PROBLEM, SETTLED, message, says

OURS = MetricsApi("inference-system/metrics", ours=True, available=True)
FOLLOWS = ScalerObserved(desired=2, active=True)
BROKEN = ScalerObserved(desired=2, active=False, reason="FailedGetObjectMetric")


def status(
    scaling: ScalingObserved,
    *,
    n: int = 2,
    mode: str = "Automatic",
    before: InferenceClusterStatus = SETTLED,
    suspend: bool = False,
    **extra: Any,
) -> InferenceClusterStatus:
    state = replace(observed(revision("a", engines_of("a", 2)), status=before), scaling=scaling)
    spec = make_spec(replicas=n, suspend=suspend, autoscaling={"mode": mode})
    decision = None if suspend else decide(spec, "a", state, NOW)
    return compute_status(spec, state, decision, **{"plan": PLAN, "now": NOW, **extra})


@pytest.mark.parametrize(
    ("got", "want", "words"),
    [
        (status(ScalingObserved(FOLLOWS, api=OURS)), "True FollowsDemand", "between 1 and 4"),
        (status(ScalingObserved(FOLLOWS, api=OURS), n=9), "True FollowsDemand", "9 is above maxReplicas"),
        (status(ScalingObserved(BROKEN, api=OURS)), "False MetricsUnavailable", "FailedGetObjectMetric"),
        (
            status(ScalingObserved(replace(FOLLOWS, at_maximum=True), api=OURS), n=4),
            "True FollowsDemand",
            "raise spec.autoscaling.maxReplicas",
        ),
        (status(ScalingObserved(api=OURS)), "Unknown NotObserved", "hasn't looked"),
        (status(ScalingObserved(ScalerObserved(), api=OURS)), "Unknown NotObserved", "hasn't looked"),
        (
            status(ScalingObserved(FOLLOWS, api=replace(OURS, available=False))),
            "False MetricsUnavailable",
            "inference-system/metrics",
        ),
        (status(ScalingObserved()), "False MetricsUnavailable", "metricsApi.enabled"),
        (
            status(ScalingObserved(api=MetricsApi("monitoring/adapter", False, True))),
            "False Conflict",
            "monitoring/adapter",
        ),
        (
            status(ScalingObserved(rivals=("HorizontalPodAutoscaler mine",), api=OURS)),
            "False Conflict",
            "HorizontalPodAutoscaler mine",
        ),
        (status(ScalingObserved(api=OURS), mode="Disabled"), "False Disabled", "mode is Disabled"),
        (status(ScalingObserved(api=OURS), n=0), "False Stopped", "spec.replicas is 0"),
        (status(ScalingObserved(api=OURS), suspend=True), "Unknown NotObserved", "suspend"),
        (status(ScalingObserved(api=OURS), problems=[PROBLEM]), "Unknown NotObserved", "SpecValid"),
    ],
)
def test_scaling_active(got: InferenceClusterStatus, want: str, words: str) -> None:
    assert says(got, ConditionType.SCALING_ACTIVE) == want
    assert words in message(got, ConditionType.SCALING_ACTIVE)
    assert says(got, ConditionType.READY) == ("False Stopped" if n_is_zero(got) else ready_of(got))


def n_is_zero(got: InferenceClusterStatus) -> bool:
    return says(got, ConditionType.AVAILABLE) == "False Stopped"


def ready_of(got: InferenceClusterStatus) -> str:
    """No state of scaling is part of Ready."""
    if says(got, ConditionType.SPEC_VALID).startswith("False"):
        return "False Invalid"
    if "suspend" in message(got, ConditionType.SCALING_ACTIVE):
        return "False Suspended"
    return "True Scaling" if "maxReplicas" in message(got, ConditionType.SCALING_ACTIVE) else "True Serving"


# --- status.scaling ---


def test_a_first_total_is_no_decision() -> None:
    assert status(ScalingObserved(FOLLOWS, api=OURS)).scaling == ScalingStatus(target=2)


def test_a_change_is_kept_with_who_made_it() -> None:
    before = SETTLED.model_copy(update={"scaling": ScalingStatus(target=2)})
    scaling = ScalingObserved(FOLLOWS, api=OURS, replicas_by="kube-controller-manager")
    got = status(scaling, n=3, before=before).scaling
    assert got is not None
    assert got.target == 3
    assert got.last_decisions == [
        ScalingDecision(
            time="2027-01-15T08:00:00Z",
            from_=2,
            to=3,
            by="kube-controller-manager",
            reason="the HorizontalPodAutoscaler set spec.replicas",
        )
    ]


def test_an_autoscaler_that_is_at_its_maximum_is_told() -> None:
    got = status(ScalingObserved(replace(FOLLOWS, desired=4, at_maximum=True), api=OURS), n=4)
    assert got.scaling is not None
    assert got.scaling.limited_by == "maxReplicas"
    assert "raise spec.autoscaling.maxReplicas" in message(got, ConditionType.SCALING_ACTIVE)


def test_before_the_first_gateway_accepts_a_missing_figure_is_no_alarm() -> None:
    got = status(ScalingObserved(BROKEN, api=OURS), before=InferenceClusterStatus(), n=9)
    assert says(got, ConditionType.SCALING_ACTIVE) == "Unknown NotObserved"


def test_who_isnt_recorded_is_known_by_what_the_autoscaler_wants() -> None:
    """After replicas: 0 the API server records no manager of a scale write (seen on 1.37)."""
    before = SETTLED.model_copy(update={"scaling": ScalingStatus(target=1)})
    for desired, by in ((2, "kube-controller-manager"), (3, "")):
        got = status(ScalingObserved(replace(FOLLOWS, desired=desired), api=OURS), n=2, before=before)
        assert got.scaling is not None
        assert got.scaling.last_decisions[-1].by == by


def test_ten_changes_are_kept_and_the_same_total_adds_none() -> None:
    ten = [ScalingDecision(time="2026-01-01T00:00:00Z", from_=i, to=i + 1, reason="x") for i in range(10)]
    before = SETTLED.model_copy(update={"scaling": ScalingStatus(target=2, last_decisions=ten)})
    same = status(ScalingObserved(FOLLOWS, api=OURS), before=before).scaling
    assert same is not None and same.last_decisions == ten
    fell = ScalingObserved(replace(FOLLOWS, desired=1), api=OURS)
    more = status(fell, n=1, before=before).scaling
    assert more is not None
    assert len(more.last_decisions) == 10
    assert more.last_decisions[-1].to == 1


def test_what_is_not_followed_is_told() -> None:
    before = SETTLED.model_copy(update={"scaling": ScalingStatus(target=4)})
    got = status(ScalingObserved(replace(FOLLOWS, desired=4), api=OURS), n=1, before=before)
    assert got.scaling is not None
    assert (got.scaling.target, got.scaling.limited_by) == (4, "Autoscaler")
    assert "4 are kept" in message(got, ConditionType.SCALING_ACTIVE)


# --- observing ---


def hpa(name: str, owner: str = "", **status: Any) -> dict[str, Any]:
    reference = {"kind": "InferenceCluster", "name": "llama", "uid": owner, "controller": True}
    return {"metadata": {"name": name, "ownerReferences": [reference] if owner else []}, "status": status}


CLUSTER: dict[str, Any] = {"metadata": {"uid": "uid-1"}}


def test_ours_is_known_by_its_owner_and_all_others_are_rivals() -> None:
    active = {"type": "ScalingActive", "status": "False", "reason": "FailedGetObjectMetric"}
    limited = {"type": "ScalingLimited", "status": "True", "reason": "TooManyReplicas"}
    keda = hpa("keda-hpa-x")
    keda["metadata"]["ownerReferences"] = [
        {"kind": "ScaledObject", "name": "x", "uid": "u", "controller": True}
    ]
    got = observe_scaling(
        CLUSTER,
        [hpa("llama-engine", "uid-1", desiredReplicas=3, conditions=[active, limited]), hpa("mine"), keda],
        OURS,
    )
    assert got.ours == ScalerObserved(3, False, "FailedGetObjectMetric", True)
    assert got.rivals == (
        "HorizontalPodAutoscaler keda-hpa-x (of ScaledObject x)",
        "HorizontalPodAutoscaler mine",
    )


def test_a_scaler_that_has_not_decided_wants_nothing() -> None:
    got = observe_scaling(CLUSTER, [hpa("llama-engine", "uid-1", desiredReplicas=0)], OURS)
    assert got.ours == ScalerObserved()


def test_a_predecessors_scaler_is_a_rival_until_it_is_collected() -> None:
    assert observe_scaling(CLUSTER, [hpa("llama-engine", "uid-0")], OURS).ours is None


def test_who_wrote_replicas_last_is_read_from_the_managed_fields() -> None:
    def entry(manager: str, time: str, field: str) -> dict[str, Any]:
        return {"manager": manager, "time": time, "fieldsV1": {"f:spec": {field: {}}}}

    cluster = {
        "metadata": {
            "uid": "uid-1",
            "managedFields": [
                entry("kubectl", "2026-01-01T00:00:00Z", "f:replicas"),
                entry("kube-controller-manager", "2026-01-02T00:00:00Z", "f:replicas"),
                entry("argocd", "2026-01-03T00:00:00Z", "f:model"),
                {"manager": "odd", "fieldsV1": None},
            ],
        }
    }
    assert observe_scaling(cluster, [], OURS).replicas_by == "kube-controller-manager"
    assert observe_scaling(CLUSTER, [], OURS).replicas_by == ""
