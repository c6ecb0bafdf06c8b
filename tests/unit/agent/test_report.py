"""Reports are written when something changed, be it by somebody else, and again after a failure."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from pydantic import ValidationError

from inference_operator.agent.inputs import Inputs
from inference_operator.agent.report import REPAIR_SECONDS, Reporter, trim
from inference_operator.agent.watches import Watches
from inference_operator.api.routing import EngineReport, GatewayReport
from inference_operator.ports import KubeError
from tests.unit.adapters.scripted_api import ScriptedApi, event, serve

CLUSTER = ("team-a", "llama")
NAME = "llama-gateway-report"
KEY = "gateway.gateway-0"


def report(*engines: EngineReport) -> GatewayReport:
    return GatewayReport(gateway="gateway-0", ready=True, routing_digest="d", engines=engines)


def engine(state: str) -> EngineReport:
    return EngineReport(pod="e0", revision="v1", state=state)


class Api:
    """The report ConfigMap, and the watched copy of it, which is always up to date."""

    def __init__(self) -> None:
        self.written: list[dict[str, Any]] = []
        self.fails = False
        self.live: dict[str, str] | None = {}
        self.current = report()
        self.now = 1000.0
        self.reporter = Reporter(
            self, self, CLUSTER, lambda: self.current, lambda: None, clock=lambda: self.now
        )

    async def apply(self, obj: dict[str, Any]) -> dict[str, Any]:
        if self.fails:
            raise KubeError("away", status=None, transient=True)
        self.written.append(obj)
        if self.live is not None:
            self.live.update(obj["data"])
        return obj

    def get(self, namespace: str, name: str) -> dict[str, Any] | None:
        assert (namespace, name) == ("team-a", NAME)
        if self.live is None:
            return None
        meta = {"namespace": namespace, "name": name, "resourceVersion": "1"}
        return trim({"metadata": meta, "data": self.live}, "gateway-0")

    def upsert(self, obj: dict[str, Any]) -> None:
        pass

    async def writes(self, times: int = 1) -> int:
        """Texts written by this many looks."""
        before = len(self.written)
        for _ in range(times):
            await self.reporter.write()
        return len(self.written) - before


@pytest.mark.parametrize("live", [{}, None], ids=["with-a-copy", "without"])
async def test_a_change_is_one_write_and_no_change_is_none(live: dict[str, str] | None):
    api = Api()
    api.live = live
    assert await api.writes(3) == 1
    api.current = report(engine("UP"))
    assert await api.writes(3) == 1
    assert api.written[-1] == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": "team-a", "name": NAME},
        "data": {KEY: api.current.model_dump_json()},
    }


async def test_after_a_restart_what_is_there_already_is_not_written_again():
    api = Api()
    api.live = {KEY: api.current.model_dump_json()}
    assert await api.writes(2) == 0


async def test_a_failed_write_is_repeated_with_what_is_true_then():
    api = Api()
    api.fails = True
    with pytest.raises(KubeError):
        await api.writes()
    api.fails = False
    api.current = report(engine("DOWN"))
    assert await api.writes() == 1
    assert '"DOWN"' in api.written[0]["data"][KEY]


@pytest.mark.parametrize("foreign", [{KEY: "{}"}, {}], ids=["changed", "removed"])
async def test_a_foreign_edit_is_undone_at_once_and_a_fight_is_slow(foreign: dict[str, str]):
    api = Api()
    await api.writes()
    api.live = dict(foreign)
    assert await api.writes(3) == 1
    assert api.live == {KEY: api.current.model_dump_json()}
    api.live = dict(foreign)
    api.now += REPAIR_SECONDS - 1
    assert await api.writes(3) == 0
    api.now += 1
    assert await api.writes(3) == 1
    api.live = dict(foreign)
    api.current = report(engine("UP"))
    assert await api.writes() == 1, "news of our own never wait"


async def test_a_repair_that_fails_is_tried_again():
    api = Api()
    await api.writes()
    api.live, api.fails = {}, True
    with pytest.raises(KubeError):
        await api.writes()
    api.fails = False
    assert await api.writes() == 1


async def test_other_gateways_keys_and_a_deleted_config_map_cause_no_write():
    api = Api()
    await api.writes()
    assert api.live is not None
    api.live["gateway.gateway-1"] = "anything"
    assert await api.writes(2) == 0
    api.live = None
    assert await api.writes(2) == 0
    api.live = {}
    assert await api.writes(2) == 1, "the operator has made it anew, without our key"


class Reports(ScriptedApi):
    """The report ConfigMap on an API server: its versions grow, its writes are answered."""

    def __init__(self) -> None:
        super().__init__()
        self.data: dict[str, str] = {}
        self.patches = 0

    def config_map(self) -> dict[str, Any]:
        meta = {"namespace": "team-a", "name": NAME, "uid": "u", "resourceVersion": str(self.version)}
        return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": meta, "data": dict(self.data)}

    def change(self, **data: str) -> bytes:
        self.version += 1
        self.data.update(data)
        return event("MODIFIED", self.config_map())

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.method == "PATCH":
            self.patches += 1
            self.change(**json.loads(await request.read())["data"])
            return web.json_response(self.config_map())
        self.objects = [self.config_map()]
        return await super().handle(request)


async def test_news_from_before_an_own_write_are_no_foreign_edit(tmp_path: Path):
    api, current = Reports(), [report()]
    async with serve(api, tmp_path) as client:
        watches = Watches(client, Inputs((CLUSTER,), lambda *_: None, lambda: None), "gateway-0")
        copy = watches.reports[CLUSTER]
        task = asyncio.create_task(copy.run())
        try:
            await asyncio.wait_for(copy.synced.wait(), 3)
            stream = await api.stream()
            reporter = Reporter(client, copy, CLUSTER, lambda: current[0], lambda: None)
            await reporter.write()
            late = api.change(**{"gateway.gateway-1": "x"})
            current[0] = report(engine("UP"))
            await reporter.write()
            own = event("MODIFIED", api.config_map())
            for news in (late, own):
                stream.send(news)
                await asyncio.sleep(0.1)
                await reporter.write()
            assert api.patches == 2
            stream.send(api.change(**{KEY: "{}"}))
            async with asyncio.timeout(3):
                while api.patches == 2:
                    await reporter.write()
                    await asyncio.sleep(0.01)
            assert api.data[KEY] == current[0].model_dump_json()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("time", "1e300"),
        ("time", "-1"),
        ("time", "NaN"),
        ("detection_ms", "-5"),
        ("streams_cut", "9" * 30),
        ("message", json.dumps("x" * 10_000)),
        ("pod", json.dumps("x" * 254)),
    ],
)
def test_a_report_with_a_value_out_of_bounds_is_none(field: str, value: str):
    text = f'{{"kind": "EngineDown", "time": 1.0, "{field}": {value}}}'
    with pytest.raises(ValidationError, match=field):
        GatewayReport.model_validate_json(
            f'{{"gateway": "g", "ready": true, "routing_digest": "", "events": [{text}]}}'
        )
