"""The fault switches as values."""

from typing import Any

import pytest

from sandbox.engine.faults import FaultError, Faults, Share


def test_a_timed_fault_may_be_switched_or_timed() -> None:
    assert Faults().merged({"crash": True}) == Faults(crash_after_seconds=0)
    assert Faults().merged({"crash_after_seconds": 3}) == Faults(crash_after_seconds=3)
    assert Faults(crash_after_seconds=3).merged({"crash": False}) == Faults()


def test_changes_add_up() -> None:
    assert Faults(slow=2).merged({"error_rate": 0.25}) == Faults(slow=2, error_rate=0.25)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"meltdown": True}, "unknown fault 'meltdown'; known are crash, exit0"),
        ({"slow": "very"}, "fault slow takes a float, got 'very'"),
        ({"slow": True}, "fault slow takes a float, got True"),
        ({"error_rate": 2}, "fault error_rate must be between 0 and 1, got 2"),
        ({"crash": 1}, "fault crash takes a bool, got 1"),
        ({"wrong_model": ""}, "fault wrong_model takes a str, got ''"),
        ({"crash_after_seconds": -1}, "must be between 0 and inf"),
    ],
)
def test_nonsense_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(FaultError, match=message):
        Faults().merged(changes)


@pytest.mark.parametrize(("rate", "want"), [(0, 0), (0.1, 10), (0.25, 25), (1, 100)])
def test_a_share_is_exact(rate: float, want: int) -> None:
    share = Share()
    assert sum(share.take(rate) for _ in range(100)) == want
