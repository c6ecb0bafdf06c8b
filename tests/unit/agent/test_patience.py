"""An API server that refuses the agent for hours: few requests, few lines, and one that says what to do."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from inference_operator.agent.client import AgentClient
from inference_operator.agent.inputs import Inputs
from inference_operator.agent.jsonlog import Repeats
from inference_operator.agent.watches import Watches
from inference_operator.ports import KubeError
from tests.unit.adapters.scripted_api import ScriptedApi, serve

CLEAR = "the API server refuses this pod's token"


def record(message: str = "watch failed", **extra: str) -> logging.LogRecord:
    return logging.makeLogRecord({"msg": message, **extra})


@asynccontextmanager
async def refused(status: int, folder: Path) -> AsyncIterator[tuple[AgentClient, ScriptedApi]]:
    """A client of an API server that answers everything with this status."""
    api = ScriptedApi()
    api.intercept = lambda request: web.json_response({}, status=status)
    async with serve(api, folder):
        client = await AgentClient.connect(kubeconfig=str(folder / "kubeconfig"))
        try:
            yield client, api
        finally:
            await client.close()


def test_the_same_line_comes_once_a_minute():
    now = [1000.0]
    repeats = Repeats(lambda: now[0])
    assert repeats.filter(record(kind="ConfigMap", reason="401"))
    assert not repeats.filter(record(kind="ConfigMap", reason="401"))
    assert repeats.filter(record(kind="EndpointSlice", reason="401"))
    assert repeats.filter(record(kind="ConfigMap", reason="500"))
    assert repeats.filter(record("report not written", reason="401"))
    now[0] += 60.0
    assert repeats.filter(record(kind="ConfigMap", reason="401"))


async def test_refused_watches_ask_seldom_and_one_line_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    async with refused(401, tmp_path) as (client, api):
        watches = Watches(client, Inputs((("team-a", "llama"),), lambda *_: None, lambda: None), "gateway-0")
        task = asyncio.create_task(watches.run())
        try:
            await asyncio.sleep(2.0)
            assert watches.alive
            with pytest.raises(KubeError, match="401"):
                await client.apply({"kind": "ConfigMap", "metadata": {"namespace": "team-a", "name": "x"}})
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    # Each of three watches waits 0.25 s, 0.5 s, 1 s at least between two tries, up to 15 s.
    assert 4 <= len(api.requests) <= 3 * 4 + 1
    assert len([line for line in caplog.messages if line.startswith(CLEAR)]) == 1


async def test_other_refusals_are_not_taken_for_a_lost_token(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    async with refused(403, tmp_path) as (client, _):
        with pytest.raises(KubeError, match="403"):
            await client.list_page("ConfigMap", namespace="team-a")
    assert not [line for line in caplog.messages if line.startswith(CLEAR)]
