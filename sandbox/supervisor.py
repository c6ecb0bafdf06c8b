"""PID 1 of the plane: starts processes, writes their logs, reaps, restarts and stops them.

As PID 1 of its PID namespace this process inherits every orphan in there (a pod's grandchild, for example),
so it reaps whatever `waitpid(-1)` gives and looks up afterwards whether the child was one of its own. That
rules out asyncio's and subprocess's own waiting in this process.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandbox.errors import SandboxError
from sandbox.state import tail, write_json

RESTART_DELAY_SECONDS = 1.0
_POLL_SECONDS = 0.05


@dataclass
class Process:
    """A supervised process. `exit_code` is None while it runs, negative after a signal, as in subprocess."""

    name: str
    command: Sequence[str | Path]
    log: Path
    pass_fds: tuple[int, ...] = ()
    pid: int = 0
    started: float = 0.0
    exit_code: int | None = None
    restarts: int = 0


class Supervisor:
    """Owns all children of this process; create it inside the running event loop.

    `status_file` always holds the list of processes as JSON: name, pid (inside the plane), running, restarts,
    exit_code, log.
    """

    def __init__(self, log_folder: Path, status_file: Path) -> None:
        self._log_folder = log_folder
        self._status_file = status_file
        self._processes: dict[str, Process] = {}
        self._restarting: set[asyncio.Task[None]] = set()
        # During start-up a death is an error to report, later it is something to repair.
        self._repairing = False
        asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, self._reap)

    def start(self, name: str, command: Sequence[str | Path], pass_fds: tuple[int, ...] = ()) -> Process:
        """Start a process with its output in the log folder."""
        process = Process(name, command, self._log_folder / name, pass_fds)
        self._processes[name] = process
        self._spawn(process)
        return process

    async def until(
        self, process: Process, probe: Callable[[], Awaitable[bool]], *, seconds: float, what: str
    ) -> None:
        """Return when `probe` says True.

        Raises SandboxError with the log's end if the process dies first or it takes longer than `seconds`.
        """
        deadline = time.monotonic() + seconds
        while not await probe():
            dead = process.exit_code is not None
            if dead or time.monotonic() > deadline:
                why = (
                    f"it ended with code {process.exit_code}" if dead else f"no {what} after {seconds:.0f} s"
                )
                raise SandboxError(
                    f"{process.name} did not start",
                    where=str(process.log),
                    why=f"{why}; its last lines:\n{tail(process.log)}",
                    fix="read the log above; its first line is the command that was run",
                )
            await asyncio.sleep(_POLL_SECONDS)

    def keep_alive(self) -> None:
        """From now on restart what dies, and what has died already."""
        self._repairing = True
        for process in self._processes.values():
            if process.exit_code is not None:
                self._restart_soon(process)

    async def stop(self, names: Sequence[str] | None = None, *, seconds: float) -> None:
        """Ask the named processes (default: all) to end, and kill what still runs after `seconds`."""
        self._repairing = False
        chosen = [p for p in self._processes.values() if names is None or p.name in names]
        for process in chosen:
            self._signal(process, signal.SIGTERM)
        deadline = time.monotonic() + seconds
        for process in chosen:
            while process.exit_code is None and time.monotonic() < deadline:  # noqa: ASYNC110 (set by SIGCHLD)
                await asyncio.sleep(_POLL_SECONDS)
        for process in chosen:
            self._signal(process, signal.SIGKILL)

    @staticmethod
    def _signal(process: Process, number: signal.Signals) -> None:
        if process.exit_code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, number)

    def _spawn(self, process: Process) -> None:
        with process.log.open("ab") as log:
            log.write(f"$ {' '.join(map(str, process.command))}\n".encode())
            log.flush()
            popen = subprocess.Popen(
                process.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=process.pass_fds,
                start_new_session=True,
            )
        popen.returncode = 0  # reaped by `_reap`; tells Popen's destructor that there is nothing to wait for
        process.pid, process.started, process.exit_code = popen.pid, time.time(), None
        self._report()

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for process in self._processes.values():
                if process.pid == pid and process.exit_code is None:
                    process.exit_code = os.waitstatus_to_exitcode(status)
                    self._report()
                    if self._repairing:
                        self._restart_soon(process)

    def _restart_soon(self, process: Process) -> None:
        task = asyncio.get_running_loop().create_task(self._restart(process))
        self._restarting.add(task)
        task.add_done_callback(self._restarting.discard)

    async def _restart(self, process: Process) -> None:
        await asyncio.sleep(RESTART_DELAY_SECONDS)
        if self._repairing:
            process.restarts += 1
            self._spawn(process)

    def _report(self) -> None:
        write_json(
            self._status_file,
            [
                {
                    "name": process.name,
                    "pid": process.pid,
                    "running": process.exit_code is None,
                    "restarts": process.restarts,
                    "exit_code": process.exit_code,
                    "started": process.started,
                    "log": str(process.log),
                }
                for process in self._processes.values()
            ],
        )
