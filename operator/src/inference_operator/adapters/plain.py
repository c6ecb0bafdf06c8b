"""The API server as a person at a terminal uses it: contexts of a kubeconfig, reads, proxied streams."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
import yaml
from kubernetes.aio import client as kubernetes_client
from kubernetes.aio import config as kubernetes_config

from ..ports import KubeError, Object
from .clock import SystemClock
from .errors import from_response, network_errors
from .kube import KubeClient

_DEFAULT_PATH: Final = "~/.kube/config"
#: A long prompt is silent until its first token, and the gateways wait for that without a limit.
_STREAM_LIMITS: Final = aiohttp.ClientTimeout(total=None, connect=5, sock_read=600)
# This part of the client library carries no annotations.
_load_kubeconfig: Any = kubernetes_config.load_kube_config


@dataclass(frozen=True)
class Context:
    """What a kubeconfig says beside the credentials."""

    name: str
    #: Of the context; "default" where it names none, as in kubectl.
    namespace: str
    #: Address of the API server.
    server: str


@dataclass(frozen=True)
class Stream:
    """An answer that is still arriving."""

    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]


class UserClient(KubeClient):
    """A KubeClient with the credentials of a person; `user_agent` is what the audit log shows."""

    def __init__(self, configuration: Any, paths: str, context: str | None, user_agent: str) -> None:
        super().__init__(
            configuration,
            kubeconfig=paths,
            field_manager=user_agent,
            identity=os.uname().nodename,
            clock=SystemClock(),
        )
        self._paths = paths
        self._wanted_context = context
        self.context = Context("", "default", "")

    @classmethod
    async def login(cls, *, kubeconfig: str | None, context: str | None, user_agent: str) -> UserClient:
        """Credentials of a context (None: the current one) of `kubeconfig`, of $KUBECONFIG (files separated
        by colons), or of ~/.kube/config. Sends nothing, but runs the context's credential plugin.

        Raises KubeError when there are no such file, context or credentials.
        """
        paths = kubeconfig or os.environ.get("KUBECONFIG") or _DEFAULT_PATH
        configuration = kubernetes_client.Configuration()
        # None, not 0: with a number, the library repeats requests by itself.
        configuration.retries = None
        found = await _load(configuration, paths, context)
        client = cls(configuration, paths, context, user_agent)
        client.context = found
        return client

    async def read(self, path: str, what: str) -> Object:
        """GET of any path that answers JSON; `what` names it in errors."""
        return await self._request("GET", path, what)

    @asynccontextmanager
    async def stream(self, path: str, body: Object, what: str) -> AsyncIterator[Stream]:
        """POST of JSON; the answer's bytes come as they arrive. Raises KubeError, also while it is read."""
        with network_errors(what):
            response = await self._send("POST", path, body=body, limits=_STREAM_LIMITS)
        try:
            if response.status >= 400:
                with network_errors(what):
                    refused = await response.read()
                raise from_response(response.status, refused, response.headers, what)
            yield Stream(response.headers, _chunks(response, what))
        finally:
            response.close()

    async def _error(self, response: aiohttp.ClientResponse, body: bytes, what: str) -> KubeError:
        if response.status == 401:
            # A credential plugin's token expires under a long `--watch`: the next request uses a new one.
            await _load(self._configuration, self._paths, self._wanted_context)
        return from_response(response.status, body, response.headers, what)


async def _chunks(response: aiohttp.ClientResponse, what: str) -> AsyncIterator[bytes]:
    with network_errors(what):
        async for chunk in response.content.iter_any():
            yield chunk


def _exists(paths: str) -> bool:
    return any(Path(path).expanduser().exists() for path in paths.split(os.pathsep) if path)


async def _load(configuration: Any, paths: str, context: str | None) -> Context:
    if not _exists(paths):
        raise _unusable(f"no kubeconfig at {paths}: set KUBECONFIG or --kubeconfig")
    try:
        loader = await _load_kubeconfig(
            paths, context=context, client_configuration=configuration, persist_config=False
        )
        chosen = loader.current_context
        namespace = chosen["context"].get("namespace") or "default"
        return Context(str(chosen["name"]), str(namespace), str(configuration.host))
    except (kubernetes_config.ConfigException, OSError) as error:
        if context is not None:
            raise _unusable(
                f"can't use context {context} of {paths}: {error}: see kubectl config get-contexts"
            ) from error
        raise _unusable(
            f"can't use {paths}: {error}: see kubectl config view, or name another by --context"
        ) from error
    except (yaml.YAMLError, AttributeError, KeyError, TypeError, ValueError) as error:
        # The library looks into the file without checking its shape.
        reason = " ".join(str(error).split()) or type(error).__name__
        raise _unusable(f"{paths} is no kubeconfig ({reason}): see kubectl config view") from error


def _unusable(message: str) -> KubeError:
    return KubeError(message, status=None, transient=False)
