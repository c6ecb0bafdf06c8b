"""HorizontalPodAutoscalers and the cluster's own managed fields -> what scales it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .model import MetricsApi, ScalerObserved, ScalingObserved
from .owners import Object, controller, owned

SCALER_KIND: Final = "HorizontalPodAutoscaler"


def observe_scaling(cluster: Object, scalers: Sequence[Object], api: MetricsApi) -> ScalingObserved:
    """`scalers`: all HorizontalPodAutoscalers that target this cluster."""
    uid = cluster["metadata"]["uid"]
    ours = next((scaler for scaler in scalers if owned(scaler, uid)), None)
    return ScalingObserved(
        ours=_ours(ours) if ours is not None else None,
        rivals=tuple(sorted(_called(scaler) for scaler in scalers if not owned(scaler, uid))),
        api=api,
        replicas_by=_replicas_by(cluster),
    )


def _ours(scaler: Object) -> ScalerObserved:
    status = scaler.get("status") or {}
    conditions = {c.get("type"): c for c in status.get("conditions") or ()}
    active, limited = conditions.get("ScalingActive"), conditions.get("ScalingLimited") or {}
    desired = status.get("desiredReplicas")
    return ScalerObserved(
        # 0 stands there until its first decision: ours has a minimum of at least 1.
        desired=desired or None,
        active=active.get("status") == "True" if active else None,
        reason=str(active.get("reason") or "") if active else "",
        at_maximum=limited.get("status") == "True" and limited.get("reason") == "TooManyReplicas",
    )


def _called(scaler: Object) -> str:
    """ "HorizontalPodAutoscaler keda-hpa-chat (of ScaledObject chat)"."""
    name = f"{SCALER_KIND} {scaler['metadata']['name']}"
    owner = controller(scaler)
    return f"{name} (of {owner['kind']} {owner['name']})" if owner is not None else name


def _replicas_by(cluster: Object) -> str:
    """The field manager that wrote spec.replicas last; where several own it (equal values), the newest."""
    entries = [
        entry
        for entry in cluster["metadata"].get("managedFields") or ()
        if "f:replicas" in ((entry.get("fieldsV1") or {}).get("f:spec") or {})
    ]
    newest = max(entries, key=lambda entry: str(entry.get("time") or ""), default=None)
    return str(newest.get("manager") or "") if newest else ""
