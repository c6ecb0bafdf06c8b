"""Everything that is to exist for one cluster after a decision, and what of ours must not."""

from __future__ import annotations

from collections.abc import Iterator

from ..api import names
from ..api.v1alpha1 import InferenceClusterSpec
from ..core.canonical import digest
from ..core.model import Decision, Observed, Plan
from ..core.record import Record, make_record
from ..core.scaling import scaler_wanted
from . import gateway, policies, workload
from .autoscaling import scaler
from .common import Object
from .engine import pod_template
from .settings import RenderSettings

#: The smallest number of pods that a disruption budget makes sense for.
BUDGET_FROM = 2


def children(
    spec: InferenceClusterSpec,
    plan: Plan | None,
    observed: Observed,
    decision: Decision,
    settings: RenderSettings,
) -> list[Object]:
    """Desired objects in the order in which they are applied.

    `plan` is the target's; it is needed when the target has no record yet, else the recorded one serves if
    None. Records come before what is made from them: a process that dies in between leaves nothing that can't
    be read back. The agents' rights are per namespace, so they aren't among them (policies.agent_access).
    """
    ref = observed.cluster
    records = _records(spec, plan, observed, decision)
    plans = [(name, record.plan) for name, record in records.items()]
    if plan is not None:
        # What the gateway is told follows the newest plan even when it changes nothing in the pods.
        plans = [(name, plan if name == decision.target else old) for name, old in plans]
    objects = [
        workload.controller_revision(ref, name, record)
        for name, record in records.items()
        if (seen := observed.revision(name)) is None or not seen.recorded
    ]
    objects += [
        gateway.service_account(ref),
        policies.gateway_policy(ref),
        policies.engine_policy(ref),
        gateway.report_config_map(ref),
        gateway.routing_config_map(ref, gateway.routing(ref, spec, decision, plans)),
        gateway.client_service(ref),
        gateway.deployment(ref, spec, settings, observed.gateway.renewed_account),
    ]
    for name, record in records.items():
        objects.append(workload.headless_service(ref, name))
        if name in decision.replicas:
            objects.append(workload.deployment(ref, name, record, decision.replicas[name], spec))
    if gateway.replicas(spec) >= BUDGET_FROM:
        objects.append(policies.gateway_budget(ref))
    if decision.total >= BUDGET_FROM:
        objects.append(policies.engine_budget(ref))
    if scaler_wanted(spec, observed):
        objects.append(scaler(ref, spec.autoscaling, settings))
    return objects


def unwanted(spec: InferenceClusterSpec, observed: Observed, decision: Decision) -> list[tuple[str, str]]:
    """(kind, name) of objects of ours that are to be deleted if they exist, in this order.

    A revision's record goes last: while any part of it is left, it can be read what it was.
    """
    cluster = observed.cluster.name
    found: list[tuple[str, str]] = []
    if not scaler_wanted(spec, observed):
        found.append(("HorizontalPodAutoscaler", names.engine_name(cluster)))
    if decision.total < BUDGET_FROM:
        found.append(("PodDisruptionBudget", names.engine_name(cluster)))
    if gateway.replicas(spec) < BUDGET_FROM:
        found.append(("PodDisruptionBudget", names.gateway_name(cluster)))
    for revision in decision.retire:
        name = names.workload_name(cluster, revision)
        found += [("Deployment", name), ("Service", name), ("ControllerRevision", name)]
    return found


def rendering_digest(cluster: str, revision: str, plan: Plan, spec: InferenceClusterSpec) -> str:
    """Digest of the template that today's code would write: differs from the recorded one =
    UpdateAvailable."""
    return digest(pod_template(cluster, revision, plan, spec))


def _records(
    spec: InferenceClusterSpec, plan: Plan | None, observed: Observed, decision: Decision
) -> dict[str, Record]:
    """Recorded revisions that stay, oldest first, and the target if it is new."""
    records = dict(_recorded(observed, decision))
    if decision.target is not None and decision.target not in records and plan is not None:
        template = pod_template(observed.cluster.name, decision.target, plan, spec)
        records[decision.target] = make_record(plan, template)
    return records


def _recorded(observed: Observed, decision: Decision) -> Iterator[tuple[str, Record]]:
    for revision in observed.revisions:
        if revision.name not in decision.retire:
            yield revision.name, Record(revision.plan, revision.template, revision.template_digest)
