"""How often a request may be sent again: enough for the loss of a node, few enough for a poison request.

A request that meets a node with n engines may fail n times before it reaches another node; a request that
kills engines reaches retries + 1 of them. A rise applies at once. A fall waits: the engines of a lost node
leave the endpoints just when the retries are needed, and each change is a reload.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from .model import Engine

_MAX: Final = 3
_FALL_SECONDS: Final = 60.0


def wanted(engines: tuple[Engine, ...]) -> int:
    """Largest number of engines on one node, 1 to 3, and below the size of a pool of several."""
    nodes = Counter(engine.node for engine in engines if not engine.draining)
    return max(1, min(max(nodes.values(), default=1), _MAX, nodes.total() - 1))


class Retries:
    """Retries in force per track, with the delay of a fall."""

    def __init__(self) -> None:
        self._current: dict[str, int] = {}
        self._falling: dict[str, float] = {}

    def update(self, track: str, engines: tuple[Engine, ...], now: float) -> int:
        """Value for a track (any unique name) at monotonic time `now`."""
        want = wanted(engines)
        current = self._current.setdefault(track, want)
        if want >= current:
            self._falling.pop(track, None)
            self._current[track] = want
        elif now - self._falling.setdefault(track, now) >= _FALL_SECONDS:
            del self._falling[track]
            self._current[track] = want
        return self._current[track]
