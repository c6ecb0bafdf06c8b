"""The one list of conditions and reasons (docs/reference/conditions.md is made from it).

Every condition is set on every pass, Unknown included. A reason is CamelCase and stable: alerts and
health checks match on it. A condition enters this list together with the behaviour behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class ConditionType(StrEnum):
    """What a condition says when it is True."""

    #: This generation is what serves, also with engines missing: new ones (reason Scaling) or lost ones
    #: (reason Degraded).
    READY = "Ready"
    #: The gateway can serve now, with any revision.
    AVAILABLE = "Available"
    #: The spec holds: names, numbers and combinations are legal.
    SPEC_VALID = "SpecValid"
    #: A plan exists for this generation.
    PLANNED = "Planned"
    #: HAProxy accepts and its first sync is done, in at least one gateway pod.
    GATEWAY_READY = "GatewayReady"
    #: No pod waits for GPUs, quota or a node.
    CAPACITY_AVAILABLE = "CapacityAvailable"
    #: A scaler of ours acts: the number of replicas follows the demand.
    SCALING_ACTIVE = "ScalingActive"
    #: A million tokens cost no more than spec.cost.maxCostPerMillionTokens.
    WITHIN_BUDGET = "WithinBudget"
    #: Engines are missing that were lost or that fail, not merely new ones.
    DEGRADED = "Degraded"
    #: An engine was taken out of service within the last minutes and is not back yet.
    FAILOVER_ACTIVE = "FailoverActive"
    #: A newer rendering exists for the running revision; a restart would adopt it.
    UPDATE_AVAILABLE = "UpdateAvailable"
    #: kstatus: first creation or a changed template is being rolled out.
    RECONCILING = "Reconciling"
    #: kstatus: no progress without a person.
    STALLED = "Stalled"


class Reason(StrEnum):
    """Why a condition has its status."""

    # Ready
    SERVING = "Serving"
    SCALING = "Scaling"
    DEGRADED = "Degraded"
    PROGRESSING = "Progressing"
    STOPPED = "Stopped"
    INVALID = "Invalid"
    UNAVAILABLE = "Unavailable"
    SUSPENDED = "Suspended"
    DELETING = "Deleting"
    # Available
    ENGINES_READY = "EnginesReady"
    NO_ENGINE = "NoEngine"
    NO_GATEWAY = "NoGateway"
    # SpecValid
    VALID = "Valid"
    UNKNOWN_MODEL = "UnknownModel"
    TENSOR_NOT_DIVIDING = "TensorNotDividing"
    TENSOR_ABOVE_NODE = "TensorAboveNode"
    TENSOR_ON_SLICE = "TensorOnSlice"
    UNKNOWN_ACCELERATOR = "UnknownAccelerator"
    ARGUMENT_UNKNOWN = "ArgumentUnknown"
    ARGUMENT_RESERVED = "ArgumentReserved"
    ARGUMENT_INVALID = "ArgumentInvalid"
    ENV_RESERVED = "EnvReserved"
    LABEL_RESERVED = "LabelReserved"
    UNSUPPORTED_VERSION = "UnsupportedVersion"
    CONTEXT_TOO_LONG = "ContextTooLong"
    SCHEMA_VIOLATION = "SchemaViolation"
    NAME_TAKEN = "NameTaken"
    # Planned
    PLANNED = "Planned"
    SPEC_INVALID = "SpecInvalid"
    # GatewayReady
    ACCEPTING = "Accepting"
    STARTING = "Starting"
    # CapacityAvailable
    SCHEDULED = "Scheduled"
    UNSCHEDULABLE = "Unschedulable"
    QUOTA_EXCEEDED = "QuotaExceeded"
    CREATE_FAILED = "CreateFailed"
    # ScalingActive
    FOLLOWS_DEMAND = "FollowsDemand"
    DISABLED = "Disabled"
    CONFLICT = "Conflict"
    METRICS_UNAVAILABLE = "MetricsUnavailable"
    # WithinBudget
    WITHIN_BUDGET = "WithinBudget"
    OVER_BUDGET = "OverBudget"
    # Degraded, FailoverActive
    ALL_READY = "AllReady"
    ENGINES_MISSING = "EnginesMissing"
    ENGINE_DOWN = "EngineDown"
    NO_FAILOVER = "NoFailover"
    # UpdateAvailable
    UP_TO_DATE = "UpToDate"
    NEW_RENDERING = "NewRendering"
    # Reconciling, Stalled
    FIRST_CREATION = "FirstCreation"
    ROLLING_OUT = "RollingOut"
    SETTLED = "Settled"
    LOAD_TIMEOUT = "LoadTimeout"
    CRASH_LOOP = "CrashLoop"
    IMAGE_PULL = "ImagePull"
    CONTAINER_CONFIG = "ContainerConfig"
    APPLY_FAILED = "ApplyFailed"
    MISSING_OBJECT = "MissingObject"
    NOT_STALLED = "NotStalled"
    # anything that was not looked at in this pass
    NOT_OBSERVED = "NotObserved"


_TRUE, _FALSE, _UNKNOWN = "True", "False", "Unknown"
_OBSERVED_ONLY: Final = {_UNKNOWN: (Reason.NOT_OBSERVED,)}
_SPEC_FAULTS: Final = (
    Reason.UNKNOWN_MODEL,
    Reason.TENSOR_NOT_DIVIDING,
    Reason.TENSOR_ABOVE_NODE,
    Reason.TENSOR_ON_SLICE,
    Reason.UNKNOWN_ACCELERATOR,
    Reason.ARGUMENT_UNKNOWN,
    Reason.ARGUMENT_RESERVED,
    Reason.ARGUMENT_INVALID,
    Reason.ENV_RESERVED,
    Reason.LABEL_RESERVED,
    Reason.UNSUPPORTED_VERSION,
    Reason.CONTEXT_TOO_LONG,
    Reason.SCHEMA_VIOLATION,
    Reason.NAME_TAKEN,
)

#: Which reasons a condition can have with which status: health checks of GitOps tools are made from it.
REASONS: Final[Mapping[ConditionType, Mapping[str, tuple[Reason, ...]]]] = {
    ConditionType.READY: {
        _TRUE: (Reason.SERVING, Reason.SCALING, Reason.DEGRADED),
        _FALSE: (
            Reason.PROGRESSING,
            Reason.STOPPED,
            Reason.INVALID,
            Reason.UNAVAILABLE,
            Reason.SUSPENDED,
            Reason.DELETING,
        ),
        **_OBSERVED_ONLY,
    },
    ConditionType.AVAILABLE: {
        _TRUE: (Reason.ENGINES_READY,),
        _FALSE: (Reason.NO_ENGINE, Reason.NO_GATEWAY, Reason.STOPPED),
        **_OBSERVED_ONLY,
    },
    ConditionType.SPEC_VALID: {_TRUE: (Reason.VALID,), _FALSE: _SPEC_FAULTS, **_OBSERVED_ONLY},
    ConditionType.PLANNED: {
        _TRUE: (Reason.PLANNED,),
        _FALSE: (Reason.SPEC_INVALID,),
        **_OBSERVED_ONLY,
    },
    ConditionType.GATEWAY_READY: {
        _TRUE: (Reason.ACCEPTING,),
        _FALSE: (Reason.STARTING, Reason.UNAVAILABLE),
        **_OBSERVED_ONLY,
    },
    ConditionType.CAPACITY_AVAILABLE: {
        _TRUE: (Reason.SCHEDULED,),
        _FALSE: (Reason.UNSCHEDULABLE, Reason.QUOTA_EXCEEDED, Reason.CREATE_FAILED),
        **_OBSERVED_ONLY,
    },
    ConditionType.SCALING_ACTIVE: {
        _TRUE: (Reason.FOLLOWS_DEMAND,),
        _FALSE: (Reason.DISABLED, Reason.STOPPED, Reason.CONFLICT, Reason.METRICS_UNAVAILABLE),
        **_OBSERVED_ONLY,
    },
    ConditionType.WITHIN_BUDGET: {
        _TRUE: (Reason.WITHIN_BUDGET,),
        _FALSE: (Reason.OVER_BUDGET,),
        **_OBSERVED_ONLY,
    },
    ConditionType.DEGRADED: {
        _TRUE: (Reason.ENGINES_MISSING,),
        _FALSE: (Reason.ALL_READY, Reason.SCALING, Reason.ROLLING_OUT),
        **_OBSERVED_ONLY,
    },
    ConditionType.FAILOVER_ACTIVE: {
        _TRUE: (Reason.ENGINE_DOWN,),
        _FALSE: (Reason.NO_FAILOVER,),
        **_OBSERVED_ONLY,
    },
    ConditionType.UPDATE_AVAILABLE: {
        _TRUE: (Reason.NEW_RENDERING,),
        _FALSE: (Reason.UP_TO_DATE,),
        **_OBSERVED_ONLY,
    },
    ConditionType.RECONCILING: {
        _TRUE: (Reason.FIRST_CREATION, Reason.ROLLING_OUT),
        _FALSE: (Reason.SETTLED, Reason.FIRST_CREATION),
        **_OBSERVED_ONLY,
    },
    ConditionType.STALLED: {
        _TRUE: (
            Reason.SPEC_INVALID,
            Reason.LOAD_TIMEOUT,
            Reason.CRASH_LOOP,
            Reason.IMAGE_PULL,
            Reason.CONTAINER_CONFIG,
            Reason.APPLY_FAILED,
            Reason.MISSING_OBJECT,
            Reason.CREATE_FAILED,
        ),
        _FALSE: (Reason.NOT_STALLED,),
        **_OBSERVED_ONLY,
    },
}

MESSAGE_LIMIT = 1024


def truncate(message: str) -> str:
    """Cut a message to what the schema allows; the cut is visible."""
    return message if len(message) <= MESSAGE_LIMIT else message[: MESSAGE_LIMIT - 1] + "…"
