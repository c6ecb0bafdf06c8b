"""custom.metrics.k8s.io over HTTPS, for the API server's aggregator; and probes and metrics over HTTP."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

import orjson
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest

from ..api import names
from ..core.staffing import load
from ..core.status import rfc3339
from . import documents, frontproxy
from .collector import Collector
from .demand import Demand, Unknown
from .documents import GROUP, METRICS, RESOURCE, VERSIONS, Value
from .frontproxy import FrontProxy

log = logging.getLogger(__name__)

_PREFIX: Final = "inference_metrics_api"
#: A watch gets a bookmark every minute.
_DEAF_SECONDS: Final = 300.0
_BUCKETS: Final = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0)

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class MetricsServer:
    """The two applications: `api` (TLS, the API server only) and `probes` (plain)."""

    def __init__(self, collector: Collector, front: FrontProxy) -> None:
        self._collector = collector
        self._front = front
        self.registry = CollectorRegistry()
        self._requests = Counter(
            f"{_PREFIX}_requests", "Values asked for, by HTTP status.", ["code"], registry=self.registry
        )
        self._seconds = Histogram(
            f"{_PREFIX}_request_duration_seconds",
            "Time to answer for a value, the gateways' time included.",
            buckets=_BUCKETS,
            registry=self.registry,
        )

    def api(self) -> web.Application:
        """What the aggregator asks."""
        application = web.Application(middlewares=[self._only_the_api_server])
        application.add_routes(
            [
                web.get("/apis", _always(documents.groups())),
                web.get(f"/apis/{GROUP}", _always(documents.group())),
            ]
        )
        for version in VERSIONS:
            root = f"/apis/{GROUP}/{version}"
            application.add_routes(
                [
                    web.get(root, _always(documents.resources(version))),
                    web.get(
                        f"{root}/namespaces/{{namespace}}/{RESOURCE}/{{name}}/{{metric}}",
                        self._values(version),
                    ),
                ]
            )
        return application

    def probes(self) -> web.Application:
        """What the kubelet and Prometheus ask."""
        application = web.Application()
        application.add_routes(
            [
                web.get("/healthz", self._healthz),
                web.get("/readyz", self._readyz),
                web.get("/metrics", self._metrics),
            ]
        )
        return application

    @web.middleware
    async def _only_the_api_server(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        trust = self._front.trust
        peer = request.transport.get_extra_info("peercert") if request.transport else None
        if trust is None or frontproxy.user(trust, peer, request.headers) is None:
            text = "only the API server may ask, with its front-proxy certificate and a user's name"
            return _failure(401, "Unauthorized", text)
        try:
            return await handler(request)
        except web.HTTPNotFound:
            return _failure(404, "NotFound", f"{request.path} doesn't exist")
        except web.HTTPMethodNotAllowed:
            return _failure(405, "MethodNotAllowed", "metrics can only be read")

    def _values(self, version: str) -> _Handler:
        async def answer(request: web.Request) -> web.Response:
            begin = time.monotonic()
            response = await self._answer(version, request)
            self._requests.labels(str(response.status)).inc()
            self._seconds.observe(time.monotonic() - begin)
            return response

        return answer

    async def _answer(self, version: str, request: web.Request) -> web.Response:
        namespace, name, metric = (request.match_info[key] for key in ("namespace", "name", "metric"))
        if metric not in METRICS:
            return _failure(404, "NotFound", f"there is no metric {metric}: {', '.join(METRICS)}")
        for selector in ("labelSelector", "metricLabelSelector"):
            if request.query.get(selector):
                return _failure(400, "BadRequest", f"{selector} isn't supported: ask by name, or for *")
        wanted = self._collector.clusters(namespace) if name == "*" else [name]
        found = []
        for cluster in wanted:
            try:
                sum_ = await self._collector.demand(namespace, cluster)
            except KeyError:
                text = f"{names.KIND} {namespace}/{cluster} has no gateway"
                return _failure(404, "NotFound", text)
            except Unknown as error:
                text = f"the demand of {names.KIND} {namespace}/{cluster} is unknown: {error}"
                return _failure(503, "ServiceUnavailable", text)
            found.append(_value(namespace, cluster, metric, sum_))
        return _json(documents.values(version, found))

    async def _healthz(self, request: web.Request) -> web.Response:
        silent = time.monotonic() - self._collector.last_seen
        if silent > _DEAF_SECONDS:
            return web.Response(text=f"the watch of gateway pods is silent for {silent:.0f} s\n", status=503)
        return web.Response(text="ok\n")

    async def _readyz(self, request: web.Request) -> web.Response:
        if not self._collector.synced:
            return web.Response(text="the gateway pods aren't listed yet\n", status=503)
        if self._front.trust is None:
            return web.Response(text="it isn't known yet whom to trust\n", status=503)
        return web.Response(text="ok\n")

    async def _metrics(self, request: web.Request) -> web.Response:
        body = generate_latest(self.registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})


def _value(namespace: str, cluster: str, metric: str, demand: Demand) -> Value:
    milli = (
        load(demand.requests, demand.concurrency) if metric == names.METRIC_LOAD else demand.requests * 1000
    )
    return Value(namespace, cluster, metric, milli, rfc3339(time.time() - demand.age))


def _always(document: documents.Object) -> _Handler:
    async def answer(request: web.Request) -> web.Response:
        return _json(document)

    return answer


def _json(document: documents.Object) -> web.Response:
    return web.Response(body=orjson.dumps(document), content_type="application/json")


def _failure(code: int, reason: str, message: str) -> web.Response:
    body = orjson.dumps(documents.failure(code, reason, message))
    return web.Response(body=body, content_type="application/json", status=code)
