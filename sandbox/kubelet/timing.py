"""Grace periods and back-off."""

from __future__ import annotations

import asyncio
from typing import Any

# Kubernetes doubles from 10 s to 300 s and forgets after 10 min of running. Ten times faster here, so that a
# test of a crash loop takes seconds.
BACK_OFF_BASE = 1.0
BACK_OFF_MAX = 30.0
# minimumGracePeriodInSeconds: what a container gets after its stop signal at least, whatever the grace period
# and however much of it a preStop hook has taken.
MINIMUM_GRACE = 2.0


def now() -> float:
    return asyncio.get_running_loop().time()


class BackOff:
    """Seconds to wait before the next start: none after the first failure, then doubling."""

    def __init__(self) -> None:
        self._next = 0.0

    def failed(self, ran_for: float = 0.0) -> float:
        """Count a failure of what ran for so many seconds."""
        if ran_for > 2 * BACK_OFF_MAX:
            self._next = 0.0
        seconds = self._next
        self._next = min(max(2 * seconds, BACK_OFF_BASE), BACK_OFF_MAX)
        return seconds


class Deadline:
    """The end of a grace period, which a second deletion with a shorter one moves nearer."""

    def __init__(self, seconds: float) -> None:
        self._at = now() + seconds
        self._moved = asyncio.Event()

    @property
    def seconds_left(self) -> float:
        return max(self._at - now(), 0.0)

    def shorten(self, seconds: float) -> None:
        if now() + seconds < self._at:
            self._at = now() + seconds
            self._moved.set()

    def leave_at_least(self, seconds: float) -> None:
        self._at = max(self._at, now() + seconds)

    async def wait(self, *futures: asyncio.Future[Any]) -> bool:
        """Wait for the first of the futures (never cancelled from here); False when the time is over."""
        while not any(future.done() for future in futures):
            if not self.seconds_left:
                return False
            self._moved.clear()
            moved = asyncio.ensure_future(self._moved.wait())
            try:
                await asyncio.wait(
                    {*futures, moved}, timeout=self.seconds_left, return_when=asyncio.FIRST_COMPLETED
                )
            finally:
                moved.cancel()
        return True
