"""Simulated rollouts: how often the judge is wrong. The judge's own code, traffic from a random generator."""

from __future__ import annotations

import math
import random
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from statistics import NormalDist

from inference_operator.core.judge.errors import Count, ErrorEvidence
from inference_operator.core.judge.means import Mean, Verdict, compare

from .figures import Bench

#: Errors of all looks of one rollout together, for each of the two tests.
ALPHA = 0.002
#: A canary may be this much slower.
TOLERANCE = 0.2
SHARE = 0.05
RATE = 2.0
INTERVAL_SECONDS = 5.0
MOST_REQUESTS = 2000
SIGMA = 0.5


@dataclass(frozen=True)
class Canary:
    """What the new revision is like, beside a stable one with 0.5 % errors and a mean of 1."""

    errors: float = 0.005
    slower: float = 1.0


BASE = Canary()


def wilson(hits: int, runs: int, confidence: float = 0.95) -> tuple[float, float]:
    """Interval of a rate."""
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    middle = (hits + z * z / 2) / (runs + z * z)
    half = z / (runs + z * z) * math.sqrt(hits * (runs - hits) / runs + z * z / 4)
    return max(0.0, middle - half), min(1.0, middle + half)


def rollout(seed: int, canary: Canary) -> Verdict:
    """One canary at 2 requests/s until a verdict or the cap; PASS only if all checks pass at the end."""
    dice = random.Random(seed)
    errors, new, old = ErrorEvidence(), Mean(), Mean()
    per_interval = int(RATE * INTERVAL_SECONDS)
    # Of a much larger stable pool a part is enough: its mean is the better known one anyway.
    beside = min(40, round(per_interval * (1 - SHARE) / SHARE))
    while errors.canary.requests < MOST_REQUESTS:
        errors = errors.add(_count(dice, per_interval, canary.errors), _count(dice, beside, BASE.errors))
        new = new.add(per_interval, _sum(dice, per_interval, canary.slower))
        old = old.add(beside, _sum(dice, beside, 1.0))
        if errors.e_value >= 1 / ALPHA or compare(new, old, TOLERANCE, ALPHA).verdict is Verdict.FAIL:
            return Verdict.FAIL
    return compare(new, old, TOLERANCE, ALPHA).verdict


def _count(dice: random.Random, requests: int, rate: float) -> Count:
    return Count(requests, sum(dice.random() < rate for _ in range(requests)))


def _sum(dice: random.Random, requests: int, mean: float) -> float:
    mu = math.log(mean) - SIGMA**2 / 2
    return sum(dice.lognormvariate(mu, SIGMA) for _ in range(requests))


#: Title, what the canary is like, which verdicts are wrong, limit in per cent.
CASES: tuple[tuple[str, Canary, set[Verdict], float], ...] = (
    ("a harmless change is rolled back", BASE, {Verdict.FAIL}, 1.0),
    ("5 % errors aren't caught", Canary(errors=0.05), {Verdict.PASS, Verdict.UNKNOWN}, 1.0),
    # Held is good enough: it isn't promoted.
    ("TTFT +30 % is promoted", Canary(slower=1.3), {Verdict.PASS}, 10.0),
)


def simulate(bench: Bench, runs: int) -> None:
    """The three rates, each with its 95 % interval; the upper end of it has to keep the limit."""
    traffic = (
        f"0.5 % base errors, log-normal latency with sigma {SIGMA}, canary at {RATE:g} requests/s, "
        f"{MOST_REQUESTS} requests at most"
    )
    with ProcessPoolExecutor() as pool:
        for title, canary, wrong, limit in CASES:
            found = list(pool.map(rollout, range(runs), [canary] * runs, chunksize=50))
            hits = sum(verdict in wrong for verdict in found)
            low, high = (100 * end for end in wilson(hits, runs))
            told = f"{hits} of {runs}, 95 % interval {low:.2f} to {high:.2f} %, whose upper end is judged"
            undecided = f"undecided: {found.count(Verdict.UNKNOWN)}"
            bench.add(
                f"simulated rollouts: {title}",
                [round(100 * hits / runs, 3)],
                "%",
                limit,
                f"{told}; {undecided}; {traffic}",
                high,
            )
