"""What /proc tells about the processes of a container: those in its PID namespace, and their memory."""

from __future__ import annotations

import contextlib
import os
import signal
from collections import defaultdict
from pathlib import Path

_PROC = Path("/proc")
_PAGE = os.sysconf("SC_PAGESIZE")


def by_pid_namespace() -> dict[str, list[int]]:
    """PIDs (as seen from here) of every process, by the name of its PID namespace."""
    found: dict[str, list[int]] = defaultdict(list)
    for entry in _PROC.iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                found[_namespace(int(entry.name))].append(int(entry.name))
    return found


def members(pid: int) -> list[int]:
    """All processes of the container whose PID 1 is `pid`; none when it has ended."""
    with contextlib.suppress(OSError):
        return by_pid_namespace().get(_namespace(pid), [])
    return []


def signal_all(pid: int, number: signal.Signals) -> int:
    """Signal every process of the container; returns how many.

    Again until nobody new shows up: a process can fork between the look and the signal.
    """
    done: set[int] = set()
    while fresh := set(members(pid)) - done:
        for each in fresh:
            _signal(each, number)
        done |= fresh
    return len(done)


def kill_descendants(pid: int) -> None:
    """Kill the children of a process, their children and so on; the process itself goes on.

    All are stopped before the first one dies: its children would be somebody else's then, and a process that
    runs can fork between the look and the signal.
    """
    stopped: set[int] = set()
    while fresh := _descendants(pid) - stopped:
        for each in fresh:
            _signal(each, signal.SIGSTOP)
        stopped |= fresh
    for each in stopped:
        _signal(each, signal.SIGKILL)
    # nsenter stops with its child, and reaps nothing then (util-linux, continue_as_child).
    _signal(pid, signal.SIGCONT)


def stopped(pids: list[int]) -> set[int]:
    """Those that a SIGSTOP keeps from running."""
    return {pid for pid in pids if _state(pid) == "T"}


def memory_above(pids: list[int], limit: int) -> bool:
    """Whether the processes use more than `limit` bytes of memory, shared pages counted once.

    smaps_rollup walks the page tables: it's asked only when the cheap upper bound, RSS, is above the limit.
    """
    if sum(map(_resident, pids)) <= limit:
        return False
    return sum(map(_proportional, pids)) > limit


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _descendants(pid: int) -> set[int]:
    found: set[int] = set()
    generation = [pid]
    while generation := [child for parent in generation for child in _children(parent)]:
        found.update(generation)
    return found


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [
            int(child) for child in (_PROC / str(pid) / "task" / str(pid) / "children").read_text().split()
        ]
    return []


def _state(pid: int) -> str:
    try:
        # The name before it may hold anything, ")" included (proc(5)).
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def _namespace(pid: int) -> str:
    return str((_PROC / str(pid) / "ns" / "pid").readlink())


def _resident(pid: int) -> int:
    try:
        return int((_PROC / str(pid) / "statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def _proportional(pid: int) -> int:
    try:
        lines = (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
