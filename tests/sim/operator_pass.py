"""The operator's pass on the simulated world: the real observe, decide, render and status, any write may be
the last one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from inference_operator.api.v1alpha1 import InferenceClusterSpec
from inference_operator.core.decide import decide
from inference_operator.core.edges import edges
from inference_operator.core.model import Decision, MetricsApi, Observed, Plan
from inference_operator.core.observe import observe
from inference_operator.core.revision import revision_name
from inference_operator.core.scaledown import marks
from inference_operator.core.status import compute_status
from inference_operator.planner.plan import make_plan
from inference_operator.render.children import children, unwanted
from inference_operator.render.settings import RenderSettings

from .world import World

METRICS_API = MetricsApi("inference-system/metrics-api", ours=True, available=True)
SETTINGS = RenderSettings(agent_image="operator:1", haproxy_image="haproxy:3.2")


class Killed(Exception):
    """The process died before its next write."""


def run_pass(world: World, writes: int | None = None) -> Decision:
    """One pass. With `writes`, the process dies after that many. Raises Killed."""
    # Scaled by hand, unless a run says otherwise.
    wanted = {"autoscaling": {"mode": "Disabled"}, **world.cluster["spec"]}
    spec = InferenceClusterSpec.model_validate_json(json.dumps(wanted))
    plan = make_plan(spec)
    assert isinstance(plan, Plan), plan
    observed = look(world)
    decision = decide(spec, revision_name(plan, spec), observed, world.now)
    left = writes
    for write in _writes(world, spec, plan, observed, decision):
        if left is not None:
            if left == 0:
                raise Killed
            left -= 1
        write()
    return decision


def look(world: World) -> Observed:
    return observe(world.cluster, world.children(), lambda node: True, METRICS_API)


def _writes(
    world: World, spec: InferenceClusterSpec, plan: Plan, observed: Observed, decision: Decision
) -> Iterator[Callable[[], object]]:
    for obj in children(spec, plan, observed, decision, SETTINGS):
        yield lambda obj=obj: world.apply(obj)  # type: ignore[misc]
    for pod, cost in marks(observed, decision).items():
        yield lambda pod=pod, cost=cost: world.annotate(pod, cost)  # type: ignore[misc]
    for kind, name in unwanted(spec, observed, decision):
        yield lambda kind=kind, name=name: world.delete(kind, name)  # type: ignore[misc]
    for note in decision.notes:
        world.say(f"event: {note.reason}: {note.message}")

    def report() -> None:
        after = look(world)
        status = compute_status(spec, after, decision, plan=plan, now=world.now)
        world.write_status(json.loads(status.model_dump_json(by_alias=True)))
        for note in edges(after.status, status):
            world.say(f"event: {note.reason}: {note.message}")

    yield report
