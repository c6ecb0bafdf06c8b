"""Whole changes on the simulated cluster, in a fixed order (golden prose logs) and in many random ones.

In every order, and wherever the operator dies, the same state is reached in the end, no engine goes while it
has requests, and as many engines take requests as were promised.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import Any

import pytest

from tests.goldens import check_golden

from .run import check, end_state, second, settle
from .world import World

Object = dict[str, Any]
#: Seeds, and whether the operator dies now and then.
RUNS = ((0, False), (1, True), (2, True))


def spec(version: str = "0.32.0", n: int = 3, **fields: Any) -> Object:
    return {
        "model": {"id": "meta-llama/Llama-3.1-8B-Instruct"},
        "engine": {"version": version},
        "replicas": n,
        **fields,
    }


NEXT, THIRD, RECREATE = "0.31.0", "0.30.0", {"rollout": {"strategy": "Recreate"}}


@dataclass(frozen=True)
class Change:
    """One edit of the spec, and the number of engines that must take requests from then on."""

    why: str
    spec: Object
    floor: int
    #: The next edit comes in the middle of this one, after so many seconds at most; None = when all is
    #: settled.
    soon: int | None = None


@dataclass(frozen=True)
class Story:
    start: Object
    changes: tuple[Change, ...]
    gpus: int = 8
    #: Versions whose engines crash.
    broken: tuple[str, ...] = ()


STORIES = {
    "rolling-update": Story(spec(), (Change("a new version", spec(NEXT), 3),)),
    "rolling-update-full-pool": Story(spec(), (Change("a new version", spec(NEXT), 2),), gpus=3),
    "two-replicas-full-pool": Story(spec(n=2), (Change("a new version", spec(NEXT, n=2), 1),), gpus=2),
    "back-in-the-middle": Story(
        spec(), (Change("a new version", spec(NEXT), 3, soon=45), Change("back to the old one", spec(), 2))
    ),
    "third-in-the-middle": Story(
        spec(), (Change("a new version", spec(NEXT), 3, soon=45), Change("yet another one", spec(THIRD), 2))
    ),
    "broken-then-fixed": Story(
        spec(),
        (Change("a version that crashes", spec(NEXT), 3), Change("one that doesn't", spec(THIRD), 2)),
        broken=(NEXT,),
    ),
    "broken-on-a-full-pool-then-back": Story(
        spec(),
        (Change("a version that crashes", spec(NEXT), 2), Change("back to the old one", spec(), 2)),
        gpus=3,
        broken=(NEXT,),
    ),
    "one-replica-held-then-recreated": Story(
        spec(n=1),
        (
            Change("a new version without a free GPU", spec(NEXT, n=1), 1),
            Change("downtime is accepted", spec(NEXT, n=1, **RECREATE), 0),
        ),
        gpus=1,
    ),
    "scale-up": Story(spec(n=2), (Change("four replicas", spec(n=4), 2),)),
    "scale-down": Story(spec(n=4), (Change("two replicas", spec(n=2), 2),)),
    "scale-down-then-up-again": Story(
        spec(n=4), (Change("two replicas", spec(n=2), 2, soon=8), Change("four again", spec(n=4), 2))
    ),
    "stop-and-start": Story(
        spec(n=2), (Change("stopped", spec(n=0), 0), Change("started again", spec(n=2), 0))
    ),
    "scale-in-the-middle-of-a-rollout": Story(
        spec(n=2),
        (
            Change("a new version", spec(NEXT, n=2), 2, soon=45),
            Change("five replicas", spec(NEXT, n=5), 2, soon=45),
            Change("two again", spec(NEXT, n=2), 1),
        ),
    ),
}


def play(story: Story, *, seed: int | None = None, kill: bool = False) -> World:
    """The whole story; without a seed, edits in the middle come after exactly their time."""
    world = World(story.start, gpus=story.gpus)
    world.broken = {f"vllm/vllm-openai:v{version}" for version in story.broken}
    settle(world)
    dice = random.Random(seed)
    for change in story.changes:
        world.change(change.spec, change.why)
        if change.soon is None:
            settle(world, seed=seed, kill=kill, floor=change.floor)
            continue
        for _ in range(change.soon if seed is None else dice.randrange(change.soon)):
            second(world, None if seed is None else dice, kill=kill)
            check(world, change.floor)
            world.tick()
    return world


def prose(log: list[str]) -> str:
    """The log with short names: revisions are called r1, r2, … in the order in which they appear."""
    text = "\n".join(log) + "\n"
    for number, name in enumerate(dict.fromkeys(re.findall(r"\b[0-9a-f]{10}\b", text)), 1):
        text = text.replace(name, f"r{number}")
    return text


@pytest.mark.parametrize("name", STORIES)
def test_a_story_goes_as_it_was_reviewed(name: str) -> None:
    check_golden(f"rollouts/{name}.txt", prose(play(STORIES[name]).log))


@pytest.mark.parametrize("name", STORIES)
def test_every_order_and_every_death_of_the_operator_ends_in_the_same_state(name: str) -> None:
    want = end_state(play(STORIES[name]))
    for seed, kill in RUNS:
        assert end_state(play(STORIES[name], seed=seed, kill=kill)) == want, f"seed {seed}, kill {kill}"


def test_the_scale_subresource_stays_constant_through_a_rollout() -> None:
    """A scaler that saw the surge, or the engine that is being exchanged, would react to it."""
    for gpus in (3, 8):
        world = World(spec(), gpus=gpus)
        settle(world)
        world.change(spec(NEXT), "a new version")
        seen = set()
        for _ in range(120):
            second(world, None, kill=False)
            seen.add(world.cluster["status"]["replicas"])
            world.tick()
        assert end_state(world)["conditions"]["Ready"] == "True Serving"
        assert seen == {3}


def test_a_settled_cluster_needs_no_write_ever_again() -> None:
    world = World(spec(), gpus=8)
    settle(world)
    before = world.version
    for _ in range(50):
        world.now += 60
        second(world, None, kill=False)
    assert world.version == before


def conditions(world: World) -> Object:
    found: Object = end_state(world)["conditions"]
    return found


def test_a_cluster_that_never_gets_ready_stays_stalled_until_it_is_mended() -> None:
    """kstatus counts it as done as soon as neither Stalled nor Reconciling is True."""
    world = World(spec(), gpus=8)
    world.broken.add("vllm/vllm-openai:v0.32.0")
    settle(world)
    for _ in range(5):
        world.now += 60
        second(world, None, kill=False)
        found = conditions(world)
        assert found["Stalled"] == "True CrashLoop"
        assert found["Reconciling"] == "False FirstCreation"
        assert found["Ready"] == "False Progressing"
    told = [line for line in world.log if "event: Stalled" in line]
    assert len(told) == 1, told

    world.change(spec(NEXT), "a version that starts")
    second(world, None, kill=False)
    assert conditions(world)["Reconciling"] == "True FirstCreation", "nothing has served yet"
    settle(world)
    found = conditions(world)
    assert (found["Ready"], found["Stalled"]) == ("True Serving", "False NotStalled")
    assert sum("event: Resumed" in line for line in world.log) == 1


def test_a_scale_up_is_no_loss() -> None:
    world = World(spec(n=1), gpus=8)
    settle(world)
    world.change(spec(n=4), "four engines")
    seen = set()
    for _ in range(20):
        second(world, None, kill=False)
        seen |= {f"{kind} {conditions(world)[kind]}" for kind in ("Ready", "Degraded", "FailoverActive")}
        world.tick()
    assert seen == {
        "Ready True Scaling",
        "Ready True Serving",
        "Degraded False Scaling",
        "Degraded False AllReady",
        "FailoverActive False NoFailover",
    }


def test_without_any_gateway_report_a_drain_lasts_its_timeout_and_no_longer() -> None:
    world = World(spec(n=2, engine={"version": "0.32.0", "drainTimeout": "30s"}), gpus=8, gateways=False)
    settle(world)
    world.change(spec(n=1, engine={"version": "0.32.0", "drainTimeout": "30s"}), "one replica")
    start = world.now
    for _ in range(60):
        second(world, None, kill=False)
        if len(world.engines()) < 2:
            break
        world.tick()
    assert 30 <= world.now - start < 40
