"""Clocks and timers that a test moves by hand."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Mapping, Sequence

from inference_operator.core.model import TokenWindow
from inference_operator.ports import ClusterCost


class FakeClock:
    """Both clocks, standing still until `advance`."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.time = now

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time


class FakeTimers:
    """asyncio's call_later on a FakeClock."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self._heap: list[tuple[float, int, _Handle]] = []
        self._order = itertools.count()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> _Handle:
        handle = _Handle(callback)
        heapq.heappush(self._heap, (self.clock.time + seconds, next(self._order), handle))
        return handle

    def advance(self, seconds: float) -> None:
        end = self.clock.time + seconds
        while self._heap and self._heap[0][0] <= end:
            due, _, handle = heapq.heappop(self._heap)
            self.clock.time = due
            if not handle.cancelled:
                handle.callback()
        self.clock.time = end


class _Handle:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class FakeGateways:
    """ports.Gateways: says what a test has put into `by_pod`."""

    def __init__(self) -> None:
        self.by_pod: dict[str, int] = {}
        self.asked: list[tuple[str, ...]] = []
        self.windows: Sequence[TokenWindow] | None = None
        self.asked_tokens = 0

    async def loads(self, namespace: str, cluster: str, addresses: Sequence[str]) -> Mapping[str, int]:
        self.asked.append(tuple(addresses))
        return self.by_pod

    async def tokens(
        self, namespace: str, cluster: str, addresses: Sequence[str]
    ) -> Sequence[TokenWindow] | None:
        self.asked_tokens += 1
        return self.windows


class CountingMetrics:
    """ports.Metrics that remembers its calls."""

    def __init__(self) -> None:
        self.adds = 0
        self.depth = 0
        self.waits: list[float] = []
        self.retries = 0
        self.passes: list[str] = []
        self.writes: list[tuple[str, str]] = []
        self.status_writes = 0
        self.costs: dict[tuple[str, str], ClusterCost] = {}

    def queue_added(self) -> None:
        self.adds += 1

    def queue_depth(self, depth: int) -> None:
        self.depth = depth

    def queue_waited(self, seconds: float) -> None:
        self.waits.append(seconds)

    def queue_retried(self) -> None:
        self.retries += 1

    def pass_done(self, result: str, seconds: float) -> None:
        self.passes.append(result)

    def child_written(self, kind: str, verb: str) -> None:
        self.writes.append((kind, verb))

    def status_written(self) -> None:
        self.status_writes += 1

    def cluster_cost(self, namespace: str, name: str, cost: ClusterCost | None) -> None:
        self.costs.pop((namespace, name), None)
        if cost is not None:
            self.costs[namespace, name] = cost
