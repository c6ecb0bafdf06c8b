"""Wanted engines against HAProxy's servers: the difference as runtime commands. Pure.

wanted, absent             add (in maint) -> enable health -> ready
wanted, other address      a new pod under an old name: maint, close, delete; added by the next pass
wanted, other state        ready | drain
not wanted, with requests  drain: its running streams go on, and its checks too
not wanted, idle           maint -> delete (refused while idle connections remain: tried again each pass)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Final

from . import words
from .config import SERVER_OPTIONS, endpoint
from .haproxy import Command
from .model import Engine, Gateway, Pool
from .stat import Admin, Server, Snapshot

_ADDED: Final = frozenset({"New server registered."})
#: 2.6 and 3.2 say why a server can't be deleted yet in different words; all of them mean "later".
_DELETED: Final = frozenset(
    {
        "Server deleted.",
        "Server still has connections attached to it, cannot remove it.",
        "Server still has connections attached to it, cannot remove it",
    }
)
#: `0x55c7: proto=tcpv4 src=… fe=clients be=ns.name.revision srv=pod ts=…`.
_SESSION: Final = re.compile(r"^(0x[0-9a-f]+): .* be=(\S+) srv=(\S+) ", re.MULTILINE)
_CLOSED: Final = frozenset({"", "No such session (use 'show sess')."})


def commands(gateway: Gateway, now: Snapshot, maxconn: Mapping[str, int]) -> list[Command]:
    """Commands that bring the current worker's servers to what is wanted, in order."""
    result: list[Command] = []
    by_backend: dict[str, dict[str, Server]] = {}
    for server in now.servers:
        by_backend.setdefault(server.backend, {})[server.name] = server
    for pool in gateway.pools:
        servers = by_backend.get(pool.backend, {})
        limit = maxconn.get(pool.backend, pool.track.concurrency)
        for engine in pool.engines:
            result += _wanted(pool, engine, servers.pop(engine.pod, None), limit)
        for server in servers.values():
            result += _unwanted(server)
    return result


def close_old(sessions: str, dead: Iterable[tuple[str, str]]) -> list[Command]:
    """Commands for an old worker from its `show sess`: those about servers it refuses (Proxy is disabled)."""
    wanted = set(dead)
    return [
        Command(f"shutdown session {match[1]}", _CLOSED)
        for match in _SESSION.finditer(sessions)
        if (match[2], match[3]) in wanted
    ]


def shares(gateway: Gateway, actual: Mapping[str, int], map_file: str) -> list[Command]:
    """Commands that bring the runtime map of shares to what is wanted."""
    return [
        Command(f"set map {map_file} {pool.backend} {pool.track.share}")
        for pool in gateway.pools
        if actual.get(pool.backend) != pool.track.share
    ]


def parse_map(text: str) -> dict[str, int]:
    """Read `show map`: lines `<address> <key> <value>`."""
    fields = (line.split() for line in text.splitlines())
    return {field[1]: int(field[2]) for field in fields if len(field) == 3}


def close_sessions(keys: Iterable[tuple[str, str]]) -> list[Command]:
    """End the streams of servers that are dead; requests without a first byte go to another server."""
    return [Command(f"shutdown sessions server {backend}/{name}") for backend, name in keys]


def health(keys: Iterable[tuple[str, str]], health: str) -> list[Command]:
    """Overrule the checks, `up` or `down`, until two checks in a row say something else."""
    return [Command(f"set server {backend}/{name} health {health}") for backend, name in keys]


def _wanted(pool: Pool, engine: Engine, server: Server | None, maxconn: int) -> list[Command]:
    if server is None:
        return [] if engine.draining else _add(pool, engine, maxconn)
    if server.port != pool.track.port or ip_address(server.address) != ip_address(engine.address):
        name = f"{server.backend}/{server.name}"
        return [_state(server, Admin.MAINT), *close_sessions([server.key]), _delete(name)]
    result = []
    state = Admin.DRAIN if engine.draining else Admin.READY
    if server.admin is not state:
        result.append(_state(server, state))
    if server.maxconn != maxconn:
        result.append(Command(f"set maxconn server {server.backend}/{server.name} {maxconn}"))
    return result


def _unwanted(server: Server) -> list[Command]:
    if server.current or server.queued:
        return [_state(server, Admin.DRAIN)] if server.admin is not Admin.DRAIN else []
    leave = [] if server.admin is Admin.MAINT else [_state(server, Admin.MAINT)]
    return [*leave, _delete(f"{server.backend}/{server.name}")]


def _add(pool: Pool, engine: Engine, maxconn: int) -> list[Command]:
    name = f"{pool.backend}/{words.pod_name(engine.pod, 'engine pod')}"
    where = endpoint(engine, pool.track.port)
    return [
        Command(f"add server {name} {where} {SERVER_OPTIONS} maxconn {maxconn}", _ADDED),
        Command(f"enable health {name}"),
        Command(f"set server {name} state ready"),
    ]


def _state(server: Server, state: Admin) -> Command:
    return Command(f"set server {server.backend}/{server.name} state {state.lower()}")


def _delete(name: str) -> Command:
    return Command(f"del server {name}", _DELETED)
