"""The agent as its container runs it: credentials, watches, reports, SIGTERM."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from inference_operator.agent.bootstrap import bootstrap
from inference_operator.agent.run import serve
from inference_operator.api.routing import GatewayReport
from tests.gateway.client import Load, request
from tests.gateway.rig import CLUSTER, Rig, routing, track, until
from tests.unit.adapters import scripted_api
from tests.unit.adapters.scripted_api import ScriptedApi, Stream, expired

REPORT = "llama-gateway-report"
KEY = "gateway.gateway-0"


class Kubernetes(ScriptedApi):
    """One routing document, one slice, the report ConfigMap, and what was applied to it."""

    def __init__(self, rig: Rig) -> None:
        super().__init__()
        self.rig = rig
        self.version = 10
        self.applied: list[tuple[str, dict[str, Any]]] = []
        self.reports: dict[str, str] = {}
        self.refuses = False
        self.refused = 0

    def meta(self, name: str, **labels: str) -> dict[str, Any]:
        return {
            "namespace": CLUSTER[0],
            "name": name,
            "resourceVersion": str(self.version),
            "labels": {"inferencecluster.io/cluster": CLUSTER[1], **labels},
        }

    def routing(self) -> dict[str, Any]:
        document = routing(track("v1", 10_000, self.rig.engine_port)).model_dump_json()
        return {"metadata": self.meta("llama-routing"), "data": {"routing.json": document}}

    def report(self) -> dict[str, Any]:
        return {"metadata": self.meta(REPORT), "data": dict(self.reports)}

    def slice(self) -> dict[str, Any]:
        endpoints = [
            {"addresses": [e.address], "conditions": {"ready": True}, "targetRef": {"name": e.pod}}
            for e in self.rig.engines.values()
        ]
        meta = self.meta("llama-v1-x", **{"kubernetes.io/service-name": "llama-v1"})
        return {"metadata": meta, "endpoints": endpoints}

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if self.refuses:
            self.refused += 1
            return web.json_response({"kind": "Status", "reason": "Unauthorized"}, status=401)
        if request.method == "PATCH":
            body = json.loads(await request.read())
            self.applied.append((request.query["fieldManager"], body))
            self.version += 1
            self.reports.update(body["data"])
            return web.json_response(self.report())
        if request.path.endswith("endpointslices"):
            self.objects = [self.slice()]
        else:
            of_reports = request.query["fieldSelector"] == f"metadata.name={REPORT}"
            self.objects = [self.report() if of_reports else self.routing()]
        return await super().handle(request)

    async def watches(self) -> list[Stream]:
        """The three watches, once they are all open."""
        return [await self.stream() for _ in range(3)]

    def says(self) -> GatewayReport | None:
        """The report as the operator reads it."""
        text = self.reports.get(KEY)
        return GatewayReport.model_validate_json(text) if text else None


@pytest.fixture
async def kubernetes(rig: Rig) -> Kubernetes:
    """In place of the rig's own agent, which has no API server."""
    await rig.stop_agent()
    bootstrap(rig.settings)
    await rig.add_engine("engine-0", "127.0.0.11")
    return Kubernetes(rig)


@asynccontextmanager
async def agent_of(kubernetes: Kubernetes, folder: Path) -> AsyncIterator[asyncio.Task[None]]:
    """An agent that serves and has reported so; it has ended at the end."""
    async with scripted_api.serve(kubernetes, folder):
        agent = asyncio.create_task(serve(kubernetes.rig.settings, (CLUSTER,), str(folder / "kubeconfig")))
        try:
            await until(lambda: _ready(kubernetes.rig), 15)
            await until(lambda: (report := kubernetes.says()) is not None and report.ready and report.engines)
            yield agent
        finally:
            agent.cancel()
            await asyncio.gather(agent, return_exceptions=True)


async def test_from_start_to_an_orderly_end(rig: Rig, kubernetes: Kubernetes, tmp_path: Path):
    async with agent_of(kubernetes, tmp_path) as agent:
        assert (await request("127.0.0.1", rig.port, tokens=1)).engine == "127.0.0.11"
        manager, body = kubernetes.applied[-1]
        assert manager == "inference-agent-gateway-0"
        assert body["metadata"]["name"] == REPORT
        report = kubernetes.says()
        assert report is not None
        assert [(e.pod, e.state) for e in report.engines] == [("engine-0", "UP")]
        running = asyncio.create_task(request("127.0.0.1", rig.port, tokens=100))
        await asyncio.sleep(0.5)
        os.kill(os.getpid(), signal.SIGTERM)
        assert rig.haproxy is not None
        rig.haproxy.signal(signal.SIGUSR1)
        await asyncio.sleep(0.5)
        assert not agent.done()
        assert (await running).done
        await asyncio.wait_for(agent, 10)


async def test_a_foreign_edit_of_the_report_is_undone_and_nothing_else_is_written(
    kubernetes: Kubernetes, tmp_path: Path
):
    async with agent_of(kubernetes, tmp_path):
        streams = await kubernetes.watches()
        await asyncio.sleep(1.2)
        before, good = len(kubernetes.applied), kubernetes.reports[KEY]
        await asyncio.sleep(2.5)
        assert len(kubernetes.applied) == before
        kubernetes.version += 1
        kubernetes.reports[KEY] = good.replace('"UP"', '"DOWN"')
        assert kubernetes.reports[KEY] != good
        for stream in streams:
            stream.send(expired())  # each lists again
        await until(lambda: kubernetes.reports[KEY] == good, 5)
        await asyncio.sleep(2.5)
        assert len(kubernetes.applied) == before + 1


async def test_an_agent_that_the_api_server_refuses_serves_on_quietly(
    rig: Rig, kubernetes: Kubernetes, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    async with agent_of(kubernetes, tmp_path) as agent:
        streams = await kubernetes.watches()
        kubernetes.refuses = True
        for stream in streams:
            stream.end()
        load = Load("127.0.0.1", rig.port, rate=20, tokens=5)
        await load.run(4.0)
        assert load.lost() == []
        assert (await rig.get("/readyz"))[0] == 200
        assert (await rig.get("/healthz"))[0] == 200
        assert not agent.done()
        # Three watches, each after 0.25 s, 0.5 s, 1 s and 2 s at least.
        assert 3 <= kubernetes.refused <= 15
        told = [line for line in caplog.messages if line.startswith("the API server refuses")]
        assert len(told) == 1


async def _ready(rig: Rig) -> bool:
    try:
        return (await rig.get("/readyz"))[0] == 200
    except OSError:
        return False
