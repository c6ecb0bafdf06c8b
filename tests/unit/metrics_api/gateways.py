"""Agents of gateway pods on loopback addresses, as their pods in the API."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

Json = dict[str, Any]


class Agents:
    """Answers /demand and /state for the address that was asked."""

    def __init__(self) -> None:
        #: Address -> requests; what isn't in it is refused.
        self.demand: dict[str, int] = {}
        self.loads: dict[str, dict[str, int]] = {}
        self.silent: set[str] = set()
        self.body: bytes | None = None
        self.asked = 0

    def application(self) -> web.Application:
        application = web.Application()
        application.add_routes([web.get("/demand", self._demand), web.get("/state", self._state)])
        return application

    async def _own(self, request: web.Request) -> str:
        assert request.transport is not None
        own: str = request.transport.get_extra_info("sockname")[0]
        self.asked += 1
        if own in self.silent:
            await asyncio.sleep(30)
        return own

    async def _demand(self, request: web.Request) -> web.Response:
        own = await self._own(request)
        if self.body is not None:
            return web.Response(body=self.body, content_type="application/json")
        entry = {"demand": self.demand[own], "concurrency": 8}
        return web.json_response({"gateway": own, "clusters": {"ml/chat": entry}})

    async def _state(self, request: web.Request) -> web.Response:
        own = await self._own(request)
        engines = [
            {"pod": pod, "in_flight": load, "queued": 1} for pod, load in self.loads.get(own, {}).items()
        ]
        return web.json_response({"clusters": {"ml/chat": {"tracks": [{"engines": engines}]}}})


def gateway_pod(name: str, address: str, version: int, *, phase: str = "Running") -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "ml",
            "uid": f"uid-{name}",
            "resourceVersion": str(version),
            "labels": {"inferencecluster.io/cluster": "chat"},
        },
        "status": {"phase": phase, "podIP": address},
    }
