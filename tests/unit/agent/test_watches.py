"""The watches against a scripted API server: what reaches the inputs, and with which selectors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from aiohttp import web

from inference_operator.agent.inputs import Inputs
from inference_operator.agent.watches import Watches
from tests.unit.adapters.scripted_api import ScriptedApi, serve
from tests.unit.agent.builders import routing, track

CLUSTER = ("team-a", "llama")
DOCUMENT = routing(track()).model_dump_json()


def meta(name: str, **labels: str) -> dict[str, Any]:
    return {"namespace": "team-a", "name": name, "uid": name, "resourceVersion": "5", "labels": labels}


ROUTING = {"metadata": meta("llama-routing"), "data": {"routing.json": DOCUMENT}}
SLICES = [
    {
        "metadata": meta(f"llama-v1-{n}", **{"kubernetes.io/service-name": "llama-v1"}),
        "endpoints": [
            {"addresses": [f"10.0.1.{n}"], "conditions": {"ready": True}, "targetRef": {"name": f"e{n}"}}
        ],
    }
    for n in range(3)
]


class TwoKinds(ScriptedApi):
    """Lists slices where slices are asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.version = 9

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.objects = SLICES if request.path.endswith("endpointslices") else [ROUTING]
        return await super().handle(request)


async def test_a_first_list_is_taken_as_a_whole_and_the_selectors_fit_the_agents_rights(tmp_path: Path):
    seen: list[int] = []
    inputs = Inputs((CLUSTER,), lambda *_: None, lambda: seen.append(engines()))

    def engines() -> int:
        return sum(len(pool.engines) for pool in inputs.gateway(0.0).pools)

    api = TwoKinds()
    async with serve(api, tmp_path) as client:
        watches = Watches(client, inputs, "gateway-0")
        task = asyncio.create_task(watches.run())
        try:
            await until(lambda: inputs.complete)
            await until(lambda: watches.alive)
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
    assert engines() == 3
    # Never one or two of them: a part of a list would look like lost engines.
    assert set(seen) <= {0, 3}
    asked = {(r.path, r.query.get("fieldSelector"), r.query.get("labelSelector")) for r in api.requests}
    assert asked == {
        ("/api/v1/namespaces/team-a/configmaps", "metadata.name=llama-routing", None),
        ("/api/v1/namespaces/team-a/configmaps", "metadata.name=llama-gateway-report", None),
        (
            "/apis/discovery.k8s.io/v1/namespaces/team-a/endpointslices",
            None,
            "inferencecluster.io/cluster=llama",
        ),
    }


async def until(what: Callable[[], bool], seconds: float = 5) -> None:
    async with asyncio.timeout(seconds):
        while not what():  # noqa: ASYNC110 - the inputs have no event for this
            await asyncio.sleep(0.01)
