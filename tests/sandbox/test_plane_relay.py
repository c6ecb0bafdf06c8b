"""The relay carries bytes, ends and refusals as they are."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from sandbox import relay

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def relayed(handler: Handler) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    target = await asyncio.start_server(handler, "127.0.0.1", 0)
    port = target.sockets[0].getsockname()[1]
    listener = socket.create_server(("127.0.0.1", 0))
    server = await relay.serve(listener, "127.0.0.1", port)
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    yield reader, writer
    writer.close()
    server.close()
    target.close()


async def test_an_answer_after_the_end_of_the_request_arrives() -> None:
    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(str(len(await reader.read())).encode())
        writer.close()

    async with relayed(count) as (reader, writer):
        writer.write(b"x" * 3_000_000)
        writer.write_eof()
        assert await reader.read() == b"3000000"


async def test_a_stream_arrives_piece_by_piece() -> None:
    async def tick(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readexactly(1):
            writer.write(b"token ")
            await writer.drain()

    async with relayed(tick) as (reader, writer):
        for _ in range(3):
            writer.write(b".")
            assert await asyncio.wait_for(reader.readexactly(6), 5) == b"token "


async def test_a_refused_connection_is_a_reset_and_not_an_empty_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    listener = socket.create_server(("127.0.0.1", 0))
    server = await relay.serve(listener, "127.0.0.1", port)
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    with pytest.raises(ConnectionResetError):
        await asyncio.wait_for(reader.read(), 5)
    writer.close()
    server.close()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(100):
        writer.write(data)
    writer.close()


@asynccontextmanager
async def relay_process() -> AsyncIterator[tuple[asyncio.subprocess.Process, tuple[str, int]]]:
    """A relay to `echo` that is tied to its stdin, and where it listens."""
    target = await asyncio.start_server(echo, "127.0.0.1", 0)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        to = f"127.0.0.1:{target.sockets[0].getsockname()[1]}"
        command = ["-m", "sandbox.relay", "--fd", str(listener.fileno()), "--to", to, "--tie-to-stdin"]
        process = await asyncio.create_subprocess_exec(
            sys.executable, *command, stdin=subprocess.PIPE, pass_fds=(listener.fileno(),)
        )
    try:
        yield process, address
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        target.close()


async def finish(process: asyncio.subprocess.Process, address: tuple[str, int]) -> None:
    """Tell the relay, and wait until it accepts nothing more: refused, or reset while in the backlog."""
    assert process.stdin is not None
    process.stdin.write(relay.FINISH)
    with pytest.raises(ConnectionError):
        for _ in range(500):
            _, refused = await asyncio.open_connection(*address)
            refused.close()
            await asyncio.sleep(0.01)


async def test_told_to_finish_it_ends_with_its_last_connection() -> None:
    async with relay_process() as (process, address):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"one")
        assert await reader.readexactly(3) == b"one"
        await finish(process, address)
        writer.write(b"two")
        assert await reader.readexactly(3) == b"two"
        assert process.returncode is None
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()
        assert await asyncio.wait_for(process.wait(), 10) == 0


async def test_it_ends_with_its_maker_also_while_it_finishes() -> None:
    async with relay_process() as (process, address):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"one")
        assert await reader.readexactly(3) == b"one"
        await finish(process, address)
        assert process.returncode is None
        assert process.stdin is not None
        process.stdin.close()
        assert await asyncio.wait_for(process.wait(), 10) == 0
        writer.close()
