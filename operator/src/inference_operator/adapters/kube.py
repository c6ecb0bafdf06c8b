"""The Kubernetes API over `kubernetes.aio`: one client per process, explicit time-outs, errors mapped once.

The typed and dynamic clients of the library are left aside: its requests wait five minutes unless told
otherwise, its discovery needs extra rights and its Watch replays events after a reconnect. What is used is
its configuration (in-cluster, kubeconfig, exec plugins, token rotation) and its HTTP session.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote, urlencode

import aiohttp
import orjson
from kubernetes.aio import client as kubernetes_client
from kubernetes.aio import config as kubernetes_config

from ..api import names
from ..api.conditions import truncate
from ..ports import Clock, Conflict, Credentials, KubeError, NotFound, Object
from .clock import SystemClock
from .errors import from_response, network_errors
from .resources import RESOURCES

REQUEST_TIMEOUT: Final = aiohttp.ClientTimeout(total=10, connect=5)
PAGE_SIZE: Final = 500
_APPLY: Final = "application/apply-patch+yaml"
_MERGE: Final = "application/merge-patch+json"
_JSON: Final = "application/json"
#: The same note about the same object is one Event per this many seconds, whoever writes it and however
#: often: a pass that is repeated after a crash must not tell everything twice.
EVENT_BUCKET_SECONDS: Final = 300
# These parts of the client library carry no annotations.
_load_incluster: Any = kubernetes_config.load_incluster_config
_load_kubeconfig: Any = kubernetes_config.load_kube_config
_CONTROLLER: Final = f"{names.GROUP}/operator"


class KubeClient:
    """Implements `ports.Kube`; informers use `list_page` and `watch`, the lease `create` and `replace`."""

    def __init__(
        self,
        configuration: Any,
        *,
        kubeconfig: str | None,
        field_manager: str,
        identity: str,
        clock: Clock,
    ) -> None:
        self._configuration = configuration
        self._kubeconfig = kubeconfig
        self._field_manager = field_manager
        self._identity = identity
        self._clock = clock
        self._api: Any = kubernetes_client.ApiClient(configuration)

    @classmethod
    async def connect(
        cls,
        *,
        kubeconfig: str | None = None,
        field_manager: str = names.FIELD_MANAGER,
        identity: str | None = None,
        clock: Clock | None = None,
    ) -> KubeClient:
        """Load credentials: from `kubeconfig`, or (None) those of the pod's ServiceAccount.

        Sends nothing. `identity` names this process in Events, default the host name (in a pod: its name).
        Raises KubeError, not transient, when there are no credentials.
        """
        configuration = kubernetes_client.Configuration()
        # None, not 0: with a number, the library repeats requests by itself.
        configuration.retries = None
        # Watches keep a connection each for good, so the pool must be larger than their number.
        configuration.connection_pool_maxsize = 64
        await _load(configuration, kubeconfig)
        return cls(
            configuration,
            kubeconfig=kubeconfig,
            field_manager=field_manager,
            identity=identity or os.uname().nodename,
            clock=clock or SystemClock(),
        )

    async def close(self) -> None:
        """Close all connections; running watches end."""
        await self._api.close()

    async def credentials(self) -> Credentials:
        """What kopf needs to make its own connections as the same user."""
        configuration = self._configuration
        return Credentials(
            server=configuration.host,
            ca_path=configuration.ssl_ca_cert,
            insecure=not configuration.verify_ssl,
            authorization=await self._authorization(),
            certificate_path=configuration.cert_file,
            private_key_path=configuration.key_file,
        )

    async def server_version(self) -> tuple[int, int]:
        """Major and minor version of Kubernetes, e.g. (1, 37)."""
        found = await self._request("GET", "/version", "get the version of Kubernetes")
        # Managed Kubernetes writes "37+".
        return int(found["major"]), int(str(found["minor"]).rstrip("+"))

    async def get(self, kind: str, namespace: str | None, name: str) -> Object | None:
        """The object, or None when it doesn't exist."""
        try:
            return await self._request(
                "GET", RESOURCES[kind].path(namespace, name), _what("get", kind, namespace, name)
            )
        except NotFound:
            return None

    async def find(self, kind: str, namespace: str, name: str) -> Object | None:
        """The same as `get`, by the right to list: for kinds that are watched anyway."""
        found = await self.list(kind, namespace=namespace, field_selector=f"metadata.name={name}")
        return found[0] if found else None

    async def list_page(
        self,
        kind: str,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        token: str = "",
    ) -> Object:
        """One page as the server sends it: `items`, `metadata.resourceVersion`, `metadata.continue`."""
        query = {"limit": str(PAGE_SIZE), "labelSelector": label_selector, "fieldSelector": field_selector}
        path = RESOURCES[kind].path(namespace)
        return await self._request("GET", path, f"list {kind}", query={**query, "continue": token})

    async def pages(self, kind: str, **where: Any) -> AsyncIterator[list[Object]]:
        """The objects in pages; `where` as for `list_page`. Items have no kind and apiVersion."""
        token = ""
        while True:
            page = await self.list_page(kind, token=token, **where)
            yield page["items"]
            token = page["metadata"].get("continue", "")
            if not token:
                return

    @asynccontextmanager
    async def watch(
        self,
        kind: str,
        *,
        resource_version: str,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int,
        inactivity_seconds: float,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open one watch; yields its raw bytes, newline-delimited JSON events.

        `inactivity_seconds` must be above 60: bookmarks come once a minute, longer silence means that the
        connection is dead.
        Network errors while reading pass through as they are: use `errors.network_errors`.
        """
        what = f"watch {kind}"
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(timeout_seconds),
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
        }
        limits = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=inactivity_seconds)
        with network_errors(what):
            response = await self._send("GET", RESOURCES[kind].path(namespace), query=query, limits=limits)
        try:
            if response.status >= 400:
                with network_errors(what):
                    body = await response.read()
                raise await self._error(response, body, what)
            yield response.content.iter_any()
        finally:
            response.close()

    async def apply(self, obj: Object) -> Object:
        """Server-side apply with our field manager and force; returns what the server made of it."""
        return await self._apply(obj)

    async def apply_status(self, obj: Object) -> Object:
        """Server-side apply on the status subresource."""
        return await self._apply(obj, "status")

    async def annotate(
        self, kind: str, namespace: str, name: str, annotations: Mapping[str, str | None]
    ) -> Object:
        """Merge annotations into an object that something else owns (pods); None removes one."""
        return await self.merge(kind, namespace, name, {"metadata": {"annotations": dict(annotations)}})

    async def merge(self, kind: str, namespace: str, name: str, patch: Object) -> Object:
        """JSON merge patch; a None in it removes that field."""
        return await self._request(
            "PATCH",
            RESOURCES[kind].path(namespace, name),
            _what("patch", kind, namespace, name),
            query={"fieldManager": self._field_manager},
            body=patch,
            content_type=_MERGE,
        )

    async def create(self, obj: Object) -> Object:
        """POST; raises Conflict when the object exists."""
        kind, namespace, name = _identity(obj)
        path = RESOURCES[kind].path(namespace)
        query = {"fieldManager": self._field_manager}
        return await self._request(
            "POST", path, _what("create", kind, namespace, name), query=query, body=obj
        )

    async def replace(self, obj: Object) -> Object:
        """PUT; raises Conflict when `metadata.resourceVersion` is no longer the newest."""
        kind, namespace, name = _identity(obj)
        path = RESOURCES[kind].path(namespace, name)
        query = {"fieldManager": self._field_manager}
        return await self._request(
            "PUT", path, _what("replace", kind, namespace, name), query=query, body=obj
        )

    async def delete(self, kind: str, namespace: str, name: str, *, uid: str, resource_version: str) -> None:
        """Delete with preconditions, dependents in the background; an absent object is fine."""
        body = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "propagationPolicy": "Background",
            "preconditions": {"uid": uid, "resourceVersion": resource_version},
        }
        path = RESOURCES[kind].path(namespace, name)
        with suppress(NotFound):
            await self._request("DELETE", path, _what("delete", kind, namespace, name), body=body)

    async def event(self, involved: Object, type_: str, reason: str, message: str) -> None:
        """Write an events.k8s.io/v1 Event about an object; one that was told already is fine."""
        now = self._clock.now()
        meta = involved["metadata"]
        regarding = {
            "apiVersion": involved["apiVersion"],
            "kind": involved["kind"],
            "namespace": meta["namespace"],
            "name": meta["name"],
            "uid": meta["uid"],
        }
        told = (meta["uid"], type_, reason, message, str(int(now // EVENT_BUCKET_SECONDS)))
        digest = hashlib.sha256("\0".join(told).encode()).hexdigest()[:16]
        event = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": f"{meta['name']}.{digest}", "namespace": meta["namespace"]},
            "eventTime": datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": _CONTROLLER,
            "reportingInstance": self._identity,
            "action": "Reconcile",
            "type": type_,
            "reason": reason,
            "note": truncate(message),
            "regarding": regarding,
        }
        try:
            await self.create(event)
        except Conflict:
            return

    async def list(
        self, kind: str, *, namespace: str | None = None, label_selector: str = "", field_selector: str = ""
    ) -> list[Object]:
        """All objects, read in pages of 500 from one consistent snapshot."""
        where = {"namespace": namespace, "label_selector": label_selector, "field_selector": field_selector}
        return [obj async for page in self.pages(kind, **where) for obj in page]

    async def _apply(self, obj: Object, subresource: str = "") -> Object:
        kind, namespace, name = _identity(obj)
        what = _what("apply", kind, namespace, name) + (f" ({subresource})" if subresource else "")
        query = {"fieldManager": self._field_manager, "force": "true"}
        path = RESOURCES[kind].path(namespace, name, subresource)
        return await self._request("PATCH", path, what, query=query, body=obj, content_type=_APPLY)

    async def _request(
        self,
        method: str,
        path: str,
        what: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Object | None = None,
        content_type: str = _JSON,
    ) -> Object:
        with network_errors(what):
            response = await self._send(method, path, query=query, body=body, content_type=content_type)
            async with response:
                raw = await response.read()
            if response.status < 400:
                parsed: Object = orjson.loads(raw)
                return parsed
        raise await self._error(response, raw, what)

    async def _send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Object | None = None,
        content_type: str = _JSON,
        limits: aiohttp.ClientTimeout | None = None,
    ) -> aiohttp.ClientResponse:
        url = self._configuration.host + quote(path, safe="/:")
        if query:
            url += "?" + urlencode({key: value for key, value in query.items() if value})
        headers = {"Accept": _JSON, "Content-Type": content_type, "User-Agent": self._field_manager}
        authorization = await self._authorization()
        if authorization:
            headers["Authorization"] = authorization
        answer = await self._api.rest_client.request(
            method, url, headers=headers, body=body, _request_timeout=limits or REQUEST_TIMEOUT
        )
        response: aiohttp.ClientResponse = answer.response
        return response

    async def _authorization(self) -> str | None:
        """Scheme and token; reads a rotated token from disk once a minute."""
        settings = await self._configuration.auth_settings()
        value: str | None = settings.get("BearerToken", {}).get("value")
        return value.strip() if value else None

    async def _error(self, response: aiohttp.ClientResponse, body: bytes, what: str) -> KubeError:
        if response.status == 401:
            # A projected token rotates on disk, an exec plugin's expires: the next request uses the new one.
            try:
                await _load(self._configuration, self._kubeconfig)
            except KubeError as error:
                what = f"{what} ({error})"
        return from_response(response.status, body, response.headers, what)


def _what(verb: str, kind: str, namespace: str | None, name: str) -> str:
    return f"{verb} {kind} {f'{namespace}/' if namespace else ''}{name}"


def _identity(obj: Object) -> tuple[str, str | None, str]:
    meta = obj["metadata"]
    return obj["kind"], meta.get("namespace"), meta["name"]


async def _load(configuration: Any, kubeconfig: str | None) -> None:
    try:
        if kubeconfig is None:
            _load_incluster(configuration)
        else:
            await _load_kubeconfig(kubeconfig, client_configuration=configuration, persist_config=False)
    except (kubernetes_config.ConfigException, OSError) as error:
        where = kubeconfig or "the pod's ServiceAccount"
        raise KubeError(
            f"can't load credentials from {where}: {error}. Outside a cluster, name a kubeconfig file.",
            status=None,
            transient=False,
        ) from error
