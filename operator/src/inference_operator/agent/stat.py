"""What HAProxy says of its servers, parsed: `show servers state` and `show stat` joined by name."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

#: Frontends, backends and servers of all proxies.
COMMANDS: Final = ("show servers state", "show stat -1 7 -1")
#: HAProxy's way to itself.
_RELAY: Final = "relay"
_MAINT: Final = 0x01 | 0x02 | 0x20
_DRAIN: Final = 0x08 | 0x10
#: Results of the last check of a dead server that don't speak against it.
_UNCONFIRMED: Final = ("HANA", "INI", "L7OK")


class Admin(StrEnum):
    """What HAProxy was told to do with a server, whatever its health."""

    READY = "READY"
    DRAIN = "DRAIN"
    MAINT = "MAINT"


@dataclass(frozen=True)
class Server:
    """One server of one worker."""

    backend: str
    name: str
    address: str
    port: int
    admin: Admin
    #: HAProxy found it dead, by checks or by errors of requests. One in MAINT isn't checked and never dead.
    dead: bool
    #: Requests on it now, and requests that wait for this very server.
    current: int
    queued: int
    maxconn: int
    #: Result of the last check: L7OK, L4TOUT, L7TOUT, L4CON, …; HANA = marked down by failed connections,
    #: INI = not checked yet.
    check: str

    @property
    def key(self) -> tuple[str, str]:
        """Backend and server name."""
        return self.backend, self.name

    @property
    def checked(self) -> str:
        """`check` without HAProxy's star for a check that runs just now."""
        return self.check.lstrip("* ")

    @property
    def passive(self) -> bool:
        """Down, but its last check went well, or was none: by errors of requests alone."""
        return self.dead and self.checked in _UNCONFIRMED


@dataclass(frozen=True)
class Snapshot:
    """One worker at one moment."""

    servers: tuple[Server, ...]
    #: Backend -> requests that wait in it for any of its servers.
    queued: dict[str, int]


def parse(text: str) -> Snapshot:
    """Read the answers of COMMANDS. Servers that appear or vanish between the two are left out."""
    states: dict[tuple[str, str], list[str]] = {}
    rows: list[dict[str, str]] = []
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if line.startswith("# pxname,"):
            rows = list(csv.DictReader([line[2:], *_until_blank(lines[number + 1 :])]))
            break
        fields = line.split(" ")
        if not line.startswith("#") and len(fields) > 18:
            states[fields[1], fields[3]] = fields
    servers = []
    for row in rows:
        state = states.get((row["pxname"], row["svname"]))
        if state is not None and row["pxname"] != _RELAY:
            servers.append(_server(state, row))
    queued = {row["pxname"]: _number(row["qcur"]) for row in rows if row["svname"] == "BACKEND"}
    return Snapshot(tuple(servers), queued)


def _server(state: list[str], row: dict[str, str]) -> Server:
    admin = int(state[6])
    return Server(
        backend=row["pxname"],
        name=row["svname"],
        address=state[4],
        port=int(state[18]),
        admin=Admin.MAINT if admin & _MAINT else Admin.DRAIN if admin & _DRAIN else Admin.READY,
        dead=state[5] == "0" and not admin & _MAINT,
        current=_number(row["scur"]),
        queued=_number(row["qcur"]),
        maxconn=_number(row["slim"]),
        check=row["check_status"],
    )


def _until_blank(lines: list[str]) -> Iterable[str]:
    for line in lines:
        if not line:
            return
        yield line


def _number(text: str) -> int:
    return int(text) if text else 0
