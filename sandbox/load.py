"""Load: streamed chat completions at a fixed rate, or a fixed number of open ones; one JSON line each.

Requests start when the schedule says so, whether or not earlier ones have finished (a closed loop would slow
down with the system under test and hide its pauses). Head and body go out in two writes a few milliseconds
apart, as SDKs do: a proxy that retries only what it has buffered loses such requests. If the generator itself
lags behind its schedule, the run says so and is void.

A closed loop (--concurrent) is for what is about the number of open requests: an autoscaler's demand.

    python -m sandbox.load --host 10.96.0.7 --model M --rate 20 --seconds 10 --tokens 50 --out load.jsonl
    python -m sandbox.load --host 10.96.0.7 --model M --concurrent 40 --tokens 250 --out load.jsonl
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import click

HEAD_BODY_GAP_SECONDS = 0.005
#: A generator that starts a request this much late doesn't measure the system any more.
LAG_LIMIT_SECONDS = 0.25


@dataclass
class Outcome:
    """What one request saw. Times are seconds since the epoch, None = never."""

    started: float
    #: Start minus schedule (of a closed loop: minus the end of the one before): the generator's own lag.
    lag: float
    connected: float | None = None
    headers: float | None = None
    first_token: float | None = None
    ended: float | None = None
    status: int | None = None
    engine: str = ""
    tokens: int = 0
    #: The stream reached its end marker.
    complete: bool = False
    error: str = ""
    max_gap: float = 0.0


@dataclass
class Load:
    """One schedule of requests against one address."""

    host: str
    port: int
    model: str
    rate: float
    seconds: float
    tokens: int = 50
    prompt: str = "Say something about gateways."
    timeout: float = 120.0
    prompt_bytes: int = 0
    path: str = "/v1/chat/completions"
    #: Requests that are open at each moment; 0 = `rate` says when they start.
    concurrent: int = 0
    outcomes: list[Outcome] = field(default_factory=list)

    def body(self) -> bytes:
        """The JSON body; `prompt_bytes` pads the prompt so that large bodies can be tested."""
        text = self.prompt + " " + "x" * max(0, self.prompt_bytes - len(self.prompt))
        return json.dumps(
            {
                "model": self.model,
                "messages": [{"role": "user", "content": text}],
                "max_tokens": self.tokens,
                "stream": True,
                "stream_options": {"include_usage": True},
            }
        ).encode()

    async def run(self) -> list[Outcome]:
        """Send all requests and wait for the last one; outcomes in order of their start."""
        body = self.body()
        if self.concurrent:
            await asyncio.gather(*(self._one_after_another(body) for _ in range(self.concurrent)))
            return self.outcomes
        loop = asyncio.get_running_loop()
        begin = loop.time()
        tasks = []
        for index in range(int(self.rate * self.seconds)):
            due = begin + index / self.rate
            delay = due - loop.time()
            if delay > 0:
                await asyncio.sleep(delay)
            tasks.append(asyncio.create_task(self._request(body, loop.time() - due)))
        await asyncio.gather(*tasks)
        return self.outcomes

    async def _one_after_another(self, body: bytes) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + self.seconds
        while (due := loop.time()) < end:
            # A refusal comes back at once: repeated without a pause it would be a flood.
            await asyncio.sleep(0.05 if self.outcomes and self.outcomes[-1].error else 0)
            await self._request(body, loop.time() - due)

    async def _request(self, body: bytes, lag: float) -> None:
        outcome = Outcome(started=time.time(), lag=round(lag, 4))
        self.outcomes.append(outcome)
        try:
            async with asyncio.timeout(self.timeout):
                await self._talk(outcome, body)
        except TimeoutError:
            outcome.error = f"no end within {self.timeout:g} s"
        except (OSError, asyncio.IncompleteReadError, ValueError) as error:
            outcome.error = f"{type(error).__name__}: {error}"
        outcome.ended = time.time()
        if not outcome.error and not outcome.complete:
            outcome.error = "the stream ended without its end marker"

    async def _talk(self, outcome: Outcome, body: bytes) -> None:
        reader, writer = await asyncio.open_connection(self.host, self.port)
        try:
            outcome.connected = time.time()
            writer.write(
                f"POST {self.path} HTTP/1.1\r\nHost: {self.host}\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
            )
            await writer.drain()
            await asyncio.sleep(HEAD_BODY_GAP_SECONDS)
            writer.write(body)
            await writer.drain()
            await _read_head(reader, outcome)
            await _read_events(reader, outcome)
        finally:
            writer.close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()


async def _read_head(reader: asyncio.StreamReader, outcome: Outcome) -> None:
    status_line = await reader.readuntil(b"\r\n")
    outcome.status = int(status_line.split()[1])
    while (line := await reader.readuntil(b"\r\n")) != b"\r\n":
        name, _, value = line.decode("latin-1").partition(":")
        if name.lower() == "x-inference-engine":
            outcome.engine = value.strip()
    outcome.headers = time.time()
    if outcome.status != 200:
        outcome.error = f"HTTP {outcome.status}"


async def _read_events(reader: asyncio.StreamReader, outcome: Outcome) -> None:
    last = outcome.headers or outcome.started
    while line := await reader.readline():
        if not line.startswith(b"data:"):
            continue
        now = time.time()
        outcome.max_gap = max(outcome.max_gap, now - last)
        last = now
        data = line[5:].strip()
        if data == b"[DONE]":
            outcome.complete = outcome.status == 200
            return
        if _has_token(data):
            outcome.tokens += 1
            outcome.first_token = outcome.first_token or now


def _has_token(data: bytes) -> bool:
    choices = json.loads(data).get("choices") or []
    return any((choice.get("delta") or {}).get("content") or choice.get("text") for choice in choices)


def lagged(outcomes: list[Outcome]) -> bool:
    """The generator was too slow for its own schedule: the run is void."""
    return any(outcome.lag > LAG_LIMIT_SECONDS for outcome in outcomes)


@click.command(help=__doc__)
@click.option("--host", required=True, help="Address of the gateway.")
@click.option("--port", default=80, show_default=True)
@click.option("--model", required=True, help="Served name of the model.")
@click.option("--rate", default=20.0, show_default=True, help="Requests per second.")
@click.option("--concurrent", default=0, show_default=True, help="Open requests; wins over --rate.")
@click.option("--seconds", default=10.0, show_default=True, help="How long requests are started.")
@click.option("--tokens", default=50, show_default=True, help="Tokens per answer.")
@click.option("--prompt-bytes", default=0, show_default=True, help="Pad the prompt to this size.")
@click.option("--timeout", default=120.0, show_default=True, help="Longest wait for one request.")
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, help="File for one JSON line a request."
)
def main(
    host: str,
    port: int,
    model: str,
    rate: float,
    concurrent: int,
    seconds: float,
    tokens: int,
    prompt_bytes: int,
    timeout: float,
    out: Path,
) -> None:
    load = Load(
        host,
        port,
        model,
        rate,
        seconds,
        tokens=tokens,
        prompt_bytes=prompt_bytes,
        timeout=timeout,
        concurrent=concurrent,
    )
    outcomes = asyncio.run(load.run())
    out.write_text("".join(json.dumps(asdict(outcome)) + "\n" for outcome in outcomes))
    bad = sum(1 for outcome in outcomes if outcome.error)
    click.echo(
        f"{len(outcomes)} requests, {bad} failed, generator lagged: {'yes' if lagged(outcomes) else 'no'}"
    )


if __name__ == "__main__":
    main()
