"""Cost in passes: asked once a minute, written when it moved, quiet otherwise."""

from __future__ import annotations

import pytest

from inference_operator.api import names
from inference_operator.api.operator_config import OperatorConfig
from inference_operator.core.model import TokenWindow
from tests.unit.engine.rig import KEY, Rig, cluster
from tests.unit.engine.test_scaling import serving

PRICED = OperatorConfig.model_validate({"prices": {"gpuHour": {"default": "2.50"}}}).prices
BUSY = TokenWindow(600.0, 0, 0, 600_000)


@pytest.fixture
async def rig() -> Rig:
    """Two engines and two gateways that have counted for ten minutes."""
    made = Rig()
    made.kube.create(cluster(cost={"maxCostPerMillionTokens": "0.70"}))
    await serving(made, 2)
    made.prices = PRICED
    made.gateways.windows = [BUSY, BUSY]
    return made


def figure(rig: Rig) -> str | None:
    found: str | None = rig.status().get("cost", {}).get("perMillionTokens")
    return found


async def minutes(rig: Rig, count: int) -> None:
    """Passes as their own wake asks for them, and five more in each minute that something else asks for."""
    end = rig.clock.time + 60 * count
    while rig.clock.time < end:
        wake = await rig.run()
        assert wake is not None
        rig.clock.time += max(1.0, min(wake, 10.0))


async def test_without_a_price_nobody_is_asked(rig: Rig) -> None:
    rig.prices = OperatorConfig().prices
    await minutes(rig, 3)
    assert rig.gateways.asked_tokens == 0
    assert rig.metrics.costs == {}
    assert "No price" in rig.condition("WithinBudget")["message"]


async def test_a_figure_is_measured_and_compared(rig: Rig) -> None:
    wake = await rig.run()
    assert figure(rig) == "0.69"
    assert rig.status()["cost"]["gpusHeld"] == 2
    assert rig.condition("WithinBudget")["status"] == "True"
    assert wake == pytest.approx(60.0)
    cost = rig.metrics.costs[KEY]
    assert (cost.gpus, cost.gpu_hour_price, cost.currency) == (2, 2.5, "USD")
    assert cost.per_million_tokens == pytest.approx(0.694, abs=0.001)


async def test_steady_traffic_writes_nothing_and_asks_once_a_minute(rig: Rig) -> None:
    await rig.run_until_quiet()
    before = len(rig.kube.writes)
    rig.gateways.windows = [BUSY, TokenWindow(600.0, 9_000, 9_000, 630_000)]
    await minutes(rig, 10)
    assert rig.kube.writes[before:] == []
    assert rig.gateways.asked_tokens == 10


async def test_traffic_that_swings_is_written_once_a_minute_at_most(rig: Rig) -> None:
    await rig.run_until_quiet()
    before = rig.metrics.status_writes
    for i in range(10):
        rig.gateways.windows = [TokenWindow(600.0, 0, 0, 600_000 * (1 + i % 2))]
        await minutes(rig, 1)
    assert 0 < rig.metrics.status_writes - before <= 10


async def test_a_silent_gateway_leaves_the_last_figure_with_its_age(rig: Rig) -> None:
    await rig.run_until_quiet()
    before = rig.status()["cost"]
    rig.gateways.windows = None
    await minutes(rig, 3)
    assert rig.status()["cost"] == before
    assert rig.metrics.costs[KEY].per_million_tokens is None
    assert rig.metrics.costs[KEY].gpus == 2


async def test_an_idle_cluster_has_no_figure_and_no_writes(rig: Rig) -> None:
    await rig.run_until_quiet()
    rig.gateways.windows = [TokenWindow(600.0, 0, 0, 0)]
    await minutes(rig, 2)
    assert figure(rig) is None
    assert rig.condition("WithinBudget")["message"].startswith("n/a: no token")
    before = len(rig.kube.writes)
    await minutes(rig, 3)
    assert rig.kube.writes[before:] == []


async def test_gateways_that_have_just_begun_are_asked_again_when_they_can_tell(rig: Rig) -> None:
    rig.gateways.windows = [TokenWindow(12.0, 0, 0, 100), TokenWindow(15.0, 0, 0, 100)]
    await rig.run_until_quiet()
    assert figure(rig) is None
    assert await rig.run() == pytest.approx(48.0)


async def test_another_price_or_budget_counts_at_once(rig: Rig) -> None:
    await rig.run_until_quiet()
    rig.kube.update_spec("llama", cost={"maxCostPerMillionTokens": "0.50"})
    await rig.run()
    assert rig.condition("WithinBudget")["reason"] == "OverBudget"
    rig.prices = OperatorConfig.model_validate({"prices": {"gpuHour": {"default": "1"}}}).prices
    await rig.run()
    assert figure(rig) == "0.28"
    assert rig.condition("WithinBudget")["reason"] == "WithinBudget"


async def test_a_new_process_goes_by_the_moment_in_the_status(rig: Rig) -> None:
    await rig.run_until_quiet()
    rig.clock.time += 20
    heir = Rig(rig.kube)
    heir.clock.time = rig.clock.time
    heir.prices, heir.gateways.windows = PRICED, [BUSY]
    assert await heir.run() == pytest.approx(40.0)
    assert heir.gateways.asked_tokens == 0
    heir.clock.time += 40
    await heir.run()
    assert heir.gateways.asked_tokens == 1


async def test_without_a_ready_gateway_nobody_is_asked_and_no_pass_is_planned_for_it(rig: Rig) -> None:
    await rig.run_until_quiet()
    for pod in rig.child("Pod"):
        if pod["metadata"]["name"].startswith("llama-gateway"):
            pod["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    rig.store.sync()
    rig.clock.time += 100
    asked = rig.gateways.asked_tokens
    await rig.run_until_quiet()
    wake = await rig.run()
    assert rig.gateways.asked_tokens == asked
    assert wake is not None
    assert wake > 60


async def test_a_cluster_that_is_gone_leaves_no_series(rig: Rig) -> None:
    await rig.run()
    assert KEY in rig.metrics.costs
    del rig.kube.objects[names.KIND, *KEY]
    await rig.run()
    assert rig.metrics.costs == {}
