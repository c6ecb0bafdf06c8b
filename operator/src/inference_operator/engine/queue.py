"""A deduplicating work queue, as controller-runtime has it: one pass per key at a time, none lost.

    add ---------> ready ---get---> processing ---done---> (added meanwhile? -> ready : gone)
    add_after ---> timer --due--^
    retry -------> timer with exponential back-off per key

A key that is added while it waits is dropped; one that is added while it is processed is processed once more
behind that. A key has at most one timer, the earliest that was asked for since its last pass began: each pass
decides anew when to look again, so a timer from before it means nothing any more.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from ..ports import Clock, Metrics

Key = tuple[str, str]

RETRY_FIRST: Final = 1.0
RETRY_MAX: Final = 300.0


class TimerHandle(Protocol):
    """What asyncio's call_later returns."""

    def cancel(self) -> None:
        """Don't call."""


#: Seconds, callback. Default: the running loop's call_later.
CallLater = Callable[[float, Callable[[], None]], TimerHandle]


class WorkQueue:
    """Keys are (namespace, name). All methods are called on the event loop."""

    def __init__(
        self, *, clock: Clock, metrics: Metrics, jitter: Callable[[], float], call_later: CallLater
    ) -> None:
        """`jitter` returns a number in [0, 1)."""
        self._clock = clock
        self._metrics = metrics
        self._jitter = jitter
        self._call_later = call_later
        self._ready: deque[Key] = deque()
        #: Keys that wait or are wanted again, with the time at which they were added.
        self._dirty: dict[Key, float] = {}
        self._processing: set[Key] = set()
        self._timers: dict[Key, tuple[float, TimerHandle]] = {}
        self._failures: dict[Key, int] = {}
        self._wakeup = asyncio.Event()

    def __len__(self) -> int:
        """Keys that wait now."""
        return len(self._ready)

    @property
    def delayed(self) -> int:
        """Keys that have a timer."""
        return len(self._timers)

    def add(self, key: Key) -> None:
        """Process the key soon, once."""
        if key in self._dirty:
            return
        self._dirty[key] = self._clock.monotonic()
        self._metrics.queue_added()
        if key not in self._processing:
            self._push(key)

    def add_after(self, key: Key, seconds: float) -> None:
        """Process the key in `seconds`, unless an earlier timer is set."""
        if seconds <= 0:
            self.add(key)
            return
        due = self._clock.monotonic() + seconds
        timer = self._timers.get(key)
        if timer is not None:
            if timer[0] <= due:
                return
            timer[1].cancel()
        self._timers[key] = (due, self._call_later(seconds, lambda: self._fire(key)))

    def retry(self, key: Key, *, at_least: float = 0.0) -> float:
        """Process the key after its next back-off, which is returned: 1 s, 2 s, 4 s … 5 min, jittered."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        base = min(RETRY_MAX, RETRY_FIRST * float(1 << min(failures, 16)))
        delay = max(at_least, base * (0.75 + self._jitter() / 2))
        self._metrics.queue_retried()
        self.add_after(key, delay)
        return delay

    def forget(self, key: Key) -> None:
        """The key succeeded: its next back-off starts at 1 s again."""
        self._failures.pop(key, None)

    def hasten(self) -> None:
        """Make every delayed key ready now: after a time as a standby, what was planned is out of date."""
        for key in list(self._timers):
            self._fire(key)

    async def get(self) -> Key:
        """The next key; call `done` with it afterwards."""
        while not self._ready:
            self._wakeup.clear()
            await self._wakeup.wait()
        key = self._ready.popleft()
        waited = self._clock.monotonic() - self._dirty.pop(key)
        self._processing.add(key)
        self._cancel_timer(key)
        self._metrics.queue_waited(waited)
        self._metrics.queue_depth(len(self._ready))
        return key

    def done(self, key: Key) -> None:
        """The key's pass has ended, whatever its outcome."""
        self._processing.discard(key)
        if key in self._dirty:
            self._push(key)

    def _push(self, key: Key) -> None:
        self._ready.append(key)
        self._metrics.queue_depth(len(self._ready))
        self._wakeup.set()

    def _fire(self, key: Key) -> None:
        self._cancel_timer(key)
        self.add(key)

    def _cancel_timer(self, key: Key) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer[1].cancel()
