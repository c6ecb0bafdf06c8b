"""N workers that take keys from the queue and run one pass for each."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from ..ports import Clock, KubeError, Metrics
from .queue import Key, WorkQueue

log = logging.getLogger(__name__)

#: One pass; returns the seconds until the next one, None = only when something happens.
Reconcile = Callable[[Key], Awaitable[float | None]]

WORKERS: Final = 8
#: An error that the same request meets again (403, 422): the status says so, and a person has to act.
PERMANENT_RETRY_SECONDS: Final = 300.0


class Workers:
    """Run `run()` while this process leads; cancel it to stop. A cancelled pass is queued again."""

    def __init__(
        self,
        queue: WorkQueue,
        reconcile: Reconcile,
        *,
        clock: Clock,
        metrics: Metrics,
        jitter: Callable[[], float],
        count: int = WORKERS,
    ) -> None:
        self._queue = queue
        self._reconcile = reconcile
        self._clock = clock
        self._metrics = metrics
        self._jitter = jitter
        self._count = count
        self._busy: dict[Key, float] = {}

    def longest_pass(self) -> float:
        """Seconds that the longest running pass has taken so far; 0 when none runs."""
        return self._clock.monotonic() - min(self._busy.values()) if self._busy else 0.0

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._count):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            self._busy[key] = self._clock.monotonic()
            try:
                await self._pass(key)
            finally:
                del self._busy[key]
                self._queue.done(key)

    async def _pass(self, key: Key) -> None:
        started = self._clock.monotonic()
        result = "success"
        # A key of its own: `name` is taken in a log record.
        context = {"namespace": key[0], "name": key[1]}
        try:
            delay = await self._reconcile(key)
            self._queue.forget(key)
            if delay is not None:
                self._queue.add_after(key, delay)
        except asyncio.CancelledError:
            result = "cancelled"
            self._queue.add(key)
            raise
        except KubeError as error:
            result = "transient" if error.transient else "permanent"
            if error.transient:
                again = self._queue.retry(key, at_least=error.retry_after or 0.0)
            else:
                again = PERMANENT_RETRY_SECONDS * (1 + self._jitter() / 5)
                again = min(again, error.retry_after or again)
                self._queue.add_after(key, again)
            log.warning(
                "pass failed",
                extra={"context": context, "reason": str(error), "retrySeconds": round(again, 1)},
            )
        except Exception:
            # A defect of ours on one cluster must not stop the work on all others.
            result = "defect"
            again = self._queue.retry(key)
            log.exception("pass failed", extra={"context": context, "retrySeconds": round(again, 1)})
        finally:
            self._metrics.pass_done(result, self._clock.monotonic() - started)
