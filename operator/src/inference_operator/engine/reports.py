"""Removes the reports of gateway pods that are gone from the report ConfigMap.

Its data belong to the agents, one key and one field manager each, and a dead agent can't remove its own. Ours
is a merge patch with null for exactly those keys: it owns nothing afterwards and touches no live agent's key.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api import names
from ..ports import Kube, Metrics, Object, Store


def orphans(report: Object | None, pods: Sequence[Object]) -> list[str]:
    """Names of gateway pods that have a report and don't exist, as far as the watches know."""
    alive = {pod["metadata"]["name"] for pod in pods}
    prefix = names.REPORT_KEY_PREFIX
    reported = [
        key.removeprefix(prefix) for key in (report or {}).get("data") or {} if key.startswith(prefix)
    ]
    return sorted(set(reported) - alive)


async def prune(kube: Kube, store: Store, metrics: Metrics, report: Object | None, gone: list[str]) -> None:
    """Drop the keys of pods that don't exist live either.

    The live look is for a report that came faster than the news of its pod: two watches have no common order.
    """
    if report is None:
        return
    namespace = report["metadata"]["namespace"]
    dead = [pod for pod in gone if await kube.find("Pod", namespace, pod) is None]
    if not dead:
        return
    patch: Object = {"data": {f"{names.REPORT_KEY_PREFIX}{pod}": None for pod in dead}}
    answer = await kube.merge("ConfigMap", namespace, report["metadata"]["name"], patch)
    store.upsert("ConfigMap", answer)
    metrics.child_written("ConfigMap", "merge")
