"""The work queue: nothing twice at once, nothing lost."""

from __future__ import annotations

import asyncio
import random

import pytest

from inference_operator.engine.queue import WorkQueue
from tests.unit.engine.fakes import CountingMetrics, FakeClock, FakeTimers

A, B = ("ns", "a"), ("ns", "b")


class Rig:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.timers = FakeTimers(self.clock)
        self.metrics = CountingMetrics()
        self.queue = WorkQueue(
            clock=self.clock, metrics=self.metrics, jitter=lambda: 0.5, call_later=self.timers.call_later
        )

    async def take(self) -> tuple[str, str]:
        return await asyncio.wait_for(self.queue.get(), 1)


@pytest.fixture
def rig() -> Rig:
    return Rig()


async def test_a_key_that_waits_is_not_queued_twice(rig: Rig) -> None:
    rig.queue.add(A)
    rig.queue.add(B)
    rig.queue.add(A)
    assert (len(rig.queue), rig.metrics.adds) == (2, 2)
    assert [await rig.take(), await rig.take()] == [A, B]


async def test_a_key_that_is_added_while_it_is_processed_comes_back_only_when_done(rig: Rig) -> None:
    rig.queue.add(A)
    await rig.take()
    rig.queue.add(A)
    assert len(rig.queue) == 0
    rig.queue.done(A)
    assert await rig.take() == A
    rig.queue.done(A)
    assert len(rig.queue) == 0


async def test_get_waits_until_something_is_added(rig: Rig) -> None:
    waiting = asyncio.create_task(rig.take())
    await asyncio.sleep(0)
    assert not waiting.done()
    rig.queue.add(A)
    assert await waiting == A


async def test_the_earliest_timer_wins_and_only_one_pass_comes_of_it(rig: Rig) -> None:
    rig.queue.add_after(A, 300)
    rig.queue.add_after(A, 5)
    rig.queue.add_after(A, 60)
    rig.timers.advance(4.9)
    assert len(rig.queue) == 0
    rig.timers.advance(0.2)
    assert len(rig.queue) == 1
    await rig.take()
    rig.queue.done(A)
    rig.timers.advance(1000)
    assert len(rig.queue) == 0


async def test_a_pass_makes_its_older_timer_void(rig: Rig) -> None:
    rig.queue.add_after(A, 10)
    rig.queue.add(A)
    await rig.take()
    rig.queue.done(A)
    rig.timers.advance(20)
    assert len(rig.queue) == 0


async def test_back_off_doubles_from_one_second_to_five_minutes_and_starts_again_after_a_success(
    rig: Rig,
) -> None:
    delays = []
    for _ in range(11):
        delays.append(rig.queue.retry(A))
        rig.timers.advance(delays[-1])
        await rig.take()
        rig.queue.done(A)
    assert delays == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    assert rig.metrics.retries == 11
    rig.queue.forget(A)
    assert rig.queue.retry(A) == 1


async def test_back_off_honours_what_the_server_asks_for(rig: Rig) -> None:
    assert rig.queue.retry(A, at_least=17.0) == 17.0


def test_back_off_is_jittered_by_a_quarter_each_way() -> None:
    clock = FakeClock()
    seeded = random.Random(7)
    queue = WorkQueue(
        clock=clock,
        metrics=CountingMetrics(),
        jitter=seeded.random,
        call_later=FakeTimers(clock).call_later,
    )
    firsts = [queue.retry(("ns", str(i))) for i in range(200)]
    assert 0.75 <= min(firsts) < 0.8
    assert 1.2 < max(firsts) <= 1.25


async def test_one_failing_key_does_not_slow_another(rig: Rig) -> None:
    for _ in range(5):
        rig.queue.retry(A)
    assert rig.queue.retry(B) == 1


async def test_a_new_leader_looks_at_everything_at_once(rig: Rig) -> None:
    rig.queue.add_after(A, 300)
    rig.queue.retry(B)
    rig.queue.hasten()
    assert sorted([await rig.take(), await rig.take()]) == [A, B]
    assert rig.queue.delayed == 0


async def test_the_wait_of_each_key_is_told(rig: Rig) -> None:
    rig.queue.add(A)
    rig.timers.advance(7)
    await rig.take()
    assert rig.metrics.waits == [7]


async def test_random_use_never_runs_a_key_twice_at_once_and_never_loses_one(rig: Rig) -> None:
    seeded = random.Random(20261130)
    keys = [("ns", str(i)) for i in range(5)]
    running: set[tuple[str, str]] = set()
    owed: set[tuple[str, str]] = set()
    for _ in range(3000):
        action = seeded.randrange(4)
        key = seeded.choice(keys)
        if action == 0:
            rig.queue.add(key)
            owed.add(key)
        elif action == 1:
            rig.queue.add_after(key, seeded.uniform(0.1, 5))
        elif action == 2 and len(rig.queue):
            taken = await rig.take()
            assert taken not in running
            running.add(taken)
            owed.discard(taken)
        elif running:
            finished = seeded.choice(sorted(running))
            running.discard(finished)
            rig.queue.done(finished)
        rig.timers.advance(seeded.uniform(0, 0.5))
    for key in sorted(running):
        rig.queue.done(key)
    left = {await rig.take() for _ in range(len(rig.queue))}
    assert owed <= left
