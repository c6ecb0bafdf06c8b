"""Does a live child still hold what we applied? Seen without keeping the child.

Two witnesses. The hash annotation tells whether today's desired object is the one that was applied last. Our
managedFields entry tells whether every field of it is still ours: an edit by someone else takes the field out
of our entry and leaves the annotation as it was (seen on a real API server). So it is enough to keep one
digest of that entry and to compare it with the set of fields that applying the desired object would give us.

That set depends on the schema: lists with keys are owned item by item, atomic parts as a whole. The tables
below hold what the kinds we render use of it (structured-merge-diff, k8s.io/api). A wrong entry would show as
a child that is applied again in every pass, which the API server answers without a write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..api import names
from .canonical import canonical, digest

#: Lists that merge by keys (x-kubernetes-list-map-keys). The same everywhere where a key is used in our
#: kinds, but for `ports`, whose key differs between containers and Services.
_LIST_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "ownerReferences": ("uid",),
    "containers": ("name",),
    "initContainers": ("name",),
    "env": ("name",),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
    "imagePullSecrets": ("name",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
}
_PORT_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "Service": ("port", "protocol"),
    "Deployment": ("containerPort", "protocol"),
}
#: Objects that are owned as a whole (x-kubernetes-map-type: atomic), by field name.
_ATOMIC: Final = frozenset(
    {
        "selector",
        "podSelector",
        "namespaceSelector",
        "labelSelector",
        "nodeSelector",
        "fieldRef",
        "secretKeyRef",
        "roleRef",
        "requiredDuringSchedulingIgnoredDuringExecution",
    }
)
#: Items of these lists are atomic although the list merges by key.
_ATOMIC_ITEMS: Final = frozenset({"ownerReferences", "imagePullSecrets"})
#: Not part of what a manager owns (structured-merge-diff strips them).
_STRIPPED: Final = frozenset({"apiVersion", "kind"})
_STRIPPED_METADATA: Final = frozenset({"name", "namespace"})


def field_set(obj: Mapping[str, Any]) -> dict[str, Any]:
    """The fieldsV1 that server-side apply records for an object with these fields."""
    kind = obj["kind"]
    body = {key: value for key, value in obj.items() if key not in _STRIPPED}
    body["metadata"] = {key: value for key, value in obj["metadata"].items() if key not in _STRIPPED_METADATA}
    return _object(kind, body)


def managed_digest(obj: Mapping[str, Any], manager: str = names.FIELD_MANAGER) -> str:
    """Digest of our own entry in a live object's metadata.managedFields; "" = we have none.

    For a trim function: what it returns is all that has to be kept of managedFields.
    """
    for entry in obj["metadata"].get("managedFields") or ():
        ours = entry.get("manager") == manager and entry.get("operation") == "Apply"
        if ours and not entry.get("subresource"):
            return digest(entry.get("fieldsV1") or {})
    return ""


def needs_apply(
    desired: Mapping[str, Any], annotations: Mapping[str, str] | None, managed: str
) -> str | None:
    """Why `desired` has to be applied, in words for a log line; None = it needn't.

    `annotations` are the live object's, None = it doesn't exist; `managed` is its `managed_digest`.
    """
    if annotations is None:
        return "it doesn't exist"
    if annotations.get(names.ANNOTATION_HASH) != desired["metadata"]["annotations"][names.ANNOTATION_HASH]:
        return "what is wanted has changed"
    if managed != digest(field_set(desired)):
        return "someone else changed a field of ours"
    return None


def _object(kind: str, value: Mapping[str, Any]) -> dict[str, Any]:
    return {f"f:{name}": _field(kind, name, item) for name, item in value.items()}


def _field(kind: str, name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return {} if _is_atomic(kind, name) else _object(kind, value)
    keys = _keys(kind, name)
    if keys and isinstance(value, Sequence) and not isinstance(value, str):
        return {_item_key(keys, item): _item(kind, name, item) for item in value}
    return {}


def _item(kind: str, name: str, item: Mapping[str, Any]) -> dict[str, Any]:
    return {} if name in _ATOMIC_ITEMS else {".": {}, **_object(kind, item)}


def _keys(kind: str, name: str) -> tuple[str, ...] | None:
    return _PORT_KEYS.get(kind) if name == "ports" else _LIST_KEYS.get(name)


def _is_atomic(kind: str, name: str) -> bool:
    # data of a ControllerRevision has no schema; data of a ConfigMap is owned key by key.
    return name in _ATOMIC or (kind == "ControllerRevision" and name == "data")


def _item_key(keys: tuple[str, ...], item: Mapping[str, Any]) -> str:
    return "k:" + canonical({key: item[key] for key in keys})
