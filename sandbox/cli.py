"""The command line: `tools/sandbox`, which is `python -m sandbox` in any folder."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import click
from rich.console import Console
from rich.table import Table

from sandbox import binaries, launcher, logview, nodes, prereqs, up
from sandbox.client import NodeOperation, ProcessOperation, Sandbox
from sandbox.errors import SandboxError
from sandbox.state import StateDir, Status, known, running

_out = Console(highlight=False)
_err = Console(stderr=True, highlight=False)


class _Group(click.Group):
    """Shows a SandboxError as text and not as a traceback, for every command."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except SandboxError as error:
            _err.print(f"Error: {error}", style="red", markup=False, soft_wrap=True)
            ctx.exit(1)


def _named(command: Callable[..., None]) -> Callable[..., None]:
    return click.option(
        "--name",
        default="default",
        show_default=True,
        help="Which sandbox; each has its own state and ports.",
    )(command)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
def main() -> None:
    """A real Kubernetes control plane on this machine, whose pods are local processes.

    etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kube-proxy and CoreDNS run in namespaces of
    their own, with GPU nodes that start pods as isolated processes. No container runtime, no root, no GPU.

    \b
    FIRST STEPS
      tools/sandbox up --detach
      export KUBECONFIG=$(tools/sandbox kubeconfig --path)
      kubectl get nodes
      tools/sandbox down

    \b
    FILES
      $XDG_STATE_HOME/inference-operator/sandbox/NAME       state; log/ holds one file per process,
                                                            audit.log all writes to the API server
      $XDG_CACHE_HOME/inference-operator/sandbox/bin-HASH   the programs, built once (ten minutes)

    \b
    ENVIRONMENT
      INFERENCE_SANDBOX_BIN    a folder with the programs already built; nothing is compiled then
    """


@main.command("prepare")
def _prepare() -> None:
    """Make this machine ready: install what is missing, build Kubernetes' programs (ten minutes, once).

    `up` does the same by itself; this is for what needs the programs without a sandbox.
    """
    prereqs.check()
    binaries.ensure(lambda text: _err.print(text, markup=False, soft_wrap=True))


@main.command("up")
@_named
@click.option("--detach", is_flag=True, help="Return when it is ready; it goes on in the background.")
@click.option("--gpu-nodes", default=3, show_default=True, help="Nodes gpu-0 ... with eight H100 each.")
@click.option("--cpu-nodes", default=2, show_default=True, help="Nodes cpu-0 ... without GPUs.")
@click.option(
    "--nodes",
    "node_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="JSON or YAML list of {name, labels, taints, capacity}, instead of the two counts.",
)
@click.option("--port", default=0, help="Port of the API server on 127.0.0.1.  [default: any free one]")
@click.option(
    "--hpa-sync-period", default="15s", show_default=True, help="How often autoscalers look (Go duration)."
)
@click.option(
    "--kubelet",
    "kubelet_module",
    default="sandbox.kubelet",
    show_default=True,
    help="Python module to run as the kubelet.",
)
def _up(detach: bool, gpu_nodes: int, cpu_nodes: int, node_file: Path | None, **rest: Any) -> None:
    """Start a sandbox: about ten seconds, after a first build of about ten minutes.

    In the foreground Ctrl-C stops it; when this process is killed, everything in the sandbox ends with it.
    """
    node_list = nodes.load_nodes(node_file) if node_file else nodes.default_nodes(gpu_nodes, cpu_nodes)
    options = up.Options(nodes=node_list, **rest)
    with _Progress() as progress:
        if detach:
            _announce(options.name, up.start_detached(options, progress))
        else:

            def ready(status: Status) -> None:
                progress.stop()
                _announce(options.name, status)
                _out.print("Ctrl-C stops it.")

            up.run(options, progress, ready)
            _out.print(f"Stopped. Logs are in {Sandbox(options.name).logs_dir}", soft_wrap=True)


class _Progress:
    """Steps with their times: a spinner on a terminal, lines elsewhere."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._spinner = _err.status("starting")

    def __enter__(self) -> _Progress:
        if _err.is_terminal:
            self._spinner.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __call__(self, step: str) -> None:
        if _err.is_terminal:
            self._spinner.update(step)
        _err.print(f"{time.monotonic() - self._started:6.1f} s  {step}", markup=False)

    def stop(self) -> None:
        self._spinner.stop()


def _announce(name: str, status: Status) -> None:
    sandbox = Sandbox(name)
    _out.print(f"Sandbox {name} is ready after {status.ready_seconds:.1f} s: https://127.0.0.1:{status.port}")
    _out.print(f"export KUBECONFIG={sandbox.kubeconfig} PATH={status.bin_dir}:$PATH", soft_wrap=True)


@main.command("down")
@_named
@click.option("--all", "every", is_flag=True, help="All sandboxes of this user, and what stopped ones left.")
@click.option("--keep-logs", is_flag=True, help="Leave log/ and audit.log in the state directory.")
def _down(name: str, every: bool, keep_logs: bool) -> None:
    """Stop a sandbox and remove its state. Does nothing when there is none."""
    for each in known() if every else [name]:
        sandbox = Sandbox(each)
        stopped = sandbox.down(keep_logs=keep_logs)
        _out.print(f"Stopped sandbox {each}." if stopped else f"Sandbox {each} was not running.")
        if keep_logs:
            _out.print(f"Logs are in {sandbox.logs_dir}", soft_wrap=True)
        if not stopped and not every and (others := running()):
            _out.print(f"Running: {', '.join(others)} (stop one with --name, all with --all)", soft_wrap=True)


@main.command("list")
def _list() -> None:
    """List all sandboxes of this user, with state, age and address.

    A stopped one is listed as long as its logs are kept.
    """
    names = known()
    if not names:
        _out.print(f"no sandboxes; start one with `{launcher.command('up --detach')}`", soft_wrap=True)
        return
    table = Table("NAME", "STATE", "AGE", "ADDRESS", box=None)
    for name in names:
        status = Sandbox(name).status()
        age = _age(StateDir(name).age()) if status["running"] else "-"
        table.add_row(name, status["phase"], age, status["server"] or "-")
    _out.print(table)


def _age(seconds: float) -> str:
    """In one unit, as kubectl does it for old things: 42s, 12m, 3h, 2d."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f}{unit}"
    return f"{seconds:.0f}s"


@main.command("status")
@_named
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def _status(name: str, as_json: bool) -> None:
    """Show whether a sandbox runs, its address, its faults and its processes.

    Exit code 1 when it is not ready. Faults are nodes that are cut or off and containers that are frozen.
    """
    sandbox = Sandbox(name)
    status = sandbox.status()
    if status["phase"] == "ready":
        status["workload"] = sandbox.workload()
    if as_json:
        click.echo(json.dumps(status, indent=2))
    else:
        _out.print(f"{name}: {status['phase']} {status['server']}")
        if status["message"]:
            _out.print(status["message"], markup=False, soft_wrap=True)
        _out.print(f"state: {status['state']}", soft_wrap=True)
        for line in _workload_lines(status.get("workload")):
            _out.print(line, markup=False, soft_wrap=True)
        if status["processes"]:
            _out.print(_process_table(status["processes"]))
    sys.exit(0 if status["phase"] == "ready" else 1)


def _workload_lines(workload: dict[str, Any] | None) -> list[str]:
    if workload is None:
        return []
    faults = [f"node {node} is {state}" for node, state in workload["nodes"].items()]
    faults += [f"container {container} is frozen" for container in workload["frozen"]]
    return [f"pods: {workload['pods']}", f"faults: {', '.join(faults) or 'none'}"]


def _process_table(processes: list[dict[str, Any]]) -> Table:
    table = Table("PROCESS", "STATE", "AGE", "RESTARTS", box=None)
    for process in processes:
        state = "running" if process["running"] else f"ended with {process['exit_code']}"
        age = _age(time.time() - process["started"])
        table.add_row(process["name"], state, age, str(process["restarts"]))
    return table


@main.command("logs")
@_named
@click.argument("target", required=False)
@click.option("--lines", "-n", default=0, help="Only the last N lines.")
@click.option("--follow", "-f", is_flag=True, help="Go on with what is written, until Ctrl-C.")
@click.option("--previous", is_flag=True, help="The container's run before this one.")
def _logs(name: str, target: str | None, lines: int, follow: bool, previous: bool) -> None:
    """Print the log of TARGET; without one, list the logs there are.

    TARGET is a process of the plane (kube-apiserver, kubelet ...), or a pod's container as
    NAMESPACE/POD or NAMESPACE/POD/CONTAINER. Logs of deleted pods stay until the sandbox goes down. `kubectl
    logs` works as well, as long as the pod exists.
    """
    sandbox = Sandbox(name)
    logs = sandbox.logs()
    if target is None:
        _out.print("\n".join(logs) or "no logs", soft_wrap=True)
        return
    found = logview.find(logs, target, previous=previous, name=name)
    if follow and (len(found) > 1 or previous):
        raise SandboxError(
            "only one log can be followed, and only the current one",
            fix=f"leave --previous out and choose one of {', '.join(found)}",
        )
    for log, path in found.items():
        if len(found) > 1:
            click.echo(f"==> {log} <==")
        text, end = logview.last_lines(path, lines)
        click.echo(text)
        if follow:
            with contextlib.suppress(KeyboardInterrupt):
                for more in logview.follow(path, end, lambda: bool(sandbox.state.owner())):
                    click.echo(more, nl=False)


@main.command("kubeconfig")
@_named
@click.option("--path", "only_path", is_flag=True, help="Print the file's path instead of its content.")
def _kubeconfig(name: str, only_path: bool) -> None:
    """Print an administrator's kubeconfig that works in an ordinary shell."""
    sandbox = Sandbox(name)
    sandbox.state.require_ready()
    click.echo(sandbox.kubeconfig if only_path else sandbox.kubeconfig.read_text(), nl=only_path)


@main.command("node")
@_named
@click.argument("operation", type=click.Choice(get_args(NodeOperation)))
@click.argument("node")
def _node(name: str, operation: NodeOperation, node: str) -> None:
    """Make a NODE fail or recover.

    \b
    kill    power off: its pods and its heartbeat end at once
    start   power on after a kill
    cut     pull the network cable: packets of its pods vanish, processes go on
    heal    plug it in again
    """
    Sandbox(name).node_fault(operation, node)
    _out.print(f"{operation} {node}: done")


@main.command("process")
@_named
@click.argument("operation", type=click.Choice(get_args(ProcessOperation)))
@click.argument("pod", metavar="NAMESPACE/POD")
@click.option("--container", "-c", help="Which container.  [default: the first]")
@click.option("--signal", default="KILL", show_default=True, help="For kill.")
def _process(name: str, operation: ProcessOperation, pod: str, container: str | None, signal: str) -> None:
    """Make a container's process fail or recover.

    \b
    kill    send it a signal
    freeze  stop it without ending it: connections stay open, nothing answers
    thaw    let it go on
    """
    Sandbox(name).process_fault(operation, pod, container, signal)
    _out.print(f"{operation} {pod}: done")


@main.command("forward")
@_named
@click.argument("target", metavar="NAMESPACE/SERVICE[:PORT]")
@click.option("--port", default=0, help="Local port.  [default: any free one]")
def _forward(name: str, target: str, port: int) -> None:
    """Make a Service reachable at 127.0.0.1 until Ctrl-C, or until it is deleted."""
    forward = Sandbox(name).start_forward(target, port)
    _out.print(f"http://127.0.0.1:{forward.port} -> {target} ({forward.address})", soft_wrap=True)
    try:
        forward.wait()
    except KeyboardInterrupt:
        forward.close()


@main.command("exec", context_settings={"ignore_unknown_options": True})
@_named
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def _exec(name: str, command: tuple[str, ...]) -> None:
    """Run a COMMAND inside the plane's network, where cluster IPs and Service names work.

    \b
    tools/sandbox exec -- kubectl get pods -A
    tools/sandbox exec -- getent hosts kubernetes.default.svc
    """
    process = Sandbox(name).exec_in_plane(command)
    while True:
        try:
            code = process.wait()
            break
        except KeyboardInterrupt:  # the terminal has sent it to the command as well, whose answer counts
            continue
    sys.exit(code if code >= 0 else 128 - code)


for _each in (main, *main.commands.values()):
    _each.help = launcher.spelled_out(_each.help or "")
