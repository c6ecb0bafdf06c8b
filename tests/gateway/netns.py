"""A network namespace that stands for a node, and that can be cut off without a word."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass

_count = 0


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
        net = f"198.18.{os.getpid() % 256}.{4 * _count}"
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
        await ip("netns", "del", self.name)


async def ip(*arguments: str) -> None:
    process = await asyncio.create_subprocess_exec("ip", *arguments)
    if await process.wait():
        raise RuntimeError(f"ip {' '.join(arguments)} failed")
