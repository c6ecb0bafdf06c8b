"""The system's clocks."""

from __future__ import annotations

import time


class SystemClock:
    """Implements `ports.Clock`."""

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds since some start."""
        return time.monotonic()
