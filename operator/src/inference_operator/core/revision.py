"""The name of a revision: a digest of what its pods are made from, never of how they are rendered.

The document below is frozen. Its keys are words of their own, so that renaming a field in the code changes no
name, and a value at its default is left out, so that a field that a later version adds changes no name given
before. Were a name to change, every cluster in the world would roll at the operator's upgrade.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final, TypeVar

from ..api import defaults
from ..api.names import REVISION_LENGTH
from ..api.v1alpha1 import InferenceClusterSpec, Placement
from .canonical import canonical
from .model import Plan

#: Goes up when the rule changes, which renames every revision: only with a migration.
HASH_VERSION: Final = 1

_T = TypeVar("_T")


def revision_name(plan: Plan, spec: InferenceClusterSpec) -> str:
    """Ten lower-case hex digits. Equal for every plan and spec that mean the same pods.

    Replicas, gateway, rollout and suspend are no part of it, nor is what the plan only explains (reasons) or
    tells the gateway (concurrency, context length: the arguments hold what the engine needs of them).
    """
    document = [HASH_VERSION, _filled(_document(plan, spec))]
    return hashlib.sha256(canonical(document).encode()).hexdigest()[:REVISION_LENGTH]


def _document(plan: Plan, spec: InferenceClusterSpec) -> dict[str, Any]:
    engine, resources = spec.engine, spec.engine.resources
    return {
        "model": plan.model_id,
        "servedName": plan.served_name,
        "engine": plan.engine,
        "version": plan.version,
        "image": plan.image,
        "args": list(plan.args),
        "accelerator": plan.accelerator,
        "gpuProducts": list(plan.gpu_products),
        "resourceName": _unless(plan.resource_name, defaults.RESOURCE_NAME),
        "tensor": plan.tensor,
        "gpus": plan.gpus,
        "env": [[variable.name, variable.value] for variable in engine.env],
        "cpu": resources.cpu if resources else None,
        "memory": resources.memory if resources else None,
        "loadTimeout": _seconds(engine.load_timeout, defaults.LOAD_TIMEOUT),
        "drainTimeout": _seconds(engine.drain_timeout, defaults.DRAIN_TIMEOUT),
        "modelRevision": spec.model.revision,
        "source": _source(spec),
        "placement": _placement(spec.placement),
        "imagePullSecrets": [reference.name for reference in spec.image_pull_secrets],
        "podLabels": dict(spec.pod_metadata.labels),
        "podAnnotations": dict(spec.pod_metadata.annotations),
    }


def _source(spec: InferenceClusterSpec) -> dict[str, Any]:
    source = spec.model.source
    token = source.hugging_face.token_secret_ref if source and source.hugging_face else None
    volume = source.persistent_volume_claim if source else None
    return {
        "token": [token.name, token.key] if token else None,
        "claim": [volume.claim_name, volume.path] if volume else None,
    }


def _placement(placement: Placement) -> dict[str, Any]:
    return {
        "nodeSelector": dict(placement.node_selector),
        "tolerations": [
            [toleration.key, toleration.operator, toleration.value, toleration.effect]
            for toleration in placement.tolerations
        ],
        "runtimeClass": placement.runtime_class_name,
        "scheduler": placement.scheduler_name,
        "priorityClass": placement.priority_class_name,
        "nodeLoss": _unless(placement.node_loss_toleration_seconds, defaults.NODE_LOSS_TOLERATION_SECONDS),
    }


def _seconds(value: str | None, default: str) -> int | None:
    """60s and 1m are the same, and so are the default and nothing."""
    return _unless(defaults.seconds(value), defaults.seconds(default)) if value else None


def _unless(value: _T, default: _T) -> _T | None:
    return None if value == default else value


def _filled(document: dict[str, Any]) -> dict[str, Any]:
    """Without None and empty values, at every depth of objects (0 is a value)."""
    kept = {key: _filled(item) if isinstance(item, dict) else item for key, item in document.items()}
    return {key: item for key, item in kept.items() if item is not None and item not in ({}, [])}
