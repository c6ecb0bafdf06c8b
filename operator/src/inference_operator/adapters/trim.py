"""What the informers keep of an object: what `core` reads, and no more.

Memory decides here: a pod as the server sends it is some 10 kB of Python objects, and its status, volumes and
managed fields are most of that. Of the managed fields one digest is kept, as `managed`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ..api import names
from ..core.fields import managed_digest
from ..ports import Object

_META: Final = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "labels",
    "annotations",
    "ownerReferences",
)
_CONDITION: Final = ("type", "status", "reason", "message")
#: Conditions whose moment counts: since when a pod loads.
_TIMED: Final = frozenset({"PodScheduled", "Ready"})
_CONTAINER: Final = ("name", "ready", "restartCount", "state", "lastState")


def trim_child(obj: Object) -> Object:
    """One of the operator's children, or a pod of one."""
    kind = obj["kind"]
    kept: Object = {
        "apiVersion": obj["apiVersion"],
        "kind": kind,
        "metadata": _pick(obj["metadata"], _META),
    }
    if kind != "Pod":
        kept["managed"] = managed_digest(obj)
    if kind == "Pod":
        kept["spec"] = _pick(obj.get("spec") or {}, ("nodeName",))
        kept["status"] = _pod_status(obj.get("status") or {})
    elif kind == "Deployment":
        kept["spec"] = _pick(obj.get("spec") or {}, ("replicas",))
        kept["status"] = {"conditions": _conditions(obj.get("status") or {})}
    elif kind == "HorizontalPodAutoscaler":
        kept["spec"] = _pick(obj.get("spec") or {}, ("scaleTargetRef",))
        status = obj.get("status") or {}
        kept["status"] = {**_pick(status, ("desiredReplicas",)), "conditions": _active(status)}
    elif kind in ("ConfigMap", "ControllerRevision"):
        kept["data"] = obj.get("data") or {}
    return kept


def trim_scaler(obj: Object) -> Object | None:
    """A HorizontalPodAutoscaler, ours or not, if it targets an InferenceCluster."""
    target = (obj.get("spec") or {}).get("scaleTargetRef") or {}
    ours = target.get("kind") == names.KIND and target.get("apiVersion", "").startswith(f"{names.GROUP}/")
    return trim_child(obj) if ours else None


def trim_node(obj: Object) -> Object:
    """A node: its name and whether it is ready."""
    return {"metadata": _pick(obj["metadata"], ("name", "resourceVersion")), "ready": _holds(obj, "Ready")}


def trim_api_service(obj: Object) -> Object:
    """Who answers an API group, and whether the API server reaches it."""
    service = (obj.get("spec") or {}).get("service") or {}
    return {
        "metadata": _pick(obj["metadata"], ("name", "resourceVersion")),
        "service": f"{service.get('namespace')}/{service.get('name')}" if service else "",
        "available": _holds(obj, "Available"),
    }


def _holds(obj: Object, kind: str) -> bool:
    """Has the object this condition with status True?"""
    return any(
        condition["type"] == kind and condition["status"] == "True"
        for condition in (obj.get("status") or {}).get("conditions") or ()
    )


def _active(status: Object) -> list[Object]:
    """Its messages hold figures of every pass of the controller: a copy that changes with each would be
    looked at for nothing."""
    return [
        _pick(condition, ("type", "status", "reason"))
        for condition in status.get("conditions") or ()
        if condition["type"] in ("ScalingActive", "ScalingLimited")
    ]


def _pod_status(status: Object) -> Object:
    kept = {**_pick(status, ("phase", "podIP")), "conditions": _conditions(status)}
    for key in ("containerStatuses", "initContainerStatuses"):
        if status.get(key):
            kept[key] = [_pick(container, _CONTAINER) for container in status[key]]
    return kept


def _conditions(status: Object) -> list[Object]:
    return [
        _pick(condition, (*_CONDITION, "lastTransitionTime") if condition["type"] in _TIMED else _CONDITION)
        for condition in status.get("conditions") or ()
    ]


def _pick(source: dict[str, Any], keys: Iterable[str]) -> Object:
    return {key: source[key] for key in keys if key in source}
