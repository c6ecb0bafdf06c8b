"""The seams of the engine: what it needs from the outside world, as protocols that adapters implement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    # The agents use the errors of this module, and shouldn't load the API's models for two annotations.
    from .core.model import MetricsApi, TokenWindow

Object = dict[str, Any]


class KubeError(Exception):
    """A request to the API server failed.

    `transient`: the same request may work later as it is. `retry_after`: seconds to wait before it, if known.
    `status`: the HTTP status, None when no answer came.
    """

    def __init__(
        self, message: str, *, status: int | None, transient: bool, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.transient = transient
        self.retry_after = retry_after


class NotFound(KubeError):
    """404: the object (or its kind, or its namespace) doesn't exist."""


class Conflict(KubeError):
    """409: a precondition failed, the object exists already, or another field manager owns a field."""


@dataclass(frozen=True)
class Credentials:
    """How to reach the API server, for a second client (kopf's) of the same process."""

    server: str
    ca_path: str | None
    insecure: bool
    #: With its scheme in front: "Bearer …".
    authorization: str | None
    certificate_path: str | None
    private_key_path: str | None


class Kube(Protocol):
    """Typed use of the Kubernetes API. `kind` is a key of adapters.resources.RESOURCES ("Deployment", …).

    Every method raises KubeError or one of its kinds, and nothing else; none retries.
    """

    async def get(self, kind: str, namespace: str | None, name: str) -> Object | None:
        """The object, or None when it doesn't exist."""

    async def find(self, kind: str, namespace: str, name: str) -> Object | None:
        """The same as `get`, by the right to list: for kinds that are watched anyway."""

    async def apply(self, obj: Object) -> Object:
        """Server-side apply with our field manager and force; returns what the server made of it."""

    async def apply_status(self, obj: Object) -> Object:
        """Server-side apply on the status subresource."""

    async def annotate(
        self, kind: str, namespace: str, name: str, annotations: Mapping[str, str | None]
    ) -> Object:
        """Merge annotations into an object that something else owns (pods); None removes one."""

    async def merge(self, kind: str, namespace: str, name: str, patch: Object) -> Object:
        """JSON merge patch; a None in it removes that field."""

    async def delete(self, kind: str, namespace: str, name: str, *, uid: str, resource_version: str) -> None:
        """Delete with preconditions, dependents in the background; an absent object is fine."""

    async def event(self, involved: Object, type_: str, reason: str, message: str) -> None:
        """Write an events.k8s.io/v1 Event about an object."""


class Store(Protocol):
    """Watch-fed view of the children. Never used to decide that something must not be created."""

    def children(self, kind: str, namespace: str, cluster: str) -> Sequence[Object]:
        """Trimmed objects of one kind that carry the cluster's label."""

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        """One trimmed object that carries our managed-by label, whatever its cluster."""

    def node_ready(self, name: str) -> bool:
        """False only for a node known to be NotReady or gone."""

    def metrics_api(self) -> MetricsApi:
        """Who answers custom.metrics.k8s.io."""

    def upsert(self, kind: str, obj: Object) -> None:
        """Take over the answer of our own write, so that the next pass doesn't read older state."""


class Gateways(Protocol):
    """Questions to the gateways' agents."""

    async def loads(self, namespace: str, cluster: str, addresses: Sequence[str]) -> Mapping[str, int]:
        """Requests by engine pod, over the gateways that answer within a second; none is an error."""

    async def tokens(
        self, namespace: str, cluster: str, addresses: Sequence[str]
    ) -> Sequence[TokenWindow] | None:
        """What each gateway has counted lately; None when one of them doesn't say so within a second."""


@dataclass(frozen=True)
class ClusterCost:
    """What one cluster costs now."""

    currency: str
    #: GPUs that it holds.
    gpus: int
    #: Price of one of them for an hour.
    gpu_hour_price: float
    #: Cost of a million tokens; None = there is no figure.
    per_million_tokens: float | None


class Clock(Protocol):
    """Wall clock for timestamps, monotonic clock for durations. Seconds."""

    def now(self) -> float:
        """Seconds since the epoch."""

    def monotonic(self) -> float:
        """Seconds since some start."""


class Metrics(Protocol):
    """What the engine counts about itself; docs/reference/metrics.md has the names."""

    def queue_added(self) -> None:
        """A key was added that wasn't waiting."""

    def queue_depth(self, depth: int) -> None:
        """Keys that wait now."""

    def queue_waited(self, seconds: float) -> None:
        """A key was taken up after this wait."""

    def queue_retried(self) -> None:
        """A key was queued again after a failure."""

    def pass_done(self, result: str, seconds: float) -> None:
        """A pass ended: success, transient, permanent, defect or cancelled."""

    def child_written(self, kind: str, verb: str) -> None:
        """A child was written: apply, merge, annotate, delete."""

    def status_written(self) -> None:
        """A status was written."""

    def cluster_cost(self, namespace: str, name: str, cost: ClusterCost | None) -> None:
        """A cluster's cost was measured; None = it has none any more."""
