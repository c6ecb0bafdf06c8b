"""Each engine is read by one gateway; what it counted before isn't counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer

from inference_operator.agent.engine_page import Counters
from inference_operator.agent.metrics import Metrics
from inference_operator.agent.model import Gateway
from inference_operator.agent.scraper import Scraper, reader
from tests.unit.agent.builders import engine, pool

TRACK = ("team-a", "llama", "v1")


class Engines:
    """Pages by pod; each engine has a loopback address of its own."""

    def __init__(self) -> None:
        self.tokens = {"127.0.0.1": 100.0, "127.0.0.2": 200.0}
        self.asked: Counter[str] = Counter()
        self.answer: web.Response | None = None

    async def metrics(self, request: web.Request) -> web.Response:
        assert request.transport is not None
        own = request.transport.get_extra_info("sockname")[0]
        self.asked[own] += 1
        if self.answer is not None:
            return web.Response(body=self.answer.body, status=self.answer.status)
        return web.Response(text=f"vllm:generation_tokens_total {self.tokens[own]}\n")


@pytest.fixture
def engines() -> Engines:
    return Engines()


@pytest_asyncio.fixture
async def port(engines: Engines) -> AsyncIterator[int]:
    application = web.Application()
    application.add_routes([web.get("/metrics", engines.metrics)])
    async with TestServer(application, host="0.0.0.0") as server:
        assert server.port is not None
        yield server.port


def gateway(port: int, *addresses: str) -> Gateway:
    made = pool(*(engine(f"e{a[-1]}", a) for a in addresses or ("127.0.0.1", "127.0.0.2")), port=port)
    return Gateway((made,))


async def rounds(scraper: Scraper, count: int = 1) -> None:
    async with aiohttp.ClientSession() as session:
        for _ in range(count):
            await scraper.round(session)


async def test_what_is_counted_between_two_looks_is_added_up(engines: Engines, port: int) -> None:
    scraper = Scraper("g-0", lambda: gateway(port), list)
    await rounds(scraper)
    assert scraper.totals == {TRACK: Counters()}
    engines.tokens = {"127.0.0.1": 103.0, "127.0.0.2": 204.0}
    await rounds(scraper)
    assert scraper.totals[TRACK].generation_tokens == 7


async def test_an_engine_that_started_again_counts_from_0(engines: Engines, port: int) -> None:
    scraper = Scraper("g-0", lambda: gateway(port, "127.0.0.1"), list)
    await rounds(scraper)
    engines.tokens["127.0.0.1"] = 5.0
    await rounds(scraper)
    assert scraper.totals[TRACK].generation_tokens == 5


async def test_two_gateways_share_the_engines_and_count_each_once(engines: Engines, port: int) -> None:
    one = Scraper("g-0", lambda: gateway(port), lambda: ["g-1"])
    two = Scraper("g-1", lambda: gateway(port), lambda: ["g-0"])
    for scraper in (one, two):
        await rounds(scraper)
    assert engines.asked == {"127.0.0.1": 1, "127.0.0.2": 1}
    engines.tokens = {"127.0.0.1": 103.0, "127.0.0.2": 204.0}
    for scraper in (one, two):
        await rounds(scraper)
    assert sum(scraper.totals[TRACK].generation_tokens for scraper in (one, two)) == 7


async def test_an_engine_that_changes_hands_is_not_counted_again(engines: Engines, port: int) -> None:
    alone = Scraper("g-0", lambda: gateway(port), list)
    await rounds(alone, 2)
    heir = Scraper("g-1", lambda: gateway(port), list)
    await rounds(heir)
    assert heir.totals[TRACK].generation_tokens == 0


@pytest.mark.parametrize("answer", [web.Response(status=503), web.Response(text="<html>")])
async def test_an_engine_without_a_page_keeps_what_is_known(
    engines: Engines, port: int, answer: web.Response
) -> None:
    scraper = Scraper("g-0", lambda: gateway(port, "127.0.0.1"), list)
    await rounds(scraper)
    engines.answer = answer
    await rounds(scraper)
    engines.answer, engines.tokens = None, {"127.0.0.1": 110.0}
    await rounds(scraper)
    assert scraper.totals[TRACK].generation_tokens == 10


async def test_nothing_is_kept_of_what_is_gone(engines: Engines, port: int) -> None:
    now = [gateway(port)]
    scraper = Scraper("g-0", lambda: now[0], list)
    await rounds(scraper)
    now[0] = replace(now[0], pools=())
    await rounds(scraper)
    assert scraper.totals == {}
    assert scraper.pages == {}


async def test_tokens_of_a_cluster_are_counted_over_its_revisions_and_restarts(
    engines: Engines, port: int
) -> None:
    """Acceptance M4: a reset is no negative number and no spike."""
    now = [1000.0]
    old = pool(engine("e1", "127.0.0.1"), revision="v1", port=port)
    new = pool(engine("e2", "127.0.0.2"), revision="v2", port=port)
    pools = [Gateway((old, new))]
    scraper = Scraper("g-0", lambda: pools[0], list, lambda: now[0])
    await rounds(scraper)
    now[0], engines.tokens = 1030.0, {"127.0.0.1": 103.0, "127.0.0.2": 204.0}
    await rounds(scraper)
    engines.tokens["127.0.0.1"] = 5.0
    await rounds(scraper)
    pools[0] = Gateway((new,))
    await rounds(scraper)
    window = scraper.windows["team-a", "llama"]
    assert window.counted(1040.0) == {"seconds": 40.0, "prompt": 0, "cached": 0, "generation": 12}
    pools[0] = Gateway()
    await rounds(scraper)
    assert scraper.windows == {}


def test_a_gateway_that_goes_gives_away_its_own_engines_only() -> None:
    engines = [f"engine-{i}" for i in range(200)]
    before = {e: reader(["a", "b", "c"], e) for e in engines}
    after = {e: reader(["a", "b"], e) for e in engines}
    assert all(after[e] == before[e] for e in engines if before[e] != "c")
    assert all(40 < list(before.values()).count(g) < 95 for g in "abc")


def test_the_metrics_page_has_one_series_a_track() -> None:
    totals = {TRACK: Counters(1, 2, 3, 4.5, 6, 7.5, 8)}
    metrics = Metrics(list, lambda: totals)
    labels = {"namespace": "team-a", "cluster": "llama", "revision": "v1"}
    for name, value in (
        ("prompt_tokens_total", 1),
        ("cached_prompt_tokens_total", 2),
        ("generation_tokens_total", 3),
        ("time_to_first_token_seconds_sum", 4.5),
        ("time_to_first_token_seconds_count", 6),
        ("time_per_output_token_seconds_sum", 7.5),
        ("time_per_output_token_seconds_count", 8),
    ):
        assert metrics.registry.get_sample_value(f"inference_engine_{name}", labels) == value
