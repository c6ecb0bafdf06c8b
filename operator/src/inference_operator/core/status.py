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
from ..api.operator_config import Prices
from ..api.v1alpha1 import (
    Condition,
    FailoverEvent,
    FailoverStatus,
    InferenceClusterSpec,
    InferenceClusterStatus,
    PlanStatus,
    RevisionsStatus,
    ScalingDecision,
    ScalingStatus,
)
from .cost import cost_status, hold
from .decide import stable_revision
from .edges import same_event
from .facts import Facts
from .model import Decision, Observed, Plan, Problem, Revision, TokenWindow
from .notes import condition
from .rollout import engines
from .scaling import BY_MAX, BY_MIN, BY_SCALER
from .verdicts import VERDICTS

#: Nobody has said what a GPU costs.
NO_PRICES = Prices()
_EVENTS_KEPT = 10
_REASON_LIMIT = 256
_WORD_LIMIT = 128
#: Field manager of the HPA's writes to the scale subresource.
_HPA_MANAGER = "kube-controller-manager"
_REASONS_KEPT = 16
#: 9999-12-31T23:59:59Z.
_LAST_SECOND = 253_402_300_799.0


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
    prices: Prices = NO_PRICES,
    tokens: Sequence[TokenWindow] | None = None,
) -> InferenceClusterStatus:
    """What to write into the status subresource.

    `spec` is None when it can't be parsed; `observed` is what exists after the writes of this pass;
    `decision` is None when nothing was decided (suspended, unreadable); `plan` is the target's. `errors` are
    writes that the API server refused for good (403, 422), not those that a retry may heal. `rendering` is
    the digest of what today's code would render for the target. `tokens` is what the gateways have counted;
    None = they weren't asked in this pass, or one of them said nothing.
    """
    before = observed.status
    known = before.revisions
    stable = decision.stable if decision else stable_revision(observed, known.target if known else None)
    target = decision.target if decision else (known.target if known else stable)
    failovers = _failovers(observed)
    held = hold(spec, observed.revisions, prices) if spec is not None and not spec.suspend else None
    cost = cost_status(before.cost, held, tokens, rfc3339(now)) if held else before.cost
    facts = Facts(
        spec=spec,
        observed=observed,
        stable=stable,
        target=target,
        plan=plan,
        total=decision.total if decision and decision.target is not None else None,
        limited_by=decision.limited_by if decision else "",
        held=decision.held if decision else "",
        problems=problems,
        errors=errors,
        rendering=rendering,
        failovers=failovers,
        cost=cost,
        currency=held.currency if held else "",
        price_problem=held.problem if held else "",
        now=now,
    )
    exist = min(facts.wanted, sum(_existing(revision) for revision in observed.revisions))
    updated = observed.revision(target)
    return InferenceClusterStatus(
        observed_generation=observed.cluster.generation,
        replicas=exist,
        ready_replicas=min(exist, len(facts.ready)),
        selector=names.label_selector(names.engine_selector(observed.cluster.name)),
        endpoint=_endpoint(observed),
        plan=_plan_status(plan) if plan is not None else before.plan,
        revisions=RevisionsStatus(
            stable=stable, target=target, updated_replicas=len(updated.ready) if updated else 0
        ),
        scaling=_scaling(observed, decision, now),
        failover=FailoverStatus(last_events=failovers) if failovers else None,
        cost=cost,
        conditions=[_condition(facts, kind) for kind in VERDICTS],
    )


def _endpoint(observed: Observed) -> str:
    """Empty until the gateway's Service exists, which is applied before its Deployment, and while the Service
    of that name is somebody else's."""
    ref = observed.cluster
    if f"Service/{names.gateway_service_name(ref.name)}" in observed.foreign:
        return ""
    url = names.endpoint_url(ref.name, ref.namespace)
    return url if observed.gateway.wanted else observed.status.endpoint


def _existing(revision: Revision) -> int:
    """Engines that exist for the scale subresource.

    During a rollout one is always being exchanged: a Deployment's number is constant where its pods come and
    go, and a constant demand must not look like a changed one to an autoscaler. Capped by the caller at what
    is wanted, which leaves the surge and the draining ones out.
    """
    return len(revision.live) if revision.create_error else engines(revision)


def _scaling(observed: Observed, decision: Decision | None, now: float) -> ScalingStatus | None:
    """What is wanted, and the last changes of it. Without a decision it stays as it is."""
    before = observed.status.scaling
    if decision is None or decision.target is None:
        return before
    decisions = list(before.last_decisions) if before else []
    if before is not None and before.target != decision.total:
        by = _by(observed, decision)
        change = ScalingDecision(
            time=rfc3339(now),
            from_=before.target,
            to=decision.total,
            by=by[:_WORD_LIMIT],
            reason=_why(decision, by),
        )
        decisions.append(change)
    return ScalingStatus(
        target=decision.total, limited_by=decision.limited_by, last_decisions=decisions[-_EVENTS_KEPT:]
    )


def _by(observed: Observed, decision: Decision) -> str:
    """Who set spec.replicas last.

    Once it was 0, the API server records no manager of its scale writes any more (seen on 1.37): then the
    HorizontalPodAutoscaler is known by what it says it wants.
    """
    scaling = observed.scaling
    if scaling.replicas_by or scaling.ours is None or scaling.ours.desired != decision.total:
        return scaling.replicas_by
    return _HPA_MANAGER


def _why(decision: Decision, by: str) -> str:
    who = "the HorizontalPodAutoscaler" if by == _HPA_MANAGER else by or "somebody that isn't recorded"
    texts = {
        BY_MIN: "spec.replicas is below spec.autoscaling.minReplicas",
        BY_MAX: "spec.replicas is above spec.autoscaling.maxReplicas",
        BY_SCALER: f"{who} lowered spec.replicas further than the HorizontalPodAutoscaler agrees to",
    }
    return texts.get(decision.limited_by, f"{who} set spec.replicas")[:_REASON_LIMIT]


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
    """Whole seconds in UTC, as metav1.Time writes them; what no such time can say is its nearest one."""
    # The order of arguments makes 0 of a NaN.
    return datetime.fromtimestamp(int(min(_LAST_SECOND, max(0.0, seconds))), UTC).strftime(
        "%Y-%m-%dT%H:%M:%SZ"
    )


def _failovers(observed: Observed) -> list[FailoverEvent]:
    """The last engines that went down or came back. Those in the status stay when their gateway pod is
    gone."""
    before = observed.status.failover.last_events if observed.status.failover else []
    found = sorted(
        # A gateway counts the cut streams a moment after the loss: its last word comes first.
        {event.model_dump_json(): event for event in [*_reported(observed), *before]}.values(),
        key=lambda event: (event.time, event.pod, event.kind, event.streams_cut is None, event.gateway),
    )
    kept: list[FailoverEvent] = []
    for event in found:
        twin = next((i for i, other in enumerate(kept) if same_event(event, other)), None)
        if twin is None:
            kept.append(event)
        elif kept[twin].streams_cut is None and event.streams_cut is not None:
            kept[twin] = event
    return kept[-_EVENTS_KEPT:]


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
