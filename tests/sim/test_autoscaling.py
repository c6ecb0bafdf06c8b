"""The autoscaler and the operator on the simulated cluster: nobody fights, whatever the other one is doing.

The autoscaler here is nastier than Kubernetes' own: it looks every second and scales down without a window.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from inference_operator.core.staffing import replicas_needed
from tests.goldens import check_golden

from .run import second, settle
from .test_rollouts import NEXT, spec
from .world import SLOTS, World, is_ending, is_ready

Object = dict[str, Any]
BUSY = 20
WANTED = replicas_needed(BUSY, SLOTS)


def scaled(version: str = "0.32.0", **fields: Any) -> Object:
    return spec(version, 1, autoscaling={"minReplicas": 1, "maxReplicas": 6}, **fields)


def busy(gpus: int = 8, *, demand: int = BUSY) -> World:
    """A cluster that has scaled out to what its demand needs."""
    world = World(scaled(), gpus=gpus)
    world.demand = demand
    settle(world)
    assert replicas(world) == replicas_needed(demand, SLOTS)
    return world


def replicas(world: World) -> int:
    return int(world.cluster["spec"]["replicas"])


def roll(world: World, version: str = NEXT, **fields: Any) -> None:
    """As a person or Git does it: without the replicas."""
    new = {**scaled(version, **fields), "replicas": replicas(world)}
    world.change(new, f"version {version}")


def follow(world: World, seconds: int, seed: int | None = None) -> list[tuple[int, int, int]]:
    """(spec.replicas, status.replicas, engines that exist) each time that one of them changed."""
    dice = random.Random(seed) if seed is not None else None
    seen: list[tuple[int, int, int]] = []
    for _ in range(seconds):
        second(world, dice, kill=False)
        live = sum(not is_ending(pod) for pod in world.engines())
        now = (replicas(world), world.cluster["status"]["replicas"], live)
        if not seen or seen[-1] != now:
            seen.append(now)
        assert not world.cut, world.log[-20:]
        world.tick()
    return seen


PHASES: dict[str, tuple[int, Object, set[str]]] = {
    "surge": (8, {}, set()),
    "full-pool": (WANTED, {}, set()),
    "recreate": (8, {"rollout": {"strategy": "Recreate"}}, set()),
    "new-one-crashes": (8, {}, {NEXT}),
}


@pytest.mark.parametrize("name", sorted(PHASES))
def test_replicas_in_each_phase_of_a_rollout(name: str) -> None:
    """Golden: spec.replicas, status.replicas and engines, while the demand stays the same."""
    gpus, fields, broken = PHASES[name]
    world = busy(gpus)
    world.broken = {f"vllm/vllm-openai:v{version}" for version in broken}
    roll(world, **fields)
    seen = follow(world, 120)
    assert {wanted for wanted, _, _ in seen} == {WANTED}, "constant demand, so nothing is to change"
    lines = ["spec.replicas  status.replicas  engines", *(f"{a:13}  {b:15}  {c:7}" for a, b, c in seen)]
    check_golden(f"scaling/{name}.txt", "\n".join(lines) + "\n")


@pytest.mark.parametrize("seed", range(6))
def test_constant_demand_changes_nothing_during_a_rollout_in_any_order(seed: int) -> None:
    world = busy()
    roll(world)
    seen = follow(world, 150, seed)
    assert {wanted for wanted, _, _ in seen} == {WANTED}
    settle(world)
    assert sum(is_ready(pod) for pod in world.engines()) == WANTED


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("demand", [2, 30])
def test_a_demand_that_changes_in_mid_rollout_is_followed(seed: int, demand: int) -> None:
    world = busy()
    roll(world)
    follow(world, 15, seed)
    world.demand = demand
    follow(world, 200, seed)
    settle(world)
    assert replicas(world) == replicas_needed(demand, SLOTS)
    ready = [pod for pod in world.engines() if is_ready(pod) and not is_ending(pod)]
    assert len(ready) == replicas_needed(demand, SLOTS)


@pytest.mark.parametrize("seed", range(4))
def test_without_a_metric_nothing_shrinks_not_even_after_a_reset(seed: int) -> None:
    world = busy()
    world.demand = None
    world.change({**world.cluster["spec"], "replicas": 1}, "kubectl replace without replicas")
    seen = follow(world, 60, seed)
    assert min(live for _, _, live in seen) == WANTED
    world.demand = BUSY
    settle(world)
    assert replicas(world) == WANTED


def test_a_stop_is_a_stop_and_a_start_goes_on() -> None:
    world = busy()
    world.change({**world.cluster["spec"], "replicas": 0}, "stop")
    settle(world)
    assert world.engines() == []
    assert ("HorizontalPodAutoscaler", "llama-engine") not in world.objects
    world.change({**world.cluster["spec"], "replicas": 1}, "start")
    settle(world)
    assert replicas(world) == WANTED
