"""When the gateways are asked for tokens: only for clusters with a price, and once a minute each.

What is kept here only spares questions: a process that has just begun goes by the moment that stands in
status.cost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ..api.operator_config import Prices
from ..api.v1alpha1 import Cost, InferenceClusterSpec
from ..core.cost import SHORTEST_WINDOW, Held, hold, long_enough, per_million_tokens
from ..core.model import Observed, TokenWindow
from ..core.observe import timestamp
from ..ports import Clock, ClusterCost, Gateways, Metrics
from .queue import Key

#: Between two figures of a cluster. Seconds.
PERIOD: Final = 60.0
#: Between two questions while the gateways haven't looked for long enough. Seconds.
_SOONEST: Final = 10.0


@dataclass(frozen=True)
class _Asked:
    """The last question of one cluster."""

    #: Monotonic time of the next one.
    due: float
    #: The prices that it was asked for: others are a reason to ask at once.
    reason: tuple[Cost, Prices]


class Costs:
    """One for all clusters."""

    def __init__(
        self, *, gateways: Gateways, clock: Clock, metrics: Metrics, prices: Callable[[], Prices]
    ) -> None:
        """`prices` are those of the operator configuration, asked in every pass."""
        self._gateways = gateways
        self._clock = clock
        self._metrics = metrics
        self.prices = prices
        self._asked: dict[Key, _Asked] = {}

    async def tokens(self, spec: InferenceClusterSpec, observed: Observed) -> Sequence[TokenWindow] | None:
        """What the gateways have counted; None = it isn't time yet, or one of them says nothing."""
        prices = self.prices()
        key = observed.cluster.namespace, observed.cluster.name
        held = hold(spec, observed.revisions, prices)
        if held.price is None:
            self.gone(key)
            return None
        addresses = observed.gateway.addresses
        if not addresses or not self._due(key, (spec.cost, prices), observed):
            return None
        windows = await self._gateways.tokens(*key, addresses)
        self._asked[key] = _Asked(self._clock.monotonic() + _pause(windows), (spec.cost, prices))
        self._tell(key, held, windows)
        return windows

    def wake(self, observed: Observed) -> float | None:
        """Seconds until the next question; None = none is planned."""
        asked = self._asked.get((observed.cluster.namespace, observed.cluster.name))
        if not observed.gateway.addresses:
            # The watch tells of the first gateway that is ready.
            return None
        return max(0.0, asked.due - self._clock.monotonic()) if asked else None

    def gone(self, key: Key) -> None:
        """The cluster has no cost any more: it doesn't exist, or nobody knows a price."""
        self._asked.pop(key, None)
        self._metrics.cluster_cost(*key, None)

    def _due(self, key: Key, reason: tuple[Cost, Prices], observed: Observed) -> bool:
        asked = self._asked.get(key)
        if asked is None:
            before = observed.status.cost
            since = self._clock.now() - timestamp(before.measured) if before else PERIOD
            # Clocks differ: a moment in the future is no reason to wait for longer.
            asked = self._asked[key] = _Asked(
                self._clock.monotonic() + min(PERIOD, max(0.0, PERIOD - since)), reason
            )
        return asked.reason != reason or self._clock.monotonic() >= asked.due

    def _tell(self, key: Key, held: Held, windows: Sequence[TokenWindow] | None) -> None:
        assert held.price is not None  # noqa: S101 - narrows the type
        figure = per_million_tokens(held, windows or ())
        self._metrics.cluster_cost(
            *key,
            ClusterCost(
                held.currency, held.gpus, float(held.price), None if figure is None else float(figure)
            ),
        )


def _pause(windows: Sequence[TokenWindow] | None) -> float:
    """A gateway that has just begun is asked again as soon as it can say something."""
    if not windows or long_enough(windows):
        return PERIOD
    return max(_SOONEST, SHORTEST_WINDOW - min(window.seconds for window in windows))
