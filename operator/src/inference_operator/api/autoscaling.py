"""spec.autoscaling: how the number of replicas follows the load.

`behavior` has the shape and the words of a HorizontalPodAutoscaler's, since it becomes that of ours.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from . import defaults
from .base import ATOMIC, ApiModel, rule, validations


class AutoscalingMode(StrEnum):
    """Who sets spec.replicas."""

    AUTOMATIC = "Automatic"
    DISABLED = "Disabled"


class ScalingPolicy(ApiModel):
    """How much may change within a time."""

    type: Literal["Pods", "Percent"] = Field(description="Pods: replicas; Percent: of the present ones.")
    value: int = Field(ge=1, le=defaults.LARGEST_TOTAL, description="Replicas or percent.")
    period_seconds: int = Field(ge=1, le=1800, description="Time in which that much may change.")


class ScalingRules(ApiModel):
    """One direction."""

    stabilization_window_seconds: int | None = Field(
        None,
        ge=0,
        le=3600,
        description="Of what was wanted within this time, the least drastic counts. Default 0 up, "
        f"{defaults.SCALE_DOWN_WINDOW_SECONDS} down.",
    )
    select_policy: Literal["Max", "Min", "Disabled"] | None = Field(
        None, description="Which policy counts; Disabled: no change in this direction. Default Max."
    )
    policies: Annotated[list[ScalingPolicy], Field(max_length=4)] = Field(
        default_factory=list,
        description="Default: up at once; down one replica every "
        f"{defaults.SCALE_DOWN_PERIOD_SECONDS} seconds.",
        json_schema_extra=ATOMIC,
    )


class ScalingBehavior(ApiModel):
    """How fast, as in a HorizontalPodAutoscaler."""

    scale_up: ScalingRules = Field(default_factory=ScalingRules)
    scale_down: ScalingRules = Field(default_factory=ScalingRules)


_BOUNDS = "minReplicas can't be above maxReplicas"


class Autoscaling(ApiModel):
    """How the number of replicas follows the load."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            rule(
                "!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
                _BOUNDS,
            )
        )
    )

    mode: AutoscalingMode = Field(
        AutoscalingMode.AUTOMATIC,
        description="Automatic: a HorizontalPodAutoscaler sets spec.replicas by the requests that wait and "
        "run. Disabled: nobody but you does. Default Automatic.",
    )
    min_replicas: int | None = Field(
        None,
        ge=1,
        le=defaults.LARGEST_TOTAL,
        description=f"Never fewer, but for spec.replicas: 0. Default {defaults.MIN_REPLICAS}.",
    )
    max_replicas: int | None = Field(
        None,
        ge=1,
        le=defaults.LARGEST_TOTAL,
        description=f"Never more. Default {defaults.MAX_REPLICAS}, or minReplicas if that is more.",
    )
    behavior: ScalingBehavior = Field(default_factory=ScalingBehavior)

    @model_validator(mode="after")
    def _bounds_fit(self) -> Self:
        if (self.min_replicas or 0) > (self.max_replicas or defaults.LARGEST_TOTAL):
            raise ValueError(_BOUNDS)
        return self

    @property
    def enabled(self) -> bool:
        """Does a scaler of ours set spec.replicas?"""
        return self.mode is AutoscalingMode.AUTOMATIC

    @property
    def chosen_bounds(self) -> tuple[int, int]:
        """The bounds that somebody wrote: they hold whoever scales."""
        return self.min_replicas or 1, self.max_replicas or defaults.LARGEST_TOTAL

    @property
    def bounds(self) -> tuple[int, int]:
        """The smallest and the largest total, defaults filled in."""
        low = self.min_replicas or defaults.MIN_REPLICAS
        # A user who sets one of them alone must not get a contradiction.
        return min(low, self.max_replicas or low), self.max_replicas or max(low, defaults.MAX_REPLICAS)
