"""Makes the children of one cluster equal to what was decided, with as few requests as possible.

    gone or in the way?  ->  apply what differs, in the given order  ->  marks on pods  ->  deletions

A failure ends the work on its own revision only: a Deployment is never made without the record that says what
it is, everything else goes on. All failures come back together, so that the status can tell them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..api import names
from ..core.fields import needs_apply
from ..core.model import ClusterRef
from ..core.observe import controller, owned
from ..ports import Kube, KubeError, Metrics, Object, Store

log = logging.getLogger(__name__)

#: Kind and name.
Ref = tuple[str, str]


@dataclass
class Outcome:
    """What came of it."""

    errors: list[KubeError] = field(default_factory=list)
    #: Objects that exist and belong to someone else.
    taken: list[Ref] = field(default_factory=list)
    #: Requests that changed, or may have changed, something.
    writes: int = 0

    def raise_errors(self) -> None:
        """Raise one error for all: transient if any of them is, since then the next pass can get further."""
        if not self.errors:
            return
        first = next((error for error in self.errors if error.transient), self.errors[0])
        more = f" (and {len(self.errors) - 1} more)" if len(self.errors) > 1 else ""
        waits = [error.retry_after for error in self.errors if error.retry_after is not None]
        raise KubeError(
            f"{first}{more}",
            status=first.status,
            transient=first.transient,
            retry_after=max(waits, default=None),
        ) from first


class Applier:
    """One for all clusters; holds no state."""

    def __init__(self, kube: Kube, store: Store, metrics: Metrics) -> None:
        self._kube = kube
        self._store = store
        self._metrics = metrics

    async def apply(
        self,
        desired: Sequence[Object],
        live: Mapping[Ref, Object],
        owner: ClusterRef,
        context: Mapping[str, object],
    ) -> Outcome:
        """Apply in order what `live` (the watched children) doesn't hold. `context` is for log lines."""
        outcome = Outcome()
        failed: set[str] = set()
        for obj in desired:
            revision = obj["metadata"]["labels"].get(names.LABEL_REVISION, "")
            if revision in failed:
                continue
            try:
                await self._apply_one(obj, live.get(_ref(obj)), owner, outcome, context)
            except KubeError as error:
                outcome.errors.append(error)
                if revision:
                    failed.add(revision)
        return outcome

    async def mark(self, namespace: str, costs: Mapping[str, str | None], outcome: Outcome) -> None:
        """Write deletion costs of pods (None removes one)."""
        for name, cost in costs.items():
            try:
                pod = await self._kube.annotate(
                    "Pod", namespace, name, {names.ANNOTATION_DELETION_COST: cost}
                )
            except KubeError as error:
                if error.status != 404:
                    outcome.errors.append(error)
                continue
            self._written("Pod", "annotate", pod, outcome)

    async def delete(
        self, unwanted: Iterable[Ref], live: Mapping[Ref, Object], uid: str, outcome: Outcome
    ) -> None:
        """Delete what is ours, in order, only as it was seen. The first failure ends it: the order counts."""
        for ref in unwanted:
            obj = live.get(ref)
            if obj is None or not owned(obj, uid) or obj["metadata"].get("deletionTimestamp"):
                continue
            meta = obj["metadata"]
            try:
                await self._kube.delete(
                    ref[0],
                    meta["namespace"],
                    meta["name"],
                    uid=meta["uid"],
                    resource_version=meta["resourceVersion"],
                )
            except KubeError as error:
                outcome.errors.append(error)
                return
            self._metrics.child_written(ref[0], "delete")
            outcome.writes += 1

    async def _apply_one(
        self,
        obj: Object,
        seen: Object | None,
        owner: ClusterRef,
        outcome: Outcome,
        context: Mapping[str, object],
    ) -> None:
        ref = _ref(obj)
        if seen is not None:
            why = needs_apply(obj, seen["metadata"].get("annotations") or {}, seen.get("managed", ""))
            if why is None:
                return
        else:
            # Forced apply takes over whatever has this name: look live who owns it first.
            seen = await self._kube.find(obj["kind"], obj["metadata"]["namespace"], obj["metadata"]["name"])
            why = "it doesn't exist" if seen is None else "it lost the label by which it is found"
        if seen is not None and predecessors(seen, owner.name, owner.uid):
            raise KubeError(
                f"{ref[0]} {owner.namespace}/{ref[1]} belongs to a deleted cluster of this name and waits "
                "for garbage collection",
                status=None,
                transient=True,
            )
        if seen is not None and not owned(seen, owner.uid):
            outcome.taken.append(ref)
            return
        log.info("applying", extra={"context": context, "kind": ref[0], "child": ref[1], "reason": why})
        self._written(ref[0], "apply", await self._kube.apply(obj), outcome)

    def _written(self, kind: str, verb: str, answer: Object, outcome: Outcome) -> None:
        self._store.upsert(kind, answer)
        self._metrics.child_written(kind, verb)
        outcome.writes += 1


def predecessors(child: Object, name: str, uid: str) -> bool:
    """Does it belong to a deleted cluster of the same name?"""
    owner = controller(child)
    if owner is None or owner["kind"] != names.KIND:
        return False
    return bool(owner["name"] == name and owner["uid"] != uid)


def _ref(obj: Object) -> Ref:
    return obj["kind"], obj["metadata"]["name"]
