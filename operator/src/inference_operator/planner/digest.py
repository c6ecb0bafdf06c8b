"""Digest of everything that a revision's pods depend on."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from ..api import defaults
from ..api.v1alpha1 import InferenceClusterSpec
from ..core.canonical import canonical

#: Goes up when the rule below changes, which renames every revision: only with a migration.
HASH_VERSION: Final = 1

#: What runs on, scales or routes to the pods, but isn't in them.
_NOT_IN_PODS: Final = {"replicas", "autoscaling", "gateway", "rollout", "suspend", "cost"}


def input_digest(spec: InferenceClusterSpec) -> str:
    """64 hex digits. Two specs that mean the same pods have the same digest.

    A field at its default is left out, so that a field that a later version adds changes no digest made
    before; a default that may change (engine version, layout) is None here and stays out only when unset.
    """
    data: dict[str, Any] = spec.model_dump(
        mode="json", by_alias=True, exclude=_NOT_IN_PODS, exclude_none=True, exclude_defaults=True
    )
    _drop_defaults(data)
    document = [HASH_VERSION, _without_empty(data)]
    return hashlib.sha256(canonical(document).encode()).hexdigest()


def _drop_defaults(data: dict[str, Any]) -> None:
    """Remove what says the default of defaults.py in words, and write durations in one way."""
    model: dict[str, Any] = data["model"]
    engine: dict[str, Any] = data.get("engine", {})
    if model.get("servedName") == model["id"]:
        del model["servedName"]
    for name, default in (("loadTimeout", defaults.LOAD_TIMEOUT), ("drainTimeout", defaults.DRAIN_TIMEOUT)):
        if name in engine:
            length = defaults.seconds(engine.pop(name))
            if length != defaults.seconds(default):
                engine[name] = length
    for section, name, same in (
        ("accelerator", "perNode", defaults.GPUS_PER_NODE),
        ("accelerator", "resourceName", defaults.RESOURCE_NAME),
        ("placement", "nodeLossTolerationSeconds", defaults.NODE_LOSS_TOLERATION_SECONDS),
    ):
        if data.get(section, {}).get(name) == same:
            del data[section][name]


def _without_empty(value: Any) -> Any:
    """An empty object or list says the same as an absent one."""
    if not isinstance(value, dict):
        return value
    trimmed = {key: _without_empty(item) for key, item in value.items()}
    return {key: item for key, item in trimmed.items() if item not in ({}, [])}
