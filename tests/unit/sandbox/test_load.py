"""The load generator reads streams as they are: complete, cut, refused, or silent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sandbox.load import LAG_LIMIT_SECONDS, Load, Outcome, lagged

HEAD = b"HTTP/1.1 200 OK\r\nX-Inference-Engine: pod-1\r\nContent-Type: text/event-stream\r\n\r\n"
TOKEN = b'data: {"choices": [{"delta": {"content": "hi"}}]}\n\n'


@asynccontextmanager
async def server(answer: bytes, pause: float = 0) -> AsyncIterator[tuple[str, int, list[int]]]:
    """Answers every request with `answer` after `pause` seconds; collects the sizes of the reads."""
    reads: list[int] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        reads.append(len(head))
        length = next(
            int(line.split(b":")[1])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length")
        )
        reads.append(len(await reader.readexactly(length)))
        await asyncio.sleep(pause)
        writer.write(answer)
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with listening:
        host, port = listening.sockets[0].getsockname()[:2]
        yield host, port, reads


async def one(answer: bytes, *, pause: float = 0, patience: float = 5) -> Outcome:
    async with server(answer, pause) as (host, port, _):
        outcomes = await Load(host, port, "m", rate=10, seconds=0.1, timeout=patience).run()
    assert len(outcomes) == 1
    return outcomes[0]


async def test_a_whole_stream_is_complete_and_names_its_engine() -> None:
    got = await one(HEAD + TOKEN + TOKEN + b"data: [DONE]\n\n")
    assert (got.complete, got.error, got.tokens, got.engine, got.status) == (True, "", 2, "pod-1", 200)
    assert got.first_token is not None and got.headers is not None


async def test_a_stream_without_its_end_marker_is_a_failure() -> None:
    got = await one(HEAD + TOKEN)
    assert (got.complete, got.error) == (False, "the stream ended without its end marker")


async def test_a_refusal_is_a_failure_with_its_status() -> None:
    got = await one(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
    assert (got.status, got.error) == (503, "HTTP 503")


async def test_a_closed_connection_is_a_failure() -> None:
    assert (await one(b"")).error.startswith("IncompleteReadError")


async def test_silence_ends_with_the_time_limit() -> None:
    assert (await one(b"", pause=1, patience=0.2)).error == "no end within 0.2 s"


async def test_requests_start_on_schedule_whether_or_not_earlier_ones_have_ended() -> None:
    async with server(HEAD + b"data: [DONE]\n\n", pause=0.3) as (host, port, _):
        outcomes = await Load(host, port, "m", rate=50, seconds=0.2).run()
    assert len(outcomes) == 10
    assert outcomes[-1].started < min(o.ended or 0 for o in outcomes)


async def test_a_closed_loop_keeps_a_number_of_requests_open() -> None:
    async with server(HEAD + b"data: [DONE]\n\n", pause=0.1) as (host, port, _):
        outcomes = await Load(host, port, "m", rate=0, seconds=0.35, concurrent=3).run()
    assert not lagged(outcomes)
    moments = [(o.started, 1) for o in outcomes] + [(o.ended or 0, -1) for o in outcomes]
    count, most = 0, 0
    for _, change in sorted(moments):
        count += change
        most = max(most, count)
    assert most == 3
    assert 9 <= len(outcomes) <= 12


def test_a_late_generator_makes_the_run_void() -> None:
    assert lagged([Outcome(started=0, lag=0), Outcome(started=1, lag=LAG_LIMIT_SECONDS + 0.01)])
    assert not lagged([Outcome(started=0, lag=LAG_LIMIT_SECONDS - 0.01)])
