"""Cost of a million tokens, and how seldom the status changes for it."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_operator.api.conditions import ConditionType
from inference_operator.api.operator_config import OperatorConfig, Prices
from inference_operator.api.v1alpha1 import CostStatus, InferenceClusterStatus
from inference_operator.core.cost import Held, cost_status, hold, per_million_tokens
from inference_operator.core.decide import decide
from inference_operator.core.edges import edges
from inference_operator.core.model import TokenWindow
from inference_operator.core.status import compute_status

from .builders import NOW, PLAN, engine, engines_of, loading, make_plan, make_spec, observed, revision
from .builders import unschedulable as waiting
from .statuses import PROBLEM, SETTLED, message, says

THEN, LATER = "2027-01-15T08:00:00Z", "2027-01-15T08:01:00Z"


def prices(currency: str = "USD", **gpu_hour: str) -> Prices:
    return OperatorConfig.model_validate({"prices": {"currency": currency, "gpuHour": gpu_hour}}).prices


def window(
    generation: int = 1000, *, seconds: float = 100.0, prompt: int = 0, cached: int = 0
) -> TokenWindow:
    return TokenWindow(seconds, prompt, cached, generation)


TWO = Held(gpus=2, hourly=Decimal(5), price=Decimal("2.50"), currency="USD")


# --- what is held (acceptance M1) ---


def test_loading_idle_and_leaving_engines_are_held_and_waiting_or_ended_ones_are_not() -> None:
    pods = [
        engine("busy"),
        loading("loads"),
        engine("leaves", terminating=True),
        engine("lost", node_lost=True),
        waiting("waits"),
        engine("done", phase="Succeeded"),
        engine("failed", phase="Failed"),
    ]
    made = revision("a", pods, plan=make_plan(gpus=2))
    held = hold(make_spec(), [made], prices(H100="2.50"))
    assert (held.gpus, held.hourly, held.price, held.problem) == (8, Decimal(20), Decimal("2.5"), "")


@pytest.mark.parametrize(
    ("spec", "known", "want"),
    [
        ({"gpuHourPrice": "3"}, prices(H100="2"), ("3", "USD")),
        ({}, prices(H100="2", default="1"), ("2", "USD")),
        ({}, prices("EUR", default="1"), ("1", "EUR")),
        ({"gpuHourPrice": "3", "currency": "CHF"}, prices("EUR", default="1"), ("3", "CHF")),
        ({"currency": "EUR"}, prices("EUR", default="1"), ("1", "EUR")),
        ({}, prices(A10G="1"), (None, "USD")),
        ({"currency": "EUR"}, prices(default="1"), (None, "EUR")),
    ],
)
def test_the_price_is_the_specs_else_that_of_the_type_else_the_default(
    spec: dict[str, Any], known: Prices, want: tuple[str | None, str]
) -> None:
    for revisions in ([], [revision("a", engines_of("a", 2))]):
        made = make_spec(accelerator={"type": "H100"}, cost=spec)
        held = hold(made, revisions, known)
        price = None if held.price is None else f"{held.price:f}"
        assert (price, held.currency) == want
        assert bool(held.problem) == (price is None)


def test_two_gpu_types_cost_what_each_costs() -> None:
    old = revision("a", engines_of("a", 1))
    new = revision("b", engines_of("b", 1), plan=make_plan(accelerator="A10G"))
    held = hold(make_spec(), [old, new], prices(H100="3", A10G="1"))
    assert (held.hourly, held.price) == (4, 2)


# --- the figure (acceptance M4) ---


@pytest.mark.parametrize(
    ("windows", "want"),
    [
        # 2.50 an hour at 1,000 tokens a second: $0.69.
        ([window(100_000)], "1.389"),
        ([window(50_000), window(50_000)], "1.389"),
        # A gateway that has looked for less time has a rate all the same.
        ([window(50_000), window(30_000, seconds=60.0)], "1.389"),
        ([window(50_000, prompt=80_000, cached=30_000)], "1.389"),
        # Two counters are read one after the other.
        ([window(100_000, prompt=1, cached=5)], "1.389"),
        ([window(0)], None),
        ([window(100_000), window(100_000, seconds=59.9)], None),
        ([], None),
    ],
)
def test_cost_of_a_million_tokens(windows: list[TokenWindow], want: str | None) -> None:
    figure = per_million_tokens(TWO, windows)
    assert (None if figure is None else f"{figure:.3f}") == want


def test_nothing_held_costs_nothing_that_could_be_said() -> None:
    assert per_million_tokens(replace(TWO, gpus=0, hourly=Decimal(0)), [window()]) is None


COUNTS = st.integers(0, 10**15)
WINDOWS = st.lists(
    st.builds(TokenWindow, st.floats(0, 600, allow_nan=False), COUNTS, COUNTS, COUNTS), max_size=4
)
HELD = st.builds(
    lambda gpus, price: Held(gpus, gpus * price, price, "USD"),
    st.integers(0, 100_000),
    st.decimals("0.0000000001", "999999999999", places=10, allow_nan=False),
)


@given(HELD, WINDOWS)
def test_a_figure_is_positive_or_absent_and_the_status_can_hold_it(
    held: Held, windows: list[TokenWindow]
) -> None:
    figure = per_million_tokens(held, windows)
    assert figure is None or figure > 0
    status = cost_status(None, held, windows, THEN)
    if status is not None:
        again = CostStatus.model_validate_json(status.model_dump_json(by_alias=True))
        assert again == status
        assert (figure is None) == (status.per_million_tokens is None)
        if figure is not None:
            assert Decimal(status.per_million_tokens or 0) == pytest.approx(figure, rel=Decimal("0.05"))


@given(HELD, WINDOWS, st.integers(2, 1000))
def test_the_cost_grows_with_the_price_and_falls_with_the_tokens(
    held: Held, windows: list[TokenWindow], times: int
) -> None:
    figure = per_million_tokens(held, windows)
    if figure is None or held.hourly is None:
        return
    dearer = per_million_tokens(replace(held, hourly=held.hourly * times), windows)
    busier = [
        replace(w, prompt=w.prompt * times, cached=w.cached * times, generation=w.generation * times)
        for w in windows
    ]
    assert dearer == pytest.approx(figure * times)
    assert per_million_tokens(held, busier) == pytest.approx(figure / times)


# --- status.cost ---


def first(**changes: Any) -> CostStatus:
    made = cost_status(None, TWO, [window(100_000)], THEN)
    assert made is not None
    return made.model_copy(update=changes)


def test_the_figure_has_two_digits_and_no_exponent() -> None:
    assert first().model_dump(by_alias=True) == {
        "perMillionTokens": "1.4",
        "currency": "USD",
        "gpusHeld": 2,
        "gpuHourPrice": "2.50",
        "measured": THEN,
    }
    dear = cost_status(None, replace(TWO, hourly=Decimal(5_000_000)), [window(1)], THEN)
    assert dear is not None
    assert dear.per_million_tokens == "140000000000"


@pytest.mark.parametrize(
    ("windows", "want"),
    [
        ([window(100_000)], THEN),
        ([window(91_000)], THEN),
        ([window(110_000)], THEN),
        ([window(85_000)], LATER),
        ([window(120_000)], LATER),
        ([window(0)], LATER),
        # Not asked, a gateway that says nothing, or that has just begun: the last figure stays with its age.
        (None, THEN),
        ([], THEN),
        ([window(0, seconds=20.0)], THEN),
    ],
)
def test_what_stands_there_stays_within_ten_percent(windows: list[TokenWindow] | None, want: str) -> None:
    after = cost_status(first(), TWO, windows, LATER)
    assert after is not None
    assert after.measured == want
    assert (after == first()) == (want == THEN)


@pytest.mark.parametrize(
    "held",
    [
        replace(TWO, gpus=3),
        replace(TWO, price=Decimal(3)),
        replace(TWO, currency="EUR"),
    ],
)
def test_other_gpus_and_prices_are_told_whatever_the_figure(held: Held) -> None:
    after = cost_status(first(), held, [window(100_000)], LATER)
    assert after is not None
    assert after.measured == LATER


def test_an_idle_cluster_stays_quiet() -> None:
    idle = cost_status(first(), TWO, [window(0)], THEN)
    assert idle is not None
    assert idle.per_million_tokens is None
    assert cost_status(idle, TWO, [window(0)], LATER) == idle


def test_without_a_price_no_old_figure_is_left() -> None:
    held = hold(make_spec(), [], Prices())
    assert cost_status(first(), held, [window()], LATER) is None


# --- WithinBudget ---

KNOWN = prices(H100="2.50")
BUDGET = {"maxCostPerMillionTokens": "1.4"}


def status(
    cost: dict[str, Any] | None = None,
    *,
    known: Prices = KNOWN,
    tokens: list[TokenWindow] | None = None,
    before: InferenceClusterStatus = SETTLED,
    suspend: bool = False,
    pods: int = 2,
    **extra: Any,
) -> InferenceClusterStatus:
    state = observed(revision("a", engines_of("a", pods)), status=before)
    budget = BUDGET if cost is None else cost
    spec = make_spec(replicas=2, suspend=suspend, accelerator={"type": "H100"}, cost=budget)
    decision = None if suspend else decide(spec, "a", state, NOW)
    return compute_status(
        spec, state, decision, **{"plan": PLAN, "now": NOW, "prices": known, "tokens": tokens, **extra}
    )


BUSY, LAZY = [window(100_000)], [window(50_000)]


@pytest.mark.parametrize(
    ("got", "want", "words"),
    [
        (status(tokens=BUSY), "True WithinBudget", "1.4 USD for a million tokens"),
        (status(tokens=LAZY), "False OverBudget", "2.8 USD for a million tokens"),
        (status({"maxCostPerMillionTokens": "1.39"}, tokens=BUSY), "False OverBudget", "GPUs held: 2"),
        (status(tokens=[window(0)]), "Unknown NotObserved", "n/a: no token"),
        (status(tokens=BUSY, pods=0), "Unknown NotObserved", "n/a: no GPU"),
        (status(tokens=None), "Unknown NotObserved", "n/a: not measured yet"),
        (status({}, tokens=BUSY), "Unknown NotObserved", "No budget"),
        (status({}, known=Prices()), "Unknown NotObserved", "No budget"),
        (status(known=Prices(), tokens=BUSY), "Unknown NotObserved", "The price of H100 isn't known"),
        (
            status({**BUDGET, "currency": "EUR"}, tokens=BUSY),
            "Unknown NotObserved",
            "spec.cost.currency is EUR",
        ),
        (
            status(
                {"maxCostPerMillionTokens": "9", "gpuHourPrice": "1", "currency": "EUR"},
                before=status(tokens=BUSY),
            ),
            "Unknown NotObserved",
            "last measured in USD",
        ),
        (status(tokens=BUSY, suspend=True), "Unknown NotObserved", "spec.suspend"),
        (status(tokens=BUSY, problems=[PROBLEM]), "Unknown NotObserved", "SpecValid"),
    ],
)
def test_within_budget(got: InferenceClusterStatus, want: str, words: str) -> None:
    assert says(got, ConditionType.WITHIN_BUDGET) == want
    assert words in message(got, ConditionType.WITHIN_BUDGET)


def test_it_is_no_part_of_ready() -> None:
    assert says(status(tokens=LAZY), ConditionType.READY) == "True Serving"


def test_a_pass_that_measures_nothing_changes_nothing() -> None:
    before = status(tokens=LAZY)
    assert status(before=before) == before


def test_a_turn_is_told_once() -> None:
    within, over = status(tokens=BUSY), status(tokens=LAZY)
    unknown = status()

    def told(before: InferenceClusterStatus, after: InferenceClusterStatus) -> list[tuple[str, str]]:
        return [(note.type, note.reason) for note in edges(before, after)]

    assert told(unknown, over) == told(within, over) == [("Warning", "OverBudget")]
    assert told(over, within) == [("Normal", "WithinBudget")]
    assert told(over, over) == told(unknown, within) == told(within, unknown) == []
