"""The loop that owns HAProxy outlives its own defects and HAProxy's absence."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import cast

import pytest

from inference_operator.agent import control as module
from inference_operator.agent.control import Control
from inference_operator.agent.haproxy import Haproxy, UnreachableError, Workers
from inference_operator.agent.inputs import Inputs
from inference_operator.agent.metrics import Metrics
from inference_operator.agent.monitor import Monitor
from inference_operator.agent.peers import Peers

from .builders import settings


class Scripted:
    """Stands in for HAProxy's master socket: each pass meets the next of these, the last one for ever."""

    def __init__(self, *steps: Exception) -> None:
        self.steps = list(steps)

    async def workers(self) -> Workers:
        raise self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]


def control(haproxy: Scripted, tmp_path: Path) -> Control:
    return Control(
        settings(tmp_path),
        cast(Inputs, None),
        cast(Haproxy, haproxy),
        Monitor(),
        cast(Peers, None),
        cast(Metrics, None),
    )


async def test_a_defect_in_one_pass_is_logged_and_the_next_pass_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_CALM_SECONDS", 0.01)
    haproxy = Scripted(ValueError("a defect"), ValueError("again"), UnreachableError("gone"))
    loop = control(haproxy, tmp_path)
    loop.leaving = True
    before = loop.status.ticked = time.monotonic() - 5

    async with asyncio.timeout(5):
        await loop.run()

    assert len(haproxy.steps) == 1
    assert [record.message for record in caplog.records].count(
        "a pass failed, HAProxy goes on with what it has"
    ) == 2
    assert loop.status.ticked == before, "/healthz must see that no pass has got through"


async def test_while_haproxy_is_away_the_loop_lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ALERT_SECONDS", 0.01)
    haproxy = Scripted(UnreachableError("away"))
    loop = control(haproxy, tmp_path)
    loop.status.ticked = 0.0
    task = asyncio.create_task(loop.run())
    await asyncio.sleep(0.05)  # the first pass needs no more than one turn of the event loop
    assert loop.status.ticked > 0.0
    assert not loop.status.reachable
    loop.leaving = True
    await asyncio.wait_for(task, 5)
