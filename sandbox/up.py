"""The outside of a sandbox: prepares the state directory, starts the plane and stays with it.

`up` in the foreground is this process; `up --detach` starts it in the background, as `python -m sandbox.up`
with its options on stdin, and watches `status.json`. The plane cannot outlive it: SIGKILL of this process
makes the kernel kill `unshare` (PDEATHSIG), which kills PID 1 of the PID namespace (--kill-child), which ends
every process in it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import FrameType

from sandbox import binaries, components, net, nodes, pki, prereqs
from sandbox.errors import SandboxError
from sandbox.state import StateDir, Status, tail, write_json

REPOSITORY = Path(__file__).resolve().parent.parent
# PDEATHSIG follows the thread that forks: start these from the main thread.
_DIE_WITH_PARENT = ["setpriv", "--pdeathsig"]

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Options:
    """What `up` takes. `port` 0 means any free one; `hpa_sync_period` is a Go duration."""

    name: str = "default"
    nodes: list[nodes.Node] = field(default_factory=lambda: nodes.default_nodes(3, 2))
    port: int = 0
    hpa_sync_period: str = "15s"
    kubelet_module: str = "sandbox.kubelet"


def run(options: Options, progress: Progress, ready: Callable[[Status], None]) -> None:
    """Start a sandbox and return after it was stopped by SIGINT or SIGTERM.

    `progress` hears each step, `ready` the final status. Raises SandboxError when it cannot start or ends by
    itself; the logs then stay in the state directory.
    """
    state = StateDir(options.name)
    with state.acquire():
        state.create()
        up = _Up(state, options, progress, ready)
        try:
            up.run()
        except SandboxError as error:
            state.write_status(replace(up.status, phase="failed", message=str(error)))
            raise
        state.remove(keep_logs=True)


class _Up:
    def __init__(
        self, state: StateDir, options: Options, progress: Progress, ready: Callable[[Status], None]
    ) -> None:
        self.status = Status(phase="starting", up_pid=os.getpid())
        self._state = state
        self._options = options
        self._progress = progress
        self._ready = ready
        self._stopping = False
        self._unshare: subprocess.Popen[str] | None = None

    def run(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)
        self._stage("checking the machine")
        prereqs.check()
        folder = binaries.ensure(self._stage)
        if self._stopping:
            return
        started = time.monotonic()
        self._stage("making certificates")
        with listen(self._options.port) as listener:
            self._prepare(folder, listener)
            self._unshare = _start_plane(self._state, listener)
        self._follow(self._unshare, started)

    def _prepare(self, folder: Path, listener: socket.socket) -> None:
        state = self._state
        port = listener.getsockname()[1]
        self.status = replace(self.status, port=port, bin_dir=str(folder))
        pki.create(state.pki)
        for stem in pki.CLIENTS:
            pki.write_private(state.pki / f"{stem}.kubeconfig", pki.kubeconfig(state.pki, stem, net.API_URL))
        pki.write_private(state.inside_kubeconfig, pki.kubeconfig(state.pki, "admin", net.API_URL))
        pki.write_private(state.kubeconfig, pki.kubeconfig(state.pki, "admin", f"https://127.0.0.1:{port}"))
        write_json(state.path / "nodes.json", [nodes.control_plane_node(), *self._options.nodes])
        plane = components.Plane(
            state=str(state.path),
            bin_dir=str(folder),
            hpa_sync_period=self._options.hpa_sync_period,
            kubelet_module=self._options.kubelet_module,
            kubelet_socket=str(state.socket("kubelet.sock")),
            relay_fd=listener.fileno(),
        )
        components.write_configuration(plane)
        write_json(state.path / "plane.json", asdict(plane))

    def _follow(self, unshare: subprocess.Popen[str], started: float) -> None:
        """Turn the plane's reports into progress and status until it ends."""
        error = ""
        for line in unshare.stdout or ():
            message = json.loads(line)
            if not self.status.plane_pid:
                self.status = replace(self.status, plane_pid=_child_of(unshare.pid))
            if "stage" in message:
                self._stage(message["stage"])
            elif "ready" in message:
                seconds = round(time.monotonic() - started, 2)
                self.status = replace(self.status, phase="ready", message="", ready_seconds=seconds)
                self._state.write_status(self.status)
                self._ready(self.status)
            else:
                error = message["error"]
        code = unshare.wait()
        if self._stopping:
            return
        log = self._state.log / "plane"
        raise SandboxError(
            error or f"the plane ended with code {code}",
            where="" if error else str(log),
            why="" if error else tail(log),
            fix="" if error else "read that log and its neighbours",
        )

    def _stage(self, text: str) -> None:
        self.status = replace(self.status, message=text)
        self._state.write_status(self.status)
        self._progress(text)

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        if self._unshare is None:
            raise SystemExit(130)
        if self._stopping or not self.status.plane_pid:
            self._unshare.kill()
        else:
            # `unshare --kill-child` ignores SIGTERM, its child does not.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.status.plane_pid, signal.SIGTERM)
        self._stopping = True


def listen(port: int) -> socket.socket:
    """A listening socket on 127.0.0.1:`port` (0: any free one); raises SandboxError when it is taken."""
    listener = socket.socket()
    # Clients of a stopped sandbox leave the port in TIME_WAIT.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError as error:
        listener.close()
        raise SandboxError(
            f"port {port} cannot be used",
            where="127.0.0.1",
            why=str(error),
            fix="choose another --port or none",
        ) from error
    listener.listen(512)
    return listener


def _start_plane(state: StateDir, listener: socket.socket) -> subprocess.Popen[str]:
    with (state.log / "plane").open("ab") as log:
        return subprocess.Popen(
            [
                *_DIE_WITH_PARENT,
                "KILL",
                "--",
                *prereqs.UNSHARE,
                sys.executable,
                "-m",
                "sandbox.plane",
                state.path,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            pass_fds=(listener.fileno(),),
            env=plane_environment(),
            # Ctrl-C belongs to `up` alone, which stops the plane in order.
            start_new_session=True,
            text=True,
        )


def plane_environment() -> dict[str, str]:
    """The environment of processes inside the plane: the caller's, with the repository importable."""
    path = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH", "")]))
    return os.environ | {"PATH": prereqs.search_path(), "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}


def _child_of(pid: int) -> int:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(children[0]) if children else 0


def start_detached(options: Options, progress: Progress, *, die_with_parent: bool = False) -> Status:
    """Start `up` in the background and return its status when it is ready.

    With `die_with_parent` it is stopped when the calling process ends, however that ends. Raises SandboxError
    when the start fails.
    """
    state = StateDir(options.name)
    if state.owner():
        state.acquire()  # raises the error that names the owner
    state.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    prefix = [*_DIE_WITH_PARENT, "TERM", "--"] if die_with_parent else []
    with state.up_log.open("wb") as log:
        child = subprocess.Popen(
            [*prefix, sys.executable, "-m", "sandbox.up", options.name],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=plane_environment(),
            start_new_session=True,
            text=True,
        )
    if child.stdin:
        with child.stdin:
            json.dump(asdict(options), child.stdin)
    try:
        return _wait_ready(state, child, progress)
    except KeyboardInterrupt:
        child.terminate()
        child.wait()
        raise


def _wait_ready(state: StateDir, child: subprocess.Popen[str], progress: Progress) -> Status:
    shown = ""
    while True:
        ended = child.poll() is not None
        status = state.read_status()
        if status is not None and status.up_pid == child.pid:
            if status.phase == "ready":
                return status
            if status.phase == "starting" and status.message != shown:
                shown = status.message
                progress(shown)
            if ended and status.phase == "failed":
                raise SandboxError(status.message, fix=f"logs are in {state.log}")
        if ended:
            raise SandboxError(
                f"`up` ended with code {child.returncode}", where=str(state.up_log), why=tail(state.up_log)
            )
        time.sleep(0.05)


def stop(name: str, *, keep_logs: bool = False, seconds: float = 15.0) -> bool:
    """Stop a sandbox and remove its state; False when there was nothing to stop. Safe to repeat."""
    state = StateDir(name)
    running = state.owner()
    if running:
        with contextlib.suppress(ProcessLookupError):
            os.kill(running, signal.SIGTERM)
        deadline = time.monotonic() + seconds
        while state.owner() == running:
            if time.monotonic() > deadline:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(running, signal.SIGKILL)
            time.sleep(0.05)
    with state.acquire():
        state.remove(keep_logs=keep_logs)
        if not keep_logs:
            state.up_log.unlink(missing_ok=True)
        state.lock_file.unlink()
    return bool(running)


def main() -> None:
    """`python -m sandbox.up NAME < OPTIONS`: the background half of `up --detach`; NAME is for `ps`."""
    options = Options(**json.load(sys.stdin))
    try:
        run(options, progress=print, ready=lambda _: print("ready", flush=True))
    except SandboxError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
