"""The HTTP API."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest

from tests.unit.engine_sim.conftest import eventually

MESSAGES = [{"role": "user", "content": "hello"}]


async def events(response: aiohttp.ClientResponse) -> list[Any]:
    """The data of a stream; [DONE] stays text."""
    found = []
    async for line in response.content:
        if line.startswith(b"data: "):
            data = line[6:].strip().decode()
            found.append(data if data == "[DONE]" else json.loads(data))
    return found


async def test_the_small_endpoints(engine: Callable[..., Any]) -> None:
    running = await engine("org/model --served-model-name a b --max-model-len 512")
    for path in ("/health", "/ping"):
        async with running.client.get(path) as response:
            assert (response.status, await response.text()) == (200, "")
    async with running.client.get("/version") as response:
        assert await response.json() == {"version": "0.32.0"}
    async with running.client.get("/load") as response:
        assert await response.json() == {"server_load": 0}
    async with running.client.get("/metrics") as response:
        assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    async with running.client.get("/v1/models") as response:
        cards = (await response.json())["data"]
    assert [(card["id"], card["root"], card["max_model_len"]) for card in cards] == [
        ("a", "org/model", 512),
        ("b", "org/model", 512),
    ]
    async with running.client.post("/tokenize", json={"prompt": "abcdabcdx"}) as response:
        body = await response.json()
    assert (body["count"], body["max_model_len"]) == (3, 512)
    assert body["tokens"][0] == body["tokens"][1] != body["tokens"][2]


async def test_completion(engine: Callable[..., Any]) -> None:
    running = await engine()
    got = await running.complete(max_tokens=3)
    assert got["object"] == "text_completion"
    assert got["model"] == "tiny"
    assert got["usage"] | {"prompt_tokens_details": None} == got["usage"]
    assert (got["usage"]["prompt_tokens"], got["usage"]["completion_tokens"]) == (2, 3)
    choice = got["choices"][0]
    assert choice["finish_reason"] == "length"
    assert len(choice["text"].split()) == 3
    assert (await running.complete())["usage"]["completion_tokens"] == 16
    assert (await running.complete([5, 6, 7]))["usage"]["prompt_tokens"] == 3


async def test_chat_ends_by_itself_without_a_limit(engine: Callable[..., Any]) -> None:
    running = await engine("tiny --max-model-len 100")

    async def chat(**body: Any) -> dict[str, Any]:
        async with running.client.post(
            "/v1/chat/completions", json={"messages": MESSAGES} | body
        ) as response:
            return await response.json()

    got = await chat()
    assert got["object"] == "chat.completion"
    assert got["choices"][0]["message"]["role"] == "assistant"
    assert (got["choices"][0]["finish_reason"], got["usage"]["completion_tokens"]) == ("stop", 16)
    got = await chat(max_completion_tokens=40)
    assert (got["choices"][0]["finish_reason"], got["usage"]["completion_tokens"]) == ("length", 40)
    got = await chat(ignore_eos=True)
    assert (got["choices"][0]["finish_reason"], got["usage"]["total_tokens"]) == ("length", 100)


async def test_a_stop_string_ends_the_answer(engine: Callable[..., Any]) -> None:
    running = await engine()
    words = (await running.complete(max_tokens=10))["choices"][0]["text"].split()
    got = await running.complete(max_tokens=10, stop=[words[4]])
    assert got["choices"][0]["finish_reason"] == "stop"
    assert got["usage"]["completion_tokens"] == words.index(words[4]) + 1


async def test_engines_answer_alike(engine: Callable[..., Any]) -> None:
    one, other = await engine(), await engine("tiny --seed 0")
    texts = {(await running.complete())["choices"][0]["text"] for running in (one, other)}
    assert len(texts) == 1
    different = (await one.complete(seed=7))["choices"][0]["text"]
    assert different not in texts


async def test_chat_stream(engine: Callable[..., Any]) -> None:
    running = await engine()
    body = {"messages": MESSAGES, "stream": True, "max_tokens": 3, "stream_options": {"include_usage": True}}
    async with running.client.post("/v1/chat/completions", json=body) as response:
        assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        got = await events(response)
    opening, *tokens, usage, done = got
    assert opening["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert [chunk["object"] for chunk in got[:-1]] == ["chat.completion.chunk"] * 5
    assert len("".join(chunk["choices"][0]["delta"]["content"] for chunk in tokens).split()) == 3
    assert [chunk["choices"][0]["finish_reason"] for chunk in tokens] == [None, None, "length"]
    assert (usage["choices"], usage["usage"]["completion_tokens"]) == ([], 3)
    assert done == "[DONE]"
    assert len({chunk["id"] for chunk in got[:-1]}) == 1


async def test_a_stream_gives_the_text_of_the_plain_answer(engine: Callable[..., Any]) -> None:
    running = await engine()
    async with running.client.post("/v1/completions", json={"prompt": "hello", "stream": True}) as response:
        got = await events(response)
    text = "".join(chunk["choices"][0]["text"] for chunk in got[:-1])
    assert text == (await running.complete())["choices"][0]["text"]


async def test_stream_headers_leave_before_the_first_token(engine: Callable[..., Any]) -> None:
    running = await engine("tiny --max-num-seqs 1", INFERENCE_SIM_TOKEN_SECONDS="0.3")
    blocker = asyncio.create_task(running.complete(max_tokens=2))
    await asyncio.sleep(0.05)
    body = {"prompt": "x", "max_tokens": 1, "stream": True}
    loop = asyncio.get_running_loop()
    begun = loop.time()
    async with running.client.post("/v1/completions", json=body) as response:
        headers_after = loop.time() - begun
        await response.content.readline()
        token_after = loop.time() - begun
    await blocker
    assert response.status == 200
    # The first token can't come before the blocker's two steps and one of its own.
    assert token_after > 0.6
    assert headers_after < token_after - 0.3


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_aborts_its_request(engine: Callable[..., Any], stream: bool) -> None:
    running = await engine(INFERENCE_SIM_TOKEN_SECONDS="0.02")
    body = {"prompt": "x", "max_tokens": 1000, "stream": stream}
    call = asyncio.create_task(running.client.post("/v1/completions", json=body))
    await eventually(lambda: running.core.unfinished > 0)
    if stream:
        (await call).close()
    call.cancel()
    async with asyncio.timeout(2):
        await running.server.idle.wait()
    assert running.core.unfinished == 0
    assert await running.sample('vllm:request_success_total{finished_reason="abort"}') == 1


@pytest.mark.parametrize(
    ("path", "body", "status", "kind", "message"),
    [
        ("completions", {"prompt": "x", "model": "y"}, 404, "NotFoundError", "The model `y` does not exist."),
        ("completions", {}, 400, "Bad Request", "'loc': ('body', 'prompt')"),
        ("completions", {"prompt": ["a", "b"]}, 400, "BadRequestError", "the simulator has no batches"),
        ("completions", {"prompt": "x", "n": 2}, 400, "BadRequestError", "n must be 1"),
        ("completions", {"prompt": "x", "stop": [""]}, 400, "BadRequestError", "stop must be a text"),
        (
            "completions",
            {"prompt": "x" * 400},
            400,
            "BadRequestError",
            "maximum context length is 100 tokens",
        ),
        ("chat/completions", {}, 400, "Bad Request", "'loc': ('body', 'messages')"),
        ("chat/completions", {"messages": []}, 400, "BadRequestError", "messages must not be empty"),
        ("chat/completions", {"messages": "hi"}, 400, "BadRequestError", "messages must be a list"),
        (
            "chat/completions",
            {"messages": MESSAGES, "max_tokens": 0},
            400,
            "BadRequestError",
            "at least 1, got 0",
        ),
        (
            "chat/completions",
            {"messages": MESSAGES, "max_tokens": "9"},
            400,
            "BadRequestError",
            "an integer, got '9'",
        ),
        ("chat/completions", [], 400, "Bad Request", "must be a JSON object"),
        ("nowhere", {}, 404, "Not Found", "Not Found"),
    ],
)
async def test_errors(
    engine: Callable[..., Any], path: str, body: Any, status: int, kind: str, message: str
) -> None:
    running = await engine("tiny --max-model-len 100")
    async with running.client.post(f"/v1/{path}", json=body) as response:
        error = (await response.json())["error"]
    assert (response.status, error["code"], error["type"]) == (status, status, kind)
    assert message in error["message"]


@pytest.mark.parametrize(
    ("content_type", "message"),
    [
        ("application/json", "JSON decode error"),
        ("application/x-www-form-urlencoded", "Unsupported Media Type"),
    ],
)
async def test_a_body_that_is_not_json_is_a_400(
    engine: Callable[..., Any], content_type: str, message: str
) -> None:
    running = await engine()
    headers = {"Content-Type": content_type}
    async with running.client.post("/v1/completions", data=b"{", headers=headers) as response:
        assert response.status == 400
        assert message in (await response.json())["error"]["message"]


async def test_a_probe_by_head_is_refused(engine: Callable[..., Any]) -> None:
    running = await engine()
    async with running.client.head("/health") as response:
        assert response.status == 405


async def test_the_api_key_guards_v1_alone(engine: Callable[..., Any]) -> None:
    running = await engine("tiny --api-key secret other")
    for headers, status in (
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": "Basic secret"}, 401),
        ({"Authorization": "Bearer other"}, 200),
    ):
        async with running.client.get("/v1/models", headers=headers) as response:
            assert response.status == status
    for path in ("/health", "/metrics", "/version", "/load"):
        async with running.client.get(path) as response:
            assert response.status == 200


async def test_a_full_queue_is_a_503(engine: Callable[..., Any]) -> None:
    running = await engine("tiny --max-num-seqs 1 --max-num-queued-reqs 1 --enable-server-load-tracking")
    calls = [asyncio.create_task(running.complete(max_tokens=100)) for _ in range(2)]
    await eventually(lambda: running.core.unfinished == 2)
    async with running.client.get("/load") as response:
        assert await response.json() == {"server_load": 2}
    async with running.client.post("/v1/completions", json={"prompt": "x"}) as response:
        assert response.status == 503
        assert "max_num_queued_reqs is 1" in (await response.json())["error"]["message"]
    await asyncio.gather(*calls)
