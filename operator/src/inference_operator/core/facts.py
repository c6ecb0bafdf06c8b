"""What the conditions of one pass are made from, and the questions that several of them ask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ..api import defaults
from ..api.conditions import ConditionType, Reason
from ..api.v1alpha1 import ConditionStatus, CostStatus, FailoverEvent, InferenceClusterSpec
from .decide import FAILOVER_WINDOW
from .diagnosis import Failure, failure, some, waiting
from .gateways import down_everywhere, ready_reports
from .model import EnginePod, Observed, Plan, Problem, Revision
from .notes import condition
from .rollout import engines
from .scaling import total


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
    #: Engines wanted in all, as decided; None = nothing was decided.
    total: int | None
    #: What keeps that from spec.replicas; "" = nothing.
    limited_by: str
    held: str
    problems: Sequence[Problem]
    #: Writes that the API server refused for good.
    errors: Sequence[str]
    #: Digest of what today's code would render for the target; None = not looked at.
    rendering: str | None
    #: As status.failover will hold them.
    failovers: Sequence[FailoverEvent]
    #: As status.cost will hold it.
    cost: CostStatus | None
    #: Of the spec's prices.
    currency: str
    #: Why the price of a GPU isn't known; "" = it is.
    price_problem: str
    now: float

    @cached_property
    def suspended(self) -> bool:
        return self.spec is not None and self.spec.suspend

    @cached_property
    def wanted(self) -> int:
        """Engines that the spec asks for; those that exist while nothing is changed."""
        if self.spec is not None and not self.suspended:
            return self.total if self.total is not None else total(self.spec, self.observed).replicas
        return sum(engines(revision) for revision in self.observed.revisions)

    @cached_property
    def stopped(self) -> bool:
        """Does the spec ask for no engine?"""
        return self.spec is not None and not self.suspended and self.spec.replicas == 0

    @cached_property
    def unmade(self) -> bool:
        """Does nothing exist since the spec has never held?"""
        gateway = self.observed.gateway
        made = self.observed.revisions or gateway.wanted or gateway.pods
        return bool(self.problems) and not made

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
    def gateway_accepts(self) -> bool:
        """The agents' word counts; where there is none, that of the kubelet."""
        reports = ready_reports(self.observed.gateway)
        synced = not reports or any(report.ready for report in reports)
        return bool(self.observed.gateway.ready_pods) and synced

    @cached_property
    def first_creation(self) -> bool:
        """Has this cluster never served yet? Only the status knows, by the reason of Reconciling: a stop, a
        refused spec or a failure on the way don't end a first creation."""
        before = condition(self.observed.status, ConditionType.RECONCILING)
        settled = (Reason.SETTLED.value, Reason.ROLLING_OUT.value)
        if before is not None and before.reason in settled:
            return False
        return not (self.wanted and self.gateway_accepts and len(self.ready) >= max(1, self.wanted - 1))

    @cached_property
    def failure(self) -> Failure | None:
        """What keeps the target's engines from getting ready."""
        revision = self.target_revision
        if revision is None or self.wanted == 0:
            return None
        text = self.spec.engine.load_timeout if self.spec is not None else None
        return failure(revision, defaults.seconds(text or defaults.LOAD_TIMEOUT), self.now)

    @cached_property
    def down(self) -> list[EnginePod]:
        """Engines that the gateways go round and that are still expected back.

        An engine that is deleted counts no longer: its successor is a new one, and a scale-up is no failover.
        """
        gateway = self.observed.gateway
        takes = {pod.name for pod in self.ready}
        recent = self._recently_lost()
        drained = {drain.pod for drain in gateway.drains}
        return [
            pod
            for pod in self.live
            if (pod.ready and down_everywhere(gateway, pod))
            or (len(self.ready) < self.wanted and pod.name in recent - drained and pod.name not in takes)
        ]

    def _recently_lost(self) -> set[str]:
        """Pods whose last event within the window is a loss, whichever gateway told it."""
        events = [event for report in self.observed.gateway.reports for event in report.events]
        last = {event.pod: event for event in sorted(events, key=lambda event: event.time)}
        return {
            pod
            for pod, event in last.items()
            if event.kind == "EngineDown" and self.now < event.time + FAILOVER_WINDOW
        }

    @cached_property
    def lost(self) -> bool:
        """Are engines missing that were there or that fail, and not merely new ones?

        A pod that replaces a lost one looks like any new one, so a loss is seen by the number that was ready
        before, and stays one until all are ready. In a rollout one less is the rollout's own doing.
        """
        if len(self.ready) >= self.wanted:
            return False
        if self.failure or self.down or any(_failed(pod) for pod in self.live):
            return True
        if self.rolling:
            return False
        before = condition(self.observed.status, ConditionType.DEGRADED)
        was = before is not None and before.status is ConditionStatus.TRUE
        return was or min(self.observed.status.ready_replicas, self.wanted) > len(self.ready)

    @property
    def count(self) -> str:
        """ "2 of 3 engines ready (1 loading)"."""
        doing = waiting(self.live)
        ready = min(len(self.ready), self.wanted)
        return f"{ready} of {some(self.wanted)} ready" + (f" ({doing})" if doing else "")


def _failed(pod: EnginePod) -> bool:
    """Its node is lost, or it ended before it got ready."""
    return pod.node_lost or (not pod.ready and pod.restarts > 0)
