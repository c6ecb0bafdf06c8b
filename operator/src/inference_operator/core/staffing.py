"""How many replicas a demand needs, and the figure that makes a HorizontalPodAutoscaler land on that number.

    N(demand)  = the smallest N with  demand <= N x concurrency x utilisation(N)
    figure     = SCALE x a number in (N - 1, N]      served as an Object metric
    AverageValue = SCALE                             in the HorizontalPodAutoscaler

The HPA computes ceil(figure / AverageValue), whatever runs today (k/k: GetObjectPerPodMetricReplicas), so one
pass lands on N. A constant target per replica can't: the larger the pool, the fuller its replicas may be.
"""

from __future__ import annotations

import math
from typing import Final

#: AverageValue of our HorizontalPodAutoscalers: `kubectl get hpa` shows per cent of a well-filled replica.
SCALE: Final = 100
#: Quantities are counted in thousandths, as the HPA does.
_MILLI: Final = 1000
#: Share of a replica's slots that stays free at one replica: 0.3 at two, 0.095 at twenty.
_SPARE: Final = 0.3 * math.sqrt(2)


def utilisation(replicas: int) -> float:
    """Part of all slots that may be in use before another replica is needed: 0.58 at 1, 0.7 at 2, 0.9 at 20.

    Square-root staffing: what has to be spare for the same wait grows with the root of the pool.
    """
    return 1 - _SPARE / math.sqrt(replicas)


def capacity(replicas: int, concurrency: int) -> float:
    """Requests that so many replicas take within the SLO, each with `concurrency` at once. 0 at 0."""
    return replicas * concurrency * utilisation(replicas) if replicas else 0.0


def replicas_needed(demand: float, concurrency: int) -> int:
    """The smallest N with demand <= capacity(N). 0 for no demand. `concurrency` >= 1."""
    if demand <= 0:
        return 0
    # N - spare x root(N) = demand / concurrency is a quadratic in root(N).
    root = (_SPARE + math.sqrt(_SPARE**2 + 4 * demand / concurrency)) / 2
    found = max(1, math.ceil(root**2) - 1)  # rounding may have gone either way
    while capacity(found, concurrency) < demand:
        found += 1
    return found


def load(demand: float, concurrency: int) -> int:
    """The served figure in thousandths: SCALE x 1000 x a number in (N - 1, N], by how far N is used up."""
    needed = replicas_needed(demand, concurrency)
    if not needed:
        return 0
    below, above = capacity(needed - 1, concurrency), capacity(needed, concurrency)
    part = (demand - below) / (above - below)
    whole = SCALE * _MILLI
    return (needed - 1) * whole + max(1, min(whole, math.ceil(part * whole)))
