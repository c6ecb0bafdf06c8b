"""Asking the gateways when a figure is wanted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp.test_utils import TestServer

from inference_operator.metrics_api.collector import Collector
from inference_operator.metrics_api.demand import Unknown
from tests.unit.adapters.scripted_api import ScriptedApi, Stream, event, serve
from tests.unit.metrics_api.gateways import Agents, gateway_pod

ONE, TWO = "127.0.0.1", "127.0.0.2"


class Rig:
    def __init__(self, collector: Collector, agents: Agents, stream: Stream) -> None:
        self.collector = collector
        self.agents = agents
        self.stream = stream
        self.clock = 1000.0

    async def requests(self) -> int:
        return (await self.collector.demand("ml", "chat")).requests

    async def until_gone(self, count: int) -> None:
        for _ in range(100):
            if len(self.collector._gateways(("ml", "chat"))) == count:
                return
            await asyncio.sleep(0.02)
        raise AssertionError("the watch told nothing")


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Rig]:
    """Two gateways with 3 and 4 requests."""
    api, agents = ScriptedApi(), Agents()
    api.objects, api.version = [gateway_pod("g-0", ONE, 1), gateway_pod("g-1", TWO, 2)], 10
    agents.demand = {ONE: 3, TWO: 4}
    async with serve(api, folder) as client, TestServer(agents.application(), host="0.0.0.0") as server:
        assert server.port is not None
        rig: Rig
        collector = Collector(client, port=server.port, monotonic=lambda: rig.clock)
        task = asyncio.create_task(collector.run())
        rig = Rig(collector, agents, await api.stream())
        assert collector.synced
        try:
            yield rig
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_it_is_the_sum_of_what_they_say_now(tmp_path: Path) -> None:
    async with running(tmp_path) as rig:
        assert await rig.requests() == 7
        rig.agents.demand[ONE] = 30
        assert await rig.requests() == 34
        assert rig.collector.clusters("ml") == ["chat"]
        assert rig.collector.clusters("other") == []


async def test_a_hung_agent_counts_with_its_last_word_for_a_minute(tmp_path: Path) -> None:
    async with running(tmp_path) as rig:
        await rig.requests()
        rig.agents.silent, rig.agents.demand[ONE] = {TWO}, 5
        rig.clock += 59
        assert await rig.requests() == 9
        rig.clock += 2
        with pytest.raises(Unknown, match=r"g-1"):
            await rig.requests()


async def test_an_agent_that_never_answered_makes_the_sum_unknown(tmp_path: Path) -> None:
    async with running(tmp_path) as rig:
        rig.agents.silent = {TWO}
        with pytest.raises(Unknown, match=r"g-1"):
            await rig.requests()


@pytest.mark.parametrize("body", [b"", b"[]", b'{"clusters": {}}', b"x" * 2_000_000])
async def test_rubbish_is_no_answer(tmp_path: Path, body: bytes) -> None:
    async with running(tmp_path) as rig:
        await rig.requests()
        rig.agents.body = body
        rig.clock += 61
        with pytest.raises(Unknown):
            await rig.requests()


async def test_a_gateway_that_is_gone_or_has_ended_counts_no_more(tmp_path: Path) -> None:
    async with running(tmp_path) as rig:
        await rig.requests()
        rig.stream.send(event("DELETED", gateway_pod("g-1", TWO, 11)))
        await rig.until_gone(1)
        assert await rig.requests() == 3
        rig.stream.send(event("MODIFIED", gateway_pod("g-0", ONE, 12, phase="Failed")))
        await rig.until_gone(0)
        with pytest.raises(KeyError):
            await rig.requests()
        assert rig.collector._answers == {}


async def test_a_pod_without_an_address_has_no_requests(tmp_path: Path) -> None:
    async with running(tmp_path) as rig:
        rig.stream.send(event("ADDED", gateway_pod("g-2", "", 11, phase="Pending")))
        await rig.until_gone(3)
        assert await rig.requests() == 7


async def test_questions_that_come_together_share_one_round(tmp_path: Path) -> None:
    async with running(tmp_path) as rig:
        assert await asyncio.gather(*(rig.requests() for _ in range(20))) == [7] * 20
        assert rig.agents.asked == 2
        await rig.requests()
        assert rig.agents.asked == 4
