"""The container runtime: bubblewrap in a pod's network namespace.

A container is two processes: `bwrap`, our child, and the container's PID 1, bwrap's child. Signals go to the
second one: bwrap dies of a SIGTERM at once and takes the container along.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import time
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox.kubelet import procfs
from sandbox.kubelet.network import PodNetwork

# Full paths: a command inside a container starts with the container's PATH.
_NSENTER = shutil.which("nsenter") or "/usr/bin/nsenter"
_BWRAP = shutil.which("bwrap") or "/usr/bin/bwrap"
_SILENT = "bubblewrap ended without a word"
# What programs of the host need of its /etc.
_ETC = (
    "alternatives",
    "ca-certificates",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "mime.types",
    "ssl",
)

# The event loop keeps no strong reference to a task.
_BACKGROUND: set[asyncio.Task[None]] = set()
_EXEC_POLL = 0.01
_LINE_CHARACTERS = 500


class StartError(Exception):
    """The container's process couldn't be started; the text is what bubblewrap said."""


@dataclass(frozen=True)
class Mount:
    """`source` on the host shows as `target` in the container."""

    source: Path
    target: str
    read_only: bool = False


@dataclass(frozen=True)
class ContainerConfig:
    """All that the runtime needs to know. `log` gets stdout and stderr, appended."""

    hostname: str
    user: int
    group: int
    home: str
    command: Sequence[str]
    environment: Mapping[str, str]
    working_directory: str
    mounts: Sequence[Mount]
    read_only_root: bool
    log: Path


class Process:
    """A started container: `pid`, its PID 1 as seen from here; `exited`, its exit code (or 128 + signal)."""

    def __init__(self, pid: int, config: ContainerConfig) -> None:
        self.pid, self.config = pid, config
        self.started = time.time()
        self.exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.out_of_memory = False
        self.start_error = ""
        # A pidfd, not the number: the number may belong to somebody else once the container is gone.
        self._pidfd = -1
        with contextlib.suppress(ProcessLookupError):  # over already
            self._pidfd = os.pidfd_open(pid)

    def signal(self, number: int) -> None:
        """Signal the container's PID 1; nothing happens when it has ended."""
        if self._pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def finish(self, code: int) -> None:
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1
        self.exited.set_result(code)

    def inside(self, command: Sequence[str]) -> list[str]:
        """The command line that runs `command` inside the container; the environment is the caller's part."""
        enter = ("-m", "-p", "-i", "-u", "-n", "-U", "-w", "--preserve-credentials")
        return [_NSENTER, "-t", str(self.pid), *enter, "--", *command]

    async def execute(self, command: Sequence[str], seconds: float) -> tuple[int, str]:
        """Run a command inside the container; returns its exit code and its last word.

        That is the last line of stderr, where a traceback has its error, else of stdout. Raises TimeoutError
        after so many seconds; the command and all that it has started are killed then.
        """
        process = await asyncio.create_subprocess_exec(
            *self.inside(command),
            env=dict(self.config.environment),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(seconds):
                stdout, stderr = await process.communicate()
        except BaseException:
            # Also when this task is being cancelled: the next probe must not meet the last one's processes.
            await asyncio.shield(in_background(end_command(process)))
            raise
        return process.returncode or 0, _last_line(stderr) or _last_line(stdout)

    async def until_executing(self) -> None:
        """Return when the container's PID 1 runs its own command, in its finished mounts, or has ended.

        bubblewrap reports its child before that has mounted anything: what enters it then finds no program.
        """
        while not self.exited.done() and _is_bwrap(self.pid):
            await asyncio.wait({self.exited}, timeout=_EXEC_POLL)


async def start(config: ContainerConfig, network: PodNetwork) -> Process:
    """Start a container. Raises StartError when its command can't be executed."""
    status_read, status_write = os.pipe2(os.O_CLOEXEC)
    arguments = os.memfd_create("bwrap", 0)
    # Through a file, not argv: the environment holds Secrets, and every user of the machine sees argv.
    os.write(arguments, b"".join(os.fsencode(word) + b"\0" for word in _options(config, status_write)))
    os.lseek(arguments, 0, os.SEEK_SET)
    log = os.open(config.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        bwrap = await asyncio.create_subprocess_exec(
            _NSENTER,
            f"--net={network.path}",
            *(_BWRAP, "--args", str(arguments), "--", *config.command),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(arguments, status_write),
        )
    finally:
        for fd in (status_write, arguments, log):
            os.close(fd)
    status = asyncio.StreamReader()
    try:
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(status), os.fdopen(status_read, "rb")
        )
        first = await status.readline()
    except asyncio.CancelledError:
        bwrap.kill()
        raise
    if not first:
        transport.close()
        await bwrap.wait()
        raise StartError(_last_line(config.log.read_bytes()) or _SILENT)
    process = Process(json.loads(first)["child-pid"], config)
    in_background(_reap(process, bwrap, status, transport))
    try:
        await process.until_executing()
    except asyncio.CancelledError:
        process.signal(signal.SIGKILL)
        raise
    return process


def in_background(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Run to the end what must not depend on the life of its caller."""
    task = asyncio.create_task(work)
    _BACKGROUND.add(task)
    task.add_done_callback(_BACKGROUND.discard)
    return task


async def _reap(
    process: Process,
    bwrap: asyncio.subprocess.Process,
    status: asyncio.StreamReader,
    transport: asyncio.BaseTransport,
) -> None:
    rest = await status.read()
    transport.close()
    code = await bwrap.wait()
    if b"exit-code" not in rest and code == 1:
        # bubblewrap reports an exit code only for a command that it could execute.
        process.start_error = _last_line(process.config.log.read_bytes()) or _SILENT
        code = 128
    process.finish(code if code >= 0 else 128 - code)


def _options(config: ContainerConfig, status_fd: int) -> list[str]:
    options = [
        *("--unshare-user", "--uid", str(config.user), "--gid", str(config.group)),
        *("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--hostname", config.hostname),
        *("--as-pid-1", "--new-session", "--die-with-parent", "--json-status-fd", str(status_fd)),
        *_root_tree(),
        *("--proc", "/proc", "--dev", "/dev", "--perms", "1777", "--dir", "/tmp"),
        *("--dir", config.home, "--dir", "/var/run", "--symlink", "var/run", "/run"),
    ]
    # Parents first, or a mount would hide the one below it.
    for mount in sorted(config.mounts, key=lambda mount: mount.target.rstrip("/").count("/")):
        options += ["--ro-bind" if mount.read_only else "--bind", str(mount.source), mount.target]
    options += ["--dir", config.working_directory, "--chdir", config.working_directory]
    if config.read_only_root:
        options += ["--remount-ro", "/"]
    options.append("--clearenv")
    for name, value in config.environment.items():
        options += ["--setenv", name, value]
    return options


def _root_tree() -> list[str]:
    """The host's programs, read-only.

    The children of /usr and /usr/local one by one, without /usr/local/etc: images keep configuration there
    (/usr/local/etc/haproxy), and bubblewrap can't make a mount point inside a read-only bind.
    """
    options: list[str] = []
    for path in (*_children("/usr", but="local"), *_children("/usr/local", but="etc")):
        options += _show(path)
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        options += _show(Path("/", name))
    for name in _ETC:
        options += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    return options


def _children(directory: str, but: str) -> list[Path]:
    return sorted(path for path in Path(directory).iterdir() if path.name != but)


def _show(path: Path) -> list[str]:
    if path.is_symlink():
        return ["--symlink", str(path.readlink()), str(path)]
    return ["--ro-bind", str(path), str(path)] if path.exists() else []


def _last_line(output: bytes) -> str:
    lines = output.decode(errors="replace").strip().splitlines()
    return lines[-1][-_LINE_CHARACTERS:] if lines else ""


def _is_bwrap(pid: int) -> bool:
    try:
        # Not the link's text: while bubblewrap moves its root about, that is no path.
        return Path(f"/proc/{pid}/exe").samefile(_BWRAP)
    except OSError:
        return False  # it has ended, as `exited` is about to tell


async def end_command(nsenter: asyncio.subprocess.Process) -> None:
    """Kill what nsenter has forked into the container, with all descendants; nsenter reaps it and ends.

    Killing nsenter too would leave a zombie to the plane's PID 1, and a container's PID 1 can't end before
    every process of its PID namespace is reaped. Again until it has ended: it may not have forked yet.
    """
    while nsenter.returncode is None:
        await asyncio.to_thread(procfs.kill_descendants, nsenter.pid)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_EXEC_POLL):
                await nsenter.wait()
