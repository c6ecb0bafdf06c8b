"""Statuses for tests: a pass over some revisions, and how to read what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inference_operator.api.conditions import ConditionType, Reason
from inference_operator.api.routing import GatewayEvent
from inference_operator.api.v1alpha1 import (
    Condition,
    ConditionStatus,
    InferenceClusterStatus,
    RevisionsStatus,
)
from inference_operator.core.decide import decide
from inference_operator.core.model import GatewayObserved, Problem, Revision
from inference_operator.core.status import compute_status

from .builders import (
    NOW,
    PLAN,
    engine,
    engines_of,
    gateway,
    loading,
    make_spec,
    observed,
    report,
    revision,
)

PROBLEM = Problem("spec.model.id", Reason.UNKNOWN_MODEL, "not in the catalogue")


def known(
    *conditions: tuple[ConditionType, ConditionStatus, Reason],
    stable: str = "a",
    **fields: Any,
) -> InferenceClusterStatus:
    """A status as it was written before."""
    since = "2026-01-01T00:00:00Z"
    made = [
        Condition(type=kind.value, status=status, reason=reason.value, last_transition_time=since)
        for kind, status, reason in conditions
    ]
    revisions = RevisionsStatus(stable=stable, target=stable)
    return InferenceClusterStatus(revisions=revisions, conditions=made, **fields)


SETTLED = known((ConditionType.RECONCILING, ConditionStatus.FALSE, Reason.SETTLED))


def status(
    *revisions: Revision,
    n: int = 2,
    before: InferenceClusterStatus = SETTLED,
    gates: GatewayObserved | None = None,
    target: str = "a",
    spec: dict[str, Any] | None = None,
    foreign: Sequence[str] = (),
    **extra: Any,
) -> InferenceClusterStatus:
    """The status after a pass over these revisions; `a` is stable unless `before` says otherwise."""
    state = observed(*revisions, status=before, gateway=gates, foreign=tuple(foreign))
    wanted = make_spec(replicas=n, **(spec or {}))
    decision = None if wanted.suspend else decide(wanted, target, state, NOW)
    return compute_status(wanted, state, decision, **{"plan": PLAN, "now": NOW, **extra})


def says(got: InferenceClusterStatus, kind: ConditionType) -> str:
    found = next(c for c in got.conditions if c.type == kind.value)
    return f"{found.status.value} {found.reason}"


def message(got: InferenceClusterStatus, kind: ConditionType) -> str:
    return next(c.message for c in got.conditions if c.type == kind.value)


SERVING = revision("a", engines_of("a", 2))
HALF = revision("a", [engine("a-0"), loading("a-1")])
DOWN = revision("a", [loading("a-0"), loading("a-1")])
ROLLING = (revision("a", engines_of("a", 2), age=5000), revision("b", engines_of("b", 1), age=100))
UNSYNCED = gateway(report("g-0", ready=False), report("g-1", ready=False))
NO_GATEWAY = gateway(ready=())
NEVER_SEEN = GatewayObserved(wanted=0)
FIRST = InferenceClusterStatus()
#: Two engines were ready when the status was written.
SERVED = SETTLED.model_copy(update={"ready_replicas": 2})
ONE = revision("a", engines_of("a", 1), age=5000)
LOST = known((ConditionType.DEGRADED, ConditionStatus.TRUE, Reason.ENGINES_MISSING))


def up(pod: str, ago: float) -> GatewayEvent:
    return GatewayEvent(kind="EngineUp", pod=pod, time=NOW - ago)


def down(pod: str, ago: float) -> GatewayEvent:
    return GatewayEvent(kind="EngineDown", pod=pod, time=NOW - ago, detection_ms=900, streams_cut=3)
