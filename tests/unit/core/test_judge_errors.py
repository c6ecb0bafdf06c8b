"""The e-value for errors: what it refutes, what it never does, and that it can be added up in parts."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_operator.core.judge.errors import Count, ErrorEvidence

ALPHA = 0.002


def looked(canary: float, stable: float, *, seed: int, intervals: int = 150, share: int = 4) -> float:
    """The largest e-value of all looks: 10 canary requests an interval, `share` times as many stable ones."""
    dice = random.Random(seed)
    evidence, most = ErrorEvidence(), 0.0
    for _ in range(intervals):
        evidence = evidence.add(
            Count(10, sum(dice.random() < canary for _ in range(10))),
            Count(10 * share, sum(dice.random() < stable for _ in range(10 * share))),
        )
        most = max(most, evidence.e_value)
    return most


def test_at_the_start_nothing_is_refuted() -> None:
    assert ErrorEvidence().e_value == 1


@pytest.mark.parametrize(
    ("canary", "stable"), [(0.005, 0.005), (0.05, 0.05), (0.0, 0.0), (0.01, 0.0), (0.3, 0.25)]
)
def test_what_is_no_worse_is_not_refuted(canary: float, stable: float) -> None:
    alarms = sum(looked(canary, stable, seed=seed) >= 1 / ALPHA for seed in range(60))
    assert alarms == 0


@pytest.mark.parametrize(("canary", "stable"), [(0.05, 0.005), (0.05, 0.0), (1.0, 0.0), (0.5, 0.05)])
def test_what_is_worse_is_refuted(canary: float, stable: float) -> None:
    assert all(looked(canary, stable, seed=seed) >= 1 / ALPHA for seed in range(60))


def test_a_canary_that_fails_always_is_refuted_within_ten_requests() -> None:
    evidence = ErrorEvidence().add(Count(10, 10), Count(190, 0))
    assert evidence.e_value >= 1 / ALPHA


def test_one_error_in_a_million_against_none_is_no_crime() -> None:
    evidence = ErrorEvidence()
    for _ in range(1000):
        evidence = evidence.add(Count(1000, 0), Count(19_000, 0))
    assert evidence.add(Count(1000, 5), Count(19_000, 0)).e_value < 1


def test_without_a_stable_revision_nothing_can_be_worse() -> None:
    assert ErrorEvidence().add(Count(1000, 900), Count(0, 0)).e_value <= 1


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(0, 500), st.integers(0, 500))))
def test_it_is_always_a_number(parts: list[tuple[int, int, int, int]]) -> None:
    evidence = ErrorEvidence()
    for canary, errors, stable, failed in parts:
        evidence = evidence.add(Count(canary, min(errors, canary)), Count(stable, min(failed, stable)))
        assert 0 <= evidence.e_value < float("inf")
