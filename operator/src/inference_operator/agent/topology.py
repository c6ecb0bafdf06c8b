"""How often a request may be sent again: enough for the loss of a node, few enough for a poison request.

A silent node costs each attempt 0.5 s (`timeout connect`), and the checks need up to 1.5 s to take its
engines out. With one engine a node the second attempt meets another node. With several the attempts must
last until they are out: 1 + 3 of them. With 1 + 2 one request of 8 cuts was lost (two of three engines on the
node, 20 requests/s). A request that kills engines reaches retries + 1 of them, so no more than that.

A rise applies at once. A fall waits: the engines of a lost node leave the endpoints just when the retries are
needed, and each change is a reload.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from .model import Engine

_ALONE: Final = 1
_TOGETHER: Final = 3
_FALL_SECONDS: Final = 60.0


def wanted(engines: tuple[Engine, ...]) -> int:
    """1 with one engine a node, or with two engines in all; 3 where a node takes several with it."""
    nodes = Counter(engine.node for engine in engines if not engine.draining)
    return _TOGETHER if max(nodes.values(), default=0) > 1 and nodes.total() > 2 else _ALONE


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
