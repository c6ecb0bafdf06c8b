"""The gateway of one cluster: HAProxy and our agent in one pod, and the two documents between us and them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ..api import defaults, names
from ..api.routing import Routing, Track
from ..api.v1alpha1 import InferenceClusterSpec
from ..core.model import ClusterRef, Decision, Plan
from .common import Object, child, http_probe, pod_labels, restricted, spread
from .engine import drain_seconds
from .settings import RenderSettings

#: One user and group for all containers: they share HAProxy's sockets and files in /run/gateway.
USER: Final = 65532
RUN: Final = "/run/gateway"
#: Memory limit of HAProxy. Its connection and queue limits follow from it (about 270 kB per waiting request).
MEMORY_MIB: Final = 1024
#: Until kube-proxy everywhere has dropped the endpoint, clients still connect. Longer than a new pod takes to
#: get ready: when all pods are deleted at once, kube-proxy sends requests to those that end and still serve.
#: Seconds.
PRE_STOP_SECONDS: Final = 15
#: preStop and an orderly end on top of the longest stream. Seconds.
SHUTDOWN_SECONDS: Final = 30
TOKEN_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a folder


def replicas(spec: InferenceClusterSpec) -> int:
    """Wanted gateway pods."""
    return spec.gateway.replicas or defaults.GATEWAY_REPLICAS


def service_account(ref: ClusterRef) -> Object:
    """Identity of the agents; its token is mounted in their container only."""
    return _child(
        "v1", "ServiceAccount", names.gateway_name(ref.name), ref, {"automountServiceAccountToken": False}
    )


def deployment(
    ref: ClusterRef, spec: InferenceClusterSpec, settings: RenderSettings, renewed_account: str = ""
) -> Object:
    """The gateway pods. A new one is ready before an old one goes.

    `renewed_account`: uid of a ServiceAccount that was made anew. A token is bound to the uid it was made
    for, and the kubelet keeps one for up to 48 minutes: until then the agents would neither see an engine
    come nor report, so a new uid replaces the pods.
    """
    selector = names.gateway_selector(ref.name)
    annotations = {"kubectl.kubernetes.io/default-container": "haproxy"}
    if renewed_account:
        annotations[names.ANNOTATION_ACCOUNT] = renewed_account
    body = {
        "replicas": replicas(spec),
        "revisionHistoryLimit": 2,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        "selector": {"matchLabels": selector},
        "template": {
            "metadata": {
                "labels": pod_labels(selector, "haproxy"),
                "annotations": annotations,
            },
            "spec": _pod_spec(ref, spec, settings, selector),
        },
    }
    return _child("apps/v1", "Deployment", names.gateway_name(ref.name), ref, {"spec": body})


def _pod_spec(
    ref: ClusterRef, spec: InferenceClusterSpec, settings: RenderSettings, selector: dict[str, str]
) -> Object:
    pod: Object = {
        "serviceAccountName": names.gateway_name(ref.name),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": drain_seconds(spec) + SHUTDOWN_SECONDS,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "initContainers": [_bootstrap(settings)],
        "containers": [_haproxy(settings), _agent(ref, settings)],
        "volumes": [
            {"name": "run", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
            {"name": "token", "projected": {"sources": _token_sources()}},
        ],
        "topologySpreadConstraints": spread(selector),
    }
    if spec.image_pull_secrets:
        pod["imagePullSecrets"] = [{"name": reference.name} for reference in spec.image_pull_secrets]
    return pod


def _container(name: str, image: str, command: list[str], **parts: object) -> Object:
    """Images that don't ask for GPUs must not see any, whatever they say (acceptance B17)."""
    env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]
    extra = parts.pop("env", [])
    mounts = parts.pop("volumeMounts", [])
    assert isinstance(extra, list)  # noqa: S101 - narrows the type
    assert isinstance(mounts, list)  # noqa: S101 - narrows the type
    return {
        "name": name,
        "image": image,
        "command": command,
        "env": env + extra,
        "securityContext": {**restricted(), "readOnlyRootFilesystem": True},
        "volumeMounts": [{"name": "run", "mountPath": RUN}, *mounts],
        **parts,
    }


def _bootstrap(settings: RenderSettings) -> Object:
    """Writes a first haproxy.cfg, so that HAProxy starts before the API server has been asked anything."""
    resources = {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}}
    return _container(
        "bootstrap",
        settings.agent_image,
        ["inference-agent", "bootstrap"],
        env=_memory(),
        resources=resources,
    )


def _haproxy(settings: RenderSettings) -> Object:
    command = ["haproxy", "-W", "-db", "-S", f"{RUN}/master.sock", "-f", f"{RUN}/haproxy.cfg"]
    return _container(
        "haproxy",
        settings.haproxy_image,
        command,
        ports=[{"name": "http", "containerPort": names.GATEWAY_PORT, "protocol": "TCP"}],
        resources={
            "requests": {"cpu": "250m", "memory": "256Mi"},
            "limits": {"memory": f"{MEMORY_MIB}Mi"},
        },
        livenessProbe=http_probe("/-/haproxy", "http", period=10, timeout=5, failures=3),
        lifecycle={"preStop": {"sleep": {"seconds": PRE_STOP_SECONDS}}},
    )


def _agent(ref: ClusterRef, settings: RenderSettings) -> Object:
    return _container(
        "agent",
        settings.agent_image,
        ["inference-agent", "run", "--cluster", f"{ref.namespace}/{ref.name}"],
        env=[
            _field("POD_NAME", "metadata.name"),
            _field("POD_NAMESPACE", "metadata.namespace"),
            _field("POD_IP", "status.podIP"),
            *_memory(),
        ],
        ports=[{"name": "agent", "containerPort": names.AGENT_PORT, "protocol": "TCP"}],
        resources={"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
        volumeMounts=[{"name": "token", "mountPath": TOKEN_PATH, "readOnly": True}],
        startupProbe=http_probe("/healthz", "agent", period=1, timeout=2, failures=60),
        # 200 only while HAProxy accepts and the first sync of routing and endpoints is done.
        readinessProbe=http_probe("/readyz", "agent", period=1, timeout=2, failures=2),
        livenessProbe=http_probe("/healthz", "agent", period=10, timeout=5, failures=3),
    )


def _field(name: str, path: str) -> Object:
    return {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}


def _memory() -> list[Object]:
    """Connection and queue limits follow from HAProxy's memory, in bootstrap and in the agent alike."""
    return [{"name": "GATEWAY_MEMORY_MIB", "value": str(MEMORY_MIB)}]


def _token_sources() -> list[Object]:
    """What a mounted service account token consists of, for one container instead of all."""
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}},
    ]


def client_service(ref: ClusterRef) -> Object:
    """What clients use. Its name is frozen."""
    body = {
        "type": "ClusterIP",
        "selector": names.gateway_selector(ref.name),
        "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": "http"}],
    }
    return _child("v1", "Service", names.gateway_service_name(ref.name), ref, {"spec": body})


def routing(
    ref: ClusterRef, spec: InferenceClusterSpec, decision: Decision, plans: Iterable[tuple[str, Plan]]
) -> Routing:
    """The document that tells the agents what to do. `plans` by revision, oldest first."""
    queue = spec.gateway.queue
    return Routing(
        cluster=ref.name,
        namespace=ref.namespace,
        served_name=spec.model.served_name or spec.model.id,
        tracks=tuple(
            Track(
                revision=revision,
                service=names.workload_name(ref.name, revision),
                share=decision.shares.get(revision, 0),
                port=names.ENGINE_PORT,
                health_path="/health",
                metrics_path="/metrics",
                concurrency=plan.max_concurrency,
            )
            for revision, plan in plans
        ),
        drains=decision.drains,
        queue_length=(queue.length if queue else None) or defaults.QUEUE_LENGTH,
        queue_timeout_seconds=defaults.seconds((queue.timeout if queue else None) or defaults.QUEUE_TIMEOUT),
        drain_timeout_seconds=drain_seconds(spec),
    )


def routing_config_map(ref: ClusterRef, document: Routing) -> Object:
    """One key, one document, one writer: us."""
    data = {names.ROUTING_KEY: document.model_dump_json()}
    return _child("v1", "ConfigMap", names.routing_name(ref.name), ref, {"data": data})


def report_config_map(ref: ClusterRef) -> Object:
    """Empty: its data belong to the agents, who may patch it but not create it."""
    return _child("v1", "ConfigMap", names.report_name(ref.name), ref, {})


def _child(api_version: str, kind: str, name: str, ref: ClusterRef, parts: Object) -> Object:
    return child(api_version, kind, name, ref, names.COMPONENT_GATEWAY, parts)
