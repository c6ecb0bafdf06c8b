"""Logs as JSON lines and the operator's own metrics (docs/reference/metrics.md lists them)."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import orjson
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from ..ports import ClusterCost
from .cost_metrics import ClusterCosts

_PREFIX: Final = "inference_operator"
_STANDARD_FIELDS: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class JsonFormatter(logging.Formatter):
    """One object per line: time, level, logger, message, and every key given as `extra`.

    What stands in the extra `context` goes to the top level: a log record has a `name` of its own already.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        extra = {k: v for k, v in vars(record).items() if k not in _STANDARD_FIELDS}
        entry.update(extra.pop("context", {}))
        entry.update(extra)
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(entry, default=str).decode()


def configure_logging(level: str) -> None:
    """Send everything to stderr as JSON. `level`: debug, info, warning or error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # kopf tells every watch event at debug and repeats what our own pass says at info.
    logging.getLogger("kopf").setLevel(max(logging.WARNING, root.level))
    # It warns at each start that it gets no signals, being off the main thread on purpose.
    logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)


class Telemetry:
    """Implements `ports.Metrics` on a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        registry = self.registry
        self._depth = Gauge(
            f"{_PREFIX}_queue_depth", "Clusters that wait for a reconcile pass.", registry=registry
        )
        self._adds = Counter(
            f"{_PREFIX}_queue_adds", "Clusters that were queued for a pass.", registry=registry
        )
        self._latency = Histogram(
            f"{_PREFIX}_queue_latency_seconds",
            "Wait from being queued to the start of the pass.",
            buckets=_SECONDS,
            registry=registry,
        )
        self._retries = Counter(
            f"{_PREFIX}_queue_retries", "Passes queued again after a transient failure.", registry=registry
        )
        self._passes = Counter(
            f"{_PREFIX}_reconciles",
            "Reconcile passes by result: success, transient, permanent, defect, cancelled.",
            ["result"],
            registry=registry,
        )
        self._duration = Histogram(
            f"{_PREFIX}_reconcile_duration_seconds",
            "Duration of a reconcile pass.",
            buckets=_SECONDS,
            registry=registry,
        )
        self._writes = Counter(
            f"{_PREFIX}_child_writes",
            "Writes of child objects by kind and verb.",
            ["kind", "verb"],
            registry=registry,
        )
        self._status_writes = Counter(
            f"{_PREFIX}_status_writes", "Writes of a cluster's status.", registry=registry
        )
        self._watch_age = Gauge(
            f"{_PREFIX}_watch_age_seconds",
            "Time since a watch last told anything, bookmarks included.",
            ["kind"],
            registry=registry,
        )
        self._leader = Gauge(f"{_PREFIX}_leader", "1 while this process leads, else 0.", registry=registry)
        self._outdated = Gauge(
            f"{_PREFIX}_schema_outdated",
            "1 if the installed CRD is older than this operator, else 0.",
            registry=registry,
        )
        self._config_valid = Gauge(
            f"{_PREFIX}_config_valid",
            "0 while the operator configuration's file doesn't hold and an older one is in force, else 1.",
            registry=registry,
        )
        self._config_refused = Counter(
            f"{_PREFIX}_config_refused",
            "New contents of the operator configuration that didn't hold.",
            registry=registry,
        )
        self._costs = ClusterCosts()
        registry.register(self._costs)
        self._config_valid.set(1)
        self._leader.set(0)
        self._outdated.set(0)

    def render(self) -> bytes:
        """The exposition text."""
        return generate_latest(self.registry)

    def queue_added(self) -> None:
        """A key was added that wasn't waiting."""
        self._adds.inc()

    def queue_depth(self, depth: int) -> None:
        """Keys that wait now."""
        self._depth.set(depth)

    def queue_waited(self, seconds: float) -> None:
        """A key was taken up after this wait."""
        self._latency.observe(seconds)

    def queue_retried(self) -> None:
        """A key was queued again after a failure."""
        self._retries.inc()

    def pass_done(self, result: str, seconds: float) -> None:
        """A pass ended: success, transient, permanent, defect or cancelled."""
        self._passes.labels(result).inc()
        self._duration.observe(seconds)

    def child_written(self, kind: str, verb: str) -> None:
        """A child was written: apply, merge, annotate, delete."""
        self._writes.labels(kind, verb).inc()

    def status_written(self) -> None:
        """A status was written."""
        self._status_writes.inc()

    def leading(self, leading: bool) -> None:
        """Leadership was won or lost."""
        self._leader.set(int(leading))
        if not leading:
            self._costs.clear()

    def config_read(self, valid: bool) -> None:
        """A new content of the operator configuration was read."""
        self._config_valid.set(int(valid))
        if not valid:
            self._config_refused.inc()

    def cluster_cost(self, namespace: str, name: str, cost: ClusterCost | None) -> None:
        """A cluster's cost was measured; None = it has none any more."""
        self._costs.set(namespace, name, cost)

    def schema_outdated(self, outdated: bool) -> None:
        """The installed CRD lacks fields of this operator's version."""
        self._outdated.set(int(outdated))

    def watch_age(self, kind: str, age: Callable[[], float]) -> None:
        """Read the age of a watch whenever metrics are read."""
        self._watch_age.labels(kind).set_function(age)
