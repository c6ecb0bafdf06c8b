"""InferenceCluster v1alpha1: the one source of the CRD, its reference page and the operator's own parsing.

Field names are camelCase on the wire and snake_case here. Every string, list and map is bounded: the largest
legal object stays below 32 KiB, since the annotations of an object may hold 256 KiB in all and CEL cannot
measure a whole spec. A field stands here only when it does something.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from .base import ATOMIC, ATOMIC_MAP, BY_NAME, BY_TYPE, ApiModel, StatusModel, rule, validations
from .scalars import (
    AcceleratorName,
    AnnotationValue,
    Argument,
    Duration,
    EngineVersion,
    EnvName,
    EnvValue,
    GitRevision,
    ImageReference,
    LabelKey,
    LabelValue,
    ModelId,
    ObjectName,
    Quantity,
    ResourceName,
    SecretKey,
    ServedName,
    VolumePath,
)


class EngineType(StrEnum):
    """Programs that serve the model."""

    VLLM = "VLLM"


class RolloutStrategy(StrEnum):
    """How a changed revision takes over."""

    ROLLING_UPDATE = "RollingUpdate"
    RECREATE = "Recreate"


class SecretKeyRef(ApiModel):
    """A key of a Secret in the same namespace. The operator never reads it: the kubelet mounts it."""

    name: ObjectName
    key: SecretKey = "token"


class HuggingFaceSource(ApiModel):
    """Weights come from the Hugging Face hub."""

    token_secret_ref: SecretKeyRef | None = Field(None, description="Token for gated models.")


class PersistentVolumeClaimSource(ApiModel):
    """Weights lie on a volume; the engine starts offline."""

    claim_name: ObjectName
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

    layers: int = Field(ge=1, le=1000)
    hidden_size: int = Field(ge=64, le=1_000_000)
    heads: int = Field(ge=1, le=1024)
    kv_heads: int = Field(ge=1, le=1024)
    head_dim: int | None = Field(None, ge=8, le=1024, description="Default: hiddenSize / heads.")

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
    revision: GitRevision | None = Field(None, description="Commit or tag of the weights.")
    source: ModelSource | None = Field(
        None, description="Where the weights are. Default: the Hugging Face hub."
    )
    architecture: Architecture | None = Field(None, description="Needed for a model outside the catalogue.")
    context_length: int | None = Field(
        None, ge=1, le=16_777_216, description="Longest prompt plus answer, in tokens."
    )


class EnvVar(ApiModel):
    """A plain environment variable of the engine. Secrets are mounted by their own fields."""

    name: EnvName
    value: EnvValue


class Resources(ApiModel):
    """CPU and memory of one engine pod; GPUs follow from the plan."""

    cpu: Quantity | None = None
    memory: Quantity | None = None


class Engine(ApiModel):
    """The program that serves the model."""

    type: EngineType = EngineType.VLLM
    version: EngineVersion | None = Field(
        None, description="Engine version; its default image follows from it."
    )
    image: ImageReference | None = Field(None, description="Image to use instead of the version's own.")
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
    load_timeout: Duration | None = Field(None, description="Longest time from start to ready. Default 30m.")
    drain_timeout: Duration | None = Field(None, description="Longest wait for running requests. Default 5m.")


class Accelerator(ApiModel):
    """Which GPUs."""

    type: AcceleratorName | None = Field(
        None, description="GPU type from the catalogue, e.g. H100. Default: any."
    )
    per_node: int | None = Field(None, ge=1, le=64, description="GPUs a node has. Default 8.")
    resource_name: ResourceName | None = Field(None, description="Default nvidia.com/gpu.")


class Parallelism(ApiModel):
    """How one replica is laid out over GPUs."""

    tensor: int | None = Field(None, ge=1, le=64, description="GPUs that share each layer. Default 1.")


class Rollout(ApiModel):
    """How a change of the model or engine reaches the traffic."""

    strategy: RolloutStrategy = RolloutStrategy.ROLLING_UPDATE


_NO_KEY = "without a key, operator has to be Exists"
_NO_VALUE = "with operator Exists there is no value"


class Toleration(ApiModel):
    """As in a pod."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            rule("has(self.key) || (has(self.operator) && self.operator == 'Exists')", _NO_KEY),
            rule("!has(self.value) || !has(self.operator) || self.operator == 'Equal'", _NO_VALUE),
        )
    )

    key: LabelKey | None = None
    operator: Literal["Exists", "Equal"] | None = Field(None, description="Default Equal.")
    value: LabelValue | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        None, description="Default: every effect."
    )

    @model_validator(mode="after")
    def _as_in_a_pod(self) -> Self:
        if self.key is None and self.operator != "Exists":
            raise ValueError(_NO_KEY)
        if self.value is not None and self.operator == "Exists":
            raise ValueError(_NO_VALUE)
        return self


class Placement(ApiModel):
    """Where engines may run."""

    node_selector: Annotated[dict[LabelKey, LabelValue], Field(max_length=8)] = Field(
        default_factory=dict, json_schema_extra=ATOMIC_MAP
    )
    tolerations: Annotated[list[Toleration], Field(max_length=8)] = Field(
        default_factory=list, json_schema_extra=ATOMIC
    )
    runtime_class_name: ObjectName | None = None
    scheduler_name: ObjectName | None = None
    priority_class_name: ObjectName | None = None
    node_loss_toleration_seconds: int | None = Field(
        None,
        ge=0,
        le=3600,
        description="After a node is lost, its engines are replaced this much later. Default 30.",
    )


class LocalObjectRef(ApiModel):
    """An object in the same namespace."""

    name: ObjectName


class PodMetadata(ApiModel):
    """Labels and annotations that the engine pods get besides ours."""

    labels: Annotated[dict[LabelKey, LabelValue], Field(max_length=8)] = Field(default_factory=dict)
    annotations: Annotated[dict[LabelKey, AnnotationValue], Field(max_length=8)] = Field(default_factory=dict)


class Queue(ApiModel):
    """Requests that no engine can take at once wait in the gateway."""

    length: int | None = Field(
        None, ge=1, le=10_000, description="Waiting requests per gateway pod. Default 1000."
    )
    timeout: Duration | None = Field(None, description="Longest wait before 503. Default 60s.")


class Gateway(ApiModel):
    """The proxy in front of the engines."""

    replicas: int | None = Field(None, ge=1, le=16, description="Gateway pods. Default 2.")
    queue: Queue | None = None


class InferenceClusterSpec(ApiModel):
    """Desired state. Only `model.id` is required."""

    suspend: bool = Field(False, description="Stop reconciling: nothing is changed or deleted.")
    model: Model
    engine: Engine = Field(default_factory=Engine)
    accelerator: Accelerator = Field(default_factory=Accelerator)
    parallelism: Parallelism = Field(default_factory=Parallelism)
    replicas: int = Field(
        1, ge=0, le=10_000, description="Engine replicas; 0 = stopped. Set by kubectl scale or an HPA."
    )
    rollout: Rollout = Field(default_factory=Rollout)
    placement: Placement = Field(default_factory=Placement)
    image_pull_secrets: Annotated[list[LocalObjectRef], Field(max_length=4)] = Field(
        default_factory=list, json_schema_extra=BY_NAME
    )
    pod_metadata: PodMetadata = Field(default_factory=PodMetadata)
    gateway: Gateway = Field(default_factory=Gateway)


class ConditionStatus(StrEnum):
    """Three-valued, as everywhere in Kubernetes."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(StatusModel):
    """metav1.Condition."""

    type: Annotated[str, StringConstraints(max_length=64)]
    status: ConditionStatus
    reason: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    message: Annotated[str, StringConstraints(max_length=1024)] = ""
    observed_generation: int = 0
    last_transition_time: Annotated[str, StringConstraints(max_length=32)]


class PlanStatus(StatusModel):
    """What the spec became: written once per revision."""

    input_digest: Annotated[str, StringConstraints(max_length=64)]
    model: Annotated[str, StringConstraints(max_length=200)]
    engine_version: Annotated[str, StringConstraints(max_length=40)]
    accelerator: Annotated[str, StringConstraints(max_length=63)] | None = None
    tensor: int
    gpus: int = Field(description="GPUs of one replica.")
    max_concurrency: int = Field(description="Requests that one replica works on at once.")
    context_length: int | None = None
    reasons: Annotated[list[Annotated[str, StringConstraints(max_length=256)]], Field(max_length=16)] = Field(
        default_factory=list, json_schema_extra=ATOMIC
    )


class RevisionsStatus(StatusModel):
    """Which revision serves, and which one is on its way."""

    stable: Annotated[str, StringConstraints(max_length=16)] | None = Field(None, description="Serves now.")
    target: Annotated[str, StringConstraints(max_length=16)] | None = Field(
        None, description="What the spec asks for."
    )
    updated_replicas: int = Field(0, description="Ready replicas of the target revision.")


class FailoverEvent(StatusModel):
    """One engine that the gateways took out of service, or took back."""

    time: Annotated[str, StringConstraints(max_length=32)]
    kind: Annotated[str, StringConstraints(max_length=32)]
    pod: Annotated[str, StringConstraints(max_length=253)]
    gateway: Annotated[str, StringConstraints(max_length=253)]
    detection_ms: int | None = None
    streams_cut: int | None = None


class FailoverStatus(StatusModel):
    """The last failovers, newest last."""

    last_events: Annotated[list[FailoverEvent], Field(max_length=10)] = Field(
        default_factory=list, json_schema_extra=ATOMIC
    )


class InferenceClusterStatus(StatusModel):
    """Observed state: states and decisions, never gauges."""

    observed_generation: int = 0
    replicas: int = Field(
        0, description="Replicas of the wanted total that exist, without surge or draining ones."
    )
    ready_replicas: int = 0
    selector: Annotated[str, StringConstraints(max_length=512)] = ""
    endpoint: Annotated[str, StringConstraints(max_length=256)] = ""
    plan: PlanStatus | None = None
    revisions: RevisionsStatus | None = None
    failover: FailoverStatus | None = None
    conditions: Annotated[list[Condition], Field(max_length=24)] = Field(
        default_factory=list, json_schema_extra=BY_TYPE
    )
