"""HAProxy's log, read from UDP on loopback: one JSON line per request, plain lines of the health checks."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import orjson

#: `Health check for server be/srv failed, reason: …, check duration: 401ms, status: 1/2 UP.`
_CHECK: Final = re.compile(r"Health check for server (\S+)/(\S+) failed, .*check duration: (\d+)ms")
#: `Server be/srv is DOWN, reason: …`, `Server be/srv is UP, …`.
_CHANGE: Final = re.compile(r"Server (\S+)/(\S+) is (?:DOWN|UP)")


@dataclass(frozen=True)
class Request:
    """A request that has ended."""

    backend: str
    server: str
    #: HAProxy's termination state: who ended it (first letter) and in which phase (second).
    end: str
    status: int
    retries: int
    redispatched: bool
    #: The engine's headers came, and went on to the client.
    began: bool
    #: Bytes of the request that came from the client.
    sent: int

    @property
    def cut(self) -> bool:
        """The answer had begun, then the engine's side ended it (Server, Down, Killed by us, silence)."""
        return self.began and self.end[0] in "SDKs"

    @property
    def failed(self) -> bool:
        """The engine is to blame: it broke off, or answered with an error of its own. 503 = it is busy."""
        return self.cut or (self.status in (500, 502, 504) and self.end[0] == "-")

    @property
    def lost(self) -> bool:
        """No engine answered: refused or broken before the headers, or no server in time."""
        return not self.began and self.end[0] in "SDsR"

    @property
    def moved(self) -> bool:
        """Closed by us before any answer: HAProxy's first pass has sent it again, as another line tells."""
        return not self.began and self.end[0] == "K"


@dataclass(frozen=True)
class CheckFailed:
    """A health check failed after `duration` seconds."""

    backend: str
    server: str
    duration: float


@dataclass(frozen=True)
class Changed:
    """A server went up or down: worth a look now."""


Line = Request | CheckFailed | Changed | None


def parse(line: bytes) -> Line:
    """Understand one log line; None for what is of no interest."""
    if line.startswith(b"{"):
        return _request(line)
    text = line.decode("ascii", "replace")
    check = _CHECK.search(text)
    if check is not None:
        return CheckFailed(check[1], check[2], int(check[3]) / 1000)
    return Changed() if _CHANGE.search(text) else None


def _request(line: bytes) -> Request | None:
    try:
        fields = orjson.loads(line)
        retries = fields["retries"]
        return Request(
            backend=fields["backend"],
            server=fields["server"],
            end=fields["end"],
            status=fields["status"],
            retries=int(retries.lstrip("+")),
            # HAProxy marks a request that ended up on another server with a plus sign.
            redispatched=retries.startswith("+"),
            began=fields["headers"] >= 0,
            sent=fields["sent"],
        )
    except (orjson.JSONDecodeError, KeyError, ValueError):
        return None


class Receiver(asyncio.DatagramProtocol):
    """Hands each understood line to a function that must not block."""

    def __init__(self, take: Callable[[Line], None]) -> None:
        self._take = take

    def datagram_received(self, data: bytes, addr: object) -> None:
        """One datagram may hold one line, with a newline at its end."""
        self._take(parse(data.strip()))
