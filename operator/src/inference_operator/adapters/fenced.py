"""The API for the leader's workers: every write is refused once the Lease may belong to someone else.

Cancelling the workers on a lost Lease isn't enough: a process that was frozen for a minute goes on where it
was, and its next write would come before its elector has looked at the clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..ports import Kube, KubeError, Object


class FencedKube:
    """Implements `ports.Kube`; reads pass, writes pass while `leading()`."""

    def __init__(self, kube: Kube, leading: Callable[[], bool]) -> None:
        self._kube = kube
        self._leading = leading

    async def get(self, kind: str, namespace: str | None, name: str) -> Object | None:
        """The object, or None when it doesn't exist."""
        return await self._kube.get(kind, namespace, name)

    async def find(self, kind: str, namespace: str, name: str) -> Object | None:
        """The same by the right to list."""
        return await self._kube.find(kind, namespace, name)

    async def apply(self, obj: Object) -> Object:
        """Server-side apply."""
        return await self._writer().apply(obj)

    async def apply_status(self, obj: Object) -> Object:
        """Server-side apply on the status subresource."""
        return await self._writer().apply_status(obj)

    async def annotate(
        self, kind: str, namespace: str, name: str, annotations: Mapping[str, str | None]
    ) -> Object:
        """Merge annotations."""
        return await self._writer().annotate(kind, namespace, name, annotations)

    async def merge(self, kind: str, namespace: str, name: str, patch: Object) -> Object:
        """JSON merge patch."""
        return await self._writer().merge(kind, namespace, name, patch)

    async def delete(self, kind: str, namespace: str, name: str, *, uid: str, resource_version: str) -> None:
        """Delete with preconditions."""
        await self._writer().delete(kind, namespace, name, uid=uid, resource_version=resource_version)

    async def event(self, involved: Object, type_: str, reason: str, message: str) -> None:
        """Write an Event."""
        await self._writer().event(involved, type_, reason, message)

    def _writer(self) -> Kube:
        if not self._leading():
            raise KubeError("not written: this process leads no longer", status=None, transient=True)
        return self._kube
