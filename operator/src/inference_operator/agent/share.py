"""This gateway's part of the engines' concurrency: maxconn is per proxy, an engine's limit is not. Pure.

Parts follow demand: (own demand + base) / (demand of all gateways + base each). The base, 5 % of the
cluster's concurrency, keeps an idle gateway able to start at once. Rounding down from 1.1 x C keeps the sum
of all gateways at or below 1.1 C, except where the floor of 1 is more than that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from .model import Gateway

_SLACK: Final = 1.1
_BASE: Final = 0.05


def limits(gateway: Gateway, own: Mapping[str, int], peers: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Backend -> maxconn of each of its servers. Demand by `namespace/cluster`; `peers` are the live ones."""
    others = list(peers)
    concurrency: dict[str, int] = {}
    for pool in gateway.pools:
        cluster = f"{pool.namespace}/{pool.cluster}"
        total = pool.track.concurrency * len(pool.serving)
        concurrency[cluster] = concurrency.get(cluster, 0) + total
    result = {}
    for pool in gateway.pools:
        cluster = f"{pool.namespace}/{pool.cluster}"
        limit = pool.track.concurrency
        if others:
            base = max(1.0, _BASE * concurrency[cluster])
            mine = own.get(cluster, 0) + base
            everyone = mine + sum(peer.get(cluster, 0) + base for peer in others)
            limit = min(limit, max(1, int(_SLACK * limit * mine / everyone)))
        result[pool.backend] = limit
    return result
