"""Faults that an engine survives, switched on over the control port."""

import asyncio
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest

from tests.unit.engine_sim.conftest import eventually
from tests.unit.engine_sim.test_server import events


async def set_faults(running: Any, **faults: Any) -> None:
    async with running.control.post("/faults", json=faults) as response:
        assert response.status == 200, await response.text()


async def test_the_control_port_shows_adds_and_clears(engine: Callable[..., Any]) -> None:
    running = await engine()
    await set_faults(running, slow=2)
    await set_faults(running, error_rate=0.5)
    async with running.control.get("/faults") as response:
        assert await response.json() == {"slow": 2.0, "error_rate": 0.5}
    async with running.control.delete("/faults") as response:
        assert await response.json() == {}
    assert running.core.slow == 1


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"meltdown": True}, "unknown fault 'meltdown'"),
        ({"oom_at_load": True}, "oom_at_load act only before the model is loaded"),
        ([], "must be a JSON object"),
    ],
)
async def test_nonsense_is_refused(engine: Callable[..., Any], body: Any, message: str) -> None:
    running = await engine()
    async with running.control.post("/faults", json=body) as response:
        assert response.status == 400
        assert message in (await response.json())["error"]


async def test_freeze_core(engine: Callable[..., Any]) -> None:
    running = await engine()
    await set_faults(running, freeze_core=True)
    call = asyncio.create_task(running.complete())
    await eventually(lambda: running.core.unfinished > 0)
    await asyncio.sleep(0.05)
    assert not call.done()
    async with running.client.get("/health") as response:
        assert response.status == 200
    assert await running.sample("vllm:num_requests_running") == 0
    assert await running.sample("vllm:num_requests_waiting") == 0
    async with running.control.delete("/faults"):
        assert (await call)["usage"]["completion_tokens"] == 16


async def test_slow(engine: Callable[..., Any]) -> None:
    running = await engine(INFERENCE_SIM_FAULTS='{"slow": 20}')
    loop = asyncio.get_running_loop()
    begun = loop.time()
    await running.complete(max_tokens=4)
    assert loop.time() - begun > 4 * 20 * 0.002 * 0.95


async def test_error_rate(engine: Callable[..., Any]) -> None:
    running = await engine()
    await set_faults(running, error_rate=0.25)
    statuses = []
    for _ in range(8):
        async with running.client.post("/v1/completions", json={"prompt": "x", "max_tokens": 1}) as response:
            statuses.append(response.status)
    assert sorted(statuses) == [200] * 6 + [500] * 2


async def test_truncate_rate(engine: Callable[..., Any]) -> None:
    running = await engine()
    await set_faults(running, truncate_rate=0.5, truncate_after_tokens=2)
    cut = 0
    for _ in range(4):
        body = {"prompt": "x", "stream": True, "max_tokens": 50}
        async with running.client.post("/v1/completions", json=body) as response:
            assert response.status == 200
            first = await response.content.readline()
            assert first.startswith(b"data: {")
            try:
                assert (await events(response))[-1] == "[DONE]"
            except aiohttp.ClientPayloadError:
                cut += 1
    assert cut == 2
    assert running.core.unfinished == 0


async def test_wrong_model(engine: Callable[..., Any]) -> None:
    running = await engine()
    await set_faults(running, wrong_model="other")
    async with running.client.get("/v1/models") as response:
        assert [card["id"] for card in (await response.json())["data"]] == ["other"]
    async with running.client.post("/v1/completions", json={"prompt": "x", "model": "tiny"}) as response:
        assert response.status == 404


async def test_wrong_answers(engine: Callable[..., Any]) -> None:
    running = await engine()
    right = (await running.complete())["choices"][0]["text"]
    await set_faults(running, wrong_answers=True)
    assert (await running.complete())["choices"][0]["text"] != right
