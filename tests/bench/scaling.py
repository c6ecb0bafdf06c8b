"""Figures of autoscaling: the jump, the calm, the way back, and metrics that are missing."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from inference_operator.core.staffing import replicas_needed
from sandbox import lab as labs
from sandbox.lab import OPERATOR_NAMESPACE, Lab
from sandbox.load import lagged

from .figures import Bench

OPEN = 40
#: Where the number has to stay: 40 needs 7 replicas and 39 needs 6, and between two requests of a closed loop
#: one is always missing.
STEADY = 44
SLOTS = 8
MAX_REPLICAS = 10
#: Kubernetes' own default, and the sandbox's.
SYNC_SECONDS = 15
#: Down at once, but for a single low look: when a gateway dies, its requests are gone for a moment, and so is
#: the demand. A figure that is too small for longer shows.
NERVOUS = {
    "stabilizationWindowSeconds": 20,
    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
}


@dataclass(frozen=True)
class Policy:
    """How many replicas may go within a period of so many seconds; None = all of them."""

    replicas: int | None
    period: int

    def rendered(self) -> dict[str, Any]:
        """As in spec.autoscaling.behavior."""
        if self.replicas is None:
            return {"type": "Percent", "value": 100, "periodSeconds": self.period}
        return {"type": "Pods", "value": self.replicas, "periodSeconds": self.period}

    def periods(self, away: int) -> int:
        """Periods in which that many replicas are gone."""
        return 1 if self.replicas is None else math.ceil(away / self.replicas)


@dataclass(frozen=True)
class Size:
    """How much is measured. Seconds."""

    jumps: int
    calm: int
    #: 0 = not measured in this mode.
    faults: int
    #: The way back: window, and what may go within a period.
    window: int
    policy: Policy


SIZES = {
    "quick": Size(jumps=1, calm=15, faults=0, window=20, policy=Policy(None, 15)),
    "plain": Size(jumps=3, calm=600, faults=300, window=60, policy=Policy(1, 15)),
    "full": Size(jumps=10, calm=600, faults=300, window=300, policy=Policy(1, 120)),
}


@dataclass
class Watch:
    """spec.replicas and the engines that are ready, several times a second."""

    lab: Lab
    name: str
    seen: list[tuple[float, int, int]] = field(default_factory=list)

    @contextmanager
    def running(self) -> Iterator[Watch]:
        stop = threading.Event()
        thread = threading.Thread(target=self._run, args=(stop,))
        thread.start()
        try:
            yield self
        finally:
            stop.set()
            thread.join()

    def _run(self, stop: threading.Event) -> None:
        # A client of its own: those of the Kubernetes library aren't meant to be shared between threads.
        lab = Lab(self.lab.sandbox)
        while not stop.is_set():
            cluster = lab.cluster(self.name) or {}
            status = cluster.get("status", {})
            self.seen.append((time.time(), cluster["spec"]["replicas"], status.get("readyReplicas", 0)))
            time.sleep(0.25)

    def first(self, holds: Callable[[int], bool]) -> float:
        """Time of the first sight of a wanted number."""
        return next(at for at, replicas, _ in self.seen if holds(replicas))

    @property
    def replicas(self) -> list[int]:
        return [replicas for _, replicas, _ in self.seen]


class Scaling:
    """One after another; each deletes its cluster and doesn't wait for its end."""

    def __init__(self, lab: Lab, bench: Bench, size: Size) -> None:
        self.lab = lab
        self.bench = bench
        self.size = size
        self.lost = 0

    def jump(self) -> None:
        """From nothing to 40 open requests on one replica."""
        wanted = replicas_needed(OPEN, SLOTS)
        seconds, reached, over = [], [], []
        for index in range(self.size.jumps):
            name = f"jump-{index}"
            self._apply(name, {})
            with Watch(self.lab, name).running() as watch:
                begin = time.time()
                load = self.lab.start_load(name, name, concurrent=OPEN, seconds=45, tokens=100)
                self.lab.until("the HPA's write", lambda w=watch: max(w.replicas, default=0) > 1, 40)
                self.lab.until_ready(name, replicas=watch.replicas[-1], timeout=60)
                self._finish(load)
            seconds.append(watch.first(lambda n: n > 1) - begin)
            reached.append(next(n for n in watch.replicas if n > 1))
            over.append(max(watch.replicas) - wanted)
            self.bench.say(f"jump {index + 1}/{self.size.jumps}: {reached[-1]} after {seconds[-1]:.1f} s")
            self.lab.delete(name)
        conditions = (
            f"1 replica at concurrency {SLOTS}, maxReplicas {MAX_REPLICAS}, HPA sync {SYNC_SECONDS} s"
        )
        title = f"demand jumps to {OPEN}"
        self.bench.add(f"{title}: until the HPA's write", seconds, "s", 20, conditions)
        text = f"the smallest N with {OPEN} <= N x {SLOTS} x utilisation(N) is {wanted}"
        away = [float(abs(n - wanted)) for n in reached]
        self.bench.add(f"{title}: replicas away from the right number", away, "", 0, text)
        self.bench.add(f"{title}: overshoot", [float(max(0, n)) for n in over], "", 0, conditions)

    def calm(self) -> None:
        """Constant load, and its end."""
        name, policy = "calm", self.size.policy
        self._apply(name, {"stabilizationWindowSeconds": self.size.window, "policies": [policy.rendered()]})
        wanted = replicas_needed(STEADY, SLOTS)
        load = self.lab.start_load(name, name, concurrent=STEADY, seconds=45 + self.size.calm, tokens=100)
        self.lab.until("scaled out", lambda: self._replicas(name) == wanted, 45)
        self.lab.until_ready(name, replicas=wanted, timeout=60)
        with Watch(self.lab, name).running() as watch:
            time.sleep(self.size.calm)
        events = sum(
            before != after for before, after in zip(watch.replicas, watch.replicas[1:], strict=False)
        )
        self.bench.add(
            "constant load: scale events", [events], "", 0, f"{STEADY} open requests for {self.size.calm} s"
        )
        self._finish(load)
        begin = time.time()
        # A period ends between two looks of the HPA, which come every 15 s.
        limit = self.size.window + policy.periods(wanted - 1) * policy.period + SYNC_SECONDS
        self.lab.until("back at the minimum", lambda: self._replicas(name) == 1, limit + 60, 0.5)
        taken = policy.replicas or "all of them"
        self.bench.add(
            "load ends: back at the minimum",
            [time.time() - begin],
            "s",
            limit,
            f"from {wanted} replicas, window {self.size.window} s, {taken} per {policy.period} s; the limit "
            "is window + periods + one sync of the HPA",
        )
        self.lab.delete(name)

    def faults(self) -> None:
        """Metrics pods killed, an agent hung, a gateway killed: never lower."""
        if not self.size.faults:
            return
        name = "missing"
        self._apply(name, NERVOUS)
        wanted = replicas_needed(STEADY, SLOTS)
        load = self.lab.start_load(name, name, concurrent=STEADY, seconds=90 + self.size.faults, tokens=100)
        self.lab.until("scaled out", lambda: self._replicas(name) == wanted, 45)
        self.lab.until_ready(name, replicas=wanted, timeout=60)
        box = self.lab.sandbox
        hung, killed = (pod["metadata"]["name"] for pod in self.lab.gateways(name)[:2])
        with Watch(self.lab, name).running() as watch:
            for pod in self.lab.pods(OPERATOR_NAMESPACE, "app.kubernetes.io/component=metrics-api"):
                box.process_fault("kill", f"{OPERATOR_NAMESPACE}/{pod['metadata']['name']}", "metrics")
            time.sleep(self.size.faults / 4)
            box.process_fault("freeze", f"default/{hung}", "agent")
            time.sleep(self.size.faults / 4)
            for container in ("haproxy", "agent"):
                box.process_fault("kill", f"default/{killed}", container)
            time.sleep(self.size.faults / 2)
        low = min(watch.replicas)
        self.bench.add(
            "metrics pods killed, an agent hung, a gateway killed: replicas lost",
            [float(max(0, wanted - low))],
            "",
            0,
            f"{STEADY} open requests, one fault after another within {self.size.faults} s; scale-down at "
            "once after 20 s, so that a wrong figure would show",
        )
        self.bench.notes.append(
            f"metrics missing: replicas between {low} and {max(watch.replicas)}, {wanted} wanted"
        )
        # Streams of the killed gateway are cut: this is about replicas.
        load.finish()
        self.lab.delete(name)

    # --- helpers --------------------------------------------------------------------------------------

    def _apply(self, name: str, down: dict[str, Any]) -> None:
        cluster = labs.manifest(
            name,
            engine={"args": [f"--max-num-seqs={SLOTS}"]},
            autoscaling={"maxReplicas": MAX_REPLICAS, "behavior": {"scaleDown": down}},
        )
        self.lab.apply(cluster)
        self.lab.until_ready(name, replicas=1)
        self.lab.until(
            "the scaler acts",
            lambda: labs.condition(self.lab.cluster(name) or {}, "ScalingActive").get("status") == "True",
            60,
        )

    def _replicas(self, name: str) -> int:
        return int((self.lab.cluster(name) or {})["spec"]["replicas"])

    def _finish(self, load: labs.Running) -> None:
        outcomes = load.finish()
        if lagged(outcomes):
            self.bench.notes.append("the load generator lagged in a run about scaling")
        self.lost += sum(1 for outcome in outcomes if outcome.error)

    def requests(self) -> None:
        """Last: what all of the above lost."""
        self.bench.add("scaling out and in: requests lost", [self.lost], "", 0, "all runs above together")
