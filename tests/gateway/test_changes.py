"""Everything that changes while streams run: drains, reloads, restarts. None of it may cut a stream."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from typing import Any

import pytest

from inference_operator.agent import config
from inference_operator.agent.model import Gateway
from inference_operator.agent.report import Reporter
from inference_operator.api.routing import GatewayReport, Routing
from tests.gateway.client import Load, Result, request
from tests.gateway.rig import CLUSTER, Rig, routing, track, until

#: Tokens of a stream of 3 s.
LONG = 150


async def two_engines(rig: Rig) -> Routing:
    document = routing(track("v1", 10_000, rig.engine_port))
    rig.route(document)
    await rig.add_engine("engine-0", "127.0.0.11")
    await rig.add_engine("engine-1", "127.0.0.12")
    await rig.serving("engine-0", "engine-1")
    return document


async def streams(rig: Rig, count: int = 4) -> list[asyncio.Task[Result]]:
    """Long streams that have all begun."""
    running = [asyncio.create_task(request("127.0.0.1", rig.port, tokens=LONG)) for _ in range(count)]
    await until(lambda: sum(t.in_flight for t in rig.agent.control.status.tracks) == count)
    await asyncio.sleep(0.2)
    return running


async def engines_of(rig: Rig, count: int = 10) -> set[str]:
    answers = await asyncio.gather(*(request("127.0.0.1", rig.port, tokens=0) for _ in range(count)))
    assert all(a.done for a in answers)
    return {a.engine for a in answers}


def view(rig: Rig, pod: str) -> Any:
    return next(e for t in rig.agent.control.status.tracks for e in t.engines if e.pod == pod)


def reported(rig: Rig, pod: str) -> tuple[str, bool]:
    engine = next(e for e in rig.agent.report(CLUSTER).engines if e.pod == pod)
    return engine.state, engine.idle


@pytest.mark.parametrize("how", ["routing", "terminating"])
async def test_a_draining_engine_finishes_its_streams_gets_no_new_ones_and_is_then_idle(rig: Rig, how: str):
    document = await two_engines(rig)
    running = await streams(rig)
    if how == "routing":
        rig.route(routing(*document.tracks, drains=["engine-1"]))
    else:
        rig.terminating("engine-1")
    await until(lambda: rig.states()["engine-1"] == "DRAIN")
    assert reported(rig, "engine-1") == ("DRAIN", False)
    assert await engines_of(rig) == {"127.0.0.11"}
    assert all(r.done for r in await asyncio.gather(*running))
    await until(lambda: reported(rig, "engine-1") == ("DRAIN", True))
    assert rig.events("EngineDown") == []
    if how == "routing":
        rig.route(document)
        await rig.serving("engine-0", "engine-1")
        await until(lambda: rig.states()["engine-1"] == "UP")


async def test_an_engine_that_stops_being_an_endpoint_keeps_its_running_streams(rig: Rig):
    await two_engines(rig)
    running = await streams(rig)
    rig.remove("engine-1")
    await asyncio.sleep(0.6)
    assert await engines_of(rig) == {"127.0.0.11"}
    assert all(r.done for r in await asyncio.gather(*running))
    await rig.gone("engine-1")
    (event,) = rig.events("EngineDown")
    assert event.pod == "engine-1"


async def test_a_reload_cuts_no_stream_and_forgets_no_dead_engine(rig: Rig):
    document = await two_engines(rig)
    rig.processes["engine-1"].signal(signal.SIGSTOP)
    await until(lambda: rig.states()["engine-1"] == "DOWN", 4)
    running = await streams(rig)
    rig.route(routing(*document.tracks, track("v2", 0, rig.engine_port)))
    await until(lambda: len(rig.agent.control.status.tracks) == 2)
    assert rig.agent.metrics.reloads._value.get() == 2
    answers = await asyncio.gather(*(request("127.0.0.1", rig.port, tokens=0) for _ in range(20)))
    assert {a.engine for a in answers} == {"127.0.0.11"}
    assert max(a.ended - a.began for a in answers) < 0.9
    # Streams of the old worker still count.
    assert sum(t.in_flight for t in rig.agent.control.status.tracks) >= 4
    assert all(r.done for r in await asyncio.gather(*running))


async def test_reloads_under_load_lose_nothing(rig: Rig):
    document = await two_engines(rig)
    load = Load("127.0.0.1", rig.port, rate=20, tokens=25)
    running = asyncio.create_task(load.run(120.0))
    for number in range(4):
        await asyncio.sleep(1.0)
        tracks = [track(f"v{n + 2}", 0, rig.engine_port) for n in range(number % 2 + 1)]
        rig.route(routing(*document.tracks, *tracks))
        await until(lambda n=number: rig.agent.metrics.reloads._value.get() == n + 2, 25)
    load.stop()
    await running
    assert len(load.results) >= 80
    assert load.lost() == []


async def test_streams_of_a_dead_engine_end_in_the_old_worker_too(rig: Rig):
    document = await two_engines(rig)
    running = await streams(rig)
    rig.route(routing(*document.tracks, track("v2", 0, rig.engine_port)))
    await until(lambda: rig.agent.metrics.reloads._value.get() == 2)
    rig.processes["engine-1"].signal(signal.SIGSTOP)
    results = await asyncio.gather(*running)
    cut = [r for r in results if not r.done]
    assert cut != []
    assert {r.engine for r in cut} == {"127.0.0.12"}
    # They had 3 s to go; the engine is dead for good.
    assert all(r.ended - r.began < 5 for r in cut)


async def test_haproxy_comes_back_from_a_crash_with_what_it_had(rig: Rig):
    await two_engines(rig)
    assert rig.haproxy is not None
    workers = await rig.agent.haproxy.workers()
    await until(rig.settings.state_file.exists)
    await asyncio.sleep(0.6)
    await rig.haproxy.end()
    await until(lambda: not rig.agent.control.status.reachable)
    assert (await rig.get("/readyz"))[0] == 503
    await rig.start_haproxy()
    await until(lambda: rig.agent.control.status.reachable)
    await rig.serving("engine-0", "engine-1")
    assert await engines_of(rig) == {"127.0.0.11", "127.0.0.12"}
    assert (await rig.agent.haproxy.workers()).current != workers.current
    assert rig.agent.metrics.reloads._value.get() == 1


async def test_a_new_agent_goes_on_without_the_api_server(rig: Rig):
    await two_engines(rig)
    await until(rig.settings.state_file.exists)
    await asyncio.sleep(0.6)
    running = await streams(rig)
    # No watch feeds the new one: it has the files alone.
    await rig.restart_agent()
    await rig.serving("engine-0", "engine-1")
    await until(lambda: _status_of(rig, "/readyz", 200))
    assert all(r.done for r in await asyncio.gather(*running))
    rig.processes["engine-1"].signal(signal.SIGKILL)
    await until(lambda: rig.states()["engine-1"] == "DOWN", 4)
    assert await engines_of(rig) == {"127.0.0.11"}


@pytest.mark.parametrize(
    "bad",
    [
        "not json",
        '{"cluster": "llama"}',
        routing(track("v1", 1, 1, health_path="/health\n  server evil 10.0.0.1:80")).model_dump_json(),
        routing(track("v1", 1, 1), cluster="other").model_dump_json(),
        routing(track("v1", 1, 1), queue_timeout_seconds=5).model_dump_json().replace(":5.0,", ":1e12,"),
    ],
)
async def test_a_bad_routing_document_is_refused_and_the_old_one_stays(rig: Rig, bad: str):
    await two_engines(rig)
    before = rig.agent.inputs.digest(CLUSTER)
    rig.agent.inputs.routing_text(CLUSTER, bad)
    await asyncio.sleep(0.3)
    (event,) = rig.events("ConfigRefused")
    assert "refused" in event.message
    assert rig.agent.inputs.digest(CLUSTER) == before
    assert await engines_of(rig) == {"127.0.0.11", "127.0.0.12"}
    # The same document again is not news.
    rig.agent.inputs.routing_text(CLUSTER, bad)
    assert len(rig.events("ConfigRefused")) == 1


async def test_a_configuration_that_haproxy_refuses_changes_nothing(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
):
    document = await two_engines(rig)
    await until(rig.settings.state_file.exists)
    await asyncio.sleep(0.6)
    good, render = rig.settings.config_file.read_text(), config.file
    with monkeypatch.context() as patch:

        def broken(gateway: Gateway, *arguments: Any) -> str:
            return render(gateway, *arguments) + ("nonsense\n" if len(gateway.pools) == 2 else "")

        patch.setattr(config, "file", broken)
        rig.route(routing(*document.tracks, track("v2", 0, rig.engine_port)))
        await until(lambda: rig.events("ConfigRefused"))
    assert rig.settings.config_file.read_text() == good
    assert await engines_of(rig) == {"127.0.0.11", "127.0.0.12"}
    # Engines are followed all the same.
    rig.terminating("engine-1")
    await until(lambda: rig.states()["engine-1"] == "DRAIN")
    assert await engines_of(rig) == {"127.0.0.11"}
    # Another document is another chance.
    rig.route(routing(*document.tracks, track("v3", 0, rig.engine_port)))
    await until(lambda: [t.revision for t in rig.agent.control.status.tracks] == ["v1", "v3"])


async def test_the_agent_stays_until_haproxy_has_finished_its_streams(rig: Rig):
    await two_engines(rig)
    assert rig.haproxy is not None
    assert rig.task is not None
    running = await streams(rig)
    rig.agent.leave()
    await asyncio.sleep(0.3)
    # preStop: clients still connect until every node has dropped the endpoint.
    assert await engines_of(rig) == {"127.0.0.11", "127.0.0.12"}
    rig.haproxy.signal(signal.SIGUSR1)
    await asyncio.sleep(0.5)
    assert not rig.task.done()
    assert (await rig.get("/readyz"))[0] == 503
    assert sum(t.in_flight for t in rig.agent.control.status.tracks) == 4
    assert all(r.done for r in await asyncio.gather(*running))
    await asyncio.wait_for(rig.task, 5)


async def test_deleted_slices_are_no_news_as_long_as_the_engines_are_well(rig: Rig):
    """`kubectl delete endpointslices`: the endpoint controller makes them anew."""
    await two_engines(rig)
    load = Load("127.0.0.1", rig.port, rate=50, tokens=5)
    running = asyncio.create_task(load.run(4.0))
    await asyncio.sleep(1.0)
    rig.agent.inputs.slices(CLUSTER, [])
    await asyncio.sleep(2.0)
    rig.publish()
    await running
    assert load.lost() == []
    assert len(load.results) == 200
    assert rig.events("EngineDown") == []


async def test_an_engine_that_dies_while_its_slices_are_missing_is_found_by_its_checks(rig: Rig):
    await two_engines(rig)
    rig.agent.inputs.slices(CLUSTER, [])
    rig.processes["engine-1"].signal(signal.SIGKILL)
    await rig.serving("engine-0", seconds=3)
    assert await engines_of(rig) == {"127.0.0.11"}


class Writes:
    """Counts what would go to the API server, and has no watch of it."""

    def __init__(self) -> None:
        self.objects: list[dict[str, Any]] = []

    async def apply(self, obj: dict[str, Any]) -> dict[str, Any]:
        self.objects.append(obj)
        return obj

    def get(self, namespace: str, name: str) -> None:
        return None

    def upsert(self, obj: dict[str, Any]) -> None:
        pass


async def test_steady_traffic_writes_no_report_and_a_change_writes_one(rig: Rig):
    await two_engines(rig)
    await until(lambda: rig.agent.server.synced)
    writes = Writes()
    reporter = Reporter(writes, writes, CLUSTER, lambda: rig.agent.report(CLUSTER), lambda: None)
    task = asyncio.create_task(reporter.run())
    try:
        await until(lambda: len(writes.objects) == 1)
        load = Load("127.0.0.1", rig.port, rate=30, tokens=5)
        await load.run(3.0)
        assert len(writes.objects) == 1
        rig.terminating("engine-1")
        await until(lambda: len(writes.objects) == 2)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    first, last = (GatewayReport.model_validate_json(w["data"]["gateway.gateway-0"]) for w in writes.objects)
    assert writes.objects[0]["metadata"] == {"namespace": "team-a", "name": "llama-gateway-report"}
    assert [e.state for e in first.engines] == ["UP", "UP"]
    assert [(e.state, e.idle) for e in last.engines] == [("UP", False), ("DRAIN", True)]


async def _status_of(rig: Rig, path: str, want: int) -> bool:
    with suppress(OSError):
        return (await rig.get(path))[0] == want
    return False
