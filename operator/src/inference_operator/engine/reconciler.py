"""One pass over one InferenceCluster: read it, decide, make its children so, report.

    GET live -> parse -> plan -> observe -> decide -> apply -> observe the answers -> status, if it differs

Nothing is remembered between passes that the status and the children don't hold: a process that dies at any
request is followed by one that goes on from there. The children come from the watches, with the answers of
our own writes on top, so a pass over a settled cluster is one GET and no write.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ..api import names
from ..api.conditions import Reason
from ..api.operator_config import Prices
from ..api.parse import parse_spec
from ..api.v1alpha1 import InferenceClusterSpec
from ..core.decide import decide
from ..core.model import ClusterRef, Decision, Observed, Plan, Problem
from ..core.observe import cluster_ref, observe
from ..core.revision import revision_name
from ..core.scaledown import marks
from ..planner.digest import input_digest
from ..planner.plan import make_plan
from ..ports import Clock, Gateways, Kube, KubeError, Metrics, Object, Store
from ..render.children import children, unwanted
from ..render.settings import RenderSettings
from .access import AccessReconciler
from .applier import Applier, Ref, of_predecessor
from .costs import Costs
from .directory import Directory
from .queue import Key
from .report import Report
from .reports import orphans, prune

log = logging.getLogger(__name__)

#: Kinds of a cluster's own children.
CHILD_KINDS: Final = (
    "ConfigMap",
    "ControllerRevision",
    "Deployment",
    "HorizontalPodAutoscaler",
    "NetworkPolicy",
    "Pod",
    "PodDisruptionBudget",
    "Service",
    "ServiceAccount",
)
#: A settled cluster is looked at again after this, plus up to as much: it heals what no watch told.
RESYNC_SECONDS: Final = 300.0
#: A pass that wrote is followed by another: the answers of our own writes stand in the store already, so
#: the watch has nothing new to tell of them, and a drained pod that was just marked would wait for long.
AFTER_WRITE_SECONDS: Final = 0.1


@dataclass(frozen=True)
class _Intent:
    """What the spec asks for, as far as it can be read."""

    spec: InferenceClusterSpec | None
    plan: Plan | None
    problems: tuple[Problem, ...]


class Reconciler:
    """One for all clusters; holds no state of any of them."""

    def __init__(
        self,
        *,
        kube: Kube,
        store: Store,
        directory: Directory,
        clock: Clock,
        metrics: Metrics,
        jitter: Callable[[], float],
        settings: Callable[[], RenderSettings],
        gateways: Gateways,
        prices: Callable[[], Prices],
    ) -> None:
        """`jitter` returns a number in [0, 1); `settings` and `prices` are asked in every pass."""
        self._gateways = gateways
        self._kube = kube
        self._store = store
        self._directory = directory
        self._clock = clock
        self._metrics = metrics
        self._jitter = jitter
        self._settings = settings
        self._costs = Costs(gateways=gateways, clock=clock, metrics=metrics, prices=prices)
        self._access = AccessReconciler(kube=kube, store=store, directory=directory, metrics=metrics)

    async def reconcile(self, key: Key) -> float | None:
        """One pass; returns the seconds until the next one, None = the cluster is gone or on its way out.

        Raises KubeError: transient for what a retry may heal.
        """
        namespace, name = key
        if not name:
            await self._access.reconcile(namespace)
            return self._resync()
        cluster = await self._kube.get(names.KIND, namespace, name)
        if cluster is None:
            self._directory.gone(namespace, name)
            self._costs.gone(key)
            return None
        self._directory.seen(namespace, name, cluster["metadata"]["uid"])
        if cluster["metadata"].get("deletionTimestamp"):
            # The children go by their ownerReferences; what is left to do is to say so.
            _, observed = self._look(cluster)
            await self._report(cluster, ()).write_deletion(observed)
            return None
        return await self._pass(cluster)

    async def _pass(self, cluster: Object) -> float:
        now = self._clock.now()
        live, observed = self._look(cluster)
        intent = _read(cluster, observed)
        report = self._report(cluster, intent.problems)
        if not observed.status.conditions:
            await self._say_at_once(report, intent, observed)
        if intent.spec is None or intent.spec.suspend:
            await report.write(intent.spec, intent.plan, observed, None)
            return self._resync()
        target = revision_name(intent.plan, intent.spec) if intent.plan else None
        decision = await self._decide(intent.spec, target, observed, now)
        if decision.target is None:
            await report.write(intent.spec, intent.plan, observed, None)
            return self._resync()
        applier = Applier(
            kube=self._kube,
            store=self._store,
            metrics=self._metrics,
            owner=observed.cluster,
            live=live,
            context=report.context,
        )
        await applier.apply(children(intent.spec, intent.plan, observed, decision, self._settings()))
        await applier.mark(marks(observed, decision))
        await applier.adopt(observed.released, observed.regained)
        await applier.delete(unwanted(intent.spec, observed, decision))
        await self._prune(observed.cluster, live, applier.errors)
        await report.tell(decision.notes)
        _, observed = self._look(cluster)
        taken = tuple(f"{kind}/{name}" for kind, name in applier.taken)
        observed = replace(observed, foreign=tuple(sorted({*observed.foreign, *taken})))
        tokens = await self._costs.tokens(intent.spec, observed)
        await report.write(intent.spec, intent.plan, observed, decision, applier.errors, tokens)
        wakes = [
            AFTER_WRITE_SECONDS if applier.wrote else decision.wake,
            self._costs.wake(observed),
        ]
        wake = min((seconds for seconds in wakes if seconds is not None), default=None)
        applier.raise_errors(wake)
        return self._resync() if wake is None else min(self._resync(), wake)

    async def _decide(
        self, spec: InferenceClusterSpec, target: str | None, observed: Observed, now: float
    ) -> Decision:
        """The gateways are asked how busy the engines are only when one is to go."""
        decision = decide(spec, target, observed, now)
        if not decision.blind:
            return decision
        cluster = observed.cluster
        loads = await self._gateways.loads(cluster.namespace, cluster.name, observed.gateway.addresses)
        return decide(spec, target, observed, now, loads)

    def _report(self, cluster: Object, problems: Sequence[Problem]) -> Report:
        return Report(
            kube=self._kube,
            metrics=self._metrics,
            clock=self._clock,
            cluster=cluster,
            problems=problems,
            prices=self._costs.prices(),
        )

    async def _say_at_once(self, report: Report, intent: _Intent, observed: Observed) -> None:
        """kstatus takes an object without conditions for done, so a new one says at once that it isn't.

        Whatever goes wrong here must not keep the children from being made: the report at the end of the pass
        meets it again, and raises it.
        """
        try:
            await report.write(intent.spec, intent.plan, observed, None)
        except Exception as error:
            log.warning("no first status", extra={"context": report.context, "reason": repr(error)})

    def _look(self, cluster: Object) -> tuple[dict[Ref, Object], Observed]:
        """The watched children by kind and name, and what they mean."""
        ref = cluster_ref(cluster)
        found = {
            kind: [
                child
                for child in self._store.children(kind, ref.namespace, ref.name)
                if not of_predecessor(child, ref)
            ]
            for kind in CHILD_KINDS
        }
        live = {(kind, child["metadata"]["name"]): child for kind in found for child in found[kind]}
        return live, observe(cluster, found, self._store.node_ready, self._store.metrics_api())

    async def _prune(self, owner: ClusterRef, live: Mapping[Ref, Object], errors: list[KubeError]) -> None:
        report = live.get(("ConfigMap", names.report_name(owner.name)))
        pods = [child for (kind, _), child in live.items() if kind == "Pod"]
        try:
            await prune(self._kube, self._store, self._metrics, report, orphans(report, pods))
        except KubeError as error:
            errors.append(error)

    def _resync(self) -> float:
        return RESYNC_SECONDS * (1 + self._jitter())


def _read(cluster: Object, observed: Observed) -> _Intent:
    """Parse and plan. A plan that was made for these very inputs is taken from its revision."""
    spec = parse_spec(cluster.get("spec") or {})
    if not isinstance(spec, InferenceClusterSpec):
        problems = tuple(Problem(e.field, Reason.SCHEMA_VIOLATION, e.message) for e in spec)
        return _Intent(None, None, problems)
    inputs = input_digest(spec)
    for revision in reversed(observed.revisions):
        if revision.plan.input_digest == inputs:
            return _Intent(spec, revision.plan, ())
    plan = make_plan(spec)
    if isinstance(plan, Plan):
        return _Intent(spec, plan, ())
    return _Intent(spec, None, plan)
