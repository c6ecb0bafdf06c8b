"""What a user says about the engine pods themselves: where they run, what they need, what they carry."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from . import defaults
from .base import ATOMIC, ATOMIC_MAP, ApiModel, rule, validations
from .scalars import (
    AnnotationValue,
    EnvName,
    EnvValue,
    LabelKey,
    LabelValue,
    Memory,
    ObjectName,
    Quantity,
)


class EnvVar(ApiModel):
    """A plain environment variable of the engine. Secrets are mounted by their own fields."""

    name: EnvName = Field(description="Variable; those that the operator sets are refused.")
    value: EnvValue = Field(description="Plain value, printable ASCII.")


class Resources(ApiModel):
    """CPU and memory of one engine pod; GPUs follow from the plan."""

    cpu: Quantity | None = Field(None, description="CPUs, e.g. 8 or 500m. Default: no request.")
    memory: Memory | None = Field(None, description="Memory, e.g. 64Gi. Default: no request.")


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

    key: LabelKey | None = Field(None, description="Key of the taint. Default: any, with operator Exists.")
    operator: Literal["Exists", "Equal"] | None = Field(None, description="Default Equal.")
    value: LabelValue | None = Field(None, description="Value of the taint, with operator Equal.")
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
        default_factory=dict, description="Labels that a node has to have.", json_schema_extra=ATOMIC_MAP
    )
    tolerations: Annotated[list[Toleration], Field(max_length=8)] = Field(
        default_factory=list, description="Taints that engine pods tolerate.", json_schema_extra=ATOMIC
    )
    runtime_class_name: ObjectName | None = Field(None, description="RuntimeClass of the engine pods.")
    scheduler_name: ObjectName | None = Field(None, description="Scheduler of the engine pods.")
    priority_class_name: ObjectName | None = Field(None, description="PriorityClass of the engine pods.")
    node_loss_toleration_seconds: int | None = Field(
        None,
        ge=0,
        le=3600,
        description="After a node is lost, its engines are replaced this much later. "
        f"Default {defaults.NODE_LOSS_TOLERATION_SECONDS}.",
    )


class LocalObjectRef(ApiModel):
    """An object in the same namespace."""

    name: ObjectName = Field(description="Name of the object.")


class PodMetadata(ApiModel):
    """Labels and annotations that the engine pods get besides ours."""

    labels: Annotated[dict[LabelKey, LabelValue], Field(max_length=8)] = Field(
        default_factory=dict, description="Labels of the engine pods."
    )
    annotations: Annotated[dict[LabelKey, AnnotationValue], Field(max_length=8)] = Field(
        default_factory=dict, description="Annotations of the engine pods."
    )
