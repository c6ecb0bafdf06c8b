"""The whole story of one cluster as one document: what `-o json` prints, and what the table is made from."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final

from pydantic import Field, ValidationError

from ..api import names
from ..api.base import ApiModel
from ..api.conditions import ConditionType, Reason
from ..api.routing import GatewayReport
from ..api.v1alpha1 import (
    Condition,
    ConditionStatus,
    FailoverEvent,
    InferenceClusterStatus,
    PlanStatus,
    RevisionsStatus,
    ScalingStatus,
)
from ..core.observe import parse_status, timestamp
from ..ports import Object
from .advice import action, by_weight
from .text import some

#: Of the documents that this plugin prints; it changes when a field is renamed or removed.
DOCUMENT_VERSION: Final = f"cli.{names.API_VERSION}"


class Level(StrEnum):
    """How bad it is."""

    OK = "Ok"
    BUSY = "Busy"
    BAD = "Bad"
    OFF = "Off"


class Verdict(ApiModel):
    """The first line: does it serve, and what is the matter?"""

    level: Level
    #: For people, e.g. "SERVES, ROLLING OUT".
    word: str
    #: None = nobody knows.
    serves: bool | None
    message: str
    action: str = Field("", description="What to do; empty = nothing.")


class PodView(ApiModel):
    """An engine or a gateway pod."""

    pod: str
    node: str
    revision: str = ""
    state: str
    restarts: int
    created: str


class ClusterView(ApiModel):
    """One cluster."""

    namespace: str
    name: str
    created: str
    generation: int
    #: Of the spec that the status speaks of.
    observed_generation: int
    verdict: Verdict
    model: str
    served_name: str
    #: Replicas wanted, and ready.
    wanted: int
    ready: int
    #: Automatic or Disabled.
    autoscaling: str
    endpoint: str
    conditions: list[Condition]
    plan: PlanStatus | None
    revisions: RevisionsStatus | None
    scaling: ScalingStatus | None
    failovers: list[FailoverEvent]
    engines: list[PodView]
    gateways: list[PodView]
    #: What could not be read, and why.
    missing: list[str]


def cluster_view(
    cluster: Object,
    pods: Sequence[Object] = (),
    reports: Sequence[GatewayReport] = (),
    missing: Sequence[str] = (),
) -> ClusterView:
    """From raw objects. What another release of the operator wrote differently is left out."""
    metadata, spec = cluster["metadata"], cluster.get("spec") or {}
    status = parse_status(cluster.get("status") or {})
    model = spec.get("model") or {}
    model_id = str(model.get("id", ""))
    return ClusterView(
        namespace=metadata["namespace"],
        name=metadata["name"],
        created=metadata.get("creationTimestamp") or "",
        generation=metadata.get("generation", 0),
        observed_generation=status.observed_generation,
        verdict=verdict(cluster, status),
        model=model_id,
        served_name=str(model.get("servedName") or model_id),
        wanted=status.scaling.target if status.scaling else spec.get("replicas", 1),
        ready=status.ready_replicas,
        autoscaling=(spec.get("autoscaling") or {}).get("mode") or "Automatic",
        endpoint=status.endpoint,
        conditions=list(status.conditions),
        plan=status.plan,
        revisions=status.revisions,
        scaling=status.scaling,
        failovers=list(status.failover.last_events) if status.failover else [],
        engines=[_engine(pod, reports) for pod in pods if _component(pod) == names.COMPONENT_ENGINE],
        gateways=[_pod(pod) for pod in pods if _component(pod) == names.COMPONENT_GATEWAY],
        missing=list(missing),
    )


def reports_of(config_map: Object | None) -> list[GatewayReport]:
    """The gateways' reports that can be read."""
    found = []
    for key, text in ((config_map or {}).get("data") or {}).items():
        if key.startswith(names.REPORT_KEY_PREFIX):
            try:
                found.append(GatewayReport.model_validate_json(text))
            except ValidationError:
                continue
    return found


# --- the verdict ---

#: Of Ready=False: what stands behind "SERVES" and "DOES NOT SERVE", and how bad it is.
_NOT_READY: Final = {
    Reason.PROGRESSING: ("ROLLING OUT", Level.BUSY),
    Reason.INVALID: ("SPEC INVALID", Level.BAD),
    Reason.UNAVAILABLE: ("", Level.BAD),
    Reason.SUSPENDED: ("SUSPENDED", Level.OFF),
    Reason.STOPPED: ("STOPPED", Level.OFF),
    Reason.DELETING: ("BEING DELETED", Level.OFF),
}
_READY: Final = {
    Reason.SERVING: ("", Level.OK),
    Reason.SCALING: ("SCALING", Level.BUSY),
    Reason.DEGRADED: ("DEGRADED", Level.BAD),
}


def verdict(cluster: Object, status: InferenceClusterStatus) -> Verdict:
    """What somebody wants to know in five seconds."""
    metadata = cluster["metadata"]
    found = {condition.type: condition for condition in status.conditions}
    ready = found.get(ConditionType.READY)
    if ready is None:
        return Verdict(
            level=Level.BAD,
            word="UNKNOWN",
            serves=None,
            message="The operator hasn't written a status yet",
            action="See whether it runs: kubectl get pods -A -l app.kubernetes.io/name=inference-operator.",
        )
    available = found.get(ConditionType.AVAILABLE)
    serves = _truth(available) if available else _truth(ready)
    if serves is None and not status.endpoint:
        serves = False  # a gateway was never made, so nobody looked whether it serves
    what, level = _what(ready, found)
    if serves is False and ready.reason == Reason.PROGRESSING and level is Level.BUSY:
        word = "STARTING"
    elif ready.reason == Reason.STOPPED:
        word = what
    else:
        word = ", ".join(filter(None, (_SERVES[serves], what)))
    heaviest = by_weight(status.conditions)
    idle = not heaviest or (level is Level.OK and heaviest[0].status is ConditionStatus.UNKNOWN)
    todo = "" if idle else action(heaviest[0], metadata["namespace"], metadata["name"])
    stale = metadata.get("generation", 0) - status.observed_generation
    if stale > 0:
        message = f"{ready.message}; the operator hasn't looked at the last {some(stale, 'change')} yet"
    else:
        message = ready.message
    return Verdict(level=level, word=word, serves=serves, message=message, action=todo)


_SERVES: Final = {True: "SERVES", False: "DOES NOT SERVE", None: "UNKNOWN"}


def _what(ready: Condition, found: dict[str, Condition]) -> tuple[str, Level]:
    if ready.status is ConditionStatus.UNKNOWN or ready.reason not in set(Reason):
        return "", Level.BAD
    reason = Reason(ready.reason)
    if ready.status is ConditionStatus.TRUE:
        return _READY.get(reason, ("", Level.OK))
    what, level = _NOT_READY.get(reason, ("", Level.BAD))
    if reason is Reason.PROGRESSING:
        if _truth(found.get(ConditionType.STALLED)):
            return "STALLED", Level.BAD
        if _truth(found.get(ConditionType.CAPACITY_AVAILABLE)) is False:
            return "WAITING FOR CAPACITY", Level.BAD
    return what, level


def _truth(condition: Condition | None) -> bool | None:
    if condition is None or condition.status is ConditionStatus.UNKNOWN:
        return None
    return condition.status is ConditionStatus.TRUE


# --- pods ---


def _component(pod: Object) -> str:
    return str((pod["metadata"].get("labels") or {}).get(names.LABEL_COMPONENT, ""))


def _pod(pod: Object) -> PodView:
    metadata, status = pod["metadata"], pod.get("status") or {}
    containers = status.get("containerStatuses") or ()
    return PodView(
        pod=metadata["name"],
        node=(pod.get("spec") or {}).get("nodeName") or "",
        revision=str((metadata.get("labels") or {}).get(names.LABEL_REVISION, "")),
        state=_state(pod),
        restarts=sum(int(container.get("restartCount") or 0) for container in containers),
        created=metadata.get("creationTimestamp") or "",
    )


def _engine(pod: Object, reports: Sequence[GatewayReport]) -> PodView:
    """What the gateways say of a ready pod counts more than what the kubelet says."""
    view = _pod(pod)
    if view.state != _READY_STATE:
        return view
    states = {e.state for report in reports for e in report.engines if e.pod == view.pod}
    if "DRAIN" in states:
        return view.model_copy(update={"state": "draining"})
    if states == {"DOWN"}:
        return view.model_copy(update={"state": "down for the gateways"})
    if "DOWN" in states:
        return view.model_copy(update={"state": "down for some gateways"})
    return view


_READY_STATE: Final = "ready"
#: A container that is merely on its way.
_STARTING: Final = frozenset({"ContainerCreating", "PodInitializing"})


def _state(pod: Object) -> str:
    status = pod.get("status") or {}
    if pod["metadata"].get("deletionTimestamp"):
        return "terminating"
    if status.get("phase") in ("Failed", "Succeeded"):
        return str(status.get("reason") or status["phase"])
    conditions = {c.get("type"): c for c in status.get("conditions") or ()}
    if (conditions.get("Ready") or {}).get("status") == "True":
        return _READY_STATE
    if (conditions.get("PodScheduled") or {}).get("status") == "False":
        return "waiting for a node"
    for container in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
        reason = ((container.get("state") or {}).get("waiting") or {}).get("reason") or ""
        if reason and reason not in _STARTING:
            return str(reason)
    return "loading" if status.get("phase") == "Running" else "starting"


def seconds_since(text: str, now: float) -> float:
    """Seconds from an RFC 3339 time to `now` (seconds since the epoch)."""
    return now - timestamp(text)


def document(kind: str, **fields: Any) -> dict[str, Any]:
    """A document of this plugin; models become plain data with the API's field names."""
    return {"apiVersion": DOCUMENT_VERSION, "kind": kind, **fields}
