"""Other gateways' demand, and what becomes of a silent one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

import pytest
from aiohttp import web

from inference_operator.agent.peers import Peers


class Peer:
    def __init__(self) -> None:
        self.answer: Callable[[], web.Response] = lambda: web.json_response(
            {"gateway": "gateway-1", "clusters": {"team-a/llama": {"demand": 7}}}
        )
        self.port = 0

    async def handle(self, request: web.Request) -> web.Response:
        return self.answer()


@pytest.fixture
async def peer() -> AsyncIterator[Peer]:
    peer = Peer()
    application = web.Application()
    application.router.add_get("/demand", peer.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    peer.port = runner.addresses[0][1]
    yield peer
    await runner.cleanup()


async def until(what: Callable[[], bool], seconds: float = 5) -> None:
    async with asyncio.timeout(seconds):
        while not what():  # noqa: ASYNC110 - peers have no event for this
            await asyncio.sleep(0.02)


async def test_a_peer_counts_with_its_demand_until_it_is_silent_or_gone(peer: Peer):
    addresses = {"gateway-1": "127.0.0.1"}
    peers = Peers(lambda: addresses, peer.port)
    task = asyncio.create_task(peers.run())
    try:
        await until(lambda: peers.live() == [{"team-a/llama": 7}])
        peer.answer = lambda: web.json_response({"clusters": {"team-a/llama": "nonsense"}})
        await until(lambda: peers.live() == [])
        peer.answer = lambda: web.json_response({"clusters": {"team-a/llama": {"demand": 9}}})
        await until(lambda: peers.live() == [{"team-a/llama": 9}])
        addresses.clear()
        await until(lambda: peers.live() == [])
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_a_peer_just_found_counts_before_it_has_answered():
    peers = Peers(lambda: {"gateway-1": "127.0.0.1"}, 1)
    task = asyncio.create_task(peers.run())
    try:
        await until(lambda: peers.live() == [{}])
        await until(lambda: peers.live() == [])
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
