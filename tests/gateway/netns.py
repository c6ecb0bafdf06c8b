"""A network namespace that stands for a node, and that can be cut off without a word."""

from __future__ import annotations

import asyncio
import os
import socket
from dataclasses import dataclass

_count = 0
#: Held until this process ends.
_claim: socket.socket | None = None


def _third_byte() -> int:
    """A part of the test network that no other test process uses: the claim is an abstract socket's name."""
    global _claim
    for number in range(256 if _claim is None else 0):
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0gateway-tests-198.18.{number}")
        except OSError:
            claim.close()
            continue
        _claim = claim
        break
    if _claim is not None:
        return int(_claim.getsockname().rpartition(b".")[2])
    raise RuntimeError("every part of 198.18.0.0/16 is in use by another test process")


@dataclass
class Node:
    """A namespace with one veth to the test; `cut` makes it silent in both directions."""

    name: str
    link: str
    near: str
    far: str

    @classmethod
    async def create(cls) -> Node:
        global _count
        _count += 1
        # 198.18.0.0/15 is for tests of network devices: nothing real has an address in it.
        net = f"198.18.{_third_byte()}.{4 * _count}"
        base, _, last = net.rpartition(".")
        node = cls(
            f"gw-{os.getpid()}-{_count}",
            f"gw{os.getpid() % 100_000}v{_count}",
            f"{base}.{int(last) + 1}",
            f"{base}.{int(last) + 2}",
        )
        await ip("netns", "add", node.name)
        await ip("link", "add", node.link, "type", "veth", "peer", "name", "eth0", "netns", node.name)
        await ip("addr", "add", f"{node.near}/30", "dev", node.link)
        await ip("link", "set", node.link, "up")
        await ip("-n", node.name, "addr", "add", f"{node.far}/30", "dev", "eth0")
        await ip("-n", node.name, "link", "set", "eth0", "up")
        await ip("-n", node.name, "link", "set", "lo", "up")
        return node

    @property
    def prefix(self) -> tuple[str, ...]:
        """What to put before a command to run it there."""
        return ("ip", "netns", "exec", self.name)

    async def add_address(self) -> str:
        """A second address on the node, for a second engine."""
        await ip("-n", self.name, "addr", "add", f"{self.second}/32", "dev", "lo")
        await ip("route", "add", f"{self.second}/32", "via", self.far)
        return self.second

    @property
    def second(self) -> str:
        base, _, last = self.far.rpartition(".")
        return f"198.19.{base.split('.')[2]}.{last}"

    async def cut(self) -> None:
        """Answers are dropped on the node: no reset, no unreachable, just silence."""
        await ip("-n", self.name, "route", "add", "blackhole", f"{self.near}/32")

    async def delete(self) -> None:
        # The kernel takes a namespace apart later; the link, and with it the routes of the test, must go now.
        await ip("link", "del", self.link)
        await ip("netns", "del", self.name)


async def ip(*arguments: str) -> None:
    process = await asyncio.create_subprocess_exec("ip", *arguments)
    if await process.wait():
        raise RuntimeError(f"ip {' '.join(arguments)} failed")
