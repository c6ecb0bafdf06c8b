"""The whole status from the facts of one pass. Equal facts give an equal status, so steady traffic writes
none.

Numbers are states (engines that exist, engines that are ready), never gauges. A condition's
lastTransitionTime changes on a flip of its status only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from ..api import names
from ..api.conditions import ConditionType, truncate
from ..api.v1alpha1 import (
    Condition,
    FailoverEvent,
    FailoverStatus,
    InferenceClusterSpec,
    InferenceClusterStatus,
    PlanStatus,
    RevisionsStatus,
)
from .decide import stable_revision
from .model import Decision, Observed, Plan, Problem, Revision
from .notes import condition
from .observe import timestamp
from .rollout import engines
from .verdicts import VERDICTS, Facts

_EVENTS_KEPT = 10
#: Two gateways see the same engine go down at nearly the same time: one event. Seconds.
_SAME_EVENT = 10.0
_REASON_LIMIT = 256
_REASONS_KEPT = 16


def compute_status(
    spec: InferenceClusterSpec | None,
    observed: Observed,
    decision: Decision | None,
    *,
    plan: Plan | None,
    now: float,
    problems: Sequence[Problem] = (),
    errors: Sequence[str] = (),
    rendering: str | None = None,
) -> InferenceClusterStatus:
    """What to write into the status subresource.

    `spec` is None when it can't be parsed; `observed` is what exists after the writes of this pass;
    `decision` is None when nothing was decided (suspended, unreadable); `plan` is the target's. `errors` are
    writes that the API server refused for good (403, 422), not those that a retry may heal. `rendering` is
    the digest of what today's code would render for the target.
    """
    before = observed.status
    known = before.revisions
    stable = decision.stable if decision else stable_revision(observed, known.target if known else None)
    target = decision.target if decision else (known.target if known else stable)
    facts = Facts(
        spec=spec,
        observed=observed,
        stable=stable,
        target=target,
        plan=plan,
        held=decision.held if decision else "",
        problems=problems,
        errors=errors,
        rendering=rendering,
        now=now,
    )
    exist = min(facts.wanted, sum(_existing(revision) for revision in observed.revisions))
    updated = observed.revision(target)
    return InferenceClusterStatus(
        observed_generation=observed.cluster.generation,
        replicas=exist,
        ready_replicas=min(exist, len(facts.ready)),
        selector=names.label_selector(names.engine_selector(observed.cluster.name)),
        endpoint=names.endpoint_url(observed.cluster.name, observed.cluster.namespace),
        plan=_plan_status(plan) if plan is not None else before.plan,
        revisions=RevisionsStatus(
            stable=stable, target=target, updated_replicas=len(updated.ready) if updated else 0
        ),
        failover=_failover(observed),
        conditions=[_condition(facts, kind) for kind in VERDICTS],
    )


def _existing(revision: Revision) -> int:
    """Engines that exist for the scale subresource.

    During a rollout one is always being exchanged: a Deployment's number is constant where its pods come and
    go, and a constant demand must not look like a changed one to an autoscaler. Capped by the caller at what
    is wanted, which leaves the surge and the draining ones out.
    """
    return len(revision.live) if revision.create_error else engines(revision)


def _plan_status(plan: Plan) -> PlanStatus:
    return PlanStatus(
        input_digest=plan.input_digest,
        model=plan.model_id,
        engine_version=plan.version,
        accelerator=plan.accelerator,
        tensor=plan.tensor,
        gpus=plan.gpus,
        max_concurrency=plan.max_concurrency,
        context_length=plan.context_length,
        reasons=[reason[:_REASON_LIMIT] for reason in plan.reasons[:_REASONS_KEPT]],
    )


def _condition(facts: Facts, kind: ConditionType) -> Condition:
    verdict = VERDICTS[kind](facts)
    before = condition(facts.observed.status, kind)
    flipped = before is None or before.status is not verdict.status
    return Condition(
        type=kind.value,
        status=verdict.status,
        reason=verdict.reason.value,
        message=truncate(verdict.message),
        observed_generation=facts.observed.cluster.generation,
        last_transition_time=rfc3339(facts.now) if before is None or flipped else before.last_transition_time,
    )


def rfc3339(seconds: float) -> str:
    """Whole seconds in UTC, as metav1.Time writes them."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _failover(observed: Observed) -> FailoverStatus | None:
    """The last engines that went down or came back. Those in the status stay when their gateway pod is
    gone."""
    before = observed.status.failover.last_events if observed.status.failover else []
    found = sorted(
        {event.model_dump_json(): event for event in [*before, *_reported(observed)]}.values(),
        key=lambda event: (event.time, event.pod, event.kind, event.gateway),
    )
    kept: list[FailoverEvent] = []
    for event in found:
        if not any(_same(event, other) for other in kept):
            kept.append(event)
    return FailoverStatus(last_events=kept[-_EVENTS_KEPT:]) if kept else None


def _reported(observed: Observed) -> Iterator[FailoverEvent]:
    for report in observed.gateway.reports:
        for event in report.events:
            if event.kind in ("EngineDown", "EngineUp"):
                yield FailoverEvent(
                    time=rfc3339(event.time),
                    kind=event.kind,
                    pod=event.pod,
                    gateway=report.gateway,
                    detection_ms=event.detection_ms,
                    streams_cut=event.streams_cut,
                )


def _same(event: FailoverEvent, other: FailoverEvent) -> bool:
    apart = abs(timestamp(event.time) - timestamp(other.time))
    return event.kind == other.kind and event.pod == other.pod and apart <= _SAME_EVENT
