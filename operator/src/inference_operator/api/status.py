"""The status of an InferenceCluster: states and decisions, never gauges, and bounded like the spec."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from pydantic import ConfigDict, Field, StringConstraints

from .base import ATOMIC, BY_TYPE, StatusModel

#: RFC 3339. The digits are spelled out: pydantic's \d takes those of every script, and the API
#: server's only ours.
_TIME_PATTERN: Final = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$"
)
_Time = Annotated[str, StringConstraints(max_length=32, pattern=_TIME_PATTERN)]
_Count = Annotated[int, Field(ge=0, le=2**31 - 1)]


class ConditionStatus(StrEnum):
    """Three-valued, as everywhere in Kubernetes."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(StatusModel):
    """metav1.Condition."""

    type: Annotated[str, StringConstraints(max_length=64)] = Field(description="See conditions.md.")
    status: ConditionStatus
    reason: Annotated[str, StringConstraints(min_length=1, max_length=64)] = Field(
        description="Why, as one word for programs; see conditions.md."
    )
    message: Annotated[str, StringConstraints(max_length=1024)] = Field(
        default="", description="Why, for people: field, number, what to do."
    )
    observed_generation: int = Field(default=0, description="The spec's generation that it speaks of.")
    last_transition_time: _Time = Field(description="When status changed last.")


class PlanStatus(StatusModel):
    """What the spec became: written once per revision."""

    input_digest: Annotated[str, StringConstraints(max_length=64)]
    model: Annotated[str, StringConstraints(max_length=200)]
    engine_version: Annotated[str, StringConstraints(max_length=40)]
    accelerator: Annotated[str, StringConstraints(max_length=63)] | None = None
    tensor: _Count
    gpus: _Count = Field(description="GPUs of one replica.")
    max_concurrency: _Count = Field(description="Requests that one replica works on at once.")
    context_length: _Count | None = None
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

    # No bound is narrower than that of the gateways' own event (routing.py), which this one is made from.
    time: _Time
    kind: Annotated[str, StringConstraints(max_length=32)]
    pod: Annotated[str, StringConstraints(max_length=253)]
    gateway: Annotated[str, StringConstraints(max_length=253)]
    detection_ms: _Count | None = None
    streams_cut: _Count | None = None


class FailoverStatus(StatusModel):
    """The last failovers, newest last."""

    last_events: Annotated[list[FailoverEvent], Field(max_length=10)] = Field(
        default_factory=list, json_schema_extra=ATOMIC
    )


class ScalingDecision(StatusModel):
    """One change of the wanted total."""

    model_config = ConfigDict(populate_by_name=True)

    time: _Time
    from_: _Count = Field(alias="from", description="Replicas that were wanted before.")
    to: _Count = Field(description="Replicas that are wanted since.")
    by: Annotated[str, StringConstraints(max_length=128)] = Field(
        "", description="Field manager that set spec.replicas last."
    )
    reason: Annotated[str, StringConstraints(max_length=256)] = Field(description="Why, for people.")


class ScalingStatus(StatusModel):
    """How many replicas are wanted, and what decided it."""

    target: _Count = Field(description="Replicas that are wanted now.")
    limited_by: Annotated[str, StringConstraints(max_length=64)] = Field(
        "",
        description="What keeps it from spec.replicas: minReplicas, maxReplicas or Autoscaler; empty = "
        "nothing.",
    )
    last_decisions: Annotated[list[ScalingDecision], Field(max_length=10)] = Field(
        default_factory=list, description="The last ten changes, newest last.", json_schema_extra=ATOMIC
    )


_Amount = Annotated[str, StringConstraints(max_length=40, pattern=r"^[0-9]+(\.[0-9]+)?$")]


class CostStatus(StatusModel):
    """The last measured cost, rounded: it changes at most once a minute, and only by more than 10 %."""

    per_million_tokens: _Amount | None = Field(
        None,
        description="Cost of a million tokens, cached prompt tokens left out. Absent: no token counted, or "
        "no GPU held.",
    )
    currency: Annotated[str, StringConstraints(max_length=3)]
    gpus_held: _Count = Field(
        description="GPUs of all engine pods that have a node, idle and loading ones too."
    )
    gpu_hour_price: _Amount = Field(description="Price of one of them for an hour, on average.")
    measured: _Time = Field(description="When this was measured.")


class InferenceClusterStatus(StatusModel):
    """Observed state: states and decisions, never gauges."""

    observed_generation: int = Field(0, description="Generation of the spec that this status is about.")
    replicas: int = Field(
        0, description="Replicas of the wanted total that exist, without surge or draining ones."
    )
    ready_replicas: int = Field(0, description="Replicas that can serve now.")
    selector: Annotated[str, StringConstraints(max_length=512)] = Field(
        "", description="Labels of the engine pods, for autoscalers."
    )
    endpoint: Annotated[str, StringConstraints(max_length=256)] = Field(
        "", description="OpenAI-compatible base address inside the Kubernetes cluster."
    )
    plan: PlanStatus | None = None
    revisions: RevisionsStatus | None = None
    scaling: ScalingStatus | None = None
    failover: FailoverStatus | None = None
    cost: CostStatus | None = None
    conditions: Annotated[list[Condition], Field(max_length=24)] = Field(
        default_factory=list, json_schema_extra=BY_TYPE
    )
