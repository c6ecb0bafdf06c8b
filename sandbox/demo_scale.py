"""A part of the demo: a burst of requests, and replicas that follow it out and in again."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from rich.table import Table

from . import lab as labs
from .lab import Lab
from .load import lagged

NAME = "burst"
OPEN = 30
SLOTS = 8
MAX_REPLICAS = 6
SECONDS = 45
#: Kubernetes waits five minutes before it takes a replica away, and so do we by default: too long for a demo.
IMPATIENT = {
    "stabilizationWindowSeconds": 0,
    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
}
_BAR = 30
_METRIC = (
    "apis/custom.metrics.k8s.io/v1beta2/namespaces/default/"
    f"inferenceclusters.inferencecluster.io/{NAME}/inference_demand_requests"
)


@dataclass
class Timeline:
    """What was seen, second by second; a row of the table for each change."""

    began: float = field(default_factory=time.monotonic)
    rows: list[tuple[float, int, int, int]] = field(default_factory=list)

    def see(self, demand: int, wanted: int, ready: int) -> None:
        """One look."""
        now = time.monotonic() - self.began
        last = self.rows[-1] if self.rows else None
        if last is None or last[2:] != (wanted, ready) or abs(last[1] - demand) > SLOTS:
            self.rows.append((now, demand, wanted, ready))

    def table(self) -> Table:
        """For people."""
        table = Table("time", "open requests", "replicas wanted", "ready", "", box=None, padding=(0, 2, 0, 4))
        for at, demand, wanted, ready in self.rows:
            bar = "█" * round(_BAR * demand / OPEN)
            table.add_row(f"{at:.0f} s", str(demand), str(wanted), str(ready), bar)
        return table


def burst(lab: Lab, show: Callable[[Table], None]) -> str:
    """The whole story; returns what came of it. Raises RuntimeError when a request was lost."""
    lab.apply(
        labs.manifest(
            NAME,
            engine={"args": [f"--max-num-seqs={SLOTS}"]},
            autoscaling={"maxReplicas": MAX_REPLICAS, "behavior": {"scaleDown": IMPATIENT}},
        )
    )
    lab.until_ready(NAME, replicas=1)
    lab.until("the autoscaler", lambda: _acts(lab), 60)
    timeline = Timeline()
    running = lab.start_load(NAME, NAME, concurrent=OPEN, seconds=SECONDS, tokens=100)
    most = first = 0.0

    def look() -> bool:
        nonlocal most, first
        cluster = lab.cluster(NAME) or {}
        wanted = int(cluster["spec"]["replicas"])
        timeline.see(_demand(lab), wanted, int(cluster["status"].get("readyReplicas", 0)))
        show(timeline.table())
        if wanted > 1 and not first:
            first = time.monotonic() - timeline.began
        most = max(most, wanted)
        ended = time.monotonic() - timeline.began > SECONDS
        return ended and wanted == 1 and cluster["status"].get("readyReplicas") == 1

    lab.until("one replica again", look, SECONDS + 120, interval=1.0)
    outcomes = running.finish()
    back = time.monotonic() - timeline.began - SECONDS
    bad = sorted({outcome.error for outcome in outcomes if outcome.error})
    if lagged(outcomes):
        raise RuntimeError("the load generator couldn't keep up: this machine is too busy, try again")
    if bad:
        raise RuntimeError(f"requests were lost while the cluster scaled: {bad}")
    lab.delete(NAME)
    return (
        f"1 -> {most:.0f} replicas {first:.0f} s after the burst began, 1 again {back:.0f} s after its end, "
        f"0 of {len(outcomes)} requests lost"
    )


def _acts(lab: Lab) -> bool:
    return labs.condition(lab.cluster(NAME) or {}, "ScalingActive").get("status") == "True"


def _demand(lab: Lab) -> int:
    found = lab.get(_METRIC) or {}
    return int(found["items"][0]["value"].removesuffix("m")) // 1000
