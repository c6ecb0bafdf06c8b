"""Whose an object is, by its ownerReferences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Object = Mapping[str, Any]


def owners(obj: Object) -> Sequence[Object]:
    """All ownerReferences."""
    return obj["metadata"].get("ownerReferences") or ()


def controller(obj: Object) -> Object | None:
    """The ownerReference of the object's controller."""
    return next((reference for reference in owners(obj) if reference.get("controller")), None)


def owned(obj: Object, uid: str) -> bool:
    """Is the object controlled by the InferenceCluster with this uid?"""
    owner = controller(obj)
    return owner is not None and owner["uid"] == uid
