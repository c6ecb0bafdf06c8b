"""Kubernetes API access: requests, and list + watch that survives expiry and lost connections."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import ssl
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import yaml

JSON = dict[str, Any]
STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
_LOG = logging.getLogger(__name__)
_RETRY = 0.5
_WATCH_SECONDS = 300


class ApiError(Exception):
    """The API server said no: HTTP `status`, its `reason` word (NotFound, Conflict, Expired ...)."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status, self.reason = status, reason


class Api:
    """One connection pool to the API server, with the kubeconfig's client certificate."""

    def __init__(self, server: str, context: ssl.SSLContext) -> None:
        self._server = server.rstrip("/")
        # No limit: every node holds a watch open, and a queue behind those would delay leases.
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context, limit=0))

    @classmethod
    async def from_kubeconfig(cls, path: Path) -> Api:
        """Use the current context of the file. Raises KeyError for what it must hold and doesn't."""
        return cls(*await asyncio.to_thread(_read_kubeconfig, path))

    async def close(self) -> None:
        await self._session.close()

    async def get(self, path: str, **params: str) -> JSON:
        return await self._call("GET", path, params=params)

    async def create(self, path: str, body: JSON) -> JSON:
        return await self._call("POST", path, body)

    async def patch(self, path: str, body: JSON, content_type: str = MERGE) -> JSON:
        return await self._call("PATCH", path, body, content_type=content_type)

    async def delete(self, path: str, body: JSON) -> JSON:
        return await self._call("DELETE", path, body)

    async def _call(
        self,
        method: str,
        path: str,
        body: JSON | None = None,
        *,
        params: dict[str, str] | None = None,
        content_type: str = "application/json",
    ) -> JSON:
        async with self._session.request(
            method,
            self._server + path,
            params=params,
            data=None if body is None else orjson.dumps(body),
            headers={"Content-Type": content_type},
            timeout=aiohttp.ClientTimeout(total=10),
        ) as response:
            return _answer(response.status, await response.read())

    async def watch(self, path: str, **selectors: str) -> AsyncGenerator[tuple[str, JSON], None]:
        """Yield ("SYNC", list) first and after each relist, then ("ADDED" | "MODIFIED" | "DELETED", object).

        Never ends and never raises for the network's or the server's sake.
        """
        while True:
            try:
                listed = await self.get(path, **selectors)
                yield "SYNC", listed
                version = listed["metadata"]["resourceVersion"]
                while True:
                    async with contextlib.aclosing(self._stream(path, version, selectors)) as events:
                        async for kind, item in events:
                            version = item["metadata"]["resourceVersion"]
                            if kind != "BOOKMARK":
                                yield kind, item
            except ApiError as error:
                if error.status != 410:  # Expired: the version is compacted away, list again at once
                    _LOG.warning("watch %s: %s", path, error)
                    await asyncio.sleep(_RETRY)
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                _LOG.warning("watch %s: %r", path, error)
                await asyncio.sleep(_RETRY)

    async def _stream(
        self, path: str, version: str, selectors: dict[str, str]
    ) -> AsyncGenerator[tuple[str, JSON], None]:
        params = {
            **selectors,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(_WATCH_SECONDS),
        }
        timeout = aiohttp.ClientTimeout(total=_WATCH_SECONDS + 30)
        async with self._session.get(self._server + path, params=params, timeout=timeout) as response:
            if response.status != 200:
                _answer(response.status, await response.read())
            # Not readline(): it refuses lines over 128 KiB, and a Pod or ConfigMap may be larger.
            buffer = b""
            async for chunk in response.content.iter_any():
                *lines, buffer = (buffer + chunk).split(b"\n")
                for line in lines:
                    event = orjson.loads(line)
                    if event["type"] == "ERROR":
                        raise _error(event["object"].get("code", 500), event["object"])
                    yield event["type"], event["object"]


def _read_kubeconfig(path: Path) -> tuple[str, ssl.SSLContext]:
    config = yaml.safe_load(path.read_text())

    def section(kind: str, name: str) -> JSON:
        found: JSON = {item["name"]: item[kind] for item in config[f"{kind}s"]}[name]
        return found

    context = section("context", config["current-context"])
    cluster, user = section("cluster", context["cluster"]), section("user", context["user"])
    tls = ssl.create_default_context(cadata=_material(cluster, "certificate-authority", path).decode())
    # ssl reads certificates from files only; the kubeconfig may hold them inline.
    with tempfile.NamedTemporaryFile() as file:
        for key in ("client-certificate", "client-key"):
            file.write(_material(user, key, path) + b"\n")
        file.flush()
        tls.load_cert_chain(file.name)
    return cluster["server"], tls


def _answer(status: int, body: bytes) -> JSON:
    try:
        answer: JSON = orjson.loads(body)
    except json.JSONDecodeError:
        answer = {"message": body.decode(errors="replace")[:300]}
    if status >= 300:
        raise _error(status, answer)
    return answer


def _error(status: int, answer: JSON) -> ApiError:
    return ApiError(status, answer.get("reason", ""), answer.get("message", ""))


def _material(section: JSON, key: str, kubeconfig: Path) -> bytes:
    """PEM bytes from `KEY-data` (inline) or `KEY` (a file, relative to the kubeconfig)."""
    if inline := section.get(f"{key}-data"):
        return base64.b64decode(inline)
    return (kubeconfig.parent / str(section[key])).read_bytes()
