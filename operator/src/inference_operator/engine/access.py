"""The pass over a namespace's agent access: the one Role and RoleBinding that all its clusters share.

They name every cluster of the namespace, so they have a key of their own in the queue: passes of two clusters
that each wrote them would take turns in forgetting the other.
"""

from __future__ import annotations

import logging

from ..api import names
from ..core.fields import needs_apply
from ..ports import Kube, KubeError, Metrics, Object, Store
from ..render.policies import agent_access
from .directory import Directory

log = logging.getLogger(__name__)


class AccessReconciler:
    """One for all namespaces; holds no state."""

    def __init__(self, *, kube: Kube, store: Store, directory: Directory, metrics: Metrics) -> None:
        self._kube = kube
        self._store = store
        self._directory = directory
        self._metrics = metrics

    async def reconcile(self, namespace: str) -> None:
        """Apply what differs. Nothing is deleted: the last owner's deletion does that."""
        for obj in agent_access(namespace, self._directory.clusters(namespace)):
            await self._apply(obj)

    async def _apply(self, obj: Object) -> None:
        kind, namespace, name = obj["kind"], obj["metadata"]["namespace"], obj["metadata"]["name"]
        seen = self._store.get(kind, namespace, name)
        if seen is None:
            await self._refuse_foreign(kind, namespace, name)
            why = needs_apply(obj, None, "")
        else:
            why = needs_apply(obj, seen["metadata"].get("annotations") or {}, seen["managed"])
        if why is None:
            return
        context = {"namespace": namespace}
        log.info("applying", extra={"context": context, "kind": kind, "child": name, "reason": why})
        self._store.upsert(kind, await self._kube.apply(obj))
        self._metrics.child_written(kind, "apply")

    async def _refuse_foreign(self, kind: str, namespace: str, name: str) -> None:
        """The watch knows only what carries our label: whatever else has this name isn't ours."""
        live = await self._kube.find(kind, namespace, name)
        labels = (live or {}).get("metadata", {}).get("labels") or {}
        if live is not None and labels.get(names.LABEL_MANAGED_BY) != names.MANAGED_BY:
            raise KubeError(
                f"{kind} {namespace}/{name} exists and isn't ours: without it the gateways of this namespace "
                "can't read what they serve. Rename or delete it.",
                status=None,
                transient=False,
            )
