"""What the informers keep of an object: what `core` reads, and no more.

Memory decides here: a pod as the server sends it is some 10 kB of Python objects, and its status, volumes and
managed fields are most of that. Of the managed fields one digest is kept, as `managed`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

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
    elif kind in ("ConfigMap", "ControllerRevision"):
        kept["data"] = obj.get("data") or {}
    return kept


def trim_node(obj: Object) -> Object:
    """A node: its name and whether it is ready."""
    ready = any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in (obj.get("status") or {}).get("conditions") or ()
    )
    return {"metadata": _pick(obj["metadata"], ("name", "resourceVersion")), "ready": ready}


def _pod_status(status: Object) -> Object:
    kept = {"phase": status.get("phase"), "conditions": _conditions(status)}
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
