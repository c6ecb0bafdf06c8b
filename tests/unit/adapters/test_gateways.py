"""How busy the engines are, by the gateways' word."""

from __future__ import annotations

from aiohttp.test_utils import TestServer

from inference_operator.adapters.gateways import AgentGateways, host
from tests.unit.metrics_api.gateways import Agents

ONE, TWO = "127.0.0.1", "127.0.0.2"


async def test_loads_are_added_up_over_the_gateways_that_answer() -> None:
    agents = Agents()
    agents.loads = {ONE: {"e-0": 3, "e-1": 0}, TWO: {"e-0": 1}}
    async with TestServer(agents.application(), host="0.0.0.0") as server:
        assert server.port is not None
        gateways = AgentGateways(server.port)
        assert await gateways.loads("ml", "chat", [ONE, TWO]) == {"e-0": 6, "e-1": 1}
        # Nothing is known of a third one: it answers without engines.
        assert await gateways.loads("ml", "chat", [ONE, "127.0.0.3"]) == {"e-0": 4, "e-1": 1}
        assert await gateways.loads("ml", "other", [ONE]) == {}
        agents.silent = {TWO}
        assert await gateways.loads("ml", "chat", [ONE, TWO]) == {"e-0": 4, "e-1": 1}
        assert await gateways.loads("ml", "chat", []) == {}


def test_an_ipv6_address_stands_in_brackets() -> None:
    assert (host("10.0.0.1"), host("fd00::1")) == ("10.0.0.1", "[fd00::1]")
