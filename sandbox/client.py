"""A sandbox from Python: for tests, benches and the demo.

    sandbox = Sandbox("mine")
    sandbox.up()
    sandbox.kubectl(["get", "nodes"])
    with sandbox.forward("default/llama-gateway:80") as port: ...
    sandbox.down()

All calls block; from an event loop use `asyncio.to_thread`.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from sandbox import binaries, nodes, prereqs, up
from sandbox.errors import SandboxError
from sandbox.forward import Forward
from sandbox.state import StateDir, Status, tail

Json = dict[str, Any]
NodeOperation = Literal["kill", "cut", "heal", "start"]
ProcessOperation = Literal["kill", "freeze", "thaw"]

_CONTROL_SECONDS = 30.0
_HELM_HOMES = ("CACHE", "CONFIG", "DATA")
_READS = frozenset({"get", "list", "watch"})


class Sandbox:
    """The sandbox called `name`, whether it runs or not; several with different names can run side by side.

    Methods that need it running raise SandboxError when it is not.
    """

    def __init__(self, name: str = "default") -> None:
        self.state = StateDir(name)
        self.name = name

    # --- life ------------------------------------------------------------------------------------------

    def up(
        self,
        *,
        gpu_nodes: int = 3,
        cpu_nodes: int = 2,
        node_list: list[nodes.Node] | None = None,
        port: int = 0,
        hpa_sync_period: str = "15s",
        kubelet_module: str = "sandbox.kubelet",
        die_with_parent: bool = False,
        progress: Callable[[str], None] = lambda _: None,
    ) -> Status:
        """Start it in the background and return when it is ready.

        `node_list` takes the place of the two counts. With `die_with_parent` it is stopped when the calling
        process ends, even by SIGKILL; call from the main thread then. Raises SandboxError, also when it is
        running already.
        """
        options = up.Options(
            name=self.name,
            nodes=nodes.default_nodes(gpu_nodes, cpu_nodes) if node_list is None else node_list,
            port=port,
            hpa_sync_period=hpa_sync_period,
            kubelet_module=kubelet_module,
        )
        return up.start_detached(options, progress, die_with_parent=die_with_parent)

    def down(self, *, keep_logs: bool = False) -> bool:
        """Stop it and remove its state; False when it did not run. Safe to repeat."""
        return up.stop(self.name, keep_logs=keep_logs)

    def status(self) -> Json:
        """Its last report with `running`, and the plane's processes as `sandbox.supervisor` lists them."""
        report = self.state.read_status()
        processes: list[Json] = []
        with contextlib.suppress(FileNotFoundError):
            processes = json.loads(self.state.processes_file.read_text())
        running = bool(self.state.owner())
        return {
            "name": self.name,
            "running": running,
            "phase": report.phase if report and (running or report.phase == "failed") else "stopped",
            "message": report.message if report else "",
            "server": f"https://127.0.0.1:{report.port}" if report and running else "",
            "ready_seconds": report.ready_seconds if report else 0.0,
            "state": str(self.state.path),
            "processes": processes if running else [],
        }

    def workload(self) -> Json:
        """What its nodes carry and what is broken on purpose.

        {"pods": how many, "nodes": {node: "cut" or "off"}, "frozen": [NAMESPACE/POD/CONTAINER]}; nodes in
        order are left out. Raises SandboxError when it doesn't run or the kubelet doesn't answer.
        """
        answer = self.control({"op": "pods"})
        pods = answer.get("pods", [])
        containers = ((pod["pod"], each) for pod in pods for each in pod["containers"])
        return {
            "pods": len(pods),
            "nodes": {node: state for node, state in answer.get("nodes", {}).items() if state != "on"},
            "frozen": [f"{pod}/{each['name']}" for pod, each in containers if each["frozen"]],
        }

    # --- files and programs ----------------------------------------------------------------------------

    @property
    def kubeconfig(self) -> Path:
        """A self-contained kubeconfig that works in an ordinary shell on this machine."""
        return self.state.kubeconfig

    @property
    def logs_dir(self) -> Path:
        """One log file per process of the plane."""
        return self.state.log

    def logs(self) -> dict[str, Path]:
        """All logs by name: processes of the plane as PROCESS, containers as NAMESPACE/POD/CONTAINER.

        Of a container it's the log of its current run. A pod that was made anew under its old name shows its
        newest log.
        """
        processes = {path.name: path for path in sorted(self.state.log.glob("*"))}
        # The kubelet's folders are called NAMESPACE_POD_UID; none of the three can hold an underscore.
        files = (self.state.path / "kubelet" / "pods").glob("*/*.log")
        containers: dict[str, Path] = {}
        for path in sorted(files, key=lambda file: file.stat().st_mtime):
            namespace, pod, _ = path.parent.name.split("_")
            containers[f"{namespace}/{pod}/{path.stem}"] = path
        return processes | dict(sorted(containers.items()))

    def bin(self, program: str) -> Path:
        """The path of `kubectl`, `helm`, `etcd` ... of the set that this sandbox runs."""
        if program not in binaries.PACKAGES:
            raise SandboxError(f"no program called {program!r}", fix=f"one of {', '.join(binaries.PACKAGES)}")
        return Path(self.state.require_ready().bin_dir) / program

    def kubectl(
        self,
        arguments: Sequence[str],
        *,
        input: str | None = None,  # noqa: A002
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl as administrator; with `check` a failure raises SandboxError with its stderr."""
        return self._program("kubectl", arguments, input, check)

    def helm(
        self,
        arguments: Sequence[str],
        *,
        input: str | None = None,  # noqa: A002
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """Run helm as administrator, with its own cache and configuration folders in the state directory."""
        return self._program("helm", arguments, input, check)

    def _program(
        self, name: str, arguments: Sequence[str], text: str | None, check: bool
    ) -> subprocess.CompletedProcess[str]:
        homes = {f"HELM_{kind}_HOME": str(self.state.path / "helm" / kind) for kind in _HELM_HOMES}
        done = subprocess.run(
            [self.bin(name), *arguments],
            input=text,
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | homes | {"KUBECONFIG": str(self.kubeconfig)},
        )
        if check and done.returncode != 0:
            raise SandboxError(
                f"{name} failed with exit code {done.returncode}",
                where=f"{name} {' '.join(arguments)} (KUBECONFIG={self.kubeconfig})",
                why=(done.stderr or done.stdout).strip(),
            )
        return done

    # --- inside ----------------------------------------------------------------------------------------

    def exec_in_plane(self, command: Sequence[str | Path], **popen: Any) -> subprocess.Popen[Any]:
        """Start a command inside the plane's namespaces, where cluster IPs and Service names work.

        KUBECONFIG names the API server as seen from there; the working directory stays. `popen` goes to
        subprocess.Popen. `terminate()` and `kill()` end the command with SIGTERM, and it cannot outlive the
        sandbox.
        """
        status = self.state.require_ready()
        environment = up.plane_environment() | {
            "KUBECONFIG": str(self.state.inside_kubeconfig),
            "PATH": f"{status.bin_dir}:{prereqs.search_path()}",
        }
        working_directory = popen.pop("cwd", None) or Path.cwd()
        # nsenter -p stays outside as the parent of the command, and does not pass signals on: let the command
        # ask for a signal when that parent ends.
        enter = ["nsenter", "-t", str(status.plane_pid), "-U", "-n", "-m", "-p", "--preserve-credentials"]
        tie = [f"--wdns={working_directory}", "--", "setpriv", "--pdeathsig", "TERM", "--"]
        return subprocess.Popen([*enter, *tie, *command], env=environment | popen.pop("env", {}), **popen)

    def exec_python(self, arguments: Sequence[str | Path]) -> subprocess.Popen[str]:
        """`exec_in_plane` of this Python interpreter, with text pipes for stdout and stderr."""
        return self.exec_in_plane(
            [sys.executable, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def start_forward(self, target: str, port: int = 0) -> Forward:
        """Make the Service `NAMESPACE/NAME[:PORT]` reachable at 127.0.0.1:`port` (0: any) until `close()`."""
        return Forward(self, target, port)

    @contextlib.contextmanager
    def forward(self, target: str, port: int = 0) -> Iterator[int]:
        """`start_forward` for the length of a block; gives the local port."""
        forward = self.start_forward(target, port)
        try:
            yield forward.port
        finally:
            forward.close()

    # --- faults and audit ------------------------------------------------------------------------------

    def node_fault(self, operation: NodeOperation, node: str) -> Json:
        """Kill a node, cut it off the network, heal the cut, or start a killed node again."""
        return self.control({"op": f"node-{operation}", "node": node})

    def process_fault(
        self, operation: ProcessOperation, pod: str, container: str | None = None, signal: str = "KILL"
    ) -> Json:
        """Kill (by `signal`), freeze or thaw a container of the pod `NAMESPACE/NAME` (default: its first)."""
        request = {"op": f"process-{operation}", "pod": pod}
        if container:
            request["container"] = container
        if operation == "kill":
            request["signal"] = signal
        return self.control(request)

    def control(self, request: Json) -> Json:
        """One request to the kubelet's control socket; raises SandboxError with the kubelet's words."""
        self.state.require_ready()
        path = self.state.socket("kubelet.sock")
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(_CONTROL_SECONDS)
                connection.connect(str(path))
                connection.sendall(json.dumps(request).encode() + b"\n")
                with connection.makefile("rb") as replies:
                    line = replies.readline()
        except OSError as error:
            raise SandboxError(
                "the kubelet does not answer",
                where=str(path),
                why=f"{error}; its log ends with:\n{tail(self.logs_dir / 'kubelet', 5)}",
                fix=f"read {self.logs_dir / 'kubelet'}",
            ) from error
        reply: Json = json.loads(line) if line else {"ok": False, "error": "it closed the connection"}
        if not reply.get("ok"):
            raise SandboxError(f"could not {_phrase(request)}", why=str(reply.get("error")))
        return reply

    def audit_events(self, *, reads: bool = False) -> Iterator[Json]:
        """The audit events so far, oldest first: all writes of everybody.

        Events are audit.k8s.io/v1 at level Metadata. With `reads` also what the policy keeps of reads: those
        of Secrets, and all by service accounts outside kube-system.
        """
        with contextlib.suppress(FileNotFoundError), self.state.audit_log.open("rb") as file:
            for line in file:
                if not line.endswith(b"\n"):  # being written at this moment
                    return
                event: Json = json.loads(line)
                if reads or event["verb"] not in _READS:
                    yield event


def _phrase(request: Json) -> str:
    """What a request to the kubelet is about, for "could not ..."."""
    subject, _, verb = request["op"].partition("-")
    if subject == "node":
        return f"{verb} node {request.get('node', '')}"
    if subject == "process":
        return f"{verb} the process of {request.get('pod', '')}"
    return f"do {request['op']}"
