"""Runs a world until nothing moves, and checks at each step what must always hold."""

from __future__ import annotations

import random
from typing import Any

from inference_operator.api import names

from .operator_pass import Killed, run_pass
from .world import World, is_ending, is_ready

Object = dict[str, Any]
#: Nothing has changed for this long: longer than every wait of the core but the drain timeout. Seconds.
QUIET = 20
LIMIT = 600
#: The operator dies at most this often, so that a run ends.
KILLS = 40


def settle(world: World, *, seed: int | None = None, kill: bool = False, floor: int = 0) -> None:
    """Until nothing has changed for a while. `seed` None: always in the same order, everybody each second.

    With `kill` the operator dies now and then after some of its writes. `floor` is the least number of
    engines that must take requests at each moment.
    """
    dice = random.Random(seed)
    quiet = 0
    deaths = 0
    for _ in range(LIMIT):
        before = world.version
        deaths += second(world, dice if seed is not None else None, kill=kill and deaths < KILLS)
        check(world, floor)
        quiet = quiet + 1 if world.version == before else 0
        if quiet >= QUIET:
            return
        world.tick()
    raise AssertionError("never settled:\n" + "\n".join(world.log[-40:]))


def second(world: World, dice: random.Random | None, *, kill: bool) -> bool:
    """Everybody reacts once, in a fixed order, or with dice in any order and not always. Did the operator
    die?"""
    actors = ["operator", "replica_sets", "scheduler", "kubelet", "gateway 0", "gateway 1", "autoscaler"]
    if dice is not None:
        dice.shuffle(actors)
        actors = [actor for actor in actors if dice.random() < 0.7]
    died = False
    for actor in actors:
        if actor == "operator":
            writes = dice.randrange(16) if dice is not None and kill and dice.random() < 0.5 else None
            died = not _operate(world, writes)
        elif actor.startswith("gateway"):
            world.gateway(int(actor[-1]))
        else:
            getattr(world, actor)()
    return died


def _operate(world: World, writes: int | None) -> bool:
    try:
        run_pass(world, writes)
    except Killed:
        world.version += 1  # a pass that died says nothing about rest
        return False
    return True


def check(world: World, floor: int) -> None:
    """What must hold at every moment."""
    tail = "\n".join(world.log[-30:])
    wanted = world.cluster["spec"].get("replicas", 1)
    routing = world.routing()
    if routing is not None:
        total = sum(track.share for track in routing.tracks)
        assert total in ((0,) if wanted == 0 else (10_000,)) or _stale(world), (
            f"shares add up to {total}\n{tail}"
        )
    assert world.serving() >= floor, f"only {world.serving()} engines serve, {floor} must\n{tail}"
    assert not world.cut, f"{world.cut} had running requests\n{tail}"


def _stale(world: World) -> bool:
    """The user has just changed the number and no pass has run since."""
    status = world.cluster.get("status") or {}
    return bool(status.get("observedGeneration") != world.cluster["metadata"]["generation"])


def end_state(world: World) -> Object:
    """What is left, without names and times that depend on the order."""
    routing = world.routing()
    assert routing is not None
    status = world.cluster["status"]
    return {
        "deployments": {d["metadata"]["name"]: d["spec"]["replicas"] for d in world.deployments()},
        "engines": sorted(p["metadata"]["labels"][names.LABEL_REVISION] for p in world.engines()),
        "ready": sum(is_ready(p) and not is_ending(p) for p in world.engines()),
        "marked": [p["metadata"]["name"] for p in world.engines() if p["metadata"].get("annotations")],
        "shares": {track.revision: track.share for track in routing.tracks},
        "drains": [drain.pod for drain in routing.drains],
        "objects": sorted(f"{kind} {name}" for kind, name in world.objects if kind != "Pod"),
        "conditions": {c["type"]: f"{c['status']} {c['reason']}" for c in status["conditions"]},
        "replicas": [status["replicas"], status["readyReplicas"]],
        "revisions": status["revisions"],
    }
