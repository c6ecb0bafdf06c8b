"""The window of tokens: what was counted in the last ten minutes, and how long it has looked."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from inference_operator.agent.engine_page import Counters
from inference_operator.agent.tokens import TokenWindow


def generated(tokens: float) -> Counters:
    return Counters(generation_tokens=tokens)


def test_a_new_window_has_looked_at_nothing() -> None:
    assert TokenWindow(1000.0).counted(1000.0) == {"seconds": 0, "prompt": 0, "cached": 0, "generation": 0}


def test_what_is_counted_is_added_up_by_kind() -> None:
    window = TokenWindow(1000.0)
    window.add(1002.0, Counters(10, 4, 3))
    window.add(1003.0, Counters(10, 4, 3))
    window.add(1031.0, Counters(1, 1, 1))
    assert window.counted(1032.0) == {"seconds": 32.0, "prompt": 21, "cached": 9, "generation": 7}


def test_after_ten_minutes_the_oldest_is_forgotten() -> None:
    window = TokenWindow(1000.0)
    window.add(1000.0, generated(7))
    window.add(1010.0, generated(5))
    assert window.counted(1599.9) == {"seconds": 599.9, "prompt": 0, "cached": 0, "generation": 12}
    assert window.counted(1600.0) == {"seconds": 590.0, "prompt": 0, "cached": 0, "generation": 5}
    # An engine that is silent: nothing comes, and the old still goes.
    assert window.counted(9000.0)["generation"] == 0


@given(st.lists(st.tuples(st.floats(0, 40), st.integers(0, 1000)), max_size=400))
def test_a_steady_rate_is_found_again_however_the_looks_fall(looks: list[tuple[float, int]]) -> None:
    """Whatever was counted lies in the window or is older than it."""
    window, now, told = TokenWindow(0.0), 0.0, []
    for pause, tokens in looks:
        now += pause
        window.add(now, generated(tokens))
        told.append((now, tokens))
    counted = window.counted(now)
    assert 0 <= counted["seconds"] <= 600
    begin = now - counted["seconds"] - 0.051  # seconds are rounded
    least = sum(tokens for moment, tokens in told if moment > begin + 0.102)
    most = sum(tokens for moment, tokens in told if moment >= begin)
    assert least <= counted["generation"] <= most


def test_memory_is_bounded() -> None:
    window = TokenWindow(0.0)
    for i in range(10_000):
        window.add(i * 10.0, generated(1))
    assert window.counted(99_990.0)["generation"] == 60
    assert len(window._buckets) == 60
