"""The status of a cluster that is being deleted and still exists, since finalizers hold it.

Nothing is made or repaired for it any more, and with a deletion in the foreground its children go before it
does. So what was true before must not stand there any longer.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api.conditions import ConditionType, Reason, truncate
from ..api.v1alpha1 import Condition, ConditionStatus, InferenceClusterStatus
from .model import Observed
from .notes import condition
from .status import rfc3339
from .verdicts import VERDICTS

_NOT_LOOKED_AT = "Not looked at any more: the cluster is being deleted"


def deletion_status(observed: Observed, finalizers: Sequence[str], now: float) -> InferenceClusterStatus:
    """The last status with every condition given up and the numbers of what is still there. Equal facts give
    an equal status, as ever.

    `now` is in seconds since the epoch.
    """
    held = ", ".join(sorted(finalizers)) or "none"
    text = f"The cluster is being deleted: nothing is repaired any more. Finalizers that hold it: {held}"
    known = observed.status.revisions
    updated = observed.revision(known.target) if known else None
    changes = {
        "observed_generation": observed.cluster.generation,
        "replicas": sum(len(revision.live) for revision in observed.revisions),
        "ready_replicas": sum(len(revision.ready) for revision in observed.revisions),
        "revisions": known
        and known.model_copy(update={"updated_replicas": len(updated.ready) if updated else 0}),
        "conditions": [_condition(observed, kind, text, now) for kind in VERDICTS],
    }
    return observed.status.model_copy(update=changes)


def _condition(observed: Observed, kind: ConditionType, text: str, now: float) -> Condition:
    ready = kind is ConditionType.READY
    status = ConditionStatus.FALSE if ready else ConditionStatus.UNKNOWN
    before = condition(observed.status, kind)
    same = before is not None and before.status is status
    return Condition(
        type=kind.value,
        status=status,
        reason=(Reason.DELETING if ready else Reason.NOT_OBSERVED).value,
        message=truncate(text) if ready else _NOT_LOOKED_AT,
        observed_generation=observed.cluster.generation,
        last_transition_time=before.last_transition_time if before and same else rfc3339(now),
    )
