"""The seams of the engine: what it needs from the outside world, as protocols that adapters implement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

Object = dict[str, Any]


class KubeError(Exception):
    """A request to the API server failed. `transient`: the same request may work later as it is."""

    def __init__(self, message: str, *, status: int | None, transient: bool) -> None:
        super().__init__(message)
        self.status = status
        self.transient = transient


class NotFound(KubeError):
    """404: the object (or its kind) doesn't exist."""


class Conflict(KubeError):
    """409: a precondition failed, or another field manager owns a field."""


class Kube(Protocol):
    """Typed use of the Kubernetes API. `kind` is a key of adapters.kube.RESOURCES ("Deployment", …)."""

    async def get(self, kind: str, namespace: str, name: str) -> Object | None:
        """The object, or None when it doesn't exist."""

    async def apply(self, obj: Object) -> Object:
        """Server-side apply with our field manager and force; returns what the server made of it."""

    async def apply_status(self, obj: Object) -> Object:
        """Server-side apply on the status subresource."""

    async def annotate(
        self, kind: str, namespace: str, name: str, annotations: Mapping[str, str | None]
    ) -> None:
        """Merge annotations into an object that something else owns (pods); None removes one."""

    async def delete(self, kind: str, namespace: str, name: str, *, uid: str, resource_version: str) -> None:
        """Delete with preconditions; an absent object is fine."""

    async def event(self, involved: Object, type_: str, reason: str, message: str) -> None:
        """Write an events.k8s.io/v1 Event about an object."""


class Store(Protocol):
    """Watch-fed view of the children. Never used to decide that something must not be created."""

    def children(self, kind: str, namespace: str, cluster: str) -> Sequence[Object]:
        """Trimmed objects of one kind that carry the cluster's label."""

    def node_ready(self, name: str) -> bool:
        """False only for a node known to be NotReady or gone."""

    def upsert(self, kind: str, obj: Object) -> None:
        """Take over the answer of our own write, so that the next pass doesn't read older state."""


class Clock(Protocol):
    """Wall clock for timestamps, monotonic clock for durations. Seconds."""

    def now(self) -> float:
        """Seconds since the epoch."""

    def monotonic(self) -> float:
        """Seconds since some start."""
