"""Pod template of an engine. Written once per revision and then only read back (core.record)."""

from __future__ import annotations

import math
from typing import Final

from ..api import defaults, names
from ..api.v1alpha1 import InferenceClusterSpec
from ..core.model import Plan
from .common import Object, http_probe, pod_labels, restricted, spread
from .quantity import mebibytes

#: Where a volume with weights is mounted; the plan's first argument points below it.
MODELS_ROOT: Final = "/models"
CACHE_ROOT: Final = "/cache"

#: vLLM's own non-root image runs as user 2000 and group 0, and files of its images belong to group 0: this
#: pair reads and writes what it has to in the non-root and in the root image (as any user does on OpenShift).
USER: Final = 2000
GROUP: Final = 0

#: Until an endpoint's removal has reached every proxy, requests still arrive. Seconds.
PRE_STOP_SECONDS: Final = 5
#: vLLM's workers get 5 s (ROCm 15 s) after the drain; the pod's grace is longer than all of it. Seconds.
SHUTDOWN_SECONDS: Final = 20
STARTUP_PERIOD: Final = 2
#: NCCL and vLLM's workers share memory; a container has 64 MiB unless told otherwise.
SHM_MIB_PER_GPU: Final = 2048

#: vLLM opens its port after loading, other servers earlier: listing the served name is what both mean by
#: loaded. http.client, since urllib would send this through the proxy of HTTP_PROXY. The name is an argument,
#: never code.
MODEL_LISTED: Final = (
    "import http.client, json, sys; "
    f"c = http.client.HTTPConnection('127.0.0.1', {names.ENGINE_PORT}, timeout=2); "
    "c.request('GET', '/v1/models'); "
    "sys.exit(sys.argv[1] not in [m['id'] for m in json.load(c.getresponse())['data']])"
)


def pod_template(cluster: str, revision: str, plan: Plan, spec: InferenceClusterSpec) -> Object:
    """`spec.template` of a revision's Deployment."""
    selector = names.engine_selector(cluster, revision)
    metadata: Object = {"labels": {**spec.pod_metadata.labels, **pod_labels(selector, "vllm")}}
    annotations = {"kubectl.kubernetes.io/default-container": "engine", **spec.pod_metadata.annotations}
    metadata["annotations"] = annotations
    return {"metadata": metadata, "spec": _pod_spec(selector, plan, spec)}


def load_seconds(spec: InferenceClusterSpec) -> int:
    """Longest time from start to ready."""
    return defaults.seconds(spec.engine.load_timeout or defaults.LOAD_TIMEOUT)


def drain_seconds(spec: InferenceClusterSpec) -> int:
    """Longest wait for running requests."""
    return defaults.seconds(spec.engine.drain_timeout or defaults.DRAIN_TIMEOUT)


def _pod_spec(selector: dict[str, str], plan: Plan, spec: InferenceClusterSpec) -> Object:
    placement = spec.placement
    pod: Object = {
        "restartPolicy": "Always",
        # The drain (--shutdown-timeout) begins at SIGTERM, which comes after preStop.
        "terminationGracePeriodSeconds": PRE_STOP_SECONDS + drain_seconds(spec) + SHUTDOWN_SECONDS,
        "automountServiceAccountToken": False,
        # A Service named vllm would set VLLM_PORT to a URL, and the engine refuses to start.
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": GROUP,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(plan, spec)],
        "volumes": _volumes(plan, spec),
        "tolerations": _tolerations(plan, spec),
        "topologySpreadConstraints": spread(selector),
    }
    if plan.gpu_products:
        pod["affinity"] = _affinity(plan.gpu_products)
    if placement.node_selector:
        pod["nodeSelector"] = dict(placement.node_selector)
    for key, value in (
        ("runtimeClassName", placement.runtime_class_name),
        ("schedulerName", placement.scheduler_name),
        ("priorityClassName", placement.priority_class_name),
    ):
        if value is not None:
            pod[key] = value
    if spec.image_pull_secrets:
        pod["imagePullSecrets"] = [{"name": reference.name} for reference in spec.image_pull_secrets]
    return pod


def _container(plan: Plan, spec: InferenceClusterSpec) -> Object:
    # The image's entry point has changed between vLLM's versions, the program's name hasn't.
    return {
        "name": "engine",
        "image": plan.image,
        "command": ["vllm", "serve"],
        "args": list(plan.args),
        "ports": [{"name": "http", "containerPort": names.ENGINE_PORT, "protocol": "TCP"}],
        "env": _env(spec),
        "resources": _resources(plan, spec),
        "securityContext": restricted(),
        "volumeMounts": _mounts(plan, spec),
        "startupProbe": {
            "exec": {"command": ["python3", "-c", MODEL_LISTED, plan.served_name]},
            "periodSeconds": STARTUP_PERIOD,
            "timeoutSeconds": 5,
            "failureThreshold": math.ceil(load_seconds(spec) / STARTUP_PERIOD),
        },
        "readinessProbe": http_probe("/health", "http", period=2, timeout=2, failures=2),
        # A busy engine may answer late: only a minute of silence is worth losing its streams and a reload.
        "livenessProbe": http_probe("/health", "http", period=10, timeout=5, failures=7),
        "lifecycle": {"preStop": {"sleep": {"seconds": PRE_STOP_SECONDS}}},
    }


def _env(spec: InferenceClusterSpec) -> list[Object]:
    source = spec.model.source
    values = {
        # Any user but the image's own has no home; caches there would be lost with the container.
        "HOME": CACHE_ROOT,
        # torch asks for the user's name, and user 2000 has none in the root image.
        "USER": "vllm",
        "HF_HOME": f"{CACHE_ROOT}/huggingface",
        "VLLM_CACHE_ROOT": f"{CACHE_ROOT}/vllm",
        # vLLM's own limit for the engine's start is 600 s, whatever the probes allow.
        "VLLM_ENGINE_READY_TIMEOUT_S": str(load_seconds(spec)),
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
    }
    if source and source.persistent_volume_claim:
        values["HF_HUB_OFFLINE"] = "1"
    env: list[Object] = [{"name": name, "value": value} for name, value in values.items()]
    token = source.hugging_face.token_secret_ref if source and source.hugging_face else None
    if token:
        reference = {"name": token.name, "key": token.key}
        env.append({"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": reference}})
    # A user's value wins over ours; what must not be set is refused before (planner).
    given = {variable.name for variable in spec.engine.env}
    env = [variable for variable in env if variable["name"] not in given]
    return env + [{"name": variable.name, "value": variable.value} for variable in spec.engine.env]


def _resources(plan: Plan, spec: InferenceClusterSpec) -> Object:
    """GPUs and memory: request = limit, so that the node never has less than promised. CPU isn't
    throttled."""
    requests: Object = {plan.resource_name: str(plan.gpus)}
    limits: Object = {plan.resource_name: str(plan.gpus)}
    resources = spec.engine.resources
    if resources and resources.cpu:
        requests["cpu"] = resources.cpu
    if resources and resources.memory:
        # Pages of /dev/shm count against the container's limit.
        memory = f"{mebibytes(resources.memory) + _shm_mib(plan)}Mi"
        requests["memory"] = limits["memory"] = memory if _shm_mib(plan) else resources.memory
    return {"requests": requests, "limits": limits}


def _shm_mib(plan: Plan) -> int:
    return SHM_MIB_PER_GPU * plan.gpus if plan.gpus > 1 else 0


def _claim(spec: InferenceClusterSpec) -> str | None:
    source = spec.model.source
    return source.persistent_volume_claim.claim_name if source and source.persistent_volume_claim else None


def _volumes(plan: Plan, spec: InferenceClusterSpec) -> list[Object]:
    # Weights and compiled kernels outlive the container: a crash doesn't download or compile again.
    volumes: list[Object] = [{"name": "cache", "emptyDir": {}}]
    if _shm_mib(plan):
        volumes.append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": f"{_shm_mib(plan)}Mi"}})
    claim = _claim(spec)
    if claim:
        volumes.append({"name": "models", "persistentVolumeClaim": {"claimName": claim, "readOnly": True}})
    return volumes


def _mounts(plan: Plan, spec: InferenceClusterSpec) -> list[Object]:
    mounts: list[Object] = [{"name": "cache", "mountPath": CACHE_ROOT}]
    if _shm_mib(plan):
        mounts.append({"name": "shm", "mountPath": "/dev/shm"})  # noqa: S108 - the pod's own memory volume
    if _claim(spec):
        mounts.append({"name": "models", "mountPath": MODELS_ROOT, "readOnly": True})
    return mounts


def _tolerations(plan: Plan, spec: InferenceClusterSpec) -> list[Object]:
    """GPU nodes carry the resource's name as taint by convention; a lost node's pods are replaced early."""
    seconds = spec.placement.node_loss_toleration_seconds
    after = defaults.NODE_LOSS_TOLERATION_SECONDS if seconds is None else seconds
    users = [
        toleration.model_dump(mode="json", by_alias=True, exclude_none=True)
        for toleration in spec.placement.tolerations
    ]
    lost = [
        {
            "key": f"node.kubernetes.io/{state}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": after,
        }
        for state in ("not-ready", "unreachable")
    ]
    taints = dict.fromkeys((defaults.RESOURCE_NAME, plan.resource_name))
    return [{"key": taint, "operator": "Exists"} for taint in taints] + users + lost


def _affinity(products: tuple[str, ...]) -> Object:
    expression = {"key": "nvidia.com/gpu.product", "operator": "In", "values": list(products)}
    terms = [{"matchExpressions": [expression]}]
    required = {"nodeSelectorTerms": terms}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
