"""Every name that this operator gives to something: groups, labels, annotations, child objects.

Names, selectors and labels in this module are frozen: an upgrade of the operator never changes them
(a changed Deployment selector is refused by the API server as immutable, a changed name is a second
object). Tests hold them literally.
"""

from __future__ import annotations

import hashlib
from typing import Final

GROUP: Final = "inferencecluster.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "InferenceCluster"
PLURAL: Final = "inferenceclusters"
SHORT: Final = "ic"

FIELD_MANAGER: Final = "inference-operator"
AGENT_FIELD_MANAGER: Final = "inference-agent"

LABEL_CLUSTER: Final = f"{GROUP}/cluster"
LABEL_REVISION: Final = f"{GROUP}/revision"
LABEL_COMPONENT: Final = f"{GROUP}/component"
LABEL_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
LABEL_NAME: Final = "app.kubernetes.io/name"
MANAGED_BY: Final = "inference-operator"

COMPONENT_ENGINE: Final = "engine"
COMPONENT_GATEWAY: Final = "gateway"

#: Digest of the desired object as the operator last applied it.
ANNOTATION_HASH: Final = f"{GROUP}/applied-hash"
#: On a revision's Deployment: a copy of its record, JSON.
ANNOTATION_RECORD: Final = f"{GROUP}/record"
#: At gateway pods: the ServiceAccount that their token is bound to, once it isn't the first one.
ANNOTATION_ACCOUNT: Final = f"{GROUP}/service-account-uid"
ANNOTATION_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"

ENGINE_PORT: Final = 8000
GATEWAY_PORT: Final = 8080
AGENT_PORT: Final = 9101

#: Pods get "-<replica set hash>-<5 characters>" behind it, and a label value may hold 63 characters.
MAX_CHILD_NAME: Final = 45
REVISION_LENGTH: Final = 10

#: Metrics of custom.metrics.k8s.io about an InferenceCluster: what its HorizontalPodAutoscaler follows (per
#: cent of well-filled replicas), and the requests behind it.
METRIC_LOAD: Final = "inference_load_percent"
METRIC_DEMAND: Final = "inference_demand_requests"

ROUTING_KEY: Final = "routing.json"
REPORT_KEY_PREFIX: Final = "gateway."

#: One Role and RoleBinding per namespace serve the agents of all its clusters.
AGENT_ROLE: Final = "inference-gateway-agents"


def child_name(cluster: str, suffix: str) -> str:
    """`<cluster>-<suffix>`, at most 45 characters: a longer cluster name is cut and gets 8 hash characters.

    >>> child_name("llama", "gateway")
    'llama-gateway'
    """
    plain = f"{cluster}-{suffix}"
    if len(plain) <= MAX_CHILD_NAME:
        return plain
    digest = hashlib.sha256(cluster.encode()).hexdigest()[:8]
    keep = MAX_CHILD_NAME - len(suffix) - len(digest) - 2
    return f"{cluster[:keep].rstrip('-')}-{digest}-{suffix}"


def workload_name(cluster: str, revision: str) -> str:
    """Name of a revision's Deployment, headless Service and ControllerRevision."""
    return child_name(cluster, revision)


def gateway_service_name(cluster: str) -> str:
    """The name that clients use. Never cut: a cluster name has at most 52 characters, this has 60."""
    return f"{cluster}-gateway"


def gateway_name(cluster: str) -> str:
    """Gateway Deployment, its ServiceAccount and its PodDisruptionBudget."""
    return child_name(cluster, "gateway")


def engine_name(cluster: str) -> str:
    """PodDisruptionBudget, NetworkPolicy and HorizontalPodAutoscaler of all engines, whatever their
    revision."""
    return child_name(cluster, "engine")


def routing_name(cluster: str) -> str:
    """ConfigMap that tells the gateway's agents what to do; written by the operator alone."""
    return child_name(cluster, "routing")


def report_name(cluster: str) -> str:
    """ConfigMap in which the agents say what happened; data written by the agents alone."""
    return child_name(cluster, "gateway-report")


def endpoint_url(cluster: str, namespace: str) -> str:
    """The OpenAI-compatible base address inside the Kubernetes cluster."""
    return f"http://{gateway_service_name(cluster)}.{namespace}.svc:80/v1"


def cluster_selector(cluster: str) -> dict[str, str]:
    """Labels that select everything the operator made for one cluster."""
    return {LABEL_MANAGED_BY: MANAGED_BY, LABEL_CLUSTER: cluster}


def engine_selector(cluster: str, revision: str | None = None) -> dict[str, str]:
    """Labels of engine pods: of one revision (workloads, Services), or of all (budget, policy, scale)."""
    labels = {LABEL_CLUSTER: cluster, LABEL_COMPONENT: COMPONENT_ENGINE}
    return labels if revision is None else {**labels, LABEL_REVISION: revision}


def gateway_selector(cluster: str) -> dict[str, str]:
    """Labels of gateway pods."""
    return {LABEL_CLUSTER: cluster, LABEL_COMPONENT: COMPONENT_GATEWAY}


def label_selector(labels: dict[str, str]) -> str:
    """`a=b,c=d` in a stable order, as `status.selector` and list calls want it."""
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels))
