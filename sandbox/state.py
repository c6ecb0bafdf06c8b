"""Where a sandbox keeps its files, and which process owns it.

One sandbox is one directory, `$XDG_STATE_HOME/inference-operator/sandbox/NAME`. Beside it lies `NAME.lock`:
the running `up` holds an exclusive `flock` on it and has written its PID into it. The kernel drops the lock
when that process ends, however it ends, so "is it running" never depends on a PID file that may be stale.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import stat
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from sandbox import launcher
from sandbox.errors import SandboxError

# sockaddr_un.sun_path holds 108 bytes with its NUL (unix(7)).
UNIX_PATH_MAX = 107
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")


@dataclass(frozen=True)
class Status:
    """What `up` last reported, kept in `status.json`.

    phase: "starting", "ready", "stopping" or "failed"; message: the step in progress or the error;
    up_pid, plane_pid: PIDs as the host sees them (plane_pid is PID 1 of the plane's PID namespace, 0 before
    it exists); port: of the API server's relay on 127.0.0.1; ready_seconds: from start to ready.
    """

    phase: str
    message: str = ""
    up_pid: int = 0
    plane_pid: int = 0
    port: int = 0
    ready_seconds: float = 0.0
    bin_dir: str = ""


class StateDir:
    """Paths and ownership of the sandbox called `name`. Creating the object touches nothing on disk."""

    def __init__(self, name: str = "default") -> None:
        if not _NAME.fullmatch(name):
            raise SandboxError(
                f"{name!r} is not a sandbox name",
                why="it becomes a directory name",
                fix="use 1 to 40 lower-case letters, digits and inner dashes",
            )
        self.name = name
        self.parent = _state_home() / "inference-operator" / "sandbox"
        self.path = self.parent / name
        self.log = self.path / "log"
        self.pki = self.path / "pki"
        self.status_file = self.path / "status.json"
        self.processes_file = self.path / "processes.json"
        self.kubeconfig = self.path / "kubeconfig"
        self.inside_kubeconfig = self.path / "inside.kubeconfig"
        self.audit_log = self.path / "audit.log"
        self.lock_file = self.parent / f"{name}.lock"
        # Beside the directory, because `up` empties that.
        self.up_log = self.parent / f"{name}.log"

    @property
    def short(self) -> Path:
        """A directory for unix sockets when the state directory's own path is too long for them."""
        digest = hashlib.sha256(str(self.path).encode()).hexdigest()[:12]
        return Path(f"/tmp/inference-sandbox-{os.getuid()}-{digest}")

    def socket(self, name: str) -> Path:
        """The path of a unix socket: in the state directory where it fits, else below /tmp."""
        path = self.path / name
        return path if len(os.fsencode(path)) <= UNIX_PATH_MAX else self.short / name

    def create(self) -> None:
        """Make a fresh, private directory; what an earlier run left behind goes away."""
        self.remove()
        for directory in (self.parent, self.path, self.log, self.pki):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.socket("kubelet.sock").parent == self.short:
            # mkdir and not exist_ok: /tmp is everybody's, and a directory made by another user is no place
            # for a control socket.
            self.short.mkdir(mode=0o700)

    def remove(self, *, keep_logs: bool = False) -> None:
        """Delete the state; with `keep_logs` the log folder and the audit log stay."""
        if self.short.is_dir() and self.short.stat().st_uid == os.getuid():
            _rmtree(self.short)
        if not self.path.is_dir():
            return
        if not keep_logs:
            _rmtree(self.path)
            return
        for entry in self.path.iterdir():
            if entry in (self.log, self.audit_log):
                continue
            if entry.is_dir() and not entry.is_symlink():
                _rmtree(entry)
            else:
                entry.unlink()

    def acquire(self) -> IO[str]:
        """Take the sandbox's lock and write our PID into it; keep the file open as long as the sandbox runs.

        Raises SandboxError when another process holds it.
        """
        self.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # `owner` takes the lock for a moment too, so one refusal proves nothing.
        file = _lock_within(self.lock_file, seconds=1.0)
        if file is None:
            raise SandboxError(
                f"sandbox {self.name!r} is already running",
                where=f"process {self.owner()}, state in {self.path}",
                fix=f"use it, stop it with `{launcher.command(f'down --name {self.name}')}`, "
                "or start one under another name (--name of tools/sandbox)",
            )
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        return file

    def owner(self) -> int:
        """The PID of the `up` that holds the lock, 0 when nobody does."""
        try:
            file = self.lock_file.open("r", encoding="ascii")
        except FileNotFoundError:
            return 0
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return int(file.read().strip() or 0)
            return 0

    def age(self) -> float:
        """Seconds since `up` took the lock; only of a sandbox that runs."""
        return max(time.time() - self.lock_file.stat().st_mtime, 0.0)

    def read_status(self) -> Status | None:
        """The last report, None when there is none."""
        try:
            return Status(**json.loads(self.status_file.read_text()))
        except FileNotFoundError:
            return None

    def write_status(self, status: Status) -> None:
        """Replace the report in one step, so that a reader never sees half of it."""
        write_json(self.status_file, asdict(status))

    def require_ready(self) -> Status:
        """The report of a sandbox that is up and ready; raises SandboxError otherwise."""
        status = self.read_status() if self.owner() else None
        if status is None:
            others = running()
            choice = f", or name one that runs: --name {' or '.join(others)}" if others else ""
            raise SandboxError(
                f"sandbox {self.name!r} is not running",
                where=str(self.path),
                fix=f"start it with `{launcher.command(f'up --detach --name {self.name}')}`{choice}",
            )
        if status.phase != "ready":
            raise SandboxError(
                f"sandbox {self.name!r} is {status.phase}",
                where=str(self.path),
                fix=f"wait, or read {self.log}",
            )
        return status


def known() -> list[str]:
    """The names of the sandboxes that run or have left logs, sorted."""
    home = StateDir().parent
    folders = {path.name for path in home.glob("*") if path.is_dir()}
    # Only a lock that is held counts: one that was not removed tells nothing.
    return sorted(folders | set(_locked(home)))


def running() -> list[str]:
    """The names of the sandboxes that run, sorted."""
    return sorted(_locked(StateDir().parent))


def _locked(home: Path) -> list[str]:
    return [path.stem for path in home.glob("*.lock") if StateDir(path.stem).owner()]


def write_json(path: Path, data: Any) -> None:
    """Write JSON through a temporary file and a rename."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(data, indent=1))
    temporary.replace(path)


def tail(path: Path, lines: int = 15) -> str:
    """The last lines of a log, for an error message."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 65536))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return "(no output)"
    return "\n".join(text.splitlines()[-lines:]) or "(no output)"


def _lock_within(path: Path, seconds: float) -> IO[str] | None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        file = path.open("a+", encoding="ascii")
        with contextlib.suppress(BlockingIOError, FileNotFoundError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # `down` deletes the file: a lock on a deleted one would not keep anybody out.
            if os.fstat(file.fileno()).st_ino == path.stat().st_ino:
                return file
        file.close()
        time.sleep(0.05)
    return None


def _state_home() -> Path:
    configured = os.environ.get("XDG_STATE_HOME")
    # The base directory specification tells programs to ignore relative values.
    if configured and Path(configured).is_absolute():
        return Path(configured)
    return Path.home() / ".local" / "state"


def _rmtree(path: Path) -> None:
    def make_writable(function: Any, target: str, _: Any) -> None:
        # Volumes of pods can hold directories without write permission, which stop an ordinary user.
        with contextlib.suppress(OSError):
            Path(target).parent.chmod(stat.S_IRWXU)
            Path(target).chmod(stat.S_IRWXU)
        function(target)

    shutil.rmtree(path, onerror=make_writable)
