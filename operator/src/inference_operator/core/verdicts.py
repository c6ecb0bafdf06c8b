"""One function per condition: facts -> status, reason, message. None of them reads another's result from
before, but for what can't be seen otherwise (was this the first creation?), and each answers always, Unknown
included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from ..api import defaults, names
from ..api.conditions import ConditionType, Reason
from ..api.v1alpha1 import ConditionStatus, InferenceClusterSpec
from .decide import FAILOVER_WINDOW
from .diagnosis import Failure, failure, some, waiting
from .gateways import acknowledged, down_everywhere, ready_reports
from .model import EnginePod, Observed, Plan, Problem, Revision
from .notes import condition
from .rollout import engines, stuck


class Verdict(NamedTuple):
    """What a condition says now."""

    status: ConditionStatus
    reason: Reason
    message: str


def _true(reason: Reason, message: str) -> Verdict:
    return Verdict(ConditionStatus.TRUE, reason, message)


def _false(reason: Reason, message: str) -> Verdict:
    return Verdict(ConditionStatus.FALSE, reason, message)


def _unknown(message: str) -> Verdict:
    return Verdict(ConditionStatus.UNKNOWN, Reason.NOT_OBSERVED, message)


@dataclass(frozen=True)
class Facts:
    """Everything that the conditions of one pass are made from."""

    spec: InferenceClusterSpec | None
    observed: Observed
    #: Names of the revisions, as decided or as known from before.
    stable: str | None
    target: str | None
    #: Plan of the target.
    plan: Plan | None
    held: str
    problems: Sequence[Problem]
    #: Writes that the API server refused for good.
    errors: Sequence[str]
    #: Digest of what today's code would render for the target; None = not looked at.
    rendering: str | None
    now: float

    @cached_property
    def wanted(self) -> int:
        """Engines that the spec asks for; with an unreadable spec, those that exist."""
        if self.spec is not None:
            return self.spec.replicas
        return sum(engines(revision) for revision in self.observed.revisions)

    @cached_property
    def live(self) -> list[EnginePod]:
        """Engines of all revisions."""
        return [pod for revision in self.observed.revisions for pod in revision.live]

    @cached_property
    def ready(self) -> list[EnginePod]:
        """Engines that take new requests: ready, not drained, and not down for every gateway."""
        gateway = self.observed.gateway
        drained = {drain.pod for drain in gateway.drains}
        return [
            pod
            for revision in self.observed.revisions
            for pod in revision.ready
            if pod.name not in drained and not down_everywhere(gateway, pod)
        ]

    @cached_property
    def target_revision(self) -> Revision | None:
        return self.observed.revision(self.target)

    @cached_property
    def rolling(self) -> bool:
        """Is one revision taking over from another?"""
        others = (r for r in self.observed.revisions if r.name != self.target)
        return self.stable != self.target or any(engines(revision) for revision in others)

    @cached_property
    def first_creation(self) -> bool:
        """Has this cluster never served yet? Only the status knows, by the reason of Reconciling: a stop, a
        refused spec or a failure on the way don't end a first creation."""
        before = condition(self.observed.status, ConditionType.RECONCILING)
        settled = (Reason.SETTLED.value, Reason.ROLLING_OUT.value)
        if before is not None and before.reason in settled:
            return False
        serving = gateway_ready(self).status is ConditionStatus.TRUE
        return not (self.wanted and serving and len(self.ready) >= max(1, self.wanted - 1))

    @cached_property
    def failure(self) -> Failure | None:
        """What keeps the target's engines from getting ready."""
        revision = self.target_revision
        if revision is None or self.wanted == 0:
            return None
        text = self.spec.engine.load_timeout if self.spec is not None else None
        load = defaults.seconds(text or defaults.LOAD_TIMEOUT)
        return failure(revision.live, revision.plan, load, self.now)

    @property
    def count(self) -> str:
        """ "2 of 3 engines ready (1 loading)"."""
        doing = waiting(self.live)
        ready = min(len(self.ready), self.wanted)
        return f"{ready} of {some(self.wanted)} ready" + (f" ({doing})" if doing else "")


def ready(facts: Facts) -> Verdict:
    """True also while scaling and with engines missing: what matters is that this generation alone serves."""
    if facts.spec is not None and facts.spec.suspend:
        return _false(Reason.SUSPENDED, "spec.suspend is true: nothing is changed, what runs goes on")
    problems = _problems(facts)
    if problems:
        return _false(Reason.INVALID, f"{problems[0].field}: {problems[0].message}")
    if facts.wanted == 0:
        return _false(Reason.STOPPED, "spec.replicas is 0: scale up to serve")
    if facts.rolling:
        return _false(Reason.PROGRESSING, _progress(facts))
    serving = available(facts)
    if serving.status is ConditionStatus.UNKNOWN:
        return _unknown(serving.message)
    if serving.status is ConditionStatus.FALSE:
        reason = Reason.PROGRESSING if facts.first_creation else Reason.UNAVAILABLE
        return _false(reason, facts.failure.message if facts.failure else serving.message)
    if len(facts.ready) < facts.wanted:
        return _true(Reason.DEGRADED, facts.count)
    return _true(Reason.SERVING, f"Revision {facts.target} serves with {some(facts.wanted)}")


def _progress(facts: Facts) -> str:
    if facts.held:
        return facts.held
    if facts.failure:
        return f"Revision {facts.target} doesn't take over: {facts.failure.message}"
    revision = facts.target_revision
    done = len(revision.ready) if revision else 0
    taken = f"{done} of {some(facts.wanted)}"
    unknown = (
        [pod for pod in revision.ready if not acknowledged(facts.observed.gateway, pod)] if revision else []
    )
    if unknown:
        taken += f" ({len(unknown)} not yet UP at every gateway)"
    if facts.target == facts.stable:
        return f"Revision {facts.target} takes over again: {taken}; {facts.count}"
    return f"Revision {facts.target} takes over from {facts.stable}: {taken}; {facts.count}"


def available(facts: Facts) -> Verdict:
    """Can the gateway serve now, with any revision?"""
    if facts.wanted == 0:
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
    if not gateway.wanted and not gateway.pods:
        return _unknown("The gateway's Deployment has not been seen yet")
    if not gateway.ready_pods:
        before = condition(facts.observed.status, ConditionType.GATEWAY_READY)
        lost = before is not None and before.reason in (Reason.ACCEPTING.value, Reason.UNAVAILABLE.value)
        text = f"None of {gateway.wanted} gateway pods is ready: see kubectl get pods -l "
        text += names.label_selector(names.gateway_selector(facts.observed.cluster.name))
        return _false(Reason.UNAVAILABLE if lost else Reason.STARTING, text)
    reports = ready_reports(gateway)
    if reports and not any(report.ready for report in reports):
        return _false(Reason.STARTING, "The gateway pods run, but none has synced routing and endpoints yet")
    source = "" if reports else " by pod readiness; none has reported yet"
    text = f"{len(gateway.ready_pods)} of {gateway.wanted} gateway pods accept requests{source}"
    return _true(Reason.ACCEPTING, text)


def capacity_available(facts: Facts) -> Verdict:
    """Does any engine wait for GPUs, quota or a node?"""
    if facts.held:
        quota = "exceeded quota" in facts.held
        return _false(Reason.QUOTA_EXCEEDED if quota else Reason.UNSCHEDULABLE, facts.held)
    for revision in facts.observed.revisions:
        if revision.create_error and len(revision.live) < (revision.replicas or 0):
            quota = "exceeded quota" in revision.create_error
            missing = (revision.replicas or 0) - len(revision.live)
            text = f"{some(missing)} can't be created: {revision.create_error}"
            return _false(Reason.QUOTA_EXCEEDED if quota else Reason.CREATE_FAILED, text)
    waits = [pod for pod in facts.live if stuck(pod, facts.now)]
    if not waits:
        return _true(Reason.SCHEDULED, "No engine waits for GPUs")
    plans = {revision.name: revision.plan for revision in facts.observed.revisions}
    plan = plans[waits[0].revision]
    gpus = sum(plans[pod.revision].gpus for pod in waits)
    kind = f" ({plan.accelerator})" if plan.accelerator else ""
    need = f"{gpus} x {plan.resource_name}{kind}"
    # A claim that doesn't exist or a taint keeps a pod waiting as well: no GPU is missing then.
    short = "insufficient" in waits[0].unschedulable.lower()
    need = f", {need} missing" if short else f" (needs {need})"
    text = f"{some(len(waits))} can't be scheduled{need}: {waits[0].unschedulable}"
    return _false(Reason.UNSCHEDULABLE, text)


def degraded(facts: Facts) -> Verdict:
    """Are fewer engines ready than wanted?"""
    if len(facts.ready) < facts.wanted:
        text = facts.count + (f"; {facts.failure.message}" if facts.failure else "")
        return _true(Reason.ENGINES_MISSING, text)
    return _false(Reason.ALL_READY, facts.count)


def failover_active(facts: Facts) -> Verdict:
    """Was an engine taken out within the last minutes and is not replaced yet?"""
    gateway = facts.observed.gateway
    if not gateway.reports:
        return _unknown("No gateway pod has reported yet")
    down = [pod.name for pod in facts.live if pod.ready and down_everywhere(gateway, pod)]
    if len(facts.ready) < facts.wanted:
        for report in gateway.reports:
            lost = (event for event in report.events if event.kind == "EngineDown")
            down += [event.pod for event in lost if facts.now < event.time + FAILOVER_WINDOW]
    if not down:
        return _false(Reason.NONE, "No engine was lost within the last minutes, or it has been replaced")
    return _true(Reason.ENGINE_DOWN, f"Requests go round {', '.join(sorted(set(down)))}; {facts.count}")


def update_available(facts: Facts) -> Verdict:
    """Would today's code write another pod template for what runs?"""
    revision = facts.target_revision
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
    if facts.spec is not None and facts.spec.suspend:
        return _false(resting, "Nothing moves while spec.suspend is true")
    if facts.wanted == 0:
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
    if facts.failure and (facts.rolling or facts.first_creation):
        return _true(facts.failure.reason, facts.failure.message)
    return _false(Reason.NONE, "Nothing waits for a person")


#: In the order in which they are written. Stalled stands before Reconciling: kstatus takes the first that is
#: True.
VERDICTS: Mapping[ConditionType, Callable[[Facts], Verdict]] = {
    ConditionType.READY: ready,
    ConditionType.AVAILABLE: available,
    ConditionType.SPEC_VALID: spec_valid,
    ConditionType.PLANNED: planned,
    ConditionType.GATEWAY_READY: gateway_ready,
    ConditionType.CAPACITY_AVAILABLE: capacity_available,
    ConditionType.DEGRADED: degraded,
    ConditionType.FAILOVER_ACTIVE: failover_active,
    ConditionType.UPDATE_AVAILABLE: update_available,
    ConditionType.STALLED: stalled,
    ConditionType.RECONCILING: reconciling,
}
