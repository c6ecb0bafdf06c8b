"""How many engines are wanted in all: what spec.replicas says, within its bounds.

spec.replicas has one writer at a time, a person or the HorizontalPodAutoscaler, and never us. It isn't
followed blindly: an apply of a manifest without the field, or its removal from Git, resets it to the schema's
default of 1 (seen on a real API server), and the HorizontalPodAutoscaler sets it right 15 seconds later. So a
fall waits for its word, which stands in its status as soon as it has written the fall itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..api.v1alpha1 import InferenceClusterSpec
from .model import Observed, ScalerObserved
from .rollout import engines

BY_MIN: Final = "minReplicas"
BY_MAX: Final = "maxReplicas"
BY_SCALER: Final = "Autoscaler"


@dataclass(frozen=True)
class Total:
    """The wanted total."""

    replicas: int
    #: What keeps it from spec.replicas: BY_MIN, BY_MAX, BY_SCALER; "" = nothing.
    limited_by: str = ""


def total(spec: InferenceClusterSpec, observed: Observed) -> Total:
    """Engines wanted now. 0 means stopped, whatever the bounds say."""
    scaling = spec.autoscaling
    if spec.replicas == 0 or not scaling.enabled:
        return Total(spec.replicas)
    # Without a scaler of ours, bounds that nobody chose (the defaults) must not shrink a cluster.
    low, high = scaling.bounds if scaler_wanted(spec, observed) else scaling.chosen_bounds
    clamped = min(high, max(low, spec.replicas))
    held = min(high, _held(clamped, observed))
    if held > clamped:
        return Total(held, BY_SCALER)
    if clamped != spec.replicas:
        return Total(clamped, BY_MIN if clamped > spec.replicas else BY_MAX)
    scaler = observed.scaling.ours
    # The HorizontalPodAutoscaler keeps to its maximum itself, so spec.replicas shows no more than that.
    return Total(clamped, BY_MAX if clamped == high and scaler is not None and scaler.at_maximum else "")


def scaler_wanted(spec: InferenceClusterSpec, observed: Observed) -> bool:
    """Is there to be a HorizontalPodAutoscaler of ours?"""
    scaling = observed.scaling
    free = scaling.api.ours and not scaling.rivals
    return spec.autoscaling.enabled and spec.replicas > 0 and free


def _held(wanted: int, observed: Observed) -> int:
    """What is held for now: `wanted`, or more while our HorizontalPodAutoscaler doesn't agree to a fall."""
    scaler = observed.scaling.ours
    before = _before(observed)
    if scaler is None or before is None or wanted >= before:
        return wanted
    return max(wanted, min(before, _says(scaler, before)))


def _says(scaler: ScalerObserved, before: int) -> int:
    """One that hasn't decided yet agrees to nothing: a missing word is no reason to shrink."""
    return before if scaler.desired is None else scaler.desired


def _before(observed: Observed) -> int | None:
    """What was wanted so far; without a status, what exists. None = nothing."""
    known = observed.status.scaling
    if known is not None:
        return known.target
    return sum(engines(revision) for revision in observed.revisions) or None
