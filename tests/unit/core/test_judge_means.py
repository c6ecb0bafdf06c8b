"""The confidence sequence for latencies."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_operator.core.judge.means import LEAST_BATCHES, Mean, Verdict, compare

TOLERANCE, ALPHA = 0.2, 0.002


def means(mean: float, batches: int, *, seed: int, size: int = 10) -> Mean:
    """Intervals of log-normal latencies (sigma 0.5)."""
    dice = random.Random(seed)
    found = Mean()
    for _ in range(batches):
        values = [dice.lognormvariate(math.log(mean) - 0.125, 0.5) for _ in range(size)]
        found = found.add(size, sum(values))
    return found


@pytest.mark.parametrize(
    ("slower", "verdict"),
    [(0.5, Verdict.PASS), (1.0, Verdict.PASS), (1.1, Verdict.PASS), (1.3, Verdict.FAIL), (2.0, Verdict.FAIL)],
)
def test_what_is_clear_is_told(slower: float, verdict: Verdict) -> None:
    for seed in range(20):
        got = compare(means(slower, 400, seed=seed), means(1.0, 1600, seed=seed + 99), TOLERANCE, ALPHA)
        assert got.verdict is verdict
        assert got.low is not None and got.ratio is not None and got.high is not None
        assert got.low < got.ratio < got.high
        assert got.ratio == pytest.approx(slower, rel=0.1)


def test_at_the_very_limit_it_stays_unknown_however_often_one_looks() -> None:
    alarms = 0
    for seed in range(40):
        dice = random.Random(seed)
        new, old = Mean(), Mean()
        for _ in range(200):
            for mean, which in ((1.2, "new"), (1.0, "old")):
                batch = sum(dice.lognormvariate(math.log(mean) - 0.125, 0.5) for _ in range(10))
                if which == "new":
                    new = new.add(10, batch)
                else:
                    old = old.add(10, batch)
            alarms += compare(new, old, TOLERANCE, ALPHA).verdict is Verdict.FAIL
    assert alarms == 0


def test_a_few_intervals_say_nothing() -> None:
    few, many = means(9.0, LEAST_BATCHES - 1, seed=1), means(1.0, 100, seed=2)
    assert compare(few, many, TOLERANCE, ALPHA).verdict is Verdict.UNKNOWN
    assert compare(many, few, TOLERANCE, ALPHA).verdict is Verdict.UNKNOWN
    assert compare(Mean(), Mean(), TOLERANCE, ALPHA).ratio is None


def test_an_empty_interval_is_none() -> None:
    assert Mean().add(0, 0) == Mean()


@given(
    st.lists(st.tuples(st.integers(1, 50), st.floats(0, 1e6)), min_size=2, max_size=30), st.integers(0, 30)
)
def test_two_agents_evidence_adds_up_to_that_of_one(parts: list[tuple[int, float]], cut: int) -> None:
    whole, first, second = Mean(), Mean(), Mean()
    for index, (count, total) in enumerate(parts):
        whole = whole.add(count, total)
        if index < cut:
            first = first.add(count, total)
        else:
            second = second.add(count, total)
    got = first + second
    assert got.batches == whole.batches
    assert got.count == whole.count
    assert got.total == pytest.approx(whole.total)
    assert got.squares == pytest.approx(whole.squares)
    assert whole.variance >= 0


def test_resemblance_within_an_interval_widens_the_bounds() -> None:
    """Requests of one moment wait in the same queue: ten of them are no ten witnesses."""
    dice = random.Random(5)
    alike, apart = Mean(), Mean()
    for _ in range(100):
        moment = dice.lognormvariate(-0.125, 0.5)
        alike = alike.add(10, 10 * moment)
        apart = apart.add(10, sum(dice.lognormvariate(-0.125, 0.5) for _ in range(10)))
    assert alike.variance > 4 * apart.variance
