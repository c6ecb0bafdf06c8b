"""Makes the children of one cluster equal to what was decided, with as few requests as possible.

    missing or in the way?  ->  apply what differs  ->  marks on pods, owners of lost ones  ->  deletions

Each revision's objects are applied in the given order, revisions and the rest side by side. A failure ends
the work on its own revision only: a Deployment is never made without the record that says what it is,
everything else goes on. All failures are collected, so that the status can tell them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any

from ..api import names
from ..core.fields import needs_apply
from ..core.model import ClusterRef
from ..core.owners import controller, owned
from ..ports import Kube, KubeError, Metrics, Object, Store
from ..render.common import owner_reference

log = logging.getLogger(__name__)

#: Kind and name.
Ref = tuple[str, str]


class Applier:
    """The writes of one pass."""

    def __init__(
        self,
        *,
        kube: Kube,
        store: Store,
        metrics: Metrics,
        owner: ClusterRef,
        live: Mapping[Ref, Object],
        context: Mapping[str, object],
    ) -> None:
        """`live` are the watched children at the start of the pass, `context` is for log lines."""
        self._kube = kube
        self._store = store
        self._metrics = metrics
        self._owner = owner
        self._live = live
        self._context = context
        self.errors: list[KubeError] = []
        #: Objects that exist under a name of ours and belong to someone else.
        self.taken: list[Ref] = []
        #: A write of this pass changed something, so the next pass may get further.
        self.wrote = False

    async def apply(self, desired: Iterable[Object]) -> None:
        """Apply what isn't there as it is wanted."""
        groups: dict[str, list[Object]] = {}
        for obj in desired:
            groups.setdefault(obj["metadata"]["labels"].get(names.LABEL_REVISION, ""), []).append(obj)
        async with asyncio.TaskGroup() as tasks:
            for revision, objects in groups.items():
                tasks.create_task(self._apply_group(objects, ordered=bool(revision)))

    async def mark(self, costs: Mapping[str, str | None]) -> None:
        """Write deletion costs of pods (None removes one)."""
        for name, cost in costs.items():
            annotations = {names.ANNOTATION_DELETION_COST: cost}
            patch = self._kube.annotate("Pod", self._owner.namespace, name, annotations)
            await self._patch_pod("annotate", patch)

    async def adopt(self, released: Iterable[str], regained: Iterable[str]) -> None:
        """Make pods that left their ReplicaSet go with the cluster, until they have one again.

        The garbage collector keeps what has any living owner, so the cluster must not stay one; and it never
        is the controller: a ReplicaSet whose selector matches again takes only pods without one.
        """
        ours = owner_reference(self._owner.name, self._owner.uid, controller=False)
        for name in released:
            log.warning(
                "a pod left its ReplicaSet, somebody changed its labels: it goes with the cluster",
                extra={"context": self._context, "child": name},
            )
            await self._own(name, [ours])
        for name in regained:
            owners = self._live["Pod", name]["metadata"]["ownerReferences"]
            await self._own(name, [owner for owner in owners if owner["uid"] != self._owner.uid])

    async def _own(self, name: str, owners: list[Object]) -> None:
        uid = self._live["Pod", name]["metadata"]["uid"]
        patch: Object = {"metadata": {"uid": uid, "ownerReferences": owners}}
        await self._patch_pod("merge", self._kube.merge("Pod", self._owner.namespace, name, patch))

    async def _patch_pod(self, verb: str, patch: Coroutine[Any, Any, Object]) -> None:
        """A pod that has gone in between needs nothing."""
        try:
            self._written("Pod", verb, await patch)
        except KubeError as error:
            if error.status != 404:
                self.errors.append(error)

    async def delete(self, unwanted: Iterable[Ref]) -> None:
        """Delete what is ours, in order, only as it was seen. The first failure ends it: the order counts."""
        for ref in unwanted:
            obj = self._live.get(ref)
            if obj is None or not owned(obj, self._owner.uid) or obj["metadata"].get("deletionTimestamp"):
                continue
            kind, meta = ref[0], obj["metadata"]
            try:
                await self._kube.delete(
                    kind,
                    meta["namespace"],
                    meta["name"],
                    uid=meta["uid"],
                    resource_version=meta["resourceVersion"],
                )
            except KubeError as error:
                self.errors.append(error)
                return
            log.info("deleted", extra={"context": self._context, "kind": kind, "child": meta["name"]})
            self._count(kind, "delete")

    def raise_errors(self, wake: float | None) -> None:
        """Raise one error for all: transient if any of them is, since then the next pass gets further.

        `wake` is when the rest of the cluster wants its next pass: what is refused for good in one place must
        not hold up a rollout.
        """
        if not self.errors:
            return
        first = next((error for error in self.errors if error.transient), self.errors[0])
        more = f" (and {len(self.errors) - 1} more)" if len(self.errors) > 1 else ""
        waits = [error.retry_after for error in self.errors if error.retry_after is not None]
        raise KubeError(
            f"{first}{more}",
            status=first.status,
            transient=first.transient,
            retry_after=max(waits, default=None) if first.transient else wake,
        ) from first

    async def _apply_group(self, objects: Sequence[Object], *, ordered: bool) -> None:
        """`ordered`: what follows a failure isn't tried."""
        missing = [obj for obj in objects if _ref(obj) not in self._live]
        found = dict(zip(map(_ref, missing), await asyncio.gather(*map(self._find, missing)), strict=True))
        for obj in objects:
            ref = _ref(obj)
            try:
                if ref in found:
                    await self._create(obj, found[ref])
                else:
                    await self._update(obj, self._live[ref])
            except KubeError as error:
                self.errors.append(error)
                if ordered:
                    return

    async def _find(self, obj: Object) -> Object | KubeError | None:
        kind, name = _ref(obj)
        try:
            return await self._kube.find(kind, self._owner.namespace, name)
        except KubeError as error:
            return error

    async def _create(self, obj: Object, found: Object | KubeError | None) -> None:
        """No child is watched under this name. A forced apply would take over whatever has it, so `found`, a
        live look, tells first whose it is."""
        if isinstance(found, KubeError):
            raise found
        if found is None:
            await self._write(obj, "it doesn't exist")
        elif of_predecessor(found, self._owner):
            kind, name = _ref(obj)
            raise KubeError(
                f"{kind} {self._owner.namespace}/{name} belongs to a deleted cluster of this name, "
                "which isn't garbage-collected yet",
                status=None,
                transient=True,
            )
        elif owned(found, self._owner.uid):
            await self._write(obj, "it lost the label by which it is found")
        else:
            self.taken.append(_ref(obj))

    async def _update(self, obj: Object, seen: Object) -> None:
        why = needs_apply(obj, seen["metadata"].get("annotations") or {}, seen["managed"])
        if why is None:
            return
        if owned(seen, self._owner.uid):
            await self._write(obj, why, seen["metadata"]["resourceVersion"])
        else:
            self.taken.append(_ref(obj))

    async def _write(self, obj: Object, why: str, before: str = "") -> None:
        kind, name = _ref(obj)
        extra = {"context": self._context, "kind": kind, "child": name, "reason": why}
        log.info("applying", extra=extra)
        answer = await self._kube.apply(obj)
        if answer["metadata"]["resourceVersion"] == before:
            # Said once per pass, and no reason for another pass: it would find the same.
            log.warning("applied without effect: core/fields.py lacks a rule for this kind", extra=extra)
            self._metrics.child_written(kind, "apply")
        else:
            self._written(kind, "apply", answer)

    def _written(self, kind: str, verb: str, answer: Object) -> None:
        self._store.upsert(kind, answer)
        self._count(kind, verb)

    def _count(self, kind: str, verb: str) -> None:
        self.wrote = True
        self._metrics.child_written(kind, verb)


def of_predecessor(child: Object, owner: ClusterRef) -> bool:
    """Does it belong to a deleted cluster of the same name?"""
    reference = controller(child)
    if reference is None or reference["kind"] != names.KIND:
        return False
    return bool(reference["name"] == owner.name and reference["uid"] != owner.uid)


def _ref(obj: Object) -> Ref:
    return obj["kind"], obj["metadata"]["name"]
