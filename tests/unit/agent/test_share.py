"""Parts of the engines' concurrency: together they never overrun an engine."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from inference_operator.agent.share import limits
from tests.unit.agent.builders import BACKEND, engine, gateway, pool

NAME = "team-a/llama"


def wanted(concurrency: int, engines: int):
    return gateway(pool(*(engine(f"e{n}") for n in range(engines)), concurrency=concurrency))


def test_alone_a_gateway_has_it_all():
    assert limits(wanted(16, 3), {NAME: 5}, []) == {BACKEND: 16}


def test_equal_demand_is_an_even_split_and_uneven_demand_is_not():
    assert limits(wanted(100, 2), {NAME: 50}, [{NAME: 50}]) == {BACKEND: 55}
    busy = limits(wanted(100, 2), {NAME: 190}, [{NAME: 0}])[BACKEND]
    idle = limits(wanted(100, 2), {NAME: 0}, [{NAME: 190}])[BACKEND]
    assert busy == 100
    assert 1 <= idle <= 10


@given(
    concurrency=st.integers(1, 2_000),
    engines=st.integers(0, 50),
    demand=st.lists(st.integers(0, 100_000), min_size=1, max_size=6),
)
def test_the_sum_stays_within_a_tenth_unless_the_floor_is_more(
    concurrency: int, engines: int, demand: list[int]
):
    plan = wanted(concurrency, engines)
    parts = [
        limits(plan, {NAME: own}, [{NAME: d} for j, d in enumerate(demand) if j != i])[BACKEND]
        for i, own in enumerate(demand)
    ]
    assert all(1 <= part <= concurrency for part in parts)
    assert sum(part for part in parts if part > 1) <= 1.1 * concurrency
