"""Is the CRD there, does it serve our version, and does its schema know every field that we know?"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..api import names
from ..api.schema import custom_resource_definition
from ..ports import Kube, KubeError, Object

log = logging.getLogger(__name__)

CRD_NAME: Final = f"{names.PLURAL}.{names.GROUP}"
RETRY_SECONDS: Final = 5.0


@dataclass(frozen=True)
class CrdState:
    """What was found. `problem` "" = it can be worked with."""

    problem: str
    #: Fields that this release knows and the installed schema doesn't: the API server drops them silently.
    missing: tuple[str, ...] = ()


def judge(definition: Object | None) -> CrdState:
    """Look at the installed CustomResourceDefinition (None = it isn't there)."""
    if definition is None:
        return CrdState(
            f"the CustomResourceDefinition {CRD_NAME} isn't installed: "
            "install the chart with crds.install=true or apply crds/inferenceclusters.yaml"
        )
    if definition["metadata"].get("deletionTimestamp"):
        return CrdState(
            f"the CustomResourceDefinition {CRD_NAME} is being deleted: apply it again once it is gone"
        )
    version = _version(definition)
    if version is None or not version.get("served"):
        return CrdState(
            f"the CustomResourceDefinition {CRD_NAME} doesn't serve {names.VERSION}: "
            "apply the definition that belongs to this release"
        )
    conditions = (definition.get("status") or {}).get("conditions") or ()
    if not any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
        return CrdState(f"the CustomResourceDefinition {CRD_NAME} isn't established yet")
    ours = _version(custom_resource_definition())
    missing = _missing(_schema(ours or {}), _schema(version), "")
    return CrdState("", tuple(missing))


async def wait_for_crd(
    kube: Kube, *, on_state: Callable[[CrdState], None], retry_seconds: float = RETRY_SECONDS
) -> None:
    """Return once the CRD can be worked with; `on_state` is told of every look."""
    told = ""
    while True:
        try:
            state = judge(await kube.get("CustomResourceDefinition", None, CRD_NAME))
        except KubeError as error:
            state = CrdState(f"can't read the CustomResourceDefinition: {error}")
        on_state(state)
        if not state.problem:
            if state.missing:
                log.warning(
                    "the installed CRD is older than this operator: apply crds/inferenceclusters.yaml",
                    extra={"missing": list(state.missing[:20])},
                )
            return
        if state.problem != told:
            log.error(state.problem)
            told = state.problem
        await asyncio.sleep(retry_seconds)


def _version(definition: Object) -> dict[str, Any] | None:
    versions = definition["spec"]["versions"]
    return next((version for version in versions if version["name"] == names.VERSION), None)


def _schema(version: Mapping[str, Any]) -> Mapping[str, Any]:
    schema: Mapping[str, Any] = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    return schema


def _missing(ours: Mapping[str, Any], theirs: Mapping[str, Any], path: str) -> list[str]:
    found: list[str] = []
    known = theirs.get("properties") or {}
    for name, schema in (ours.get("properties") or {}).items():
        here = f"{path}.{name}" if path else name
        if name not in known:
            found.append(here)
        else:
            found += _missing(schema, known[name], here)
    if isinstance(ours.get("items"), Mapping):
        found += _missing(ours["items"], theirs.get("items") or {}, f"{path}[]")
    return found
