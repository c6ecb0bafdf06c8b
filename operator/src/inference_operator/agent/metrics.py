"""Prometheus metrics of the gateway, in a registry of their own. Names are stable.

Counters come from HAProxy's log, gauges from its last snapshot at the time of the scrape, figures of the
engines from their own pages: each engine is read by one gateway, so they may be added up over the gateways.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from .engine_page import Counters
from .haproxylog import Request
from .scraper import Track
from .view import TrackView

_TRACK: Final = ("namespace", "cluster", "revision")
#: A request above this can't be sent again: tune.bufsize without HAProxy's reserve for added headers.
RETRY_BYTES: Final = 262_144 - 1024


class Metrics:
    """All counters, and the collector of the gauges."""

    def __init__(
        self,
        tracks: Callable[[], Iterable[TrackView]],
        engines: Callable[[], Mapping[Track, Counters]] = dict,
    ) -> None:
        self.registry = CollectorRegistry()
        self.requests = self._counter(
            "requests", "Requests that have ended, by HTTP status class.", (*_TRACK, "code")
        )
        self.retries = self._counter("retries", "Times that a request was sent again.", _TRACK)
        self.redispatched = self._counter(
            "redispatched_requests", "Requests that another engine answered than the first one.", _TRACK
        )
        self.moved = self._counter(
            "moved_requests", "Requests that were taken from a dead engine and sent again.", _TRACK
        )
        self.cut = self._counter(
            "streams_cut", "Answers that an engine's side ended before their end.", _TRACK
        )
        self.lost = self._counter("requests_lost", "Requests that no engine answered.", _TRACK)
        self.oversized = self._counter(
            "unretryable_requests", "Requests too large to be sent again (above 255 KiB).", _TRACK
        )
        self.reloads = self._counter(
            "reloads", "Reloads of HAProxy: changes of the configuration's structure."
        )
        self.refused = self._counter("configurations_refused", "Configurations that HAProxy refused.")
        self.command_errors = self._counter("command_errors", "Runtime commands that HAProxy refused.")
        self.report_writes = self._counter("report_writes", "Writes of this pod's report to the API server.")
        self.registry.register(_Gauges(tracks))
        self.registry.register(_Engines(engines))

    def request(self, request: Request) -> None:
        """Count one request."""
        parts = request.backend.split(".")
        # Backend names of clusters have three parts; HAProxy's own and the one for "no engine" don't.
        track = parts if len(parts) == 3 else ("", "", "")
        if request.moved:
            self.moved.labels(*track).inc()
            return
        self.requests.labels(*track, f"{request.status // 100}xx" if request.status > 0 else "none").inc()
        if request.retries:
            self.retries.labels(*track).inc(request.retries)
        if request.redispatched:
            self.redispatched.labels(*track).inc()
        if request.cut:
            self.cut.labels(*track).inc()
        if request.lost:
            self.lost.labels(*track).inc()
        if request.sent > RETRY_BYTES:
            self.oversized.labels(*track).inc()

    def _counter(self, name: str, text: str, labels: tuple[str, ...] = ()) -> Counter:
        return Counter(f"inference_gateway_{name}", text, labels, registry=self.registry)


class _Gauges(Collector):
    """Made at scrape time: engines and tracks that are gone leave no stale series."""

    def __init__(self, tracks: Callable[[], Iterable[TrackView]]) -> None:
        self._tracks = tracks

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """All gauges."""
        prefix = "inference_gateway"
        queued = GaugeMetricFamily(f"{prefix}_queued_requests", "Requests that wait.", labels=_TRACK)
        flight = GaugeMetricFamily(f"{prefix}_in_flight_requests", "Requests on engines.", labels=_TRACK)
        share = GaugeMetricFamily(f"{prefix}_track_share", "Part of new requests, 0 to 1.", labels=_TRACK)
        engine = (*_TRACK, "pod")
        up = GaugeMetricFamily(f"{prefix}_engine_up", "1 = takes requests.", labels=engine)
        load = GaugeMetricFamily(f"{prefix}_engine_in_flight_requests", "Requests on it.", labels=engine)
        limit = GaugeMetricFamily(f"{prefix}_engine_limit", "This gateway's limit for it.", labels=engine)
        for track in self._tracks():
            labels = (track.namespace, track.cluster, track.revision)
            queued.add_metric(labels, track.queued)
            flight.add_metric(labels, track.in_flight)
            share.add_metric(labels, track.share / 10_000)
            for view in track.engines:
                up.add_metric((*labels, view.pod), float(view.state == "UP"))
                load.add_metric((*labels, view.pod), view.in_flight)
                limit.add_metric((*labels, view.pod), view.maxconn)
        yield from (queued, flight, share, up, load, limit)


class _Engines(Collector):
    """What the engines of each track have counted since this agent started."""

    def __init__(self, totals: Callable[[], Mapping[Track, Counters]]) -> None:
        self._totals = totals

    def collect(self) -> Iterator[Metric]:
        """All figures of the engines."""
        prefix = "inference_engine"
        prompt = CounterMetricFamily(f"{prefix}_prompt_tokens", "Tokens of prompts.", labels=_TRACK)
        cached = CounterMetricFamily(
            f"{prefix}_cached_prompt_tokens", "Tokens of prompts that were in the cache.", labels=_TRACK
        )
        generated = CounterMetricFamily(f"{prefix}_generation_tokens", "Tokens of answers.", labels=_TRACK)
        first = SummaryMetricFamily(
            f"{prefix}_time_to_first_token_seconds", "Arrival at the engine to first token.", labels=_TRACK
        )
        each = SummaryMetricFamily(
            f"{prefix}_time_per_output_token_seconds", "Time of each token after the first.", labels=_TRACK
        )
        for track, counters in self._totals().items():
            prompt.add_metric(track, counters.prompt_tokens)
            cached.add_metric(track, counters.cached_tokens)
            generated.add_metric(track, counters.generation_tokens)
            first.add_metric(track, int(counters.ttft_count), counters.ttft_sum)
            each.add_metric(track, int(counters.tpot_count), counters.tpot_sum)
        yield from (prompt, cached, generated, first, each)
