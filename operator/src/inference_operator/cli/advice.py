"""What each condition asks, which of its answers matter to a person, and what to do about them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from ..api.conditions import ConditionType as Type
from ..api.conditions import Reason
from ..api.v1alpha1 import Condition, ConditionStatus

#: The question that a condition answers with True.
QUESTION: Final[Mapping[Type, str]] = {
    Type.READY: "Does what the spec asks for now serve, and it alone?",
    Type.AVAILABLE: "Can the gateway serve requests now, with any revision?",
    Type.SPEC_VALID: "Are the spec's names, numbers and combinations legal?",
    Type.PLANNED: "Is there a plan (GPUs, command line, concurrency) for this spec?",
    Type.GATEWAY_READY: "Does at least one gateway pod accept requests?",
    Type.CAPACITY_AVAILABLE: "Has every engine its GPUs, its quota and a node?",
    Type.SCALING_ACTIVE: "Does the number of replicas follow the demand?",
    Type.WITHIN_BUDGET: "Do a million tokens cost no more than spec.cost allows?",
    Type.DEGRADED: "Are engines missing that were lost or that fail?",
    Type.FAILOVER_ACTIVE: "Do requests go round an engine that was lost minutes ago?",
    Type.UPDATE_AVAILABLE: "Would this version of the operator make the engine pods differently?",
    Type.RECONCILING: "Is a first creation or a changed template on its way?",
    Type.STALLED: "Does nothing move until a person acts?",
}

#: Those whose True is the bad answer (or the busy one).
ABNORMAL_TRUE: Final = frozenset(
    {Type.DEGRADED, Type.FAILOVER_ACTIVE, Type.UPDATE_AVAILABLE, Type.RECONCILING, Type.STALLED}
)
#: The one that explains the others comes first.
_ORDER: Final = (
    Type.SPEC_VALID,
    Type.STALLED,
    Type.CAPACITY_AVAILABLE,
    Type.GATEWAY_READY,
    Type.FAILOVER_ACTIVE,
    Type.DEGRADED,
    Type.READY,
    Type.AVAILABLE,
    Type.PLANNED,
    Type.RECONCILING,
    Type.SCALING_ACTIVE,
    Type.WITHIN_BUDGET,
    Type.UPDATE_AVAILABLE,
)
#: Answers that somebody chose: nothing is wrong with them.
_CHOSEN: Final = frozenset({(Type.SCALING_ACTIVE, Reason.DISABLED), (Type.SCALING_ACTIVE, Reason.STOPPED)})

_EDIT: Final = "kubectl edit ic NAME -n NS"
_PODS: Final = "kubectl describe pods -n NS -l inferencecluster.io/cluster=NAME"
_FIX_FIELD: Final = f"Mend the field that the message names ({_EDIT}); what runs goes on meanwhile."
#: How the messages of core/diagnosis.py and core/verdicts.py name the pod that they are about.
_POD: Final = re.compile(r"\b(?:pod|go round) ([a-z0-9](?:[-a-z0-9.]*[a-z0-9])?)")
_WAIT: Final = "Nothing: this passes by itself. kubectl inference status NAME -n NS --watch shows it."

_ACTIONS: Final[Mapping[Reason, str]] = {
    Reason.PROGRESSING: f"{_WAIT} If it takes too long, look at Stalled and CapacityAvailable.",
    Reason.STOPPED: "Start it again when it is needed: kubectl scale ic NAME -n NS --replicas=1.",
    Reason.INVALID: _FIX_FIELD,
    Reason.UNAVAILABLE: f"See why its pods aren't ready: {_PODS}.",
    Reason.SUSPENDED: "Set spec.suspend to false when the operator is to act again.",
    Reason.DELETING: "Nothing: its pods finish their requests and go.",
    Reason.NO_ENGINE: f"See why no engine is ready: the engines below, and {_PODS}.",
    Reason.NO_GATEWAY: (
        "See why no gateway pod is ready: kubectl describe pods -n NS -l "
        "inferencecluster.io/cluster=NAME,inferencecluster.io/component=gateway."
    ),
    Reason.UNKNOWN_MODEL: f"Correct spec.model.id, or set spec.model.architecture ({_EDIT}).",
    Reason.TENSOR_NOT_DIVIDING: f"Set spec.parallelism.tensor to one of the legal values ({_EDIT}).",
    Reason.TENSOR_ABOVE_NODE: (
        f"Set spec.parallelism.tensor to one of the legal values, or spec.accelerator.perNode ({_EDIT})."
    ),
    Reason.TENSOR_ON_SLICE: f"Set spec.parallelism.tensor to 1, or use whole GPUs ({_EDIT}).",
    Reason.UNKNOWN_ACCELERATOR: f"Set spec.accelerator.type to one of the legal values ({_EDIT}).",
    Reason.ARGUMENT_UNKNOWN: _FIX_FIELD,
    Reason.ARGUMENT_RESERVED: _FIX_FIELD,
    Reason.ARGUMENT_INVALID: _FIX_FIELD,
    Reason.ENV_RESERVED: _FIX_FIELD,
    Reason.LABEL_RESERVED: _FIX_FIELD,
    Reason.UNSUPPORTED_VERSION: f"Set spec.engine.version to a supported one, or remove it ({_EDIT}).",
    Reason.CONTEXT_TOO_LONG: f"Lower spec.model.contextLength to what the message names ({_EDIT}).",
    Reason.SCHEMA_VIOLATION: (
        "Mend the fields that the message names; the CRD here is older or newer than the operator, so bring "
        "both to one version."
    ),
    Reason.NAME_TAKEN: "Delete the object that the message names, or give this cluster another name.",
    Reason.SPEC_INVALID: _FIX_FIELD,
    Reason.STARTING: _WAIT,
    Reason.UNSCHEDULABLE: (
        "Free GPUs (lower replicas elsewhere), add nodes, or loosen spec.accelerator and spec.placement; it "
        "goes on by itself as soon as there is room."
    ),
    Reason.QUOTA_EXCEEDED: "Raise the quota (kubectl describe quota -n NS), or lower spec.replicas.",
    Reason.CREATE_FAILED: "Change the spec, or the policy that refuses the pods: the message names it.",
    Reason.CONFLICT: "Delete the other scaler, or set spec.autoscaling.mode to Disabled.",
    Reason.METRICS_UNAVAILABLE: (
        "See kubectl get apiservice v1beta2.custom.metrics.k8s.io; until it answers, the number of replicas "
        "stays as it is."
    ),
    Reason.OVER_BUDGET: (
        "Fewer replicas or cheaper GPUs for these tokens (spec.autoscaling, spec.accelerator), or another "
        "spec.cost.maxCostPerMillionTokens: nothing is changed because of it."
    ),
    Reason.ENGINES_MISSING: f"Kubernetes starts them again by itself. If they don't come back: {_PODS}.",
    Reason.ENGINE_DOWN: (
        "Nothing for the traffic: other engines take it. See kubectl logs POD -n NS --previous for the cause."
    ),
    Reason.NEW_RENDERING: "Nothing urgent: the next change of the model or engine adopts it.",
    Reason.FIRST_CREATION: _WAIT,
    Reason.ROLLING_OUT: _WAIT,
    Reason.LOAD_TIMEOUT: ("See kubectl logs POD -n NS; raise spec.engine.loadTimeout if it is only slow."),
    Reason.CRASH_LOOP: ("See kubectl logs POD -n NS --previous, then change spec.model or spec.engine."),
    Reason.IMAGE_PULL: "Correct spec.engine.image or spec.engine.version, or add spec.imagePullSecrets.",
    Reason.CONTAINER_CONFIG: "Create what the message names (a Secret, a key of one), or change the spec.",
    Reason.APPLY_FAILED: "The API server refuses what the operator writes: the message says what and why.",
    Reason.MISSING_OBJECT: "Create the object that the message names, or change the field that names it.",
    Reason.SCALING: _WAIT,
    Reason.DEGRADED: "Do what stands at Degraded.",
    Reason.NOT_OBSERVED: (
        "The message says why it wasn't looked at; without one, see the operator: kubectl get pods -A -l "
        "app.kubernetes.io/name=inference-operator."
    ),
}


def matters(condition: Condition) -> bool:
    """Is its answer one that a person would want to hear of?"""
    kind = _kind(condition)
    if kind is None:
        return False
    if (kind, condition.reason) in _CHOSEN:
        return False
    good = ConditionStatus.FALSE if kind in ABNORMAL_TRUE else ConditionStatus.TRUE
    return condition.status is not good


def by_weight(conditions: Iterable[Condition]) -> list[Condition]:
    """Those that matter: the definite ones first, the one that explains the others ahead."""
    found = [condition for condition in conditions if matters(condition)]
    order = {kind.value: index for index, kind in enumerate(_ORDER)}
    return sorted(found, key=lambda c: (c.status is ConditionStatus.UNKNOWN, order[c.type]))


def question(condition: Condition) -> str:
    """What its True would say; "" for a type of a newer operator."""
    kind = _kind(condition)
    return QUESTION[kind] if kind else ""


def action(condition: Condition, namespace: str, name: str) -> str:
    """What to do now, with commands to copy; "" = nothing, all is well."""
    if not matters(condition):
        return ""
    if condition.type == Type.GATEWAY_READY and condition.reason == Reason.UNAVAILABLE:
        text = _ACTIONS[Reason.NO_GATEWAY]
    else:
        text = _ACTIONS.get(Reason(condition.reason), "") if condition.reason in set(Reason) else ""
    pod = _POD.search(condition.message)
    return text.replace("NAME", name).replace("NS", namespace).replace("POD", pod[1] if pod else "POD")


def _kind(condition: Condition) -> Type | None:
    return Type(condition.type) if condition.type in set(Type) else None
