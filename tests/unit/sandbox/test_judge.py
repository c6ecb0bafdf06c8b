"""A load's outcomes around a fault are sorted by when they arrived and which engine they were on."""

from __future__ import annotations

from sandbox.judge import judge
from sandbox.load import Outcome

FAULT = 100.0


def outcome(
    started: float, *, engine: str = "", headers: float | None = None, error: str = "", ended: float = 0
) -> Outcome:
    return Outcome(
        started=started,
        lag=0,
        engine=engine,
        headers=headers if headers is not None else started + 0.01,
        ended=ended or started + 1,
        complete=not error,
        error=error,
    )


def test_requests_that_arrive_after_the_fault_and_fail_are_lost() -> None:
    verdict = judge([outcome(101, error="HTTP 502"), outcome(102)], FAULT, "a")
    assert (verdict.lost, verdict.errors) == (1, ("HTTP 502",))


def test_running_streams_of_the_faulty_engine_are_cut_and_others_count_apart() -> None:
    before = [
        outcome(99.5, engine="a", error="cut"),
        outcome(99.6, engine="b", error="cut"),
        outcome(99.7, engine="b"),
        outcome(90, engine="a", error="long ago", ended=91),
    ]
    verdict = judge(before, FAULT, "a")
    assert (verdict.lost, verdict.cut, verdict.cut_elsewhere) == (0, 1, 1)


def test_a_later_request_that_waits_for_its_first_byte_waits_on_the_dead_engine() -> None:
    verdict = judge([outcome(100.2, headers=101.4), outcome(101.5)], FAULT, "a")
    assert round(verdict.switched_seconds, 3) == 1.4


def test_a_lost_request_counts_until_it_was_told() -> None:
    assert judge([outcome(100.5, error="timeout", ended=103.5)], FAULT, "a").switched_seconds == 3.5


def test_without_slow_requests_the_switch_took_no_time() -> None:
    assert judge([outcome(100.2), outcome(99)], FAULT, "a").switched_seconds == 0
