"""InferenceCluster v1alpha1: the one source of the CRD, its reference page and the operator's own parsing.

Field names are camelCase on the wire and snake_case here. Every string, list and map is bounded: the largest
legal object stays below 32 KiB, since the annotations of an object may hold 256 KiB in all and CEL cannot
measure a whole spec. A field stands here only when it does something.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel


class ApiModel(BaseModel):
    """Strict: what the API server's schema refuses is refused here too, should the schema be older."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
    )


# One line, printable, no quotes, no backslash: these strings reach a command line, haproxy.cfg or a label.
ModelId = Annotated[
    str, StringConstraints(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]*$")
]
ServedName = Annotated[
    str, StringConstraints(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._/:-]*$")
]
GitRevision = Annotated[
    str, StringConstraints(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]*$")
]
EngineVersion = Annotated[
    str, StringConstraints(max_length=40, pattern=r"^[0-9]+\.[0-9]+\.[0-9]+([.-]?[a-z0-9]+)*$")
]
ImageReference = Annotated[
    str,
    StringConstraints(
        min_length=1,
        max_length=255,
        pattern=r"^[a-z0-9]([a-zA-Z0-9._/:-]*[a-zA-Z0-9])?(@sha256:[0-9a-f]{64})?$",
    ),
]
#: An object's name (DNS subdomain).
ObjectName = Annotated[
    str, StringConstraints(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
]
SecretKey = Annotated[str, StringConstraints(min_length=1, max_length=63, pattern=r"^[-._a-zA-Z0-9]+$")]
LabelKey = Annotated[
    str,
    StringConstraints(
        min_length=1,
        max_length=127,
        pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$",
    ),
]
LabelValue = Annotated[
    str, StringConstraints(max_length=63, pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$")
]
AnnotationValue = Annotated[str, StringConstraints(max_length=256, pattern=r"^[ -~]*$")]
#: One command line argument: printable ASCII, so no newline and no control character.
Argument = Annotated[str, StringConstraints(min_length=1, max_length=512, pattern=r"^[ -~]+$")]
EnvName = Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
EnvValue = Annotated[str, StringConstraints(max_length=512, pattern=r"^[ -~]*$")]
#: Seconds, minutes or hours as Kubernetes people write them: 90s, 5m, 2h.
Duration = Annotated[str, StringConstraints(max_length=10, pattern=r"^[1-9][0-9]{0,5}(s|m|h)$")]
Quantity = Annotated[
    str, StringConstraints(max_length=20, pattern=r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$")
]
AcceleratorName = Annotated[
    str, StringConstraints(min_length=1, max_length=63, pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._-]*$")
]
ResourceName = Annotated[
    str, StringConstraints(min_length=3, max_length=127, pattern=r"^[a-z0-9.-]+/[A-Za-z0-9][-A-Za-z0-9_.]*$")
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

    name: ObjectName
    key: SecretKey = "token"


class HuggingFaceSource(ApiModel):
    """Weights come from the Hugging Face hub."""

    token_secret_ref: SecretKeyRef | None = Field(None, description="Token for gated models.")


class PersistentVolumeClaimSource(ApiModel):
    """Weights lie on a volume; the engine starts offline."""

    claim_name: ObjectName
    path: Annotated[
        str, StringConstraints(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]*$")
    ] = Field(description="Folder below the volume's root that holds the model.")


class ModelSource(ApiModel):
    """Where the weights are: exactly one."""

    hugging_face: HuggingFaceSource | None = None
    persistent_volume_claim: PersistentVolumeClaimSource | None = None


class Architecture(ApiModel):
    """Shape of a model outside the catalogue, as in its config.json."""

    layers: int = Field(ge=1, le=1000)
    hidden_size: int = Field(ge=64, le=1_000_000)
    heads: int = Field(ge=1, le=1024)
    kv_heads: int = Field(ge=1, le=1024)
    head_dim: int | None = Field(None, ge=8, le=1024, description="Default: hiddenSize / heads.")


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
        default_factory=list, description="More arguments, one `--flag=value` or `--flag` each."
    )
    env: Annotated[list[EnvVar], Field(max_length=16)] = Field(default_factory=list)
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


class Toleration(ApiModel):
    """As in a pod."""

    key: LabelKey | None = None
    operator: Annotated[str, StringConstraints(max_length=6, pattern="^(Exists|Equal)$")] | None = None
    value: LabelValue | None = None
    effect: (
        Annotated[str, StringConstraints(max_length=16, pattern="^(NoSchedule|PreferNoSchedule|NoExecute)$")]
        | None
    ) = None


class Placement(ApiModel):
    """Where engines may run."""

    node_selector: Annotated[dict[LabelKey, LabelValue], Field(max_length=8)] = Field(default_factory=dict)
    tolerations: Annotated[list[Toleration], Field(max_length=8)] = Field(default_factory=list)
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
    image_pull_secrets: Annotated[list[LocalObjectRef], Field(max_length=4)] = Field(default_factory=list)
    pod_metadata: PodMetadata = Field(default_factory=PodMetadata)
    gateway: Gateway = Field(default_factory=Gateway)


class ConditionStatus(StrEnum):
    """Three-valued, as everywhere in Kubernetes."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(ApiModel):
    """metav1.Condition."""

    type: Annotated[str, StringConstraints(max_length=64)]
    status: ConditionStatus
    reason: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    message: Annotated[str, StringConstraints(max_length=1024)] = ""
    observed_generation: int = 0
    last_transition_time: Annotated[str, StringConstraints(max_length=32)]


class PlanStatus(ApiModel):
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
        default_factory=list
    )


class RevisionsStatus(ApiModel):
    """Which revision serves, and which one is on its way."""

    stable: Annotated[str, StringConstraints(max_length=16)] | None = Field(None, description="Serves now.")
    target: Annotated[str, StringConstraints(max_length=16)] | None = Field(
        None, description="What the spec asks for."
    )
    updated_replicas: int = Field(0, description="Ready replicas of the target revision.")


class FailoverEvent(ApiModel):
    """One engine that the gateways took out of service, or took back."""

    time: Annotated[str, StringConstraints(max_length=32)]
    kind: Annotated[str, StringConstraints(max_length=32)]
    pod: Annotated[str, StringConstraints(max_length=253)]
    gateway: Annotated[str, StringConstraints(max_length=253)]
    detection_ms: int | None = None
    streams_cut: int | None = None


class FailoverStatus(ApiModel):
    """The last failovers, newest last."""

    last_events: Annotated[list[FailoverEvent], Field(max_length=10)] = Field(default_factory=list)


class InferenceClusterStatus(ApiModel):
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
    conditions: Annotated[list[Condition], Field(max_length=24)] = Field(default_factory=list)
