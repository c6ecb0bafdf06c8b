"""Raw objects for the plugin's tests, made from what the core's own builders and compute_status give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inference_operator.api import names
from inference_operator.api.v1alpha1 import InferenceClusterStatus
from inference_operator.core.model import EnginePod
from inference_operator.core.status import rfc3339
from tests.unit.core.builders import NOW, REF, make_spec
from tests.unit.core.statuses import SERVING, status

Json = dict[str, Any]


def cluster(
    made: InferenceClusterStatus | None = None,
    *,
    name: str = REF.name,
    namespace: str = REF.namespace,
    n: int = 2,
    generation: int = REF.generation,
    **spec: Any,
) -> Json:
    """An InferenceCluster with two ready engines, or with the status that is given."""
    written = make_spec(**{"replicas": n, "model": {"servedName": "llama-8b"}, **spec})
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "generation": generation,
            "creationTimestamp": rfc3339(NOW - 86_400 * 3),
        },
        "spec": written.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True),
        "status": (made or status(SERVING)).model_dump(mode="json", by_alias=True, exclude_none=True),
    }


def engine_pod(pod: EnginePod, *, cluster: str = REF.name, namespace: str = REF.namespace) -> Json:
    """As the API server has it."""
    state: Json = {"running": {}} if pod.phase == "Running" else {}
    if pod.waiting:
        state = {"waiting": {"reason": pod.waiting, "message": pod.waiting_message}}
    conditions = [{"type": "Ready", "status": str(pod.ready)}]
    if pod.unschedulable:
        conditions.append({"type": "PodScheduled", "status": "False", "message": pod.unschedulable})
    return {
        "metadata": {
            "name": pod.name,
            "namespace": namespace,
            "creationTimestamp": rfc3339(pod.created),
            "labels": {
                names.LABEL_CLUSTER: cluster,
                names.LABEL_COMPONENT: names.COMPONENT_ENGINE,
                names.LABEL_REVISION: pod.revision,
            },
            **({"deletionTimestamp": rfc3339(NOW)} if pod.terminating else {}),
        },
        "spec": {"nodeName": pod.node} if pod.node else {},
        "status": {
            "phase": pod.phase,
            "conditions": conditions,
            "containerStatuses": [{"restartCount": pod.restarts, "state": state}],
        },
    }


def gateway_pods(
    count: int = 2, *, ready: bool = True, cluster: str = REF.name, namespace: str = REF.namespace
) -> list[Json]:
    """g-0, g-1, …"""
    return [
        {
            "metadata": {
                "name": f"g-{i}",
                "namespace": namespace,
                "creationTimestamp": rfc3339(NOW - 4000),
                "labels": {names.LABEL_CLUSTER: cluster, names.LABEL_COMPONENT: names.COMPONENT_GATEWAY},
            },
            "spec": {"nodeName": f"cpu-{i}"},
            "status": {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": str(ready)}],
                "containerStatuses": [{"restartCount": 0, "state": {"running": {}}}],
            },
        }
        for i in range(count)
    ]


def pods(*revisions: Sequence[EnginePod]) -> list[Json]:
    """Engines of some revisions, and two ready gateway pods."""
    return [*(engine_pod(pod) for found in revisions for pod in found), *gateway_pods()]
