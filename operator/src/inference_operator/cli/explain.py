"""`kubectl inference explain`: why a cluster is as it is, condition by condition, and what to do."""

from __future__ import annotations

import time
from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from ..api.conditions import ConditionType
from ..api.parse import parse_spec
from ..api.v1alpha1 import Condition, ConditionStatus, InferenceClusterSpec
from ..core.model import Plan
from ..planner.plan import make_plan
from ..ports import Object
from .access import connected
from .advice import action, by_weight, question
from .options import Scope
from .output import indented, show, write_document
from .status_text import STYLE
from .text import age, one_line
from .view import ClusterView, cluster_view, document, seconds_since


async def run(scope: Scope, name: str, output: str) -> None:
    """Print it."""
    async with connected(scope) as session:
        cluster = await session.cluster(name)
    view = cluster_view(cluster)
    problems = spec_problems(cluster.get("spec") or {})
    if output != "table":
        write_document(_document(view, problems), output)
        return
    show(Group(*_parts(view, problems, time.time())))


def spec_problems(spec: Object) -> list[dict[str, str]]:
    """What this release finds wrong with a spec: `field` and `message`, which holds the legal values."""
    parsed = parse_spec(spec)
    if not isinstance(parsed, InferenceClusterSpec):
        return [{"field": error.field, "message": error.message} for error in parsed]
    plan = make_plan(parsed)
    if isinstance(plan, Plan):
        return []
    return [{"field": problem.field, "message": problem.message} for problem in plan]


def _document(view: ClusterView, problems: list[dict[str, str]]) -> Object:
    conditions = [
        {
            **condition.model_dump(mode="json", by_alias=True),
            "question": question(condition),
            "action": action(condition, view.namespace, view.name),
        }
        for condition in _sorted(view)
    ]
    return document(
        "ClusterExplanation",
        namespace=view.namespace,
        name=view.name,
        verdict=view.verdict.model_dump(mode="json", by_alias=True),
        specProblems=problems,
        plan=view.plan.model_dump(mode="json", by_alias=True) if view.plan else None,
        conditions=conditions,
    )


def _sorted(view: ClusterView) -> list[Condition]:
    heavy = by_weight(view.conditions)
    return [*heavy, *(condition for condition in view.conditions if condition not in heavy)]


def _parts(view: ClusterView, problems: list[dict[str, str]], now: float) -> Iterator[RenderableType]:
    verdict = view.verdict
    head = Text.assemble((f"{view.namespace}/{view.name}", "bold"), " ", (verdict.word, STYLE[verdict.level]))
    yield head.append(f": {one_line(verdict.message)}")
    yield from _spec(view, problems)
    if view.plan is not None and view.plan.reasons:
        yield Text("\nwhy the plan is what it is", style="bold")
        yield from (indented(Text(one_line(reason))) for reason in view.plan.reasons)
    yield Text("\nconditions", style="bold")
    if not view.conditions:
        yield indented(Text(verdict.action))
    for condition in _sorted(view):
        yield from _condition(view, condition, now)


def _spec(view: ClusterView, problems: list[dict[str, str]]) -> Iterator[RenderableType]:
    if problems:
        yield Text("\nwhat is wrong with the spec", style="bold")
        for problem in problems:
            field = Text.assemble((one_line(problem["field"]), "red"), f": {one_line(problem['message'])}")
            yield indented(field)
    valid = next((c for c in view.conditions if c.type == ConditionType.SPEC_VALID), None)
    refused = valid is not None and valid.status is ConditionStatus.FALSE
    if valid is not None and valid.status is not ConditionStatus.UNKNOWN and refused != bool(problems):
        said = "refuses" if refused else "accepts"
        text = (
            f"The operator {said} this spec, this plugin doesn't: they are of different releases, or "
            "the operator hasn't looked yet. The operator's word counts."
        )
        yield Text(f"\n{text}", style="yellow")


def _condition(view: ClusterView, condition: Condition, now: float) -> Iterator[RenderableType]:
    todo = action(condition, view.namespace, view.name)
    since = age(seconds_since(condition.last_transition_time, now))
    head = Text(f"{one_line(condition.type)}: {one_line(question(condition))} ", style="" if todo else "dim")
    answer = f"{condition.status.value}, {one_line(condition.reason)}, for {since}"
    yield indented(head.append(answer, style="yellow" if todo else "green"))
    if condition.message:
        yield indented(Text(one_line(condition.message)), 4)
    if todo:
        yield indented(Text.assemble(("what to do: ", "bold"), todo), 4)
