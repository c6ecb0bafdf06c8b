"""The nodes' HTTPS servers, port 10250: what the API server asks a kubelet for on behalf of kubectl.

`kubectl logs` is a GET of /containerLogs, `kubectl exec` a WebSocket: the API server passes one on as it is
to a kubelet that declares the feature ExtendWebSocketsToKubelet (KEP-4006, on by default since 1.36).
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, cast

from aiohttp import web
from aiohttp.typedefs import Handler

from sandbox import launcher
from sandbox.kubelet import exec as exec_session
from sandbox.kubelet import logs

if TYPE_CHECKING:
    from sandbox.kubelet.container import Container
    from sandbox.kubelet.node import Node

PORT = 10250
_NO_LIMIT = 1 << 62
# What the API server's certificate says (sandbox.pki); another one of the same authority is a stranger here.
CLIENT = "kube-apiserver-kubelet-client"


class Server:
    """Serves all nodes, each at its own address; `sandbox` is the name for the commands in its answers."""

    def __init__(self, nodes: Mapping[str, Node], tls: ssl.SSLContext, sandbox: str) -> None:
        self._nodes, self._tls, self._sandbox = nodes, tls, sandbox

    async def start(self) -> None:
        """Listen at the address of every node; returns when all listen."""
        application = web.Application(middlewares=[_only_api_server])
        container = "{namespace}/{pod}/{container}"
        application.router.add_get(f"/containerLogs/{container}", self._logs)
        application.router.add_get(f"/exec/{container}", self._exec)
        # By POST comes SPDY, to which kubectl falls back after a refusal: it shows that answer only.
        application.router.add_post(f"/exec/{container}", self._exec)
        application.router.add_post("/attach/{rest:.*}", _attach)
        application.router.add_post("/portForward/{rest:.*}", self._port_forward)
        # A quiet log that nobody follows any more would otherwise be followed for ever.
        runner = web.AppRunner(application, handler_cancellation=True, access_log=None)
        await runner.setup()
        for node in self._nodes.values():
            await web.TCPSite(runner, node.ip, PORT, ssl_context=self._tls).start()

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        node, container = self._container(request)
        query = request.query
        if "timestamps" in query:
            raise web.HTTPBadRequest(text="the sandbox keeps no time per line: leave --timestamps out")
        path, offset, size = await asyncio.to_thread(_begin, container, query)
        process = container.process
        followed = query.get("follow") == "true" and "previous" not in query and process is not None

        def over() -> bool:
            return not followed or container.process is not process or not node.online.is_set()

        # Unless it's followed, what is written from now on is not asked for: --tail=2 means two lines.
        left = min(int(query.get("limitBytes", _NO_LIMIT)), _NO_LIMIT if followed else size - offset)
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        async with contextlib.aclosing(logs.read(path, offset, over)) as chunks:
            async for chunk in chunks:
                await response.write(chunk[:left])
                left -= len(chunk)
                if left <= 0:
                    break
        return response

    async def _exec(self, request: web.Request) -> web.StreamResponse:
        _, container = self._container(request)
        if container.process is None:
            raise web.HTTPBadRequest(text=f"container {container.name} of {container.pod.title} does not run")
        return await exec_session.serve(request, container.process)

    async def _port_forward(self, request: web.Request) -> web.StreamResponse:
        command = launcher.command(f"forward NAMESPACE/SERVICE[:PORT] --name {self._sandbox}")
        raise web.HTTPNotImplemented(text=f"the sandbox can't forward ports of pods (SPDY): use `{command}`")

    def _container(self, request: web.Request) -> tuple[Node, Container]:
        wanted = request.match_info
        address = cast(asyncio.Transport, request.transport).get_extra_info("sockname")[0]
        node = next(node for node in self._nodes.values() if node.ip == address)
        if not node.online.is_set():
            # A cut or dead machine wouldn't answer; the words are worth more than kubectl's time-out.
            words = f"node {'start' if node.state == 'off' else 'heal'} {node.name}"
            repair = launcher.command(f"{words} --name {self._sandbox}")
            # 500: of a 503 kubectl shows no words.
            raise web.HTTPInternalServerError(
                text=f"node {node.name} is {node.state}, nothing on it can be reached: use `{repair}`"
            )
        pod = node.find(wanted["namespace"], wanted["pod"])
        for container in pod.containers if pod else ():
            if container.name == wanted["container"]:
                return node, container
        raise web.HTTPNotFound(
            text=f"no container {wanted['container']} of {wanted['namespace']}/{wanted['pod']} on {node.name}"
        )


def tls(authority: Path, certificate: Path, key: Path) -> ssl.SSLContext:
    """A server's context that asks for a client certificate of the authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.load_verify_locations(authority)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


@web.middleware
async def _only_api_server(request: web.Request, handler: Handler) -> web.StreamResponse:
    certificate = cast(asyncio.Transport, request.transport).get_extra_info("peercert") or {}
    names = [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]
    if names != [CLIENT]:
        raise web.HTTPForbidden(text=f"only the API server ({CLIENT}) may ask, not {', '.join(names)}")
    return await handler(request)


async def _attach(request: web.Request) -> web.StreamResponse:
    instead = "use `kubectl logs -f`, or `kubectl exec` for a process of your own"
    raise web.HTTPNotImplemented(text=f"the sandbox can't attach to a container (SPDY): {instead}")


def _begin(container: Container, query: Mapping[str, str]) -> tuple[Path, int, int]:
    """The file to read, where to begin in it, and its size. Raises HTTPBadRequest in a kubelet's words."""
    log, title = container.log, container.pod.title
    path = log.previous if query.get("previous") == "true" else log.path
    if not path.exists():
        if path == log.previous:
            raise web.HTTPBadRequest(
                text=f'previous terminated container "{container.name}" in pod "{title}" not found'
            )
        reason = container.status()["state"].get("waiting", {}).get("reason", "not started")
        raise web.HTTPBadRequest(
            text=f'container "{container.name}" in pod "{title}" is waiting to start: {reason}'
        )
    offset, size = 0, path.stat().st_size
    if at := _since(query):
        if path == log.path:
            offset = log.since(at)
        elif path.stat().st_mtime < at:
            offset = size
    if "tailLines" in query:
        offset = max(offset, logs.last_lines(path, int(query["tailLines"]), size))
    return path, min(offset, size), size


def _since(query: Mapping[str, str]) -> float:
    if "sinceSeconds" in query:
        return time.time() - int(query["sinceSeconds"])
    return datetime.fromisoformat(query["sinceTime"]).timestamp() if "sinceTime" in query else 0.0
