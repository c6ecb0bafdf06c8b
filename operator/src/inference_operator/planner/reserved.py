"""What a user can't set by engine.args, engine.env and podMetadata, and what to use instead."""

from __future__ import annotations

import re
from typing import Final

from ..api.names import GROUP

_LAYOUT = "the layout over GPUs is spec.parallelism's: use spec.parallelism.tensor"
_TLS = "the gateway and the probes speak plain HTTP to the engine; TLS ends in front of the gateway"
_ADDRESS = "the gateway, the probes and the NetworkPolicy expect 0.0.0.0:8000"
_ONE_NODE = "a replica is one pod on one node"

#: Flags that the operator sets itself, or that would break what it relies on.
FLAGS: Final[dict[str, str]] = {
    "--model": "use spec.model.id",
    "--served-model-name": "use spec.model.servedName",
    "--revision": "use spec.model.revision",
    "--hf-token": "a token in arguments shows up in every listing of pods: "
    "use spec.model.source.huggingFace.tokenSecretRef",
    "--download-dir": "the weights' volume is the operator's: use spec.model.source",
    "--tensor-parallel-size": "use spec.parallelism.tensor",
    "--shutdown-timeout": "use spec.engine.drainTimeout",
    "--host": _ADDRESS,
    "--port": _ADDRESS,
    "--uds": _ADDRESS,
    "--root-path": "the gateway and the probes expect /health, /metrics and /v1 at the root",
    "--grpc": "the gateway speaks HTTP to the engine",
    "--grpc-port": "the gateway speaks HTTP to the engine",
    "--api-key": "the engine's key would lock out the operator's own probes, and a key in arguments shows up "
    "in every listing of pods; keys are checked in front of the gateway",
    "--ssl-keyfile": _TLS,
    "--ssl-certfile": _TLS,
    "--ssl-ca-certs": _TLS,
    "--ssl-cert-reqs": _TLS,
    "--ssl-ciphers": _TLS,
    "--enable-ssl-refresh": _TLS,
    "--config": "flags in a file can't be checked: put them into spec.engine.args",
    "--headless": _ONE_NODE,
    "--nnodes": _ONE_NODE,
    "--node-rank": _ONE_NODE,
    "--master-addr": _ONE_NODE,
    "--master-port": _ONE_NODE,
    "--distributed-executor-backend": _ONE_NODE,
    "--pipeline-parallel-size": _LAYOUT,
    "--prefill-context-parallel-size": _LAYOUT,
    "--device-ids": "the kubelet hands out the GPUs",
    "--enable-elastic-ep": "spec.replicas is what scales",
    "--disable-log-stats": "the gateway and autoscalers read the engine's metrics, and this turns them off",
    "--allowed-local-media-path": "it lets every client read files of the engine pod, tokens included",
    "--profiler-config": "it opens profiling endpoints to every client",
    "--enable-sleep-mode": "sleeping is driven by endpoints that need VLLM_SERVER_DEV_MODE, which stays off; "
    "use spec.replicas: 0 to stop",
}
#: Families of such flags.
FLAG_PREFIXES: Final[dict[str, str]] = {
    "--data-parallel-": "each replica is an engine of its own: use spec.replicas",
    "--dp-supervisor-": "each replica is an engine of its own: use spec.replicas",
}

_LOADER = "it would load code into the engine from outside its image"
_TOKEN = "use spec.model.source.huggingFace.tokenSecretRef"  # noqa: S105 - a field's path
_GPUS = "the kubelet hands out the GPUs"

ENV: Final[dict[str, str]] = {
    "HF_TOKEN": _TOKEN,
    "HF_TOKEN_PATH": _TOKEN,
    "HUGGING_FACE_HUB_TOKEN": _TOKEN,
    "HF_HOME": "the weights' volume is the operator's: use spec.model.source",
    "HF_HUB_CACHE": "the weights' volume is the operator's: use spec.model.source",
    "HF_HUB_OFFLINE": "it follows from spec.model.source",
    "TRANSFORMERS_OFFLINE": "it follows from spec.model.source",
    "VLLM_USE_MODELSCOPE": "weights come from spec.model.source",
    "VLLM_CACHE_ROOT": "the cache volume is the operator's",
    "VLLM_ENGINE_READY_TIMEOUT_S": "use spec.engine.loadTimeout",
    "VLLM_PORT": "the operator sets the ports",
    "VLLM_HOST_IP": "the operator sets the addresses",
    "VLLM_API_KEY": FLAGS["--api-key"],
    "VLLM_SERVER_DEV_MODE": "it opens endpoints that stop, reset or inspect the engine to every client",
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "it lets every client load code and weights into the engine",
    "VLLM_ALLOW_INSECURE_SERIALIZATION": "it makes the engine unpickle what others send",
    "VLLM_KEEP_ALIVE_ON_ENGINE_DEATH": "a dead engine has to end its pod, else it isn't restarted",
    "NVIDIA_VISIBLE_DEVICES": _GPUS,
    "NVIDIA_DRIVER_CAPABILITIES": "the operator sets it",
    "CUDA_VISIBLE_DEVICES": _GPUS,
    "HOME": "the operator sets it",
    "USER": "the operator sets it",
    "PATH": "it decides which program starts",
    "BASH_ENV": _LOADER,
    "PYTHONPATH": _LOADER,
    "PYTHONHOME": _LOADER,
    "PYTHONSTARTUP": _LOADER,
}
ENV_PREFIXES: Final[dict[str, str]] = {
    "LD_": _LOADER,
    "KUBERNETES_": "Kubernetes sets it",
}

#: app.kubernetes.io/ labels that say something about the user's application, not about who made the pod.
_FREE_LABELS: Final = frozenset({"app.kubernetes.io/part-of", "app.kubernetes.io/version"})
_RESERVED_KEY: Final = re.compile(
    rf"^(({re.escape(GROUP)}|app\.kubernetes\.io|([^/]*\.)?argoproj\.io)/|pod-template-hash$"
    r"|controller-revision-hash$|controller\.kubernetes\.io/"
    # Tools take it for the container's name.
    r"|kubectl\.kubernetes\.io/default-container$"
    # They would loosen what keeps the container in.
    r"|container\.apparmor\.security\.beta\.kubernetes\.io/|(container\.)?seccomp\.security\.alpha\.kubernetes\.io/)"
)


def flag_reason(name: str) -> str | None:
    """Why `name` (long, without no-) is the operator's and what to use instead; None = free."""
    return FLAGS.get(name) or _by_prefix(name, FLAG_PREFIXES)


def env_reason(name: str) -> str | None:
    """Why the variable is the operator's; None = free."""
    return ENV.get(name) or _by_prefix(name, ENV_PREFIXES)


def label_reserved(key: str) -> bool:
    """Is this label or annotation key of a pod the operator's, Kubernetes' or Argo CD's?"""
    return key not in _FREE_LABELS and _RESERVED_KEY.match(key) is not None


def _by_prefix(name: str, prefixes: dict[str, str]) -> str | None:
    return next((why for prefix, why in prefixes.items() if name.startswith(prefix)), None)
