"""Gauges of what each cluster costs, made at scrape time: a cluster that is gone leaves no series."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from ..ports import ClusterCost

_LABELS: Final = ("namespace", "name", "currency")


class ClusterCosts(Collector):
    """The last measured cost of each cluster."""

    def __init__(self) -> None:
        self._costs: dict[tuple[str, str], ClusterCost] = {}

    def set(self, namespace: str, name: str, cost: ClusterCost | None) -> None:
        """Show this cost from now on; None = no series of this cluster."""
        self._costs.pop((namespace, name), None)
        if cost is not None:
            self._costs[namespace, name] = cost

    def clear(self) -> None:
        """Another process measures now."""
        self._costs.clear()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """All gauges."""
        tokens = GaugeMetricFamily(
            "inference_cluster_cost_per_million_tokens",
            "Cost of a million tokens; no series while there is no figure.",
            labels=_LABELS,
        )
        gpus = GaugeMetricFamily("inference_cluster_gpus_held", "GPUs that engine pods hold.", labels=_LABELS)
        price = GaugeMetricFamily(
            "inference_cluster_gpu_hour_price", "Price of one of them for an hour.", labels=_LABELS
        )
        for key, cost in self._costs.items():
            labels = (*key, cost.currency)
            gpus.add_metric(labels, cost.gpus)
            price.add_metric(labels, cost.gpu_hour_price)
            if cost.per_million_tokens is not None:
                tokens.add_metric(labels, cost.per_million_tokens)
        yield from (tokens, gpus, price)
