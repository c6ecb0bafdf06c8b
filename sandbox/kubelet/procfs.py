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
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, number)
        done |= fresh
    return len(done)


def memory_above(pids: list[int], limit: int) -> bool:
    """Whether the processes use more than `limit` bytes of memory, shared pages counted once.

    smaps_rollup walks the page tables: it's asked only when the cheap upper bound, RSS, is above the limit.
    """
    if sum(map(_resident, pids)) <= limit:
        return False
    return sum(map(_proportional, pids)) > limit


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
