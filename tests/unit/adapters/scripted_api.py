"""A small HTTP server that plays one collection of ConfigMaps, and a client that talks to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from inference_operator.adapters.kube import KubeClient

Json = dict[str, Any]


def config_map(name: str, version: int, *, namespace: str = "ns", **labels: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "resourceVersion": str(version),
            "labels": labels,
        },
    }


def event(kind: str, obj: Json) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


def bookmark(version: int) -> bytes:
    return event("BOOKMARK", {"kind": "ConfigMap", "metadata": {"resourceVersion": str(version)}})


def expired() -> bytes:
    return event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})


class Stream:
    """One watch that the client has opened."""

    def __init__(self, version: str) -> None:
        self.version = version
        self._out: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()

    def send(self, data: bytes) -> None:
        self._out.put_nowait(data)

    def end(self) -> None:
        self._out.put_nowait(None)

    def cut(self) -> None:
        self._out.put_nowait(ConnectionResetError())

    async def next(self) -> bytes | None:
        item = await self._out.get()
        if isinstance(item, Exception):
            raise item
        return item


class ScriptedApi:
    """Lists from `objects` at `version`; each watch waits in `streams` to be fed by the test."""

    def __init__(self) -> None:
        self.objects: list[Json] = []
        self.version = 1
        self.lists: list[Json] = []
        self.streams: asyncio.Queue[Stream] = asyncio.Queue()
        #: Called with each request; a response that it returns is sent instead.
        self.intercept: Callable[[web.Request], web.Response | None] = lambda request: None
        self.page_size = 500
        self.requests: list[web.Request] = []

    async def stream(self) -> Stream:
        return await asyncio.wait_for(self.streams.get(), 3)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        answer = self.intercept(request)
        if answer is not None:
            return answer
        if request.query.get("watch"):
            return await self._watch(request)
        return self._list(request)

    def _list(self, request: web.Request) -> web.Response:
        self.lists.append(dict(request.query))
        start = int(request.query.get("continue", "0"))
        end = start + self.page_size
        metadata = {"resourceVersion": str(self.version)}
        if end < len(self.objects):
            metadata["continue"] = str(end)
        items = [
            {k: v for k, v in o.items() if k not in ("kind", "apiVersion")} for o in self.objects[start:end]
        ]
        return web.json_response({"kind": "ConfigMapList", "metadata": metadata, "items": items})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        stream = Stream(request.query["resourceVersion"])
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        self.streams.put_nowait(stream)
        while (data := await stream.next()) is not None:
            await response.write(data)
        await response.write_eof()
        return response


@asynccontextmanager
async def serve(api: ScriptedApi, folder: Path) -> AsyncIterator[KubeClient]:
    app = web.Application()

    async def dispatch(request: web.Request) -> web.StreamResponse:
        return await api.handle(request)  # looked up late: tests replace it

    app.router.add_route("*", "/{path:.*}", dispatch)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
                "users": [{"name": "u", "user": {"token": "secret-1"}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "c",
            }
        )
    )
    client = await KubeClient.connect(kubeconfig=str(kubeconfig), identity="test-host")
    try:
        yield client
    finally:
        await client.close()
        await runner.cleanup()
