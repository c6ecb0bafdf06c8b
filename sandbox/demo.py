"""The main job, shown on a real Kubernetes: apply, serve, scale, lose an engine, roll out, delete.

make demo            runs it and cleans up
make demo KEEP=1     leaves everything running and prints how to use it
make demo-scale      only the burst of requests that the replicas follow
"""

from __future__ import annotations

import json
import signal
import sys
import time
import urllib.request
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.live import Live
from rich.table import Table

from . import demo_scale
from . import lab as labs
from .client import Sandbox
from .judge import Verdict, judge
from .lab import Lab
from .load import Outcome, lagged

NAME = "chat"
MODEL = "meta-llama/Llama-3.1-8B-Instruct"
NEXT_MODEL = "Qwen/Qwen2.5-7B-Instruct"
STREAM_TOKENS = 50


@dataclass
class Demo:
    """Runs named steps, prints their times, and says where to look when one fails."""

    lab: Lab
    console: Console
    keep: bool
    #: The sandbox is this run's own, and so is its end.
    started: bool = False
    #: A table that belongs below the line of the step that is running.
    pending: Table | None = None

    def step(self, title: str, action: Callable[[], str], *, spinner: bool = True) -> None:
        """One step: spinner while it runs, its time and what came of it afterwards."""
        begin = time.monotonic()
        try:
            with self.console.status(title) if spinner else nullcontext():
                result = action()
        except Exception as error:
            self.console.print(f"[bold red]failed[/] {title}")
            self.console.print(f"{type(error).__name__}: {error}", markup=False)
            self.console.print(f"Logs: {self.lab.sandbox.logs_dir}", markup=False)
            raise SystemExit(1) from error
        seconds = time.monotonic() - begin
        self.console.print(
            f"[green]ok[/] {seconds:6.1f} s  {title}" + (f"  [dim]{result}[/]" if result else "")
        )
        if self.pending is not None:
            self.console.print(self.pending)
            self.pending = None

    def live_step(self, title: str, action: Callable[[Callable[[Table], None]], str]) -> None:
        """A step that shows a table while it runs: `action` gets what shows it."""
        tables: list[Table] = []

        def run() -> str:
            # The spinner of a step and a live table can't share the screen.
            with Live(console=self.console, transient=True, refresh_per_second=2) as live:

                def show(table: Table) -> None:
                    tables.append(table)
                    live.update(table)

                result = action(show)
            self.pending = tables[-1] if tables else None
            return result

        self.console.print(f"[dim]{title} …[/]")
        self.step(title, run, spinner=False)

    def set_up(self) -> None:
        """What every part needs."""
        self.step("Start Kubernetes (3 GPU nodes, 2 CPU nodes)", self._start)
        self.step("Install the operator with Helm", self._install)

    def scale(self) -> None:
        """A burst of requests."""
        title = (
            f"Replicas follow a burst of {demo_scale.OPEN} requests, {demo_scale.SLOTS} at once in an engine "
            "(HorizontalPodAutoscaler; scale-down without the usual five minutes)"
        )
        self.live_step(title, lambda show: demo_scale.burst(self.lab, show))

    def run(self) -> None:
        """All steps in their order."""
        self.set_up()
        self.step(f"kubectl apply an InferenceCluster for {MODEL}", self._apply)
        self.step("Stream a chat completion through the gateway", self._chat)
        self.step("kubectl scale ic from 1 to 3", self._scale)
        self.step("Kill one of three engines under 20 requests/s", self._kill)
        self.step(f"Roll out another model ({NEXT_MODEL}) under traffic", self._roll_out)

        self.scale()

    def delete(self) -> None:
        """The last step: nothing is left."""
        self.step("Delete the InferenceCluster", self._delete)

    # --- steps ----------------------------------------------------------------------------------------

    def _start(self) -> str:
        self.lab.sandbox.up(die_with_parent=not self.keep)
        self.started = True
        version = self.lab.get("version") or {}
        return f"Kubernetes {version.get('gitVersion')}"

    def _install(self) -> str:
        self.lab.install_operator()
        return "2 replicas, one leads"

    def _apply(self) -> str:
        self.lab.apply(labs.manifest(NAME, MODEL))
        cluster = self.lab.until_ready(NAME, timeout=60)
        plan = cluster["status"].get("plan", {})
        return f"Ready; {plan.get('gpus')} GPU a replica, up to {plan.get('maxConcurrency')} requests at once"

    def _chat(self) -> str:
        with self.lab.sandbox.forward(f"default/{NAME}-gateway") as port:
            return stream_chat(port, NAME)

    def _scale(self) -> str:
        self.lab.scale(NAME, 3)
        cluster = self.lab.until_ready(NAME, replicas=3)
        nodes = {pod["spec"]["nodeName"] for pod in self.lab.engines(NAME)}
        return f"{cluster['status']['readyReplicas']} engines on {len(nodes)} nodes"

    def _kill(self) -> str:
        victim = self.lab.engines(NAME)[0]["metadata"]["name"]
        with self.lab.load(NAME, NAME, rate=20, seconds=10, tokens=STREAM_TOKENS) as outcomes:
            time.sleep(4)
            fault = time.time()
            self.lab.sandbox.process_fault("kill", f"default/{victim}", "engine")
        verdict = judge(outcomes, fault, victim)
        check_load(outcomes)
        if verdict.lost or verdict.cut_elsewhere:
            raise RuntimeError(
                f"lost: {verdict.lost}, streams cut elsewhere: {verdict.cut_elsewhere}: {verdict.errors}"
            )
        self.lab.until_ready(NAME, replicas=3)
        self.pending = failover_table(len(outcomes), verdict)
        return "and it came back"

    def _roll_out(self) -> str:
        cluster = self.lab.cluster(NAME) or {}
        old = cluster["status"]["revisions"]["stable"]
        with self.lab.load(NAME, NAME, rate=10, seconds=45, tokens=STREAM_TOKENS) as outcomes:
            patch = {"spec": {"model": {"id": NEXT_MODEL}}}
            self.lab.sandbox.kubectl(["patch", "ic", NAME, "--type=merge", "-p", json.dumps(patch)])
            self.lab.until_ready(NAME, replicas=3, timeout=120)
        bad = [outcome.error for outcome in outcomes if outcome.error]
        check_load(outcomes)
        if bad:
            raise RuntimeError(
                f"{len(bad)} of {len(outcomes)} requests failed during the rollout: {sorted(set(bad))}"
            )
        new = (self.lab.cluster(NAME) or {})["status"]["revisions"]["stable"]
        return f"revision {old} -> {new}, 0 of {len(outcomes)} requests lost"

    def _delete(self) -> str:
        self.lab.delete(NAME)
        self.lab.until("every child is gone", lambda: not self.lab.children(NAME), timeout=90)
        return "0 objects left"


def failover_table(requests: int, verdict: Verdict) -> Table:
    """What the fault did to the traffic."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 12))
    table.add_row("requests sent during the step", str(requests))
    table.add_row("lost, of those that arrived after the kill", str(verdict.lost))
    table.add_row("longest wait of a later request for another engine", f"{verdict.switched_seconds:.1f} s")
    table.add_row("streams cut that ran on the killed engine", str(verdict.cut))
    table.add_row("streams cut on other engines", str(verdict.cut_elsewhere))
    return table


def check_load(outcomes: list[Outcome]) -> None:
    """A run in which the generator itself lagged shows nothing."""
    if lagged(outcomes):
        raise RuntimeError(
            "the load generator couldn't keep its schedule: this machine is too busy, try again"
        )


def stream_chat(port: int, model: str) -> str:
    """Send one streamed chat completion to localhost:port; returns the start of the answer and its timing."""
    body = {
        "model": model,
        "stream": True,
        "max_tokens": 24,
        "messages": [{"role": "user", "content": "Hello, who are you?"}],
    }
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    begin, first, text = time.monotonic(), None, ""
    with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310 (http to this machine)
        for line in response:
            if not line.startswith(b"data: {"):
                continue
            for choice in json.loads(line[6:])["choices"]:
                token = choice["delta"].get("content") or ""
                first = first or (time.monotonic() if token else None)
                text += token
    if first is None:
        raise RuntimeError("the stream had no token")
    return f"first token after {first - begin:.2f} s: {text[:40]!r}… (words of the engine simulator)"


HOW_TO_USE = """
Everything is left running (the last step, deletion, was skipped). In an ordinary shell:

  export KUBECONFIG={kubeconfig} PATH={programs}:$PATH

  kubectl get ic
  kubectl inference status {name}          # also: top, explain, chat, render
  kubectl describe ic {name}
  kubectl scale ic {name} --replicas=2
  kubectl patch ic {name} --type=merge -p '{{"spec": {{"model": {{"id": "{model}"}}}}}}'    # another model
  kubectl patch ic {name} --type=merge -p '{{"spec": {{"autoscaling": {{"mode": "Automatic"}}}}}}'
  kubectl get hpa                          # now it scales by itself
  kubectl events --for ic/{name}
  kubectl logs -n inference-system -l app.kubernetes.io/name=inference-operator --prefix --tail=20

  {sandbox} forward default/{name}-gateway:80 --port 8080 &
  curl -N --retry 20 --retry-delay 1 --retry-connrefused http://127.0.0.1:8080/v1/chat/completions \\
    -H 'Content-Type: application/json' \\
    -d '{{"model": "{name}", "stream": true, "messages": [{{"role": "user", "content": "Hello"}}]}}'

  {sandbox} process kill default/POD       # an engine dies
  {sandbox} node cut gpu-0                 # a node loses its network; `node heal gpu-0` ends it
  {sandbox} --help

  {sandbox} down                           # or make sandbox-down
"""


@click.command(help=__doc__)
@click.option("--keep", is_flag=True, help="Leave the sandbox and the InferenceCluster running.")
@click.option("--only", type=click.Choice(["scale"]), help="Only this part.")
def main(keep: bool, only: str | None) -> None:
    if only and keep:
        raise click.UsageError("--keep goes with the whole demo: a part of it deletes what it made.")
    # Redirected output is for files: no wrapping in the middle of a result.
    console = Console(highlight=False, soft_wrap=True)
    sandbox = Sandbox("default" if keep else "demo")
    demo = Demo(Lab(sandbox), console, keep)
    begin = time.monotonic()
    # A demo that is told to stop cleans up like one that is interrupted.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        if only:
            demo.set_up()
            demo.scale()
        else:
            demo.run()
        if keep:
            console.print(how_to_use(sandbox), markup=False)
            return
        if not only:
            demo.delete()
    finally:
        if demo.started and not keep:
            with console.status("Clean up"):
                sandbox.down()
    console.print(f"[bold green]done[/] in {time.monotonic() - begin:.0f} s")


def how_to_use(sandbox: Sandbox) -> str:
    """What to type now, with this machine's paths."""
    return HOW_TO_USE.format(
        kubeconfig=sandbox.kubeconfig,
        # kubectl finds its plugins on the PATH.
        programs=f"{sandbox.bin('kubectl').parent}:{Path(sys.executable).parent}",
        name=NAME,
        model=MODEL,
        sandbox=labs.ROOT / "tools" / "sandbox",
    )


if __name__ == "__main__":
    main()
