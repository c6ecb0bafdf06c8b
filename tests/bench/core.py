"""`make bench-core`: start, failover, drain, zero writes, upgrade; real control plane, real processes.

QUICK=1 runs each figure a few times (CI); plain runs take about half an hour; FULL=1 adds a cold `make demo`
and `make test`.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import click

from inference_operator.api.names import report_name
from inference_operator.api.routing import GatewayReport
from sandbox import lab as labs
from sandbox.client import Sandbox
from sandbox.judge import NORMAL_WAIT_SECONDS, Verdict, judge
from sandbox.lab import Lab
from sandbox.load import Outcome, lagged

from .commands import timed_make
from .figures import Bench
from .upgrade import changed_operator

RATE = 20
STREAM_TOKENS = 50
VOID_TRIES = 3
#: A third of 20 requests/s of about 1 s each is 6 or 7 streams.
LEAST_STREAMS = 3


@dataclass(frozen=True)
class Size:
    """How much of each figure is measured."""

    starts: int
    faults: int
    clusters: int
    quiet_seconds: int


SIZES = {
    "quick": Size(starts=2, faults=1, clusters=3, quiet_seconds=20),
    "plain": Size(starts=10, faults=6, clusters=20, quiet_seconds=300),
    "full": Size(starts=10, faults=6, clusters=20, quiet_seconds=300),
}


class Void(Exception):
    """The run shows nothing (the load generator lagged, the faulty engine was idle) and is repeated."""


def sound(outcomes: list[Outcome]) -> list[Outcome]:
    """The outcomes, or Void when the generator itself was late."""
    if lagged(outcomes):
        raise Void("the load generator lagged")
    return outcomes


class Core:
    """The measurements, each leaving the lab as it found it."""

    def __init__(self, lab: Lab, bench: Bench, size: Size) -> None:
        self.lab = lab
        self.bench = bench
        self.size = size
        self.voids: list[str] = []

    # --- apply to first token -------------------------------------------------------------------------

    def starts(self) -> None:
        """apply -> first token through the gateway, seen from inside the cluster."""
        runs = []
        for index in range(self.size.starts):
            name = f"start-{index}"
            begin = time.time()
            self.lab.apply(labs.manifest(name))
            self.lab.until(
                "gateway Service",
                lambda n=name: self.lab.get(f"api/v1/namespaces/default/services/{n}-gateway"),
                10,
                0.05,
            )
            runs.append(self._first_token(name) - begin)
            self.lab.delete(name)
            self.lab.until("deletion", lambda n=name: not self.lab.children(n), 60)
            self.bench.say(f"start {index + 1}/{self.size.starts}: {runs[-1]:.1f} s")
        conditions = "8B model, simulated engine loads 2 s, 2 gateway pods, first use of the cluster's name"
        self.bench.add("apply to first token, median", runs, "s", 8, conditions, statistics.median(runs))
        self.bench.add("apply to first token, worst", runs, "s", 12, conditions)

    def _first_token(self, name: str) -> float:
        """Time of the first token of the first request that gets one (asks again every 0.1 s)."""
        deadline = time.time() + 60
        while time.time() < deadline:
            outcome = self.lab.start_load(name, name, rate=10, seconds=1, tokens=2, timeout=5).finish()
            times = [o.first_token for o in outcome if o.first_token]
            if times:
                return min(times)
        raise RuntimeError(f"{name} gave no token within 60 s")

    # --- faults ---------------------------------------------------------------------------------------

    def faults(self) -> None:
        """Killed, frozen, cut off: each on one of three engines on three nodes, under load."""
        name = "failover"
        self.lab.apply(labs.manifest(name, replicas=3))
        self.lab.until_ready(name, replicas=3)
        for kind in ("killed", "frozen", "cut off"):
            verdicts = []
            for index in range(self.size.faults):
                verdict = self._repeat_void(lambda k=kind, i=index: self._fault(name, k, i))
                verdicts.append(verdict)
                self.bench.say(
                    f"engine {kind} {index + 1}/{self.size.faults}: lost {verdict.lost}, "
                    f"switched after {verdict.switched_seconds:.2f} s, cut {verdict.cut}, "
                    f"elsewhere {verdict.cut_elsewhere} {verdict.errors}"
                )
            conditions = (
                f"3 engines on 3 nodes, 2 gateways elsewhere, {RATE} requests/s of {STREAM_TOKENS} tokens, "
                f"head and body in two writes; waits below {NORMAL_WAIT_SECONDS:g} s are usual and count as 0"
            )
            cut = [v.cut for v in verdicts]
            self.bench.add(
                f"engine {kind}: requests lost that arrived after",
                [v.lost for v in verdicts],
                "",
                0,
                conditions,
            )
            self.bench.add(
                f"engine {kind}: until no new request waits on it",
                [v.switched_seconds for v in verdicts],
                "s",
                3,
                conditions,
            )
            self.bench.add(
                f"engine {kind}: streams cut elsewhere",
                [v.cut_elsewhere for v in verdicts],
                "",
                0,
                conditions,
            )
            self.bench.notes.append(f"engine {kind}: streams that ran on it and were cut: {cut}")
        self.lab.delete(name)

    def _fault(self, name: str, kind: str, index: int) -> Verdict:
        self.lab.until_ready(name, replicas=3, timeout=120)
        self.lab.until("all engines up in both gateways", lambda: self._engines_up(name) == [3, 3], 60)
        pod = self.lab.engines(name)[index % 3]
        victim, node = pod["metadata"]["name"], pod["spec"]["nodeName"]
        box = self.lab.sandbox
        with self.lab.load(name, name, rate=RATE, seconds=12, tokens=STREAM_TOKENS, timeout=60) as outcomes:
            time.sleep(5)
            fault = time.time()
            if kind == "killed":
                box.process_fault("kill", f"default/{victim}", "engine")
            elif kind == "frozen":
                box.process_fault("freeze", f"default/{victim}", "engine")
            else:
                box.node_fault("cut", node)
        if kind == "frozen":
            box.process_fault("thaw", f"default/{victim}", "engine")
        if kind == "cut off":
            box.node_fault("heal", node)
        sound(outcomes)
        on_it = [o for o in outcomes if o.engine == victim and o.started < fault and (o.ended or 0) > fault]
        if len(on_it) < LEAST_STREAMS:
            raise Void(f"only {len(on_it)} streams ran on {victim} when it failed: no fault worth the name")
        return judge(outcomes, fault, victim)

    def _engines_up(self, name: str) -> list[int]:
        """Engines that each gateway sends requests to; Kubernetes calls a frozen one ready for longer."""
        reports = self.lab.get(f"api/v1/namespaces/default/configmaps/{report_name(name)}") or {}
        documents = [GatewayReport.model_validate_json(text) for text in reports.get("data", {}).values()]
        return [sum(engine.state == "UP" for engine in document.engines) for document in documents]

    def _repeat_void(self, run: Callable[[], Verdict]) -> Verdict:
        for _ in range(VOID_TRIES):
            try:
                return run()
            except Void as void:
                self.voids.append(str(void))
                self.bench.say(f"void: {void}; again")
        raise RuntimeError(f"{VOID_TRIES} void runs in a row: {self.voids[-VOID_TRIES:]}")

    # --- deletion -------------------------------------------------------------------------------------

    def deletion(self) -> None:
        """Delete the InferenceCluster while 5 s streams run."""
        name = "deleted"
        self.lab.apply(labs.manifest(name, replicas=2))
        self.lab.until_ready(name, replicas=2)
        # A request after the deletion may find no Service: it is given up after 10 s.
        running = self.lab.start_load(name, name, rate=4, seconds=5, tokens=250, timeout=10)
        time.sleep(4.5)
        deleted = time.time()
        self.lab.delete(name)
        outcomes = [o for o in sound(running.finish()) if o.started < deleted]
        ended = max(o.ended or deleted for o in outcomes)
        cut = [o for o in outcomes if o.error]
        left: list[str] = ["?"]
        while left and time.time() < ended + 15:
            left = self.lab.children(name)
            time.sleep(0.5)
        conditions = "2 engines, 4 requests/s of 250 tokens (about 5 s each)"
        self.bench.add("delete under load: streams cut", [len(cut)], "", 0, conditions)
        self.bench.add(
            "delete under load: objects left 15 s after the last stream", [len(left)], "", 0, conditions
        )
        if left:
            self.bench.notes.append(f"left after deletion: {left}")

    # --- zero writes ----------------------------------------------------------------------------------

    def quiet(self) -> None:
        """Converged clusters under steady traffic: the operator writes nothing but its Lease."""
        names = [f"quiet-{index}" for index in range(self.size.clusters)]
        for name in names:
            self.lab.apply(labs.manifest(name))
        for name in names:
            self.lab.until_ready(name, timeout=300)
        time.sleep(15)
        self.bench.say(f"{len(names)} clusters are ready; steady traffic for {self.size.quiet_seconds} s")
        loads = [
            self.lab.start_load(n, n, rate=0.5, seconds=self.size.quiet_seconds, tokens=10) for n in names[:5]
        ]
        begin = time.time()
        time.sleep(self.size.quiet_seconds)
        steady = self._operator_writes(begin)
        for load in loads:
            load.finish()
        self._restart_operator()
        restarted = time.time()
        time.sleep(min(60, self.size.quiet_seconds))
        after = self._operator_writes(restarted - 30)
        conditions = (
            f"{len(names)} clusters, {self.size.quiet_seconds} s, audit log without the Lease; "
            "the log is shown to be non-empty"
        )
        self.bench.add("operator writes under steady traffic", [len(steady)], "", 0, conditions)
        self.bench.add("operator writes after its restart", [len(after)], "", 0, conditions)
        if steady or after:
            self.bench.notes.append(f"writes: {sorted(set(steady + after))[:10]}")
        for name in names:
            self.lab.delete(name)

    def _operator_writes(self, since: float) -> list[str]:
        """verb resource name of each write by the operator's account since then."""
        mine = [
            e
            for e in self.lab.sandbox.audit_events()
            if f"{labs.OPERATOR_NAMESPACE}:" in e["user"].get("username", "")
        ]
        if not any(e["objectRef"].get("resource") == "deployments" for e in mine):
            raise RuntimeError("the audit log has no write of the operator at all: it proves nothing")
        if not any(e["objectRef"].get("resource") == "leases" and stamp(e) >= since for e in mine):
            raise RuntimeError("the audit log has no Lease renewal in the window: it proves nothing")
        return [
            " ".join(
                [
                    e["verb"],
                    *(str(e["objectRef"].get(key, "")) for key in ("resource", "subresource", "name")),
                ]
            )
            for e in mine
            if stamp(e) >= since and e["objectRef"].get("resource") != "leases"
        ]

    def _restart_operator(self) -> None:
        namespace = labs.OPERATOR_NAMESPACE
        before = {p["metadata"]["uid"] for p in self.lab.pods(namespace)}
        self.lab.sandbox.kubectl(["delete", "pods", "-n", namespace, "--all", "--wait=true"])

        def back() -> bool:
            pods = self.lab.pods(namespace)
            ready = [
                p
                for p in pods
                if any(
                    c["type"] == "Ready" and c["status"] == "True" for c in p["status"].get("conditions", [])
                )
            ]
            return len(ready) == len(pods) > 0 and not before & {p["metadata"]["uid"] for p in pods}

        self.lab.until("operator restarted", back, 60)

    # --- operator upgrade -----------------------------------------------------------------------------

    def upgrade(self) -> None:
        """A new operator that renders engines differently must not touch running ones."""
        name = "upgraded"
        self.lab.apply(labs.manifest(name, replicas=2))
        self.lab.until_ready(name, replicas=2)
        before = self._engine_identity(name)
        with changed_operator() as image:
            self.lab.install_operator(values={"image.repository": image})
            self.lab.until(
                "UpdateAvailable=True",
                lambda: (
                    labs.condition(self.lab.cluster(name) or {}, "UpdateAvailable").get("status") == "True"
                ),
                60,
            )
            time.sleep(10)
            after = self._engine_identity(name)
            restarts = len(before.symmetric_difference(after))
            self.bench.add(
                "operator upgrade with a changed pod template: engine restarts",
                [restarts],
                "",
                0,
                "helm upgrade to an operator that renders engines differently; UpdateAvailable=True was seen",
            )
            self.lab.install_operator()
        self.lab.delete(name)

    def _engine_identity(self, name: str) -> set[tuple[str, int]]:
        return {
            (p["metadata"]["uid"], sum(c["restartCount"] for c in p["status"].get("containerStatuses", [])))
            for p in self.lab.engines(name)
        }


def stamp(event: labs.Json) -> float:
    """Seconds since the epoch of an audit event."""
    return datetime.fromisoformat(event["requestReceivedTimestamp"].replace("Z", "+00:00")).timestamp()


#: Deletions come late: the garbage collector looks for new kinds, like ours, every 30 s only.
LIVE = ("faults", "starts", "deletion", "upgrade", "quiet")
#: Part -> title, target, in a fresh clone with empty caches, limit in seconds, conditions.
COMMANDS = {
    "demo": ("make demo, warm", "demo", False, 480, "2 cores, everything built"),
    "cold": ("make demo, cold", "demo", True, 1500, "2 cores, empty HOME and caches"),
    "test": ("make test, warm", "test", False, 1200, "2 cores"),
}


def command(bench: Bench, title: str, target: str, cold: bool, limit: float, conditions: str) -> None:
    """How long somebody waits for a command."""
    bench.add(title, [timed_make(target, cold=cold)], "s", limit, conditions)


@click.command(help=__doc__)
@click.option("--quick", is_flag=True)
@click.option("--full", is_flag=True)
@click.option("--only", multiple=True, type=click.Choice((*LIVE, *COMMANDS)), help="Only these.")
def main(quick: bool, full: bool, only: tuple[str, ...]) -> None:
    mode = "quick" if quick else "full" if full else "plain"
    bench = Bench("core", mode, only=only)
    sandbox = Sandbox("bench")
    core = Core(Lab(sandbox), bench, SIZES[mode])
    parts = only or ((*LIVE, *COMMANDS) if full else LIVE if quick else (*LIVE, "demo"))
    try:
        if live := [part for part in parts if part in LIVE]:
            sandbox.up()
            core.lab.install_operator()
            for part in live:
                bench.attempt(part, getattr(core, part))
    finally:
        sandbox.down()
    for part in parts:
        if part in COMMANDS:
            bench.attempt(part, lambda p=part: command(bench, *COMMANDS[p]))
    if core.voids:
        bench.notes.append(f"void runs that were repeated: {core.voids}")
    sys.exit(bench.finish())


if __name__ == "__main__":
    main()
