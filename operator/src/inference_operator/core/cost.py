"""Cost of a million tokens: what the held GPUs cost, over the tokens that were counted meanwhile (acceptance
M1, M4). Pure, in decimal arithmetic.

    GPUs held x price of an hour / 3600  /  tokens per second  x  1,000,000

A GPU is held from the moment its pod has a node until the pod has ended: loading and idle ones cost as much
as busy ones. Tokens are prompt - cached + generation. Every gateway counts other engines, each since a start
of its own, so their rates are added up, and one that says nothing leaves no figure at all: a part of the
tokens would look like dear ones, none of them like an idle cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Final

from ..api.operator_config import Prices
from ..api.v1alpha1 import CostStatus, InferenceClusterSpec
from .model import Revision, TokenWindow

#: Tokens of less time say little of the cost. Seconds.
SHORTEST_WINDOW: Final = 60.0
#: What stands in the status stays until the figure is off by more than this part of it.
_TOLERANCE: Final = Decimal("0.1")
_MILLION: Final = 1_000_000
_HOUR: Final = 3600
_FIGURE: Final = Context(prec=2)
_PRICE: Final = Context(prec=12)


@dataclass(frozen=True)
class Held:
    """GPUs that a cluster holds now, and what they cost."""

    gpus: int
    #: Of all of them together; None = no price is known.
    hourly: Decimal | None
    #: Of one of them, on average; of one that the spec asks for while none is held.
    price: Decimal | None
    currency: str
    #: Why no price is known and what to do; "" = it is.
    problem: str = ""


def hold(spec: InferenceClusterSpec, revisions: Iterable[Revision], prices: Prices) -> Held:
    """What the cluster holds, at the price of its spec, else at that of the operator configuration."""
    counts = [(revision.plan.accelerator, _gpus(revision)) for revision in revisions]
    gpus = sum(count for _, count in counts)
    wanted = spec.cost
    currency = wanted.currency or prices.currency
    if wanted.gpu_hour_price is None and currency != prices.currency:
        return Held(gpus, None, None, currency, _other_currency(currency, prices))
    hourly = Decimal(0)
    for accelerator, count in counts or [(spec.accelerator.type, 0)]:
        price = wanted.gpu_hour_price or prices.of(accelerator)
        if price is None:
            return Held(gpus, None, None, currency, _no_price(accelerator))
        hourly += count * Decimal(price)
        last = Decimal(price)
    return Held(gpus, hourly, _PRICE.divide(hourly, Decimal(gpus)) if gpus else last, currency)


def per_million_tokens(held: Held, windows: Sequence[TokenWindow]) -> Decimal | None:
    """`windows` of all gateways. None = there is no figure: nothing is held, or no token was counted."""
    if not held.hourly or not long_enough(windows):
        return None
    rate = sum((window.tokens / Decimal(window.seconds) for window in windows), Decimal(0))
    return held.hourly * _MILLION / _HOUR / rate if rate else None


def long_enough(windows: Sequence[TokenWindow]) -> bool:
    """Has every gateway looked for long enough?"""
    return bool(windows) and all(window.seconds >= SHORTEST_WINDOW for window in windows)


def cost_status(
    before: CostStatus | None, held: Held, windows: Sequence[TokenWindow] | None, moment: str
) -> CostStatus | None:
    """What status.cost is to hold.

    `windows` None = nobody was asked, or one gateway didn't answer: what stood there stays, with the time at
    which it was measured. `moment` is now, as the API writes it.
    """
    if held.price is None:
        return None
    if windows is None or not long_enough(windows):
        return before
    figure = per_million_tokens(held, windows)
    after = CostStatus(
        per_million_tokens=_text(_FIGURE.plus(figure)) if figure is not None else None,
        currency=held.currency,
        gpus_held=held.gpus,
        gpu_hour_price=_text(held.price),
        measured=moment,
    )
    return before if before is not None and _alike(before, after, figure) else after


def _alike(before: CostStatus, after: CostStatus, figure: Decimal | None) -> bool:
    """Apart from the time, and from a figure that is a little different."""
    if before.model_copy(update={"measured": "", "per_million_tokens": None}) != after.model_copy(
        update={"measured": "", "per_million_tokens": None}
    ):
        return False
    if before.per_million_tokens is None or figure is None:
        return before.per_million_tokens == after.per_million_tokens
    stands = Decimal(before.per_million_tokens)
    return abs(figure - stands) <= stands * _TOLERANCE


def _gpus(revision: Revision) -> int:
    """Those on their way out and on lost nodes, too: nobody else can have them."""
    pods = (pod for pod in revision.pods if pod.node and pod.phase not in ("Failed", "Succeeded"))
    return revision.plan.gpus * sum(1 for _ in pods)


def _text(amount: Decimal) -> str:
    """Plain digits: no exponent."""
    return f"{amount:f}"


def _no_price(accelerator: str | None) -> str:
    kind = accelerator or "a GPU of any type"
    return (
        f"The price of {kind} isn't known: set spec.cost.gpuHourPrice, or prices.gpuHour in the operator "
        "configuration"
    )


def _other_currency(currency: str, prices: Prices) -> str:
    return (
        f"spec.cost.currency is {currency}, and the prices of the operator configuration are in "
        f"{prices.currency}: set spec.cost.gpuHourPrice too, or leave out the currency"
    )
