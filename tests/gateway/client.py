"""A client like an SDK's: head and body in two writes; it knows what it lost."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field


@dataclass
class Result:
    """One request as its client saw it. Times are monotonic seconds."""

    began: float
    status: int = 0
    engine: str = ""
    first_byte: float | None = None
    #: The stream came to its `[DONE]`.
    done: bool = False
    ended: float = 0.0
    error: str = ""


async def request(
    host: str, port: int, *, tokens: int = 50, body: int = 2_000, path: str = "/v1/chat/completions"
) -> Result:
    """Send one request and read its answer to the end."""
    result = Result(began=time.monotonic())
    writer: asyncio.StreamWriter | None = None
    try:
        reader, writer = await asyncio.open_connection(host, port)
        head = (
            f"POST {path}?tokens={tokens} HTTP/1.1\r\nHost: gateway\r\nContent-Length: {body}\r\n"
            "Content-Type: application/json\r\nConnection: close\r\n\r\n"
        )
        writer.write(head.encode())
        await writer.drain()
        await asyncio.sleep(0.005)
        writer.write(b"x" * body)
        await writer.drain()
        line = await reader.readline()
        result.first_byte = time.monotonic()
        result.status = int(line.split()[1]) if line else 0
        rest = await reader.read()
        headers = rest.partition(b"\r\n\r\n")[0].decode("latin-1").lower()
        for header in headers.split("\r\n"):
            if header.startswith("x-engine:"):
                result.engine = header.partition(":")[2].strip()
        result.done = b"[DONE]" in rest
    except OSError as error:
        result.error = repr(error)
    finally:
        result.ended = time.monotonic()
        if writer is not None:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
    return result


@dataclass
class Load:
    """Requests at a steady rate, each a task of its own."""

    host: str
    port: int
    rate: float = 20.0
    tokens: int = 50
    body: int = 2_000
    results: list[Result] = field(default_factory=list)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _stop: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, seconds: float) -> None:
        """Start requests for this long, then wait for all answers."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        for number in range(int(seconds * self.rate)):
            await asyncio.sleep(max(0.0, start + number / self.rate - loop.time()))
            if self._stop.is_set():
                break
            self._tasks.append(asyncio.create_task(self._one()))
        await asyncio.gather(*self._tasks)

    def stop(self) -> None:
        self._stop.set()

    async def _one(self) -> None:
        self.results.append(await request(self.host, self.port, tokens=self.tokens, body=self.body))

    def after(self, moment: float) -> list[Result]:
        return [result for result in self.results if result.began >= moment]

    def lost(self, moment: float = 0.0) -> list[Result]:
        """Requests from this moment on that got no whole answer."""
        return [result for result in self.after(moment) if not result.done]
