"""One engine as a process: start, signals, and the faults that end it."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.unit.engine_sim.conftest import ROOT
from tests.unit.engine_sim.test_server import events

# A start takes some 0.5 s of CPU; the machine may be busy with other things.
PATIENCE = 10.0


async def test_the_port_opens_only_after_the_load(engine_process: Callable[..., Any]) -> None:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    running = await engine_process(INFERENCE_SIM_LOAD_SECONDS="0.8")
    assert await running.health() is None
    await running.ready()
    assert loop.time() - begun > 0.8
    assert await running.health() == 200
    running.process.send_signal(signal.SIGTERM)
    assert await running.exit_code(PATIENCE) == 0
    log = await running.output()
    assert "vLLM API server version 0.32.0" in log
    assert "Application startup complete." in log


async def test_sigterm_without_timeout_leaves_open_streams_hanging(
    engine_process: Callable[..., Any],
) -> None:
    running = await engine_process(INFERENCE_SIM_TOKEN_SECONDS="0.02")
    await running.ready()
    body = {"prompt": "x", "max_tokens": 10_000, "stream": True}
    async with running.http.post(f"{running.url}/v1/completions", json=body) as response:
        await response.content.readline()
        running.process.send_signal(signal.SIGTERM)
        await running.refused()
        # What was on its way arrives, then nothing: neither data nor an end.
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await events(response)
        assert running.process.returncode is None
    assert await running.exit_code(PATIENCE) == 0


async def test_sigterm_with_a_timeout_lets_running_and_queued_requests_finish(
    engine_process: Callable[..., Any],
) -> None:
    running = await engine_process(
        "--max-num-seqs 1 --shutdown-timeout 20", INFERENCE_SIM_TOKEN_SECONDS="0.02"
    )
    await running.ready()

    async def complete(max_tokens: int) -> int:
        body = {"prompt": "x", "max_tokens": max_tokens}
        async with running.http.post(f"{running.url}/v1/completions", json=body) as response:
            await response.read()
            return response.status

    calls = [asyncio.create_task(complete(40)) for _ in range(3)]
    await running.metric("vllm:num_requests_waiting", 2)
    running.process.send_signal(signal.SIGTERM)
    await asyncio.sleep(0.1)
    assert await running.health() == 200
    assert await complete(1) == 503
    assert await asyncio.gather(*calls) == [200] * 3
    assert await running.exit_code(PATIENCE) == 0


async def test_a_drain_ends_at_its_timeout(engine_process: Callable[..., Any]) -> None:
    running = await engine_process("--shutdown-timeout 1", INFERENCE_SIM_TOKEN_SECONDS="0.02")
    await running.ready()
    body = {"prompt": "x", "max_tokens": 10_000, "stream": True}
    async with running.http.post(f"{running.url}/v1/completions", json=body) as response:
        await response.content.readline()
        running.process.send_signal(signal.SIGTERM)
        with pytest.raises(aiohttp.ClientPayloadError):
            await events(response)
    assert await running.exit_code(PATIENCE) == 0


async def test_hang_at_load_until_told_otherwise(engine_process: Callable[..., Any]) -> None:
    running = await engine_process(faults={"hang_at_load": True})
    await running.set_faults(slow=1)
    await asyncio.sleep(0.3)
    assert await running.health() is None
    await running.set_faults(hang_at_load=False)
    await running.ready()


async def test_sigterm_during_the_load(engine_process: Callable[..., Any]) -> None:
    running = await engine_process(faults={"hang_at_load": True})
    await running.set_faults(slow=1)
    running.process.send_signal(signal.SIGTERM)
    assert await running.exit_code(PATIENCE) == 128 + signal.SIGTERM


async def test_load_seconds(engine_process: Callable[..., Any]) -> None:
    running = await engine_process(faults={"load_seconds": 600})
    await running.set_faults(load_seconds=0)
    await running.ready()


async def test_oom_at_load(engine_process: Callable[..., Any]) -> None:
    running = await engine_process(faults={"oom_at_load": True})
    assert await running.exit_code(PATIENCE) == 1
    assert "torch.OutOfMemoryError: CUDA out of memory." in await running.output()


async def test_crash_cuts_open_streams(engine_process: Callable[..., Any]) -> None:
    running = await engine_process()
    await running.ready()
    body = {"prompt": "x", "max_tokens": 30_000, "stream": True}
    async with running.http.post(f"{running.url}/v1/completions", json=body) as response:
        await response.content.readline()
        await running.set_faults(crash=True)
        with pytest.raises(aiohttp.ClientError):
            await events(response)
    assert await running.exit_code(PATIENCE) == 1


async def test_crash_after_seconds_counts_from_the_start(engine_process: Callable[..., Any]) -> None:
    running = await engine_process(faults={"crash_after_seconds": 0.3}, INFERENCE_SIM_LOAD_SECONDS="600")
    assert await running.exit_code(PATIENCE) == 1


async def test_exit0(engine_process: Callable[..., Any]) -> None:
    running = await engine_process(faults={"exit0_after_seconds": 0.1})
    assert await running.exit_code(PATIENCE) == 0


async def test_core_dead(engine_process: Callable[..., Any]) -> None:
    running = await engine_process(INFERENCE_SIM_TOKEN_SECONDS="0.02")
    await running.ready()
    body = {"prompt": "x", "max_tokens": 1000, "stream": True}
    loop = asyncio.get_running_loop()
    async with running.http.post(f"{running.url}/v1/completions", json=body) as response:
        await response.content.readline()
        await running.set_faults(core_dead=True)
        begun = loop.time()
        *_, error, done = await events(response)
    assert "EngineCore encountered an issue" in error["error"]["message"]
    assert done == "[DONE]"
    assert await running.health() == 503
    assert loop.time() - begun < 2
    async with running.http.post(f"{running.url}/v1/completions", json=body) as response:
        assert response.status == 500
    assert await running.exit_code(PATIENCE) == 1
    assert loop.time() - begun > 4.5


async def test_a_wrong_start_ends_with_code_1(engine_process: Callable[..., Any]) -> None:
    running = await engine_process(VLLM_PORT="tcp://10.96.0.7:8000")
    assert await running.exit_code(PATIENCE) == 1
    assert "ValueError: VLLM_PORT 'tcp://10.96.0.7:8000' appears to be a URI" in await running.output()


async def test_a_port_in_use_shows_before_the_load(engine_process: Callable[..., Any]) -> None:
    first = await engine_process()
    await first.ready()
    port = first.url.rsplit(":", 1)[1]
    second = await engine_process(f"--port {port}", INFERENCE_SIM_LOAD_SECONDS="600")
    assert await second.exit_code(PATIENCE) == 1
    assert f"can't bind to port {port} of host '127.0.0.1': Address already in use" in await second.output()


async def test_a_headless_worker_has_no_port(engine_process: Callable[..., Any]) -> None:
    running = await engine_process("--headless --nnodes 2 --node-rank 1")
    await running.set_faults(slow=1)
    assert await running.health() is None
    running.process.send_signal(signal.SIGTERM)
    assert await running.exit_code(PATIENCE) in (0, 128 + signal.SIGTERM)


def _own_pid_namespace() -> list[str]:
    command = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"]
    works = shutil.which("unshare") and subprocess.run([*command, "true"], capture_output=True, check=False)
    return command if works and works.returncode == 0 else []


def test_sigterm_ends_it_as_pid_1() -> None:
    namespace = _own_pid_namespace()
    if not namespace:
        pytest.skip("this machine lets no user make a PID namespace")
    engine = [sys.executable, "-m", "sandbox.engine", "serve", "tiny", "--headless"]
    env = {"INFERENCE_SIM_LOAD_SECONDS": "600", "INFERENCE_SIM_CONTROL_PORT": "0"}
    with subprocess.Popen(
        [*namespace, *engine], cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        # The first log line names the process id as the process itself sees it.
        assert process.stdout.readline().startswith("(APIServer pid=1)")
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGTERM)
        assert process.wait(PATIENCE) == 128 + signal.SIGTERM
