"""WithinBudget: does a million tokens cost no more than it may?

It is no part of Ready: what is too dear serves as well. It speaks of the figure in status.cost, so it turns
when that one changes, and not with each request.
"""

from __future__ import annotations

from decimal import Decimal

from ..api.conditions import Reason
from ..api.v1alpha1 import CostStatus
from .facts import Facts
from .verdict import Verdict, false, true, unknown


def within_budget(facts: Facts) -> Verdict:
    """Of the reasons for having no answer, the one that a person can do something about first."""
    spec = facts.spec
    if spec is None or facts.problems:
        return unknown("Not looked at while the spec doesn't hold: see SpecValid")
    if facts.suspended:
        return unknown("Not looked at while spec.suspend is true")
    budget = spec.cost.max_cost_per_million_tokens
    if budget is None:
        return unknown("No budget: spec.cost.maxCostPerMillionTokens isn't set")
    if facts.price_problem:
        return unknown(f"No price. {facts.price_problem}")
    return _compared(facts, budget)


def _compared(facts: Facts, budget: str) -> Verdict:
    cost = facts.cost
    if cost is None:
        return unknown("n/a: not measured yet; that takes a minute of answers from every gateway")
    if cost.currency != facts.currency:
        return unknown(f"n/a: last measured in {cost.currency}, not yet in {facts.currency}")
    if not cost.gpus_held:
        return unknown("n/a: no GPU was held when it was measured last")
    if cost.per_million_tokens is None:
        return unknown(
            f"n/a: no token was counted when it was measured last; GPUs held then: {cost.gpus_held}"
        )
    text = f"{_amount(cost)} for a million tokens; spec.cost.maxCostPerMillionTokens is {budget}"
    if Decimal(cost.per_million_tokens) > Decimal(budget):
        return false(Reason.OVER_BUDGET, f"{text}. GPUs held: {cost.gpus_held}, idle ones included")
    return true(Reason.WITHIN_BUDGET, text)


def _amount(cost: CostStatus) -> str:
    return f"{cost.per_million_tokens} {cost.currency}"
