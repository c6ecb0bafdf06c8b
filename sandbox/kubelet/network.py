"""Networking of the pods: a namespace, a veth pair and a /32 route for each, and the cut of a whole node.

A pod has one address, one default route by way of 169.254.1.1 (which the plane answers for), and a loopback
of its own: wildcard binds, source addresses, kube-proxy's cluster addresses and cuts behave as on a cluster.
The kubelet holds the namespace open by a file descriptor, so there is no pause process and nothing to clean
up: with the kubelet gone the namespace and its veth pair are gone.
"""

from __future__ import annotations

import asyncio
import ctypes
import itertools
import os
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Any

GATEWAY = "169.254.1.1"
CLONE_NEWNET = 0x40000000
_LIBC = ctypes.CDLL(None, use_errno=True)
_TABLE = "inet sandbox_node_cut"
# Dropping, not `ip link set down`: a dead or cut node is a black hole (no RST, no ICMP unreachable).
_RULES = f"""
table {_TABLE}
delete table {_TABLE}
table {_TABLE} {{
  set ifs {{ type ifname; }}
  chain forward {{ type filter hook forward priority -10; iifname @ifs drop; oifname @ifs drop; }}
  chain input {{ type filter hook input priority -10; iifname @ifs drop; }}
  chain output {{ type filter hook output priority -10; oifname @ifs drop; }}
}}
"""


class NetworkError(Exception):
    """A network command failed: which, and its words."""


class PodNetwork:
    """One pod's network namespace. `fd` is the open namespace, `path` its name for other processes."""

    def __init__(self, fd: int, ip: str, interface: str) -> None:
        self.fd, self.ip, self.interface = fd, ip, interface
        self.path = f"/proc/{os.getpid()}/fd/{fd}"

    def socket(self, info: tuple[Any, ...]) -> socket.socket:
        """A socket inside the pod's namespace, for use from here (an aiohttp socket factory).

        A socket belongs to the namespace of its creation, so the calling thread is in there for two system
        calls and no probe needs a process. Nothing else runs on the event loop's thread meanwhile.
        """
        family, kind, protocol = info[:3]
        with _HostNamespace():
            _setns(self.fd)
            return socket.socket(family, kind | socket.SOCK_NONBLOCK, protocol)


class Network:
    """Creates and deletes pod networks and cuts them off."""

    def __init__(self) -> None:
        # 10.244.255.0/24 is the plane's: node addresses and the API server.
        hosts = range(2, 255)
        self._addresses = itertools.cycle(f"10.244.{high}.{low}" for high in range(255) for low in hosts)
        self._numbers = itertools.count()
        self._used: set[str] = set()

    async def start(self) -> None:
        """Prepare the plane's side; harmless when the plane has done it already."""
        await _run("ip", "addr", "replace", f"{GATEWAY}/32", "dev", "lo")
        await asyncio.to_thread(Path("/proc/sys/net/ipv4/ip_forward").write_text, "1")
        await _run("nft", "-f", "-", stdin=_RULES)

    async def add_node_address(self, ip: str) -> None:
        await _run("ip", "addr", "replace", f"{ip}/32", "dev", "lo")

    async def create(self) -> PodNetwork:
        """A new namespace with an address that was used longest ago."""
        ip = next(address for address in self._addresses if address not in self._used)
        self._used.add(ip)
        interface = f"pod{next(self._numbers)}"
        fd = await asyncio.to_thread(_new_namespace)
        network = PodNetwork(fd, ip, interface)
        try:
            await _run(
                "ip",
                "-batch",
                "-",
                stdin=f"link add {interface} type veth peer name eth0 netns {network.path}\n"
                f"link set {interface} up\nroute replace {ip}/32 dev {interface}\n",
            )
            await _run(
                "nsenter",
                f"--net={network.path}",
                "ip",
                "-batch",
                "-",
                stdin=f"link set lo up\nlink set eth0 up\naddr add {ip}/32 dev eth0\n"
                f"route add {GATEWAY} dev eth0 scope link\nroute add default via {GATEWAY} dev eth0\n",
            )
        except BaseException:
            os.close(fd)
            self._used.discard(ip)
            raise
        return network

    async def delete(self, network: PodNetwork) -> None:
        """Remove the interface; the namespace ends with its last process. Safe to repeat."""
        if network.fd >= 0:
            fd, network.fd = network.fd, -1
            try:
                await _run("ip", "link", "delete", network.interface)
            finally:
                os.close(fd)
                self._used.discard(network.ip)

    async def cut(self, interfaces: Iterable[str]) -> None:
        """Drop every packet from and to these interfaces, silently. Idempotent."""
        if names := ", ".join(interfaces):
            await _run("nft", f"add element {_TABLE} ifs {{ {names} }}")

    async def heal(self, interfaces: Iterable[str]) -> None:
        """Undo `cut`."""
        if names := ", ".join(interfaces):
            # add first: deleting an element that isn't there is an error, and then none is deleted.
            element = f"element {_TABLE} ifs {{ {names} }}"
            await _run("nft", f"add {element}; delete {element}")


class _HostNamespace:
    """Puts the calling thread back into the namespace it came from."""

    def __enter__(self) -> None:
        self._fd = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)

    def __exit__(self, *_: object) -> None:
        _setns(self._fd)
        os.close(self._fd)


def _setns(fd: int) -> None:
    if _LIBC.setns(fd, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns to a network namespace")


def _new_namespace() -> int:
    with _HostNamespace():
        if _LIBC.unshare(CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "unshare a network namespace")
        # containerd does this in every pod: a user without capabilities may bind port 80.
        Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").write_text("0")
        return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


async def _run(*command: str, stdin: str = "") -> None:
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate(stdin.encode())
    if process.returncode:
        words = output.decode(errors="replace").strip()
        raise NetworkError(f"`{' '.join(command)}` failed: {words}\n{stdin}".rstrip())
