"""Tokens of the last ten minutes: what cost is made from. Pure but for the time that it is told.

Sixty buckets of ten seconds, so the memory is the same however long it runs and however much is counted.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from .engine_page import Counters

_BUCKET_SECONDS: Final = 10.0
_BUCKETS: Final = 60


class TokenWindow:
    """What was counted of one cluster's engines since `start`, at most ten minutes of it."""

    def __init__(self, start: float) -> None:
        """`start` in monotonic seconds, as all times here."""
        self._start = start
        #: Number of the bucket and what fell into it, oldest first.
        self._buckets: deque[tuple[int, Counters]] = deque(maxlen=_BUCKETS)

    def add(self, now: float, counted: Counters) -> None:
        """These were counted just now."""
        number = _number(now)
        if self._buckets and self._buckets[-1][0] == number:
            counted = self._buckets.pop()[1] + counted
        self._buckets.append((number, counted))

    def counted(self, now: float) -> dict[str, float | int]:
        """`seconds` looked at (up to 600), and the `prompt`, `cached` and `generation` tokens in them."""
        oldest = _number(now) - _BUCKETS + 1
        parts = [counters for number, counters in self._buckets if number >= oldest]
        return {
            "seconds": round(now - max(self._start, oldest * _BUCKET_SECONDS), 1),
            "prompt": round(sum(part.prompt_tokens for part in parts)),
            "cached": round(sum(part.cached_tokens for part in parts)),
            "generation": round(sum(part.generation_tokens for part in parts)),
        }


def _number(now: float) -> int:
    return int(now // _BUCKET_SECONDS)
