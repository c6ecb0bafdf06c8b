"""A container's log: one file per run, bounded, and where in it a reader has to begin.

The container's process writes the file itself: a pipe through the kubelet would break with the kubelet, and
cost a copy of every byte. So no line has a time; instead `mark` notes now and then how long the file was.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import BinaryIO

LIMIT_BYTES = 10 * 1024 * 1024
_POLL_SECONDS = 0.2
_CHUNK = 64 * 1024
# An hour of marks, at housekeeping's pace.
_MARKS = 1200


def previous_of(path: Path) -> Path:
    """The file of the run before the one that writes to `path`."""
    return path.with_name(f"{path.name}.previous")


class ContainerLog:
    """stdout and stderr of the current run in `path` (NAME.log), of the one before in NAME.log.previous."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._marks: deque[tuple[float, int]] = deque(maxlen=_MARKS)

    @property
    def previous(self) -> Path:
        return previous_of(self.path)

    def begin_run(self) -> None:
        """Put the last run's log aside (the one before it goes away) and begin an empty one."""
        self._marks.clear()
        if self.path.exists():
            self.path.replace(self.previous)
        self._overflow.unlink(missing_ok=True)
        self.path.touch(mode=0o644)

    def bound(self, limit: int = LIMIT_BYTES) -> None:
        """Move a log that has grown past the limit to NAME.log.1 and go on with an empty one.

        The container holds the file open for appending, so it's copied and cut; lines written meanwhile are
        lost.
        """
        if self._size() > limit:
            shutil.copyfile(self.path, self._overflow)
            with self.path.open("r+b") as file:
                file.truncate()
            self._marks.clear()

    def mark(self) -> None:
        """Note that what the file holds now was written before now."""
        size = self._size()
        if not self._marks or self._marks[-1][1] != size:
            self._marks.append((time.time(), size))

    def since(self, at: float) -> int:
        """The offset of the first line written after `at` (seconds since the epoch).

        Exact to the time between two marks: it's rather too early than too late.
        """
        offset = next((size for when, size in reversed(self._marks) if when <= at), 0)
        with self.path.open("rb") as file:
            return file.read(offset).rfind(b"\n") + 1

    @property
    def _overflow(self) -> Path:
        return self.path.with_name(f"{self.path.name}.1")

    def _size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0


def last_lines(path: Path, lines: int, size: int) -> int:
    """The offset of the last so many lines of the file's first `size` bytes."""
    with path.open("rb") as file:
        data = file.read(size)
    end = len(data) - data.endswith(b"\n")
    if not lines:
        return len(data)
    for _ in range(lines):
        end = data.rfind(b"\n", 0, end)
        if end < 0:
            return 0
    return end + 1


async def read(path: Path, offset: int, over: Callable[[], bool]) -> AsyncGenerator[bytes]:
    """The file from `offset` on, and what is appended to it until `over()`.

    A file that is moved away meanwhile (`begin_run`) is read to its end, one that is cut (`bound`) from its
    new beginning.
    """
    file = await asyncio.to_thread(_open, path, offset)
    try:
        while True:
            # Before reading: what was written before the end is still read then.
            finished = over()
            chunk = await asyncio.to_thread(_next, file)
            if chunk:
                yield chunk
            elif finished:
                return
            else:
                await asyncio.sleep(_POLL_SECONDS)
    finally:
        file.close()


def _open(path: Path, offset: int) -> BinaryIO:
    file = path.open("rb")
    file.seek(offset)
    return file


def _next(file: BinaryIO) -> bytes:
    if os.fstat(file.fileno()).st_size < file.tell():
        file.seek(0)
    return file.read(_CHUNK)
