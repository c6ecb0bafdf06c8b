"""The sum over gateways: never partial, never 0 for want of data."""

from __future__ import annotations

import pytest

from inference_operator.metrics_api.demand import Answer, Demand, GatewayPod, Unknown, total

NOW = 1000.0
PODS = [GatewayPod("g-0", "10.0.0.1"), GatewayPod("g-1", "10.0.0.2")]


def answer(demand: int, ago: float = 0.0, concurrency: int = 8) -> Answer:
    return Answer(NOW - ago, demand, concurrency)


def test_it_is_the_sum() -> None:
    assert total(PODS, {"g-0": answer(3), "g-1": answer(4)}, NOW) == Demand(7, 8, 0.0)


def test_a_silent_gateway_counts_with_its_last_value_for_60_seconds() -> None:
    assert total(PODS, {"g-0": answer(3), "g-1": answer(4, ago=60)}, NOW) == Demand(7, 8, 60.0)
    with pytest.raises(Unknown, match=r"g-1"):
        total(PODS, {"g-0": answer(3), "g-1": answer(4, ago=60.1)}, NOW)


def test_a_gateway_that_never_answered_makes_the_sum_unknown() -> None:
    with pytest.raises(Unknown, match=r"g-1"):
        total(PODS, {"g-0": answer(3)}, NOW)


def test_no_gateway_is_no_demand_of_0() -> None:
    with pytest.raises(Unknown):
        total([], {}, NOW)


def test_what_is_left_of_a_gateway_that_is_gone_does_not_count() -> None:
    assert total(PODS[:1], {"g-0": answer(3), "g-1": answer(4)}, NOW).requests == 3


def test_while_gateways_differ_the_smaller_concurrency_counts() -> None:
    assert total(PODS, {"g-0": answer(3), "g-1": answer(4, concurrency=5)}, NOW).concurrency == 5
    assert total(PODS, {"g-0": answer(3), "g-1": answer(4, concurrency=0)}, NOW).concurrency == 8
    with pytest.raises(Unknown, match=r"routing"):
        total(PODS[:1], {"g-0": answer(0, concurrency=0)}, NOW)


def test_the_words_do_not_change_while_the_cause_does_not() -> None:
    """They end up in the HPA's condition: a counter of seconds there would be a write each time."""
    texts = set()
    for later in (70.0, 80.0):
        with pytest.raises(Unknown) as caught:
            total(PODS, {"g-0": answer(3, ago=-later), "g-1": answer(4)}, NOW + later)
        texts.add(str(caught.value))
    assert len(texts) == 1
