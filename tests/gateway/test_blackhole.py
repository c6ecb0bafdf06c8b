"""A node that falls silent: no reset tells HAProxy, only time does."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import AsyncIterator

import pytest

from tests.gateway.client import Load
from tests.gateway.netns import Node
from tests.gateway.rig import Rig, routing, track

LIMIT_SECONDS = 3.0

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("ip") is None, reason="needs root and iproute2 for network namespaces"
)


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    node = await Node.create()
    try:
        yield node
    finally:
        await node.delete()


@pytest.mark.parametrize("modes", [(), ("early",)], ids=["headers-with-first-token", "headers-at-once"])
async def test_a_silent_node_loses_no_new_request(rig: Rig, node: Node, modes: tuple[str, ...]):
    rig.route(routing(track("v1", 10_000, rig.engine_port, concurrency=64)))
    await rig.add_engine("engine-0", "127.0.0.11", modes=modes)
    await rig.add_engine("engine-1", "127.0.0.12", modes=modes)
    await rig.add_engine("engine-2", node.far, modes=modes, prefix=node.prefix)
    await rig.serving("engine-0", "engine-1", "engine-2")
    await load_and_cut(rig, node, {node.far})
    (event,) = rig.events("EngineDown")
    assert event.pod == "engine-2"
    assert event.detection_ms is None or event.detection_ms <= LIMIT_SECONDS * 1000


async def test_a_silent_node_with_two_of_three_engines_loses_no_new_request(rig: Rig, node: Node):
    rig.route(routing(track("v1", 10_000, rig.engine_port, concurrency=64)))
    second = await node.add_address()
    await rig.add_engine("engine-0", "127.0.0.11", node="node-a")
    await rig.add_engine("engine-1", node.far, node="node-b", prefix=node.prefix)
    await rig.add_engine("engine-2", second, node="node-b", prefix=node.prefix)
    await rig.serving("engine-0", "engine-1", "engine-2")
    assert [t.retries for t in rig.agent.control.status.tracks] == [3]
    await load_and_cut(rig, node, {node.far, second})


async def load_and_cut(rig: Rig, node: Node, addresses: set[str]) -> None:
    """Cut the node off under load; nothing that comes later is lost or waits for long."""
    load = Load("127.0.0.1", rig.port)
    running = asyncio.create_task(load.run(7.0))
    await asyncio.sleep(2.0)
    at = time.monotonic()
    await node.cut()
    at_done = time.monotonic()
    await running
    after = load.after(at)
    assert len(after) >= 80
    waits = [r.first_byte - r.began for r in after if r.first_byte is not None]
    assert max(waits) <= LIMIT_SECONDS
    # Only streams that ran on the node are cut, and those soon: nobody stares at a dead stream.
    cut = load.lost()
    assert [r for r in cut if r.began > at_done or r.engine not in addresses] == [], f"cut at {at}"
    longest = max(r.ended - at for r in cut)
    assert longest <= LIMIT_SECONDS
    events = rig.agent.monitor.events(("team-a", "llama"))
    print(f"max wait {max(waits):.2f} s, cut {len(cut)}, the last after {longest:.2f} s, {events}")
