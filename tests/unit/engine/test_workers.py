"""Workers: what becomes of a pass by how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from inference_operator.engine.queue import Key, WorkQueue
from inference_operator.engine.workers import PERMANENT_RETRY_SECONDS, Workers
from inference_operator.ports import KubeError
from tests.unit.engine.fakes import CountingMetrics, FakeClock, FakeTimers

A = ("ns", "a")


class Rig:
    def __init__(self, reconcile: Callable[[Key], Awaitable[float | None]], count: int = 2) -> None:
        self.clock = FakeClock()
        self.timers = FakeTimers(self.clock)
        self.metrics = CountingMetrics()
        self.queue = WorkQueue(
            clock=self.clock, metrics=self.metrics, jitter=lambda: 0.5, call_later=self.timers.call_later
        )
        self.workers = Workers(
            self.queue,
            reconcile,
            clock=self.clock,
            metrics=self.metrics,
            jitter=lambda: 0.0,
            count=count,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.workers.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def passes(self, count: int) -> None:
        async with asyncio.timeout(2):
            while len(self.metrics.passes) < count:  # noqa: ASYNC110 - the loop must only turn
                await asyncio.sleep(0)


async def test_a_success_is_repeated_when_it_asked_for_it() -> None:
    async def reconcile(key: Key) -> float:
        return 60.0

    rig = Rig(reconcile)
    rig.queue.add(A)
    async with rig.running():
        await rig.passes(1)
        rig.timers.advance(59)
        assert len(rig.queue) == 0
        rig.timers.advance(2)
        await rig.passes(2)
    assert rig.metrics.passes == ["success", "success"]


async def test_a_cluster_that_is_gone_is_not_looked_at_again() -> None:
    async def reconcile(key: Key) -> None:
        return None

    rig = Rig(reconcile)
    rig.queue.add(A)
    async with rig.running():
        await rig.passes(1)
        rig.timers.advance(100_000)
        assert len(rig.queue) == 0


@pytest.mark.parametrize(
    ("error", "want_result", "want_after"),
    [
        (KubeError("x", status=503, transient=True), "transient", 1.0),
        (KubeError("x", status=429, transient=True, retry_after=30), "transient", 30.0),
        (KubeError("x", status=403, transient=False), "permanent", PERMANENT_RETRY_SECONDS),
        (ZeroDivisionError("a defect of ours"), "defect", 1.0),
    ],
)
async def test_a_failed_pass_is_repeated_by_its_class(
    error: Exception, want_result: str, want_after: float
) -> None:
    async def reconcile(key: Key) -> float | None:
        raise error

    rig = Rig(reconcile)
    rig.queue.add(A)
    async with rig.running():
        await rig.passes(1)
        assert rig.metrics.passes == [want_result]
        rig.timers.advance(want_after - 0.01)
        assert len(rig.queue) == 0
        rig.timers.advance(0.02)
        await rig.passes(2)


async def test_a_defect_on_one_cluster_leaves_the_workers_running() -> None:
    done: list[Key] = []

    async def reconcile(key: Key) -> None:
        if key == A:
            raise RuntimeError("bad cluster")
        done.append(key)

    rig = Rig(reconcile, count=1)
    rig.queue.add(A)
    rig.queue.add(("ns", "b"))
    async with rig.running():
        await rig.passes(2)
    assert done == [("ns", "b")]


async def test_a_pass_that_is_cut_short_is_queued_again() -> None:
    started = asyncio.Event()

    async def reconcile(key: Key) -> None:
        started.set()
        await asyncio.Event().wait()

    rig = Rig(reconcile)
    rig.queue.add(A)
    async with rig.running():
        await asyncio.wait_for(started.wait(), 1)
        rig.timers.advance(42)
        assert rig.workers.longest_pass() == 42
    assert rig.metrics.passes == ["cancelled"]
    assert len(rig.queue) == 1
    assert rig.workers.longest_pass() == 0
