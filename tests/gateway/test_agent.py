"""The agent as its container runs it: credentials, watches, reports, SIGTERM."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

from aiohttp import web

from inference_operator.agent.bootstrap import bootstrap
from inference_operator.agent.run import serve
from inference_operator.api.routing import GatewayReport
from tests.gateway.client import request
from tests.gateway.rig import CLUSTER, Rig, routing, track, until
from tests.unit.adapters import scripted_api
from tests.unit.adapters.scripted_api import ScriptedApi


class Kubernetes(ScriptedApi):
    """One routing document, one slice, and what was applied."""

    def __init__(self, rig: Rig) -> None:
        super().__init__()
        self.rig = rig
        self.version = 10
        self.applied: list[tuple[str, dict[str, Any]]] = []

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

    def slice(self) -> dict[str, Any]:
        endpoints = [
            {"addresses": [e.address], "conditions": {"ready": True}, "targetRef": {"name": e.pod}}
            for e in self.rig.engines.values()
        ]
        meta = self.meta("llama-v1-x", **{"kubernetes.io/service-name": "llama-v1"})
        return {"metadata": meta, "endpoints": endpoints}

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.method == "PATCH":
            body = json.loads(await request.read())
            self.applied.append((request.query["fieldManager"], body))
            return web.json_response(body)
        slices = request.path.endswith("endpointslices")
        self.objects = [self.slice() if slices else self.routing()]
        return await super().handle(request)


async def test_from_start_to_an_orderly_end(rig: Rig, tmp_path: Path):
    assert rig.task is not None
    await rig.stop_agent()
    bootstrap(rig.settings)
    await rig.add_engine("engine-0", "127.0.0.11")
    kubernetes = Kubernetes(rig)
    folder = tmp_path / "kube"
    folder.mkdir()
    async with scripted_api.serve(kubernetes, folder):
        agent = asyncio.create_task(serve(rig.settings, (CLUSTER,), str(folder / "kubeconfig")))
        await until(lambda: _ready(rig), 15)
        assert (await request("127.0.0.1", rig.port, tokens=1)).engine == "127.0.0.11"
        await until(lambda: _last(kubernetes) is not None and _last(kubernetes).engines)
        manager, body = kubernetes.applied[-1]
        assert manager == "inference-agent-gateway-0"
        assert body["metadata"]["name"] == "llama-gateway-report"
        assert [(e.pod, e.state) for e in _last(kubernetes).engines] == [("engine-0", "UP")]
        running = asyncio.create_task(request("127.0.0.1", rig.port, tokens=100))
        await asyncio.sleep(0.5)
        os.kill(os.getpid(), signal.SIGTERM)
        assert rig.haproxy is not None
        rig.haproxy.signal(signal.SIGUSR1)
        await asyncio.sleep(0.5)
        assert not agent.done()
        assert (await running).done
        await asyncio.wait_for(agent, 10)


async def _ready(rig: Rig) -> bool:
    try:
        return (await rig.get("/readyz"))[0] == 200
    except OSError:
        return False


def _last(kubernetes: Kubernetes) -> Any:
    if not kubernetes.applied:
        return None
    return GatewayReport.model_validate_json(kubernetes.applied[-1][1]["data"]["gateway.gateway-0"])
