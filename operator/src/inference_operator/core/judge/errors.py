"""Does the new revision fail more often? An e-value, valid at whatever moment one looks.

An e-value is the wealth of a gambler who bets against "it is no worse": under that hypothesis it exceeds
1/alpha with probability alpha at most, however often one looks (Ville's inequality). A fixed test looked at
fifteen times gives 22 % false alarms at 5 %.

Two bets, and the smaller wealth counts, so both have to win:

    ratio   of all errors of an interval, the canary has a larger part than of the requests, beyond RATIO
    level   the canary's error rate is above LEVEL

The first alone would condemn one error in a million against none, the second a canary beside a stable
revision that fails as often.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

#: An error rate up to this many times the stable one is no worse.
RATIO: Final = 1.5
#: An error rate up to this is good enough whatever the stable one is.
LEVEL: Final = 0.01
#: What is bet on, as multiples of what is allowed; the wealth is spread over them evenly.
_RATIO_BETS: Final = (1.5, 2.0, 4.0, 8.0, 20.0)
_LEVEL_BETS: Final = (1.5, 2.0, 4.0, 8.0, 20.0)


@dataclass(frozen=True)
class Count:
    """Requests and how many of them failed."""

    requests: int = 0
    errors: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(self.requests + other.requests, self.errors + other.errors)


@dataclass(frozen=True)
class ErrorEvidence:
    """Everything that has to be kept between two looks: four counts and one number for each bet."""

    canary: Count = Count()
    stable: Count = Count()
    #: Logarithms of the wealth of each bet on the ratio.
    ratio: tuple[float, ...] = (0.0,) * len(_RATIO_BETS)

    def add(self, canary: Count, stable: Count) -> ErrorEvidence:
        """With what one interval brought. Within an interval the shares of the traffic are taken as fixed."""
        ratio = self.ratio
        if canary.requests and stable.requests and canary.errors + stable.errors:
            ratio = tuple(
                wealth + _won(bet, canary, stable)
                for wealth, bet in zip(self.ratio, _RATIO_BETS, strict=True)
            )
        return replace(self, canary=self.canary + canary, stable=self.stable + stable, ratio=ratio)

    @property
    def e_value(self) -> float:
        """The wealth by which "no worse" is refuted; 1 at the start."""
        return math.exp(min(700.0, _mean(self.ratio), _mean(_level(self.canary))))


def _won(bet: float, canary: Count, stable: Count) -> float:
    """Log-likelihood ratio of whose errors they are: the bet against what is just allowed."""
    worse, allowed = (_part(RATIO * times, canary, stable) for times in (bet, 1.0))
    return canary.errors * math.log(worse / allowed) + stable.errors * math.log((1 - worse) / (1 - allowed))


def _part(times: float, canary: Count, stable: Count) -> float:
    """Part of all errors that are the canary's if it fails `times` as often."""
    return times * canary.requests / (times * canary.requests + stable.requests)


def _level(canary: Count) -> Iterable[float]:
    good = canary.requests - canary.errors
    for bet in _LEVEL_BETS:
        rate = LEVEL * bet
        yield canary.errors * math.log(rate / LEVEL) + good * math.log((1 - rate) / (1 - LEVEL))


def _mean(logarithms: Iterable[float]) -> float:
    """Logarithm of the mean of what these are the logarithms of."""
    found = list(logarithms)
    most = max(found)
    return most + math.log(sum(math.exp(x - most) for x in found) / len(found))
