"""One function per condition: facts -> status, reason, message. None of them reads another's result from
before, but for what can't be seen otherwise (was this the first creation?), and each answers always, Unknown
included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..api import names
from ..api.conditions import ConditionType, Reason
from ..api.v1alpha1 import ConditionStatus
from .diagnosis import lacks_volume, some, uncreated, waiting
from .facts import Facts
from .gateways import acknowledged, ready_reports
from .model import EnginePod, Problem
from .notes import condition
from .rollout import engines, stuck
from .verdict import Verdict
from .verdict import false as _false
from .verdict import true as _true
from .verdict import unknown as _unknown
from .verdicts_cost import within_budget
from .verdicts_scaling import scaling_active

_NOT_MADE = "Not made: the spec is invalid, see SpecValid"


def ready(facts: Facts) -> Verdict:
    """True also while scaling and with engines missing: what matters is that this generation alone serves."""
    if facts.suspended:
        return _false(Reason.SUSPENDED, "spec.suspend is true: nothing is changed, what runs goes on")
    problems = _problems(facts)
    if problems:
        return _false(Reason.INVALID, f"{problems[0].field}: {problems[0].message}")
    if facts.stopped:
        return _false(Reason.STOPPED, "spec.replicas is 0: scale up to serve")
    if facts.rolling:
        return _false(Reason.PROGRESSING, _progress(facts))
    serving = available(facts)
    if serving.status is ConditionStatus.UNKNOWN:
        return _unknown(serving.message)
    if serving.status is ConditionStatus.FALSE:
        # After a stop the engines are as new as at first.
        starting = facts.first_creation or (serving.reason is Reason.NO_ENGINE and not facts.lost)
        return _false(Reason.PROGRESSING if starting else Reason.UNAVAILABLE, _why_none(facts, serving))
    if len(facts.ready) < facts.wanted:
        return _true(Reason.DEGRADED if facts.lost else Reason.SCALING, facts.count)
    return _true(Reason.SERVING, f"Revision {facts.target} serves with {some(facts.wanted)}")


def _why_none(facts: Facts, serving: Verdict) -> str:
    """What keeps a cluster from serving: engines that fail, engines that can't be had, or what Available
    says."""
    if facts.failure:
        return facts.failure.message
    capacity = capacity_available(facts)
    short = not facts.ready and capacity.status is ConditionStatus.FALSE
    return capacity.message if short else serving.message


def _progress(facts: Facts) -> str:
    if facts.held:
        return facts.held
    if facts.failure:
        return f"Revision {facts.target} doesn't take over: {facts.failure.message}"
    others = [r for r in facts.observed.revisions if r.name != facts.target and engines(r)]
    rest = "".join(f"; revision {other.name} still has {len(other.ready)} ready" for other in others)
    way = "takes over again" if facts.target == facts.stable else f"takes over from {facts.stable}"
    return f"Revision {facts.target} {way}: {_taken(facts)}{rest}"


def _taken(facts: Facts) -> str:
    """ "1 of 3 engines ready (1 loading, 1 not yet UP at every gateway)" of the target."""
    revision = facts.target_revision
    ready = revision.ready if revision else ()
    unknown = sum(not acknowledged(facts.observed.gateway, pod) for pod in ready)
    doing = [waiting(revision.live)] if revision else []
    doing += [f"{unknown} not yet UP at every gateway"] if unknown else []
    details = ", ".join(filter(None, doing))
    return f"{len(ready)} of {some(facts.wanted)} ready" + (f" ({details})" if details else "")


def available(facts: Facts) -> Verdict:
    """Can the gateway serve now, with any revision?"""
    if facts.stopped:
        return _false(Reason.STOPPED, "spec.replicas is 0")
    gateway = gateway_ready(facts)
    if gateway.status is ConditionStatus.UNKNOWN:
        return _unknown(gateway.message)
    if gateway.status is ConditionStatus.FALSE:
        return _false(Reason.NO_GATEWAY, gateway.message)
    if not facts.ready:
        return _false(Reason.NO_ENGINE, facts.count)
    return _true(Reason.ENGINES_READY, f"{some(len(facts.ready))} can take requests")


def spec_valid(facts: Facts) -> Verdict:
    """The first problem gives the reason, the message holds all of them."""
    problems = _problems(facts)
    if not problems:
        return _true(Reason.VALID, "The spec holds")
    text = "; ".join(f"{problem.field}: {problem.message}" for problem in problems)
    return _false(problems[0].reason, text)


def _problems(facts: Facts) -> list[Problem]:
    taken = [
        Problem(
            "metadata.name",
            Reason.NAME_TAKEN,
            f"{obj} exists and belongs to something else: delete it or give this cluster another name",
        )
        for obj in facts.observed.foreign
    ]
    return [*facts.problems, *taken]


def planned(facts: Facts) -> Verdict:
    """Is there a plan for this generation?"""
    if facts.problems:
        return _false(Reason.SPEC_INVALID, "No plan is made from a spec that doesn't hold: see SpecValid")
    if facts.plan is None:
        return _unknown("The plan was not made in this pass")
    plan = facts.plan
    gpus = f"{plan.gpus} x {plan.accelerator or plan.resource_name}"
    text = f"{plan.model_id} on {gpus} per replica, {plan.max_concurrency} requests at once"
    return _true(Reason.PLANNED, text)


def gateway_ready(facts: Facts) -> Verdict:
    """The agents' word counts; where there is none, a pod is ready only if its agent said so to the
    kubelet."""
    gateway = facts.observed.gateway
    if facts.unmade:
        return _unknown(_NOT_MADE)
    if not gateway.wanted and not gateway.pods:
        return _unknown("The gateway's Deployment has not been seen yet")
    if not gateway.ready_pods:
        before = condition(facts.observed.status, ConditionType.GATEWAY_READY)
        lost = before is not None and before.reason in (Reason.ACCEPTING.value, Reason.UNAVAILABLE.value)
        text = f"None of {gateway.wanted} gateway pods is ready: see kubectl get pods -l "
        text += names.label_selector(names.gateway_selector(facts.observed.cluster.name))
        return _false(Reason.UNAVAILABLE if lost else Reason.STARTING, text)
    if not facts.gateway_accepts:
        return _false(Reason.STARTING, "The gateway pods run, but none has synced routing and endpoints yet")
    source = "" if ready_reports(gateway) else " by pod readiness; none has reported yet"
    text = f"{len(gateway.ready_pods)} of {gateway.wanted} gateway pods accept requests{source}"
    return _true(Reason.ACCEPTING, text)


def capacity_available(facts: Facts) -> Verdict:
    """Does any engine wait for GPUs, quota or a node?"""
    if facts.unmade:
        return _unknown(_NOT_MADE)
    if facts.held:
        return _false(_shortage(facts.held, Reason.UNSCHEDULABLE), facts.held)
    for revision in facts.observed.revisions:
        # Of an earlier revision without an engine nothing is awaited: the target replaces it.
        if revision.name != facts.target and not revision.live:
            continue
        if missing := uncreated(revision):
            text = f"{some(missing)} can't be created: {revision.create_error}"
            return _false(_shortage(revision.create_error, Reason.CREATE_FAILED), text)
    # Whatever else leaves, a volume that doesn't exist won't be there.
    waits = [pod for pod in facts.live if stuck(pod, facts.now) or lacks_volume(pod)]
    if waits:
        return _false(Reason.UNSCHEDULABLE, _unscheduled(facts, waits))
    return _true(Reason.SCHEDULED, "No engine waits for GPUs, quota or a node")


def _shortage(error: str, other: Reason) -> Reason:
    return Reason.QUOTA_EXCEEDED if "exceeded quota" in error else other


def _unscheduled(facts: Facts, waits: list[EnginePod]) -> str:
    plans = {revision.name: revision.plan for revision in facts.observed.revisions}
    plan = plans[waits[0].revision]
    gpus = sum(plans[pod.revision].gpus for pod in waits)
    kind = f" ({plan.accelerator})" if plan.accelerator else ""
    need = f"{gpus} x {plan.resource_name}{kind}"
    # A claim that doesn't exist or a taint keeps a pod waiting as well: no GPU is missing then.
    short = "insufficient" in waits[0].unschedulable.lower()
    need = f", {need} missing" if short else f" (needs {need})"
    return f"{some(len(waits))} can't be scheduled{need}: {waits[0].unschedulable}"


def degraded(facts: Facts) -> Verdict:
    """Are engines missing that were lost or that fail?"""
    if facts.unmade:
        return _unknown(_NOT_MADE)
    if len(facts.ready) >= facts.wanted:
        return _false(Reason.ALL_READY, facts.count)
    if facts.lost:
        text = facts.count + (f"; {facts.failure.message}" if facts.failure else "")
        return _true(Reason.ENGINES_MISSING, text)
    if facts.rolling:
        return _false(Reason.ROLLING_OUT, f"{facts.count}; engines are being exchanged, none was lost")
    return _false(Reason.SCALING, f"{facts.count}; the missing ones are new, none was lost")


def failover_active(facts: Facts) -> Verdict:
    """Was an engine taken out within the last minutes and is not back yet?"""
    if facts.unmade:
        return _unknown(_NOT_MADE)
    if not facts.observed.gateway.reports:
        return _unknown("No gateway pod has reported yet")
    if facts.down:
        pods = ", ".join(sorted(pod.name for pod in facts.down))
        return _true(Reason.ENGINE_DOWN, f"Requests go round {pods}; {facts.count}")
    return _false(Reason.NO_FAILOVER, _last_loss(facts))


def _last_loss(facts: Facts) -> str:
    event = next((event for event in reversed(facts.failovers) if event.kind == "EngineDown"), None)
    if event is None:
        return "No gateway has told of the loss of an engine"
    told = f"The last loss was {event.pod} at {event.time}"
    if any(pod.name == event.pod for pod in facts.ready):
        return f"{told}: it is back"
    if all(pod.name != event.pod for pod in facts.live):
        return f"{told}: it is gone" + (", and replaced" if len(facts.ready) >= facts.wanted else "")
    return told


def update_available(facts: Facts) -> Verdict:
    """Would today's code write another pod template for what runs?"""
    revision = facts.target_revision
    if facts.unmade:
        return _unknown(_NOT_MADE)
    if facts.rendering is None or revision is None:
        return _unknown("Today's rendering was not compared in this pass")
    if revision.template_digest == facts.rendering:
        return _false(Reason.UP_TO_DATE, "The engines run what this operator would render")
    return _true(
        Reason.NEW_RENDERING,
        f"Revision {revision.name} keeps the pod template it was made with; this operator would render "
        "another. The next change of the model or engine adopts it",
    )


def reconciling(facts: Facts) -> Verdict:
    """Only a first creation and a changed template: a change of replicas never sets it."""
    resting = Reason.FIRST_CREATION if facts.first_creation else Reason.SETTLED
    if stalled(facts).status is ConditionStatus.TRUE:
        return _false(resting, "Nothing moves until a person acts: see Stalled")
    if facts.suspended:
        return _false(resting, "Nothing moves while spec.suspend is true")
    if facts.stopped:
        return _false(resting, "Nothing is wanted: spec.replicas is 0")
    if facts.first_creation:
        return _true(Reason.FIRST_CREATION, _progress(facts) if facts.rolling else facts.count)
    if facts.rolling:
        return _true(Reason.ROLLING_OUT, _progress(facts))
    return _false(Reason.SETTLED, "Nothing is being rolled out")


def stalled(facts: Facts) -> Verdict:
    """kstatus: no progress without a person."""
    problems = _problems(facts)
    if problems:
        return _true(Reason.SPEC_INVALID, f"{problems[0].field}: {problems[0].message}")
    if facts.errors:
        return _true(Reason.APPLY_FAILED, "; ".join(facts.errors))
    failing = facts.failure
    if failing and (failing.for_person or facts.rolling or facts.first_creation):
        return _true(failing.reason, failing.message)
    return _false(Reason.NOT_STALLED, _waits_for(facts))


def _waits_for(facts: Facts) -> str:
    if facts.suspended:
        return "Nothing is changed until spec.suspend is false"
    if facts.failure:
        return f"Kubernetes goes on trying what has served before: {facts.failure.message}"
    capacity = capacity_available(facts)
    if capacity.status is ConditionStatus.FALSE:
        return f"Waits for room, which may come free by itself: {capacity.message}"
    return "Nothing is seen that only a person could heal"


#: In the order in which they are written. Stalled stands before Reconciling: kstatus takes the first that is
#: True.
VERDICTS: Mapping[ConditionType, Callable[[Facts], Verdict]] = {
    ConditionType.READY: ready,
    ConditionType.AVAILABLE: available,
    ConditionType.SPEC_VALID: spec_valid,
    ConditionType.PLANNED: planned,
    ConditionType.GATEWAY_READY: gateway_ready,
    ConditionType.CAPACITY_AVAILABLE: capacity_available,
    ConditionType.SCALING_ACTIVE: scaling_active,
    ConditionType.WITHIN_BUDGET: within_budget,
    ConditionType.DEGRADED: degraded,
    ConditionType.FAILOVER_ACTIVE: failover_active,
    ConditionType.UPDATE_AVAILABLE: update_available,
    ConditionType.STALLED: stalled,
    ConditionType.RECONCILING: reconciling,
}
