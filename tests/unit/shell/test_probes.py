"""Liveness and readiness by what they look at."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import ClientSession
from aiohttp.test_utils import TestServer

from inference_operator.shell.probes import LAG_LIMIT, OUTAGE_LIMIT, PASS_LIMIT, WATCH_LIMIT, Probes
from tests.unit.engine.fakes import FakeClock


class Rig:
    def __init__(self) -> None:
        self.clock = FakeClock(10_000.0)
        self.longest_pass = 0.0
        self.lag = 0.0
        self.why_not_ready = ""
        self.seen = {"Pod": self.clock.time, "InferenceCluster": self.clock.time}
        self.probes = Probes(
            clock=self.clock,
            longest_pass=lambda: self.longest_pass,
            watches=lambda: self.seen,
            loop_lag=lambda: self.lag,
            not_ready=lambda: self.why_not_ready,
            metrics=lambda: b"metric 1\n",
        )


@pytest.fixture
def rig() -> Rig:
    return Rig()


@pytest.fixture
async def http(rig: Rig) -> AsyncIterator[Any]:
    server = TestServer(rig.probes.application())
    await server.start_server()
    async with ClientSession() as session:

        async def get(path: str) -> tuple[int, str]:
            async with session.get(server.make_url(path)) as response:
                return response.status, await response.text()

        yield get
    await server.close()


def test_a_working_process_is_healthy(rig: Rig) -> None:
    assert rig.probes.unhealthy() == ""


def test_a_pass_that_hangs_is_seen(rig: Rig) -> None:
    rig.longest_pass = PASS_LIMIT + 1
    assert "reconcile pass has been running" in rig.probes.unhealthy()


def test_a_blocked_loop_is_seen(rig: Rig) -> None:
    rig.lag = LAG_LIMIT + 1
    assert "event loop" in rig.probes.unhealthy()


def test_one_dead_watch_among_live_ones_is_seen(rig: Rig) -> None:
    rig.clock.time += WATCH_LIMIT + 1
    rig.seen["Pod"] = rig.clock.time
    assert "watch of InferenceCluster" in rig.probes.unhealthy()


def test_an_outage_of_the_api_server_is_no_reason_to_restart(rig: Rig) -> None:
    rig.clock.time += OUTAGE_LIMIT - 1
    assert rig.probes.unhealthy() == ""


def test_an_endless_outage_is_one_since_only_a_restart_takes_up_a_new_ca(rig: Rig) -> None:
    rig.clock.time += OUTAGE_LIMIT + 1
    assert "no watch has heard" in rig.probes.unhealthy()


def test_before_anything_is_watched_it_is_healthy(rig: Rig) -> None:
    rig.seen = {}
    rig.clock.time += OUTAGE_LIMIT * 2
    assert rig.probes.unhealthy() == ""


async def test_the_answers_over_http(rig: Rig, http: Any) -> None:
    assert await http("/healthz") == (200, "ok")
    assert await http("/readyz") == (200, "ok")
    assert await http("/metrics") == (200, "metric 1\n")
    rig.lag, rig.why_not_ready = LAG_LIMIT + 1, "the CRD isn't installed"
    status, text = await http("/healthz")
    assert status == 503
    assert "event loop" in text
    assert await http("/readyz") == (503, "the CRD isn't installed")
