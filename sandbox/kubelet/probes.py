"""Probes: what to ask, when, and what the answers add up to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

JSON = dict[str, Any]
Check = Callable[[float], Awaitable[tuple[bool, str]]]
"""Ask once, within so many seconds; (success, message). Never raises for a failing probe."""


@dataclass(frozen=True)
class Timing:
    """Seconds and counts of a probe, with Kubernetes' defaults."""

    initial_delay: float
    period: float
    timeout: float
    success_threshold: int
    failure_threshold: int

    @classmethod
    def of(cls, probe: JSON) -> Timing:
        return cls(
            initial_delay=probe.get("initialDelaySeconds") or 0,
            period=probe.get("periodSeconds") or 10,
            timeout=probe.get("timeoutSeconds") or 1,
            success_threshold=probe.get("successThreshold") or 1,
            failure_threshold=probe.get("failureThreshold") or 3,
        )


class Counter:
    """Turns single answers into a verdict at the thresholds."""

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self._last: bool | None = None
        self._run = 0

    def record(self, success: bool) -> bool | None:
        """The verdict after this answer: True, False, or None when it's too early to tell."""
        self._run = self._run + 1 if success == self._last else 1
        self._last = success
        needed = self._timing.success_threshold if success else self._timing.failure_threshold
        return success if self._run >= needed else None

    @property
    def first_failure(self) -> bool:
        """Whether the last answer began a run of failures."""
        return self._last is False and self._run == 1


async def verdicts(
    probe: JSON, check: Check, failed: Callable[[str], None]
) -> AsyncIterator[tuple[bool, str]]:
    """Probe for ever; yield (success, message) at each answer that reaches its threshold.

    `failed(message)` is told of the first failure of every run of failures.
    """
    timing = Timing.of(probe)
    counter = Counter(timing)
    loop = asyncio.get_running_loop()
    await asyncio.sleep(timing.initial_delay)
    next_at = loop.time()
    while True:
        success, message = await check(timing.timeout)
        outcome = counter.record(success)
        if counter.first_failure:
            failed(message)
        if outcome is not None:
            yield outcome, message
        # A fixed beat, as the kubelet's ticker: a slow answer doesn't shift the following ones.
        next_at = max(next_at + timing.period, loop.time())
        await asyncio.sleep(next_at - loop.time())
