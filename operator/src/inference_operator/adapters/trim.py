"""What the informers keep of an object: what `core` reads, and no more.

Memory decides here: a pod as the server sends it is some 10 kB of Python objects, and its status, volumes and
managed fields are most of that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ..api import names
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
_CONTAINER: Final = ("name", "ready", "restartCount", "state", "lastState")


def trim_child(obj: Object) -> Object:
    """One of the operator's children, or a pod of one."""
    kind = obj["kind"]
    kept: Object = {
        "apiVersion": obj["apiVersion"],
        "kind": kind,
        "metadata": _metadata(obj["metadata"], managed=kind != "Pod"),
    }
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


def _metadata(metadata: Object, *, managed: bool) -> Object:
    kept = _pick(metadata, _META)
    if managed:
        # The set of fields that are ours by server-side apply: a foreign edit takes a field out of it.
        kept["managedFields"] = [
            _pick(entry, ("manager", "operation", "fieldsV1"))
            for entry in metadata.get("managedFields") or ()
            if entry.get("manager") == names.FIELD_MANAGER
            and entry.get("operation") == "Apply"
            and not entry.get("subresource")
        ]
    return kept


def _pod_status(status: Object) -> Object:
    kept = {"phase": status.get("phase"), "conditions": _conditions(status)}
    for key in ("containerStatuses", "initContainerStatuses"):
        if status.get(key):
            kept[key] = [_pick(container, _CONTAINER) for container in status[key]]
    return kept


def _conditions(status: Object) -> list[Object]:
    return [_pick(condition, _CONDITION) for condition in status.get("conditions") or ()]


def _pick(source: dict[str, Any], keys: Iterable[str]) -> Object:
    return {key: source[key] for key in keys if key in source}
