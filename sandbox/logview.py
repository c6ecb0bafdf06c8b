"""Logs of a sandbox in the terminal: found by name, shown, followed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from sandbox import launcher
from sandbox.errors import SandboxError
from sandbox.kubelet.logs import previous_of

_POLL_SECONDS = 0.2


def find(logs: dict[str, Path], target: str, *, previous: bool, name: str) -> dict[str, Path]:
    """The logs of TARGET: one process, one container, or all containers of a pod.

    logs: as `Sandbox.logs`; name: the sandbox's. Raises SandboxError when there is none.
    """
    found = {log: path for log, path in logs.items() if log == target or log.startswith(f"{target}/")}
    if not found:
        raise SandboxError(
            f"no log called {target!r}",
            fix=f"{launcher.command(f'logs --name {name}')} lists the {len(logs)} there are",
        )
    if not previous:
        return found
    earlier = {log: previous_of(path) for log, path in found.items() if previous_of(path).exists()}
    if not earlier:
        raise SandboxError(f"{target} has no previous run", why="it was not restarted so far")
    return earlier


def last_lines(path: Path, lines: int) -> tuple[str, int]:
    """The last so many lines (0: all), and the offset where `follow` has to go on."""
    data = path.read_bytes()
    return "\n".join(data.decode(errors="replace").splitlines()[-lines:]), len(data)


def follow(path: Path, offset: int, runs: Callable[[], bool]) -> Iterator[str]:
    """The log from `offset` on and what is appended, over restarts of the container, as long as `runs()`."""
    file = path.open("rb")
    try:
        file.seek(offset)
        while True:
            # Before reading, so that the last words are read, too.
            going_on, fresh = runs(), _replaced(path, file)
            if os.fstat(file.fileno()).st_size < file.tell():  # cut by the kubelet, which bounds it
                file.seek(0)
            while data := file.read():
                yield data.decode(errors="replace")
            if fresh:
                file.close()
                file = path.open("rb")
            elif not going_on:
                return
            else:
                time.sleep(_POLL_SECONDS)
    finally:
        file.close()


def _replaced(path: Path, file: BinaryIO) -> bool:
    """Whether the path leads to another file by now: the container's next run."""
    try:
        return path.stat().st_ino != os.fstat(file.fileno()).st_ino
    except FileNotFoundError:  # between two runs, or the sandbox has gone
        return False
