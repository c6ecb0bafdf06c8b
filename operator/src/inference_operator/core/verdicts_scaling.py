"""ScalingActive: does a scaler of ours act on this cluster?

It is no part of Ready: a cluster that nobody scales serves as well.
"""

from __future__ import annotations

from ..api import names
from ..api.conditions import Reason
from .facts import Facts
from .scaling import BY_MAX, BY_MIN, BY_SCALER
from .verdict import Verdict, false, true, unknown

_BY_HAND = "set spec.autoscaling.mode to Disabled"


def scaling_active(facts: Facts) -> Verdict:
    """The reasons in the order in which a person has to deal with them."""
    spec = facts.spec
    if spec is None or facts.problems:
        return unknown("Not looked at while the spec doesn't hold: see SpecValid")
    if facts.suspended:
        return unknown("Not looked at while spec.suspend is true")
    if not spec.autoscaling.enabled:
        return false(
            Reason.DISABLED, "spec.autoscaling.mode is Disabled: spec.replicas is what somebody sets"
        )
    if facts.stopped:
        return false(Reason.STOPPED, "spec.replicas is 0: nothing scales a stopped cluster")
    return _acting(facts)


def _acting(facts: Facts) -> Verdict:
    scaling = facts.observed.scaling
    if scaling.rivals:
        return false(
            Reason.CONFLICT,
            f"{', '.join(scaling.rivals)} scales this cluster too, so no scaler of ours is made: delete the "
            f"other one, or {_BY_HAND} to leave it alone",
        )
    api = scaling.api
    if api.service and not api.ours:
        return false(
            Reason.CONFLICT,
            f"custom.metrics.k8s.io is answered by Service {api.service}, not by inference-metrics, and "
            f"there can be only one: scale with what feeds that one, and {_BY_HAND}",
        )
    if not api.service:
        return false(
            Reason.METRICS_UNAVAILABLE,
            "The metrics API isn't installed (metricsApi.enabled of the Helm chart): nothing changes "
            f"spec.replicas with the load. Install it, or {_BY_HAND}",
        )
    if not api.available:
        return false(
            Reason.METRICS_UNAVAILABLE,
            f"The API server can't reach the metrics API (Service {api.service}): the number of replicas "
            "stays as it is. See kubectl get apiservice v1beta2.custom.metrics.k8s.io",
        )
    return _following(facts)


def _following(facts: Facts) -> Verdict:
    scaler = facts.observed.scaling.ours
    if scaler is None or scaler.active is None:
        return unknown("The HorizontalPodAutoscaler hasn't looked at its metric yet")
    ref = facts.observed.cluster
    if not scaler.active:
        if facts.first_creation or not facts.gateway_accepts:
            return unknown("No figure yet: the gateways have to accept requests first")
        return false(
            Reason.METRICS_UNAVAILABLE,
            f"The HorizontalPodAutoscaler can't act ({scaler.reason}): the number of replicas stays as it "
            f"is. See kubectl describe hpa {names.engine_name(ref.name)} -n {ref.namespace}",
        )
    assert facts.spec is not None  # noqa: S101 - narrows the type
    low, high = facts.spec.autoscaling.bounds
    return true(Reason.FOLLOWS_DEMAND, f"Replicas follow the demand between {low} and {high}{_limit(facts)}")


def _limit(facts: Facts) -> str:
    assert facts.spec is not None  # noqa: S101 - narrows the type
    asked = facts.spec.replicas
    text = {
        BY_MIN: f"; spec.replicas {asked} is below minReplicas",
        BY_MAX: f"; spec.replicas {asked} is above maxReplicas"
        if asked > facts.wanted
        else "; more would be needed than maxReplicas: raise spec.autoscaling.maxReplicas",
        BY_SCALER: f"; spec.replicas fell to {asked}, which the HorizontalPodAutoscaler doesn't agree to: "
        f"{facts.wanted} are kept until it has looked again. To scale by hand, {_BY_HAND}",
    }
    return text.get(facts.limited_by, "")
