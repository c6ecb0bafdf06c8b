"""Is the new revision slower? A confidence sequence for a mean, valid at whatever moment one looks.

The figures are exact means of intervals: differences of an engine histogram's `_sum` and `_count` between two
scrapes (its buckets are too coarse to compare two revisions by). How much such means scatter tells how far
their mean can be trusted, whatever the distribution, and whether or not requests of the same moment resemble
each other.

The sequence is Robbins' normal mixture; with a variance that is estimated it holds in the limit, so a few
intervals are waited for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Final

#: Fewer intervals say nothing about how much they scatter.
LEAST_BATCHES: Final = 8
#: The sequence is tightest where the standard error is this part of the tolerance.
_PLANNED: Final = 0.25


class Verdict(Enum):
    """What the evidence says."""

    PASS = "pass"  # noqa: S105 - a verdict
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Mean:
    """Means of intervals, added up: all that has to be kept of them."""

    #: Intervals, and requests in them.
    batches: int = 0
    count: float = 0.0
    #: Of the values, and of the intervals' squared means times their counts.
    total: float = 0.0
    squares: float = 0.0

    def add(self, count: float, total: float) -> Mean:
        """With one interval of `count` requests whose values add up to `total`."""
        if count <= 0:
            return self
        squares = self.squares + total * total / count
        return Mean(self.batches + 1, self.count + count, self.total + total, squares)

    def __add__(self, other: Mean) -> Mean:
        return Mean(
            self.batches + other.batches,
            self.count + other.count,
            self.total + other.total,
            self.squares + other.squares,
        )

    @property
    def value(self) -> float:
        """The mean; `count` has to be above 0."""
        return self.total / self.count

    @property
    def variance(self) -> float:
        """Of `value`, by the scatter of the intervals; at least two of them."""
        scatter = max(0.0, self.squares - self.total * self.total / self.count)
        return scatter / (self.batches - 1) / self.count


@dataclass(frozen=True)
class Comparison:
    """Canary against stable: is its mean below (1 + tolerance) times the stable one?"""

    verdict: Verdict
    #: Canary's mean over the stable one; None = too little data.
    ratio: float | None = None
    #: Bounds of that ratio.
    low: float | None = None
    high: float | None = None


def compare(canary: Mean, stable: Mean, tolerance: float, alpha: float) -> Comparison:
    """`tolerance` 0.2 = 20 % slower is still no worse; `alpha` bounds the error of all looks together."""
    if min(canary.batches, stable.batches) < LEAST_BATCHES or stable.value <= 0:
        return Comparison(Verdict.UNKNOWN)
    allowed = 1 + tolerance
    variance = canary.variance + allowed**2 * stable.variance
    over = canary.value - allowed * stable.value
    planned = (_PLANNED * tolerance * stable.value) ** 2
    radius = _radius(max(variance, 1e-12 * stable.value**2), planned, alpha)
    ratio = canary.value / stable.value
    span = radius / stable.value
    if over - radius > 0:
        verdict = Verdict.FAIL
    elif over + radius <= 0:
        verdict = Verdict.PASS
    else:
        verdict = Verdict.UNKNOWN
    return Comparison(verdict, ratio, ratio - span, ratio + span)


def _radius(variance: float, planned: float, alpha: float) -> float:
    """Half the width of the sequence where the estimate has this variance; tightest at `planned`."""
    time = 1 / variance
    # The mixture's own variance that makes it so (Howard et al., time-uniform confidence sequences, 3.5).
    prior = 1 / planned / (2 * math.log(1 / alpha) + math.log(1 + 2 * math.log(1 / alpha)))
    return math.sqrt((time + prior) * math.log((time + prior) / (prior * alpha**2))) / time
