"""InferenceCluster v1alpha1: the one source of the CRD, its reference page and the operator's own parsing.

Field names are camelCase on the wire and snake_case here. Every string, list and map is bounded: the largest
legal object stays below 32 KiB, since the annotations of an object may hold 256 KiB in all and CEL cannot
measure a whole spec. A field stands here only when it does something.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self

from pydantic import ConfigDict, Field, model_validator

from . import defaults
from .autoscaling import (
    Autoscaling,
    AutoscalingMode,
    ScalingBehavior,
    ScalingPolicy,
    ScalingRules,
)
from .base import ATOMIC, BY_NAME, ApiModel, rule, validations
from .cost import Cost
from .pods import EnvVar, LocalObjectRef, Placement, PodMetadata, Resources, Toleration
from .scalars import (
    AcceleratorName,
    Argument,
    Duration,
    EngineVersion,
    GitRevision,
    ImageReference,
    ModelId,
    ObjectName,
    ResourceName,
    SecretKey,
    ServedName,
    VolumePath,
)
from .status import (
    Condition,
    ConditionStatus,
    CostStatus,
    FailoverEvent,
    FailoverStatus,
    InferenceClusterStatus,
    PlanStatus,
    RevisionsStatus,
    ScalingDecision,
    ScalingStatus,
)

__all__ = [
    "Accelerator",
    "Architecture",
    "Autoscaling",
    "AutoscalingMode",
    "Condition",
    "ConditionStatus",
    "Cost",
    "CostStatus",
    "Engine",
    "EngineType",
    "EnvVar",
    "FailoverEvent",
    "FailoverStatus",
    "Gateway",
    "HuggingFaceSource",
    "InferenceClusterSpec",
    "InferenceClusterStatus",
    "LocalObjectRef",
    "Model",
    "ModelSource",
    "Parallelism",
    "PersistentVolumeClaimSource",
    "Placement",
    "PlanStatus",
    "PodMetadata",
    "Queue",
    "Resources",
    "RevisionsStatus",
    "Rollout",
    "RolloutStrategy",
    "ScalingBehavior",
    "ScalingDecision",
    "ScalingPolicy",
    "ScalingRules",
    "ScalingStatus",
    "SecretKeyRef",
    "Toleration",
]


class EngineType(StrEnum):
    """Programs that serve the model."""

    VLLM = "VLLM"


class RolloutStrategy(StrEnum):
    """How a changed revision takes over."""

    ROLLING_UPDATE = "RollingUpdate"
    RECREATE = "Recreate"


class SecretKeyRef(ApiModel):
    """A key of a Secret in the same namespace. The operator never reads it: the kubelet mounts it."""

    name: ObjectName = Field(description="Name of the Secret.")
    key: SecretKey = Field("token", description="Key in the Secret. Default token.")


class HuggingFaceSource(ApiModel):
    """Weights come from the Hugging Face hub."""

    token_secret_ref: SecretKeyRef | None = Field(
        None, description="Token for gated models, in the same namespace. Default: no token."
    )


class PersistentVolumeClaimSource(ApiModel):
    """Weights lie on a volume; the engine starts offline."""

    claim_name: ObjectName = Field(description="PersistentVolumeClaim in the same namespace.")
    path: VolumePath = Field(description="Folder below the volume's root that holds the model.")


_ONE_SOURCE = "set exactly one of huggingFace and persistentVolumeClaim"


class ModelSource(ApiModel):
    """Where the weights are: exactly one."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            rule("has(self.huggingFace) != has(self.persistentVolumeClaim)", _ONE_SOURCE)
        )
    )

    hugging_face: HuggingFaceSource | None = None
    persistent_volume_claim: PersistentVolumeClaimSource | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if (self.hugging_face is None) == (self.persistent_volume_claim is None):
            raise ValueError(_ONE_SOURCE)
        return self


_KV_HEADS = "kvHeads has to divide heads"
_HEAD_DIM = "heads doesn't divide hiddenSize: set headDim too, from the model's config.json"


class Architecture(ApiModel):
    """Shape of a model outside the catalogue, as in its config.json."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            rule("self.heads % self.kvHeads == 0", _KV_HEADS),
            rule("has(self.headDim) || self.hiddenSize % self.heads == 0", _HEAD_DIM),
        )
    )

    layers: int = Field(ge=1, le=1000, description="num_hidden_layers.")
    hidden_size: int = Field(ge=64, le=1_000_000, description="hidden_size.")
    heads: int = Field(ge=1, le=1024, description="num_attention_heads.")
    kv_heads: int = Field(ge=1, le=1024, description="num_key_value_heads.")
    head_dim: int | None = Field(None, ge=8, le=1024, description="head_dim. Default: hiddenSize / heads.")

    @model_validator(mode="after")
    def _heads_fit(self) -> Self:
        if self.heads % self.kv_heads:
            raise ValueError(_KV_HEADS)
        if self.head_dim is None and self.hidden_size % self.heads:
            raise ValueError(_HEAD_DIM)
        return self


class Model(ApiModel):
    """What is served."""

    id: ModelId = Field(description="Hugging Face id, e.g. meta-llama/Llama-3.1-8B-Instruct.")
    served_name: ServedName | None = Field(
        None, description="Stable name that clients send. Default: the id."
    )
    revision: GitRevision | None = Field(
        None, description="Commit or tag of the weights. Default: the newest."
    )
    source: ModelSource | None = Field(
        None, description="Where the weights are. Default: the Hugging Face hub."
    )
    architecture: Architecture | None = Field(
        None, description="Shape of a model, as in its config.json. Default: the catalogue's."
    )
    context_length: int | None = Field(
        None,
        ge=1,
        le=16_777_216,
        description="Longest prompt plus answer, in tokens. Default: what the model was made for.",
    )


class Engine(ApiModel):
    """The program that serves the model."""

    type: EngineType = Field(EngineType.VLLM, description="Program that serves the model. Default VLLM.")
    version: EngineVersion | None = Field(
        None, description="Version of the engine. Default: what this release of the operator was tested with."
    )
    image: ImageReference | None = Field(
        None, description="Image, which has to hold that version. Default: vllm/vllm-openai:v<version>."
    )
    args: Annotated[list[Argument], Field(max_length=16)] = Field(
        default_factory=list,
        description="More flags of the engine, `--flag` or `--flag=value` each.",
        json_schema_extra=ATOMIC,
    )
    env: Annotated[list[EnvVar], Field(max_length=16)] = Field(
        default_factory=list,
        description="Plain environment variables of the engine; no secrets.",
        json_schema_extra=BY_NAME,
    )
    resources: Resources | None = None
    load_timeout: Duration | None = Field(
        None, description=f"Longest time from start to ready. Default {defaults.LOAD_TIMEOUT}."
    )
    drain_timeout: Duration | None = Field(
        None,
        description="Longest wait for running requests when a replica goes. "
        f"Default {defaults.DRAIN_TIMEOUT}.",
    )


class Accelerator(ApiModel):
    """Which GPUs."""

    type: AcceleratorName | None = Field(
        None, description="GPU type from the catalogue, e.g. H100. Default: any."
    )
    per_node: int | None = Field(
        None, ge=1, le=64, description=f"GPUs of a node. Default {defaults.GPUS_PER_NODE}."
    )
    resource_name: ResourceName | None = Field(
        None, description=f"Resource of the device plugin. Default {defaults.RESOURCE_NAME}."
    )


class Parallelism(ApiModel):
    """How one replica is laid out over GPUs."""

    tensor: int | None = Field(None, ge=1, le=64, description="GPUs that share each layer. Default 1.")


class Rollout(ApiModel):
    """How a change of the model or engine reaches the traffic."""

    strategy: RolloutStrategy = Field(
        RolloutStrategy.ROLLING_UPDATE,
        description="RollingUpdate: new engines start beside the old ones. Recreate: the old ones stop "
        "first. Default RollingUpdate.",
    )


class Queue(ApiModel):
    """What the engines can't take at once waits in the gateway; without a usable engine it answers 503."""

    length: int | None = Field(
        None,
        ge=1,
        le=10_000,
        description=f"Requests that may wait in one gateway pod. Default {defaults.QUEUE_LENGTH}.",
    )
    timeout: Duration | None = Field(
        None, description=f"Longest wait before the answer 503. Default {defaults.QUEUE_TIMEOUT}."
    )


class Gateway(ApiModel):
    """The proxy in front of the engines."""

    replicas: int | None = Field(
        None, ge=1, le=16, description=f"Gateway pods. Default {defaults.GATEWAY_REPLICAS}."
    )
    queue: Queue | None = None


class InferenceClusterSpec(ApiModel):
    """Desired state. Only `model.id` is required."""

    suspend: bool = Field(
        False, description="True stops reconciling: nothing is changed or deleted. Default false."
    )
    model: Model
    engine: Engine = Field(default_factory=Engine)
    accelerator: Accelerator = Field(default_factory=Accelerator)
    parallelism: Parallelism = Field(default_factory=Parallelism)
    replicas: int = Field(
        1,
        ge=0,
        le=defaults.LARGEST_TOTAL,
        description="Engine replicas, 0 = stopped; with autoscaling on, the HorizontalPodAutoscaler sets it.",
    )
    autoscaling: Autoscaling = Field(default_factory=Autoscaling)
    rollout: Rollout = Field(default_factory=Rollout)
    placement: Placement = Field(default_factory=Placement)
    image_pull_secrets: Annotated[list[LocalObjectRef], Field(max_length=4)] = Field(
        default_factory=list,
        description="Secrets with registry credentials, in the same namespace.",
        json_schema_extra=BY_NAME,
    )
    pod_metadata: PodMetadata = Field(default_factory=PodMetadata)
    gateway: Gateway = Field(default_factory=Gateway)
    cost: Cost = Field(default_factory=Cost)
