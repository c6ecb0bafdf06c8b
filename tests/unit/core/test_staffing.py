"""The number of replicas for a demand, and that a HorizontalPodAutoscaler lands on it in one pass."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_operator.core.staffing import SCALE, capacity, load, replicas_needed, utilisation

DEMANDS = st.integers(0, 200_000)
SLOTS = st.integers(1, 4096)


def hpa(milli: int, running: int) -> int:
    """What k/k computes for an Object metric with AverageValue and tolerance 0 (replica_calculator.go)."""
    target = SCALE * 1000
    if running and milli / (target * running) == 1.0:
        return running
    return math.ceil(milli / target)


@pytest.mark.parametrize(("replicas", "part"), [(2, 0.7), (20, 0.905)])
def test_larger_pools_may_be_fuller(replicas: int, part: float) -> None:
    assert utilisation(replicas) == pytest.approx(part, abs=0.001)


@pytest.mark.parametrize(
    ("demand", "slots", "wanted"),
    [
        (0, 8, 0),
        (1, 8, 1),
        (4, 8, 1),
        (5, 8, 2),
        (11, 8, 2),
        (12, 8, 3),
        (40, 8, 7),
        (1, 1, 2),  # one slot is never "well filled" by one request
        (64, 64, 2),
        (1000, 64, 18),
    ],
)
def test_the_number_for_a_demand(demand: int, slots: int, wanted: int) -> None:
    assert replicas_needed(demand, slots) == wanted


@given(DEMANDS, SLOTS)
def test_it_is_the_smallest_that_takes_the_demand(demand: int, slots: int) -> None:
    found = replicas_needed(demand, slots)
    assert capacity(found, slots) >= demand
    if found:
        assert capacity(found - 1, slots) < demand


@given(DEMANDS, SLOTS, st.integers(0, 300))
def test_one_pass_of_the_hpa_lands_on_it_whatever_runs(demand: int, slots: int, running: int) -> None:
    assert hpa(load(demand, slots), running) == replicas_needed(demand, slots)


@given(DEMANDS, SLOTS)
def test_more_demand_is_never_less_load(demand: int, slots: int) -> None:
    assert load(demand, slots) <= load(demand + 1, slots)
