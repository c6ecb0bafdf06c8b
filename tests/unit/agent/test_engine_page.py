"""Figures of the engines' own pages: the real vLLM page, older and other names, restarts, rubbish."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_operator.agent.engine_page import Counters, read

ROOT = Path(__file__).parents[3]
#: One page of a real vLLM 0.32.0 (see the README beside it).
REAL = (ROOT / "sandbox" / "engine" / "data" / "vllm-0.32.0-metrics.txt").read_text()
NOTHING = Counters()


def test_the_real_page_is_read() -> None:
    page = read(REAL, NOTHING)
    assert (page.running, page.waiting) == (2, 3)
    assert (page.counters.prompt_tokens, page.counters.generation_tokens) == (2, 672)
    assert page.counters.ttft_count == 2
    assert page.counters.ttft_sum > 0


def test_ranks_of_one_engine_are_added_up() -> None:
    page = read(
        'vllm:generation_tokens_total{engine="0"} 5\nvllm:generation_tokens_total{engine="1"} 7\n', NOTHING
    )
    assert page.counters.generation_tokens == 12


@pytest.mark.parametrize(
    ("text", "sum_", "count"),
    [
        (
            "vllm:request_time_per_output_token_seconds_sum 2\n"
            "vllm:request_time_per_output_token_seconds_count 4\n"
            "vllm:inter_token_latency_seconds_sum 9\nvllm:inter_token_latency_seconds_count 90\n",
            2,
            4,
        ),
        ("vllm:inter_token_latency_seconds_sum 9\nvllm:inter_token_latency_seconds_count 90\n", 9, 90),
        ("vllm:time_per_output_token_seconds_sum 3\nvllm:time_per_output_token_seconds_count 30\n", 3, 30),
        ("trtllm_time_per_output_token_seconds_sum 1\ntrtllm_time_per_output_token_seconds_count 2\n", 1, 2),
    ],
)
def test_old_and_new_names_mean_the_same(text: str, sum_: float, count: float) -> None:
    """Acceptance E13: an upgrade of the engine renames its metrics."""
    page = read(text, NOTHING)
    assert (page.counters.tpot_sum, page.counters.tpot_count) == (sum_, count)


def test_an_engine_without_gauges_of_its_queue_says_nothing_of_it() -> None:
    page = read("trtllm_time_to_first_token_seconds_sum 1\n", NOTHING)
    assert page.running is None
    assert page.waiting is None


def test_a_figure_that_is_missing_once_is_no_restart() -> None:
    before = read("vllm:prompt_tokens_total 5\nvllm:generation_tokens_total 7\n", NOTHING).counters
    after = read("vllm:generation_tokens_total 9\n", before).counters
    assert after.since(before) == Counters(generation_tokens=2)


@pytest.mark.parametrize("text", ["", "<html>\n", "vllm:other 1\n", "# HELP vllm:prompt_tokens_total x\n"])
def test_what_is_no_page_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"none of the engine's metrics"):
        read(text, NOTHING)


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "-5"])
def test_what_is_no_number_that_can_be_added_up_counts_as_missing(value: str) -> None:
    page = read(f"vllm:prompt_tokens_total {value}\nvllm:generation_tokens_total 1\n", NOTHING)
    assert page.counters == Counters(generation_tokens=1)


def test_after_a_restart_everything_is_new() -> None:
    before, after = Counters(100, 0, 100), Counters(200, 0, 5)
    assert after.since(before) == after


values = st.lists(st.integers(0, 10**9).map(float), min_size=7, max_size=7)


@given(values, values)
def test_nothing_is_ever_counted_down_or_twice(before: list[float], after: list[float]) -> None:
    then, now = Counters(*before), Counters(*after)
    gained = now.since(then)
    for field in fields(Counters):
        assert 0 <= getattr(gained, field.name) <= getattr(now, field.name)
