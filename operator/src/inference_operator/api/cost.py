"""spec.cost: what a GPU costs, and what a million tokens may."""

from __future__ import annotations

from pydantic import Field

from .base import ApiModel
from .scalars import Currency, Price


class Cost(ApiModel):
    """Price of a GPU and the budget for what it makes."""

    gpu_hour_price: Price | None = Field(
        None,
        description='Price of one GPU for an hour, e.g. "2.50". Default: the operator configuration\'s.',
    )
    currency: Currency | None = Field(
        None,
        description="Currency of the prices here, as three capitals. Default: the operator configuration's, "
        "which is USD unless it says otherwise.",
    )
    max_cost_per_million_tokens: Price | None = Field(
        None,
        description="Budget: above it the condition WithinBudget is False; nothing else happens. "
        "Default: no budget.",
    )
