"""The wanted total: spec.replicas within its bounds, and what isn't followed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from inference_operator.api.v1alpha1 import InferenceClusterSpec, ScalingStatus
from inference_operator.core.model import MetricsApi, Observed, ScalerObserved, ScalingObserved
from inference_operator.core.scaling import BY_MAX, BY_MIN, BY_SCALER, Total, scaler_wanted, total

from .builders import engines_of, make_spec, observed, revision

OURS = MetricsApi("inference-system/metrics", ours=True, available=True)


def automatic(replicas: int, **scaling: Any) -> InferenceClusterSpec:
    return make_spec(replicas=replicas, autoscaling=scaling)


def ran(
    before: int | None = None,
    *,
    scaler: ScalerObserved | None = None,
    engines: int = 0,
    api: MetricsApi = OURS,
    rivals: tuple[str, ...] = (),
) -> Observed:
    """`before`: the total of the status; `scaler`: our HorizontalPodAutoscaler."""
    base = observed(revision("a", engines_of("a", engines))) if engines else observed()
    known = ScalingStatus(target=before) if before is not None else None
    status = base.status.model_copy(update={"scaling": known})
    return replace(base, status=status, scaling=ScalingObserved(ours=scaler, rivals=rivals, api=api))


@pytest.mark.parametrize(
    ("replicas", "bounds", "wanted"),
    [
        (1, {}, Total(1)),
        (4, {}, Total(4)),
        (5, {}, Total(4, BY_MAX)),
        (5, {"minReplicas": 6}, Total(6, BY_MIN)),
        (5, {"minReplicas": 2, "maxReplicas": 10}, Total(5)),
        (1, {"minReplicas": 2}, Total(2, BY_MIN)),
        (9, {"maxReplicas": 3}, Total(3, BY_MAX)),
        (0, {"minReplicas": 2}, Total(0)),
        (9, {"mode": "Disabled", "maxReplicas": 3}, Total(9)),
    ],
)
def test_bounds_hold_at_once_and_0_means_stopped(
    replicas: int, bounds: dict[str, Any], wanted: Total
) -> None:
    assert total(automatic(replicas, **bounds), ran()) == wanted


def test_a_user_who_sets_one_bound_gets_no_contradiction() -> None:
    assert automatic(1, minReplicas=8).autoscaling.bounds == (8, 8)
    assert automatic(1, maxReplicas=3).autoscaling.bounds == (1, 3)


def test_a_reset_to_the_schemas_default_waits_for_the_autoscalers_word() -> None:
    """`kubectl replace` without replicas says 1; the HorizontalPodAutoscaler still wants 10."""
    spec = automatic(1, maxReplicas=20)
    assert total(spec, ran(10, scaler=ScalerObserved(desired=10))) == Total(10, BY_SCALER)
    assert total(spec, ran(10, scaler=ScalerObserved(desired=6))) == Total(6, BY_SCALER)
    assert total(spec, ran(10, scaler=ScalerObserved(desired=1))) == Total(1)


def test_an_autoscaler_that_has_not_decided_agrees_to_nothing() -> None:
    assert total(automatic(1, maxReplicas=20), ran(10, scaler=ScalerObserved())) == Total(10, BY_SCALER)


def test_a_lost_status_is_replaced_by_what_exists() -> None:
    state = ran(None, scaler=ScalerObserved(desired=3), engines=3)
    assert total(automatic(1), state) == Total(3, BY_SCALER)


def test_a_fall_that_the_autoscaler_made_is_followed_at_once() -> None:
    assert total(automatic(3, maxReplicas=20), ran(10, scaler=ScalerObserved(desired=3))) == Total(3)


def test_without_a_scaler_of_ours_a_fall_is_a_persons_wish() -> None:
    assert total(automatic(1, maxReplicas=20), ran(10)) == Total(1)


def test_a_rise_is_followed_whatever_the_autoscaler_says() -> None:
    assert total(automatic(9, maxReplicas=20), ran(2, scaler=ScalerObserved(desired=2))) == Total(9)


def test_a_lowered_maximum_holds_although_the_autoscaler_wants_more() -> None:
    assert total(automatic(10, maxReplicas=4), ran(10, scaler=ScalerObserved(desired=10))) == Total(4, BY_MAX)


@pytest.mark.parametrize(
    "state", [ran(8, rivals=("HorizontalPodAutoscaler mine",)), ran(8, api=MetricsApi())]
)
def test_bounds_that_nobody_chose_do_not_shrink_what_somebody_else_set(state: Observed) -> None:
    assert total(automatic(8), state) == Total(8)
    assert total(automatic(8, maxReplicas=6), state) == Total(6, BY_MAX)
    assert total(automatic(2, minReplicas=3), state) == Total(3, BY_MIN)


@pytest.mark.parametrize(
    ("spec", "state", "wanted"),
    [
        (automatic(1), ran(), True),
        (automatic(0), ran(), False),
        (automatic(1, mode="Disabled"), ran(), False),
        (automatic(1), ran(rivals=("x",)), False),
        (automatic(1), ran(api=MetricsApi()), False),
        (automatic(1), ran(api=MetricsApi("monitoring/prometheus-adapter", False, True)), False),
        # A backend that is away comes back: to delete the scaler would forget what it has seen.
        (automatic(1), ran(api=replace(OURS, available=False)), True),
    ],
)
def test_when_there_is_a_scaler_of_ours(spec: InferenceClusterSpec, state: Observed, wanted: bool) -> None:
    assert scaler_wanted(spec, state) is wanted
