"""Questions to agents that answer, that don't, and that say something else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer

from inference_operator.adapters.gateways import AgentGateways
from inference_operator.adapters.web import host
from inference_operator.core.model import TokenWindow

SAID: dict[str, Any] = {"seconds": 90.5, "prompt": 30, "cached": 10, "generation": 5}
ENGINE = {"pod": "e0", "in_flight": 3, "queued": 1}


class Agents:
    """One answer for each loopback address; an address without one answers 503."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}

    async def state(self, request: web.Request) -> web.Response:
        assert request.transport is not None
        answer = self.answers.get(request.transport.get_extra_info("sockname")[0])
        return web.Response(status=503) if answer is None else web.json_response(answer)

    def say(self, address: str, **cluster: Any) -> None:
        self.answers[address] = {"clusters": {"ns/llama": cluster}}


@pytest.fixture
def agents() -> Agents:
    return Agents()


@pytest_asyncio.fixture
async def gateways(agents: Agents) -> AsyncIterator[AgentGateways]:
    application = web.Application()
    application.add_routes([web.get("/state", agents.state)])
    async with TestServer(application, host="0.0.0.0") as server:
        assert server.port is not None
        yield AgentGateways(server.port)


async def ask(gateways: AgentGateways, *addresses: str) -> Any:
    return await gateways.tokens("ns", "llama", addresses)


async def test_each_gateway_says_what_it_has_counted(agents: Agents, gateways: AgentGateways) -> None:
    agents.say("127.0.0.1", tokens=SAID)
    agents.say("127.0.0.2", tokens={**SAID, "generation": 7})
    assert await ask(gateways, "127.0.0.1", "127.0.0.2") == [
        TokenWindow(90.5, 30, 10, 5),
        TokenWindow(90.5, 30, 10, 7),
    ]


@pytest.mark.parametrize(
    "cluster",
    [
        {},
        {"tokens": None},
        {"tokens": {"seconds": 90}},
        {"tokens": {**SAID, "seconds": -1}},
        {"tokens": {**SAID, "prompt": -30}},
        {"tokens": {**SAID, "generation": "many"}},
    ],
)
async def test_one_that_says_nothing_leaves_no_answer_at_all(
    agents: Agents, gateways: AgentGateways, cluster: dict[str, Any]
) -> None:
    agents.say("127.0.0.1", tokens=SAID)
    agents.say("127.0.0.2", **cluster)
    assert await ask(gateways, "127.0.0.1", "127.0.0.2") is None
    assert await ask(gateways, "127.0.0.1", "127.0.0.3") is None


async def test_how_busy_engines_are_is_added_up_over_those_that_answer(
    agents: Agents, gateways: AgentGateways
) -> None:
    agents.say("127.0.0.1", tracks=[{"engines": [ENGINE]}])
    agents.say("127.0.0.2", tracks=[{"engines": [ENGINE, {**ENGINE, "pod": "e1"}]}])
    found = await gateways.loads("ns", "llama", ["127.0.0.1", "127.0.0.2", "127.0.0.3"])
    assert found == {"e0": 8, "e1": 4}


def test_an_ipv6_address_stands_in_brackets() -> None:
    assert (host("10.0.0.1"), host("fd00::1")) == ("10.0.0.1", "[fd00::1]")
