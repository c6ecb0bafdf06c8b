"""Engines for the tests: in this process on a free port, or as a process of their own."""

import asyncio
import contextlib
import json
import os
import re
import socket
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import TestClient, TestServer

from sandbox.engine import cli, settings, stats
from sandbox.engine.core import EngineCore
from sandbox.engine.fault_board import FaultBoard, control_app
from sandbox.engine.metrics import Metrics
from sandbox.engine.server import EngineServer
from sandbox.engine.settings import Settings

ROOT = Path(__file__).parents[3]
FAST = {
    "INFERENCE_SIM_TOKEN_SECONDS": "0.002",
    "INFERENCE_SIM_PREFILL_TOKENS_PER_SECOND": "1000000",
    "INFERENCE_SIM_LOAD_SECONDS": "0",
}


def make_settings(command_line: str = "tiny", **env: str) -> Settings:
    """Settings as `vllm serve <command_line>` gets them, with fast tokens."""
    return settings.from_arguments(cli.parse_serve(command_line.split()), FAST | env)


@dataclass
class Engine:
    """An engine inside the test's own event loop."""

    core: EngineCore
    server: EngineServer
    metrics: Metrics
    client: TestClient
    control: TestClient

    async def complete(self, prompt: str = "hello", **body: Any) -> dict[str, Any]:
        """A completion that is expected to succeed."""
        async with self.client.post("/v1/completions", json={"prompt": prompt} | body) as response:
            assert response.status == 200, await response.text()
            return await response.json()

    async def sample(self, series: str) -> float:
        """A value of the metrics page; `series` is name{labels} without engine and model_name."""
        async with self.client.get("/metrics") as response:
            page = await response.text()
        return samples(page)[series]


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait until the condition holds; fails the test after five seconds."""
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - the engine has no event for its inner state
            await asyncio.sleep(0.005)


def samples(page: str) -> dict[str, float]:
    """All samples of a page, keyed by name{labels} without engine and model_name."""
    found = {}
    for line in page.splitlines():
        if not line.startswith("#"):
            series, value = line.rsplit(" ", 1)
            found[
                re.sub(r'(engine|model_name)="[^"]*",?', "", series).replace(",}", "}").replace("{}", "")
            ] = float(value)
    return found


@pytest.fixture
async def engine() -> AsyncIterator[Callable[..., Any]]:
    """A function that starts an engine: `await engine("tiny --max-num-seqs 2", NAME="env value")`."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(command_line: str = "tiny", **env: str) -> Engine:
            wanted = make_settings(command_line, **env)
            metrics = Metrics(wanted.served_names[0], stats.cache_config_labels(wanted))
            core = EngineCore(wanted, stats.Stats(metrics))
            board = FaultBoard(wanted.faults)
            board.attach(core)
            server = EngineServer(wanted, core, metrics, board)
            clients = []
            for app in (server.app(), control_app(board)):
                http = TestServer(app)
                await http.start_server(shutdown_timeout=0.1)
                clients.append(await stack.enter_async_context(TestClient(http)))
            return Engine(core, server, metrics, *clients)

        yield start


@dataclass
class EngineProcess:
    """An engine in a process of its own; stdout and stderr are one stream."""

    process: asyncio.subprocess.Process
    url: str
    control_url: str
    http: aiohttp.ClientSession

    async def health(self) -> int | None:
        """Status of /health, or None when the connection is refused or reset."""
        try:
            async with self.http.get(f"{self.url}/health") as response:
                return response.status
        except aiohttp.ClientConnectionError:
            return None

    async def ready(self) -> None:
        """Wait for the port to open."""
        while await self.health() is None:
            assert self.process.returncode is None, await self.output()
            await asyncio.sleep(0.02)

    async def metric(self, series: str, value: float) -> None:
        """Wait for a metric to take a value."""
        async with asyncio.timeout(10):
            while True:
                async with self.http.get(f"{self.url}/metrics") as response:
                    if samples(await response.text())[series] == value:
                        return
                await asyncio.sleep(0.02)

    async def refused(self) -> None:
        """Wait for the port to close."""
        async with asyncio.timeout(10):
            while await self.health() is not None:  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.02)

    async def set_faults(self, **faults: Any) -> None:
        """POST to the control port, which answers before the model is loaded."""
        while True:
            with contextlib.suppress(aiohttp.ClientConnectorError):
                async with self.http.post(f"{self.control_url}/faults", json=faults) as response:
                    assert response.status == 200, await response.text()
                    return
            await asyncio.sleep(0.02)

    async def output(self) -> str:
        """Everything printed, once the process has ended."""
        text, _ = await self.process.communicate()
        return text.decode()

    async def exit_code(self, seconds: float) -> int:
        """The exit code; fails the test if the process runs longer."""
        return await asyncio.wait_for(self.process.wait(), seconds)


def free_port() -> int:
    """A port of the loopback interface that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
async def engine_process() -> AsyncIterator[Callable[..., Any]]:
    """A function that starts `vllm serve tiny ...` as a process; whatever still runs is killed at the end."""
    started: list[asyncio.subprocess.Process] = []
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=15)) as http:

        async def start(flags: str = "", faults: dict[str, Any] | None = None, **env: str) -> EngineProcess:
            port, control = free_port(), free_port()
            command = ["-m", "sandbox.engine", "serve", "tiny", "--host", "127.0.0.1", "--port", str(port)]
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *command,
                *flags.split(),
                cwd=ROOT,
                env=os.environ
                | FAST
                | {
                    "INFERENCE_SIM_CONTROL_PORT": str(control),
                    "INFERENCE_SIM_FAULTS": json.dumps(faults or {}),
                }
                | env,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            started.append(process)
            return EngineProcess(process, f"http://127.0.0.1:{port}", f"http://127.0.0.1:{control}", http)

        yield start
        for process in started:
            if process.returncode is None:
                process.kill()
                await process.wait()
