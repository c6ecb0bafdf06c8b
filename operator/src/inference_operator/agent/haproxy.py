"""HAProxy's master CLI: list of workers, reload, and the runtime API of every worker.

Everything goes through the master socket. The workers' own socket closes at the start of a soft stop, while
their streams may run for minutes and still have to be looked after; the master answers until the last of its
workers has gone.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_ANSWER_SECONDS: Final = 2.0
_RELOAD_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.05
#: `<pid> master <reloads> [failed: <n>] …` and `<pid> worker <reloads since its start> …` of `show proc`.
_PROCESS: Final = re.compile(r"(\d+)\s+(master|worker)\s+(\d+)(?:\s+\[failed:\s*(\d+)\])?")


class UnreachableError(Exception):
    """The master socket doesn't answer: HAProxy isn't there (yet, or any more), or it hangs."""


class CommandError(Exception):
    """HAProxy understood the connection but not, or not now, the command. The message is its own."""


class ReloadError(Exception):
    """HAProxy refused the configuration; the worker that ran before still runs."""


@dataclass(frozen=True)
class Workers:
    """Processes behind the master."""

    #: Process that takes new connections; None while there is none.
    current: int | None
    #: Processes that finish their streams after a reload.
    old: tuple[int, ...]
    #: Reloads refused since the last good one.
    failed: int


@dataclass(frozen=True)
class Command:
    """A runtime command and the only replies that mean success."""

    text: str
    replies: frozenset[str] = frozenset({""})


class Haproxy:
    """Client of one HAProxy master. Each request is a connection of its own: the answer ends with it."""

    def __init__(self, master_socket: Path) -> None:
        self._socket = master_socket

    async def workers(self) -> Workers:
        """Raises UnreachableError when the master is not there."""
        return parse_workers(await self._ask("show proc"))

    async def read(self, pid: int, *commands: str) -> str:
        """Answers of one worker, one after the other."""
        return await self._ask(";".join(f"@!{pid} {command}" for command in commands))

    async def execute(self, pid: int, command: Command) -> None:
        """Raises CommandError with HAProxy's words when the reply isn't one of those that mean success."""
        reply = (await self._ask(f"@!{pid} {command.text}")).strip()
        if reply not in command.replies:
            raise CommandError(f"HAProxy refused {command.text!r}: {reply}")

    async def reload(self) -> None:
        """Start a worker with the file on disk. Raises ReloadError when it is refused or nothing happens."""
        before = await self.workers()
        answer = ""
        # 2.6 closes the connection at once, 3.x answers after the reload with "Success=0|1" and its log.
        with suppress(UnreachableError):
            answer = await self._ask("reload", seconds=_RELOAD_SECONDS)
        if answer.startswith("Success=0"):
            raise ReloadError(f"HAProxy refused the new configuration: {_alerts(answer)}")
        deadline = asyncio.get_running_loop().time() + _RELOAD_SECONDS
        while asyncio.get_running_loop().time() < deadline:
            try:
                now = await self.workers()
            except UnreachableError:
                now = None
            if now is not None and now.failed > before.failed:
                raise ReloadError(f"HAProxy refused the new configuration: {_alerts(answer)}")
            if now is not None and now.current not in (None, before.current):
                return
            await asyncio.sleep(_POLL_SECONDS)
        raise ReloadError(f"HAProxy started no new worker within {_RELOAD_SECONDS:.0f} s")

    async def _ask(self, text: str, *, seconds: float = _ANSWER_SECONDS) -> str:
        try:
            async with asyncio.timeout(seconds):
                reader, writer = await asyncio.open_unix_connection(self._socket, limit=2**22)
                try:
                    writer.write(text.encode("ascii") + b"\n")
                    # Without the end of our side the master keeps the connection open for more commands.
                    writer.write_eof()
                    return (await reader.read()).decode("ascii", "replace")
                finally:
                    writer.close()
        except (OSError, TimeoutError) as error:
            raise UnreachableError(
                f"no answer from {self._socket}: {error or type(error).__name__}. Is HAProxy running?"
            ) from error


def parse_workers(text: str) -> Workers:
    """Read `show proc`. After a refused reload 3.x lists the worker that still serves among the old ones.

    >>> parse_workers("7 master 1 [failed: 0] 0d\n# workers\n9 worker 0 0d\n# old workers\n8 worker 1 0d\n")
    Workers(current=9, old=(8,), failed=0)
    """
    found: dict[str, list[tuple[int, int]]] = {"workers": [], "old workers": []}
    failed = 0
    section = ""
    for line in text.splitlines():
        if line.startswith("# "):
            section = line[2:].strip()
        match = _PROCESS.match(line)
        if match is None:
            continue
        if match[2] == "master":
            failed = int(match[4] or 0)
        elif section in found:
            found[section].append((int(match[3]), int(match[1])))
    old = sorted(found["old workers"])
    newest = found["workers"] or (old[:1] if failed else [])
    current = newest[0][1] if newest else None
    return Workers(current, tuple(pid for _, pid in old if pid != current), failed)


def _alerts(answer: str) -> str:
    lines = [line for line in answer.splitlines() if "[ALERT]" in line]
    return " ".join(lines)[:500] or "see the log of the haproxy container"
