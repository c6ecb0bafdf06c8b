"""How many engines each revision is to have now, while one takes over from others.

Rolling update, one engine more than wanted:

    target grows while all live engines together stay within N+1
    target engine ready and known to every gateway  ->  one old engine too many: it drains and goes  ->  next

When the extra engine gets no GPU (unschedulable, or the quota refuses it), the order is turned round: one old
engine goes first, never more than one missing. With one replica that would be an outage, so it is held
instead.

Every number follows from what exists in this moment, so a third revision, a way back in the middle and a
restart of the operator need no code of their own: the newest spec is the target, whatever else exists is old,
and of the old the ones between go before the stable one. A target that never gets ready never counts, so the
old stay.

Seam: `want` and `shares` are per revision; a canary sets both by its steps, scaling sets `n`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..api.routing import FULL_SHARE
from .gateways import acknowledged
from .model import EnginePod, GatewayObserved, Plan, Revision

#: A pod is unschedulable for a moment whenever another one is still leaving. Seconds.
UNSCHEDULABLE_AFTER = 10.0


@dataclass(frozen=True)
class Sizes:
    """Wanted engines per revision."""

    want: Mapping[str, int] = field(default_factory=dict)
    #: Why nothing moves though it should; "" = not held.
    held: str = ""


def engines(revision: Revision) -> int:
    """Engines that exist or are asked for."""
    return max(revision.replicas or 0, len(revision.live))


def stuck(pod: EnginePod, now: float) -> bool:
    """Has the scheduler found no place for this pod, for longer than a moment?"""
    return bool(pod.unschedulable) and now >= pod.created + UNSCHEDULABLE_AFTER


def sizes(
    n: int,
    name: str,
    target: Revision | None,
    olds: Sequence[Revision],
    gateway: GatewayObserved,
    *,
    stable: str | None,
    recreate: bool,
    now: float,
) -> Sizes:
    """Sizes for `n` wanted engines of the target, which is called `name` and None before its first write.

    `olds` stand in the order in which they go: what came between first, the stable revision last.
    """
    present = engines(target) if target else 0
    if n == 0:
        return Sizes({name: 0, **{old.name: 0 for old in olds}})
    if not any(engines(old) for old in olds):
        if recreate and any(_holds_gpus(pod) for old in olds for pod in old.pods):
            return Sizes({name: min(n, present)})
        return Sizes({name: n})
    if recreate:
        return Sizes({name: min(n, present), **{old.name: 0 for old in olds}})
    return _rolling(n, name, target, olds, gateway, stable, now)


def _rolling(
    n: int,
    name: str,
    target: Revision | None,
    olds: Sequence[Revision],
    gateway: GatewayObserved,
    stable: str | None,
    now: float,
) -> Sizes:
    serving = sum(acknowledged(gateway, pod) for pod in target.ready) if target else 0
    old_ready = sum(len(old.ready) for old in olds)
    short = target is not None and _short_of_gpus(target, olds, now)
    held = ""
    floor = n
    if short:
        floor = n - 1
        if n == 1 and old_ready:
            floor, held = n, _held(target)
    present = engines(target) if target else 0
    want = _shrink(olds, floor, serving, old_ready, stable)
    if stable in want and old_ready and not (target and target.ready):
        beside = present + sum(engines(old) for old in olds if old.name != stable)
        want = _grow_stable(n, want, stable, beside)
    kept = sum(want.values())
    room = n + 1 - sum(max(want[old.name], engines(old)) for old in olds)
    want[name] = max(0, min(n, max(room, min(present, n + 1 - kept))))
    return Sizes(want, held)


def _shrink(
    olds: Sequence[Revision], floor: int, serving: int, old_ready: int, stable: str | None
) -> dict[str, int]:
    """Take away what the target's serving engines replace, engines that aren't ready before those that are.

    Of a revision that is neither stable nor wanted, an engine that isn't ready is of no use to anybody.
    """
    want = {old.name: engines(old) if old.name == stable else len(old.ready) for old in olds}
    surplus = max(0, sum(want.values()) - max(0, floor - serving))
    if stable in want:
        unready = want[stable] - sum(len(old.ready) for old in olds if old.name == stable)
        taken = min(surplus, unready)
        want[stable] -= taken
        surplus -= taken
    spare = min(surplus, max(0, old_ready + serving - floor))
    for old in olds:
        taken = min(spare, len(old.ready))
        want[old.name] -= taken
        spare -= taken
    return want


def _grow_stable(n: int, want: dict[str, int], stable: str, beside: int) -> dict[str, int]:
    """While no engine of the target is ready, a scale-up goes to the stable revision: a target that never
    gets ready must not keep the cluster from growing. One engine less than wanted is the rollout's own doing.

    `beside`: engines of all other revisions that exist now.
    """
    others = sum(count for revision, count in want.items() if revision != stable)
    grown = min(n - 1 - others, n + 1 - beside)
    return {**want, stable: max(want[stable], grown)}


def _short_of_gpus(target: Revision, olds: Iterable[Revision], now: float) -> bool:
    """Does the next engine of the target wait for something that an old one would free, and none is
    freeing?"""
    if any(pod.terminating and _holds_gpus(pod) for old in olds for pod in old.pods):
        return False
    if "exceeded quota" in target.create_error:
        return True
    if not any(_same_gpus(target.plan, old.plan) for old in olds if engines(old)):
        return False
    # A pod that fits no node at all (selector, taint) gains nothing by an old engine's end.
    return any(stuck(pod, now) and "insufficient" in pod.unschedulable.lower() for pod in target.live)


def _same_gpus(plan: Plan, other: Plan) -> bool:
    """Can an engine of one plan take the GPUs of the other's?"""
    mine, theirs = set(plan.gpu_products), set(other.gpu_products)
    return plan.resource_name == other.resource_name and (not mine or not theirs or bool(mine & theirs))


def _holds_gpus(pod: EnginePod) -> bool:
    """A finished pod has given its GPUs back, one on a lost node will never say so."""
    return pod.phase not in ("Failed", "Succeeded") and not pod.node_lost


def _held(target: Revision | None) -> str:
    if target is None:
        return ""
    why = next((pod.unschedulable for pod in target.live if pod.unschedulable), target.create_error)
    plan = target.plan
    return (
        f"Rollout held: the engine of revision {target.name} needs {plan.gpus} x {plan.resource_name} beside "
        "the running one, and the only replica can't be replaced without downtime. Free GPUs, add a node, "
        "raise the quota, or set spec.rollout.strategy to Recreate to accept the downtime. "
        f"Reason: {why}"
    )


def shares(n: int, target: str, revisions: Iterable[Revision], drained: Iterable[str]) -> dict[str, int]:
    """New requests follow the ready engines that aren't drained, in ten-thousandths.

    With none at all the target gets everything: its first engine then serves without a new document, and
    until then the gateway answers 503. With no engine wanted nobody gets anything.
    """
    out = set(drained)
    weights = {r.name: sum(pod.name not in out for pod in r.ready) for r in revisions}
    weights.setdefault(target, 0)
    if n == 0:
        return dict.fromkeys(weights, 0)
    total = sum(weights.values())
    if total == 0:
        return {name: FULL_SHARE if name == target else 0 for name in weights}
    exact = {name: weight * FULL_SHARE // total for name, weight in weights.items()}
    # What the division leaves over goes to the largest remainder, so that the sum is exact and stable.
    rest = FULL_SHARE - sum(exact.values())
    by_remainder = sorted(weights, key=lambda name: (-(weights[name] * FULL_SHARE % total), name))
    for name in by_remainder[:rest]:
        exact[name] += 1
    return exact
