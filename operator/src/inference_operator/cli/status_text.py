"""The whole story of one cluster as text, the most urgent first, and the table of many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from ..api.v1alpha1 import ConditionStatus, FailoverEvent
from .advice import by_weight
from .output import columns, indented
from .text import age, one_line, some
from .view import ClusterView, Level, PodView, seconds_since

STYLE: Final = {Level.OK: "bold green", Level.BUSY: "bold yellow", Level.BAD: "bold red", Level.OFF: "bold"}
_SERVES: Final = {True: "yes", False: "no", None: "unknown"}
#: Failovers and scaling decisions that are shown; -o json has all.
_LAST: Final = 5


def story(view: ClusterView, now: float) -> Group:
    """Everything about one cluster. `now` in seconds since the epoch."""
    return Group(*_parts(view, now))


def overview(views: Sequence[ClusterView], now: float, *, namespaces: bool) -> RenderableType:
    """One line for each cluster."""
    headers = ["NAME", "SERVES", "READY", "STATE", "REPLICAS", "REVISION", "SCALING", "AGE", "MODEL"]
    rows = [[view.namespace, *_line(view, now)] if namespaces else _line(view, now) for view in views]
    return columns(["NAMESPACE", *headers] if namespaces else headers, rows)


def _line(view: ClusterView, now: float) -> list[str | Text]:
    """The reason is that of the condition that explains the others: it says more than Ready's own."""
    ready = next((c for c in view.conditions if c.type == "Ready"), None)
    heavy = [c for c in by_weight(view.conditions) if c.status is not ConditionStatus.UNKNOWN]
    told = [] if view.verdict.level is Level.OK else heavy
    reasons = [c.reason for c in (*told, ready) if c is not None]
    return [
        view.name,
        Text(_SERVES[view.verdict.serves], style=STYLE[view.verdict.level]),
        ready.status.value if ready else "Unknown",
        Text(one_line(reasons[0] if reasons else "NoStatus"), style=STYLE[view.verdict.level]),
        f"{view.ready}/{view.wanted}",
        _revision(view),
        _scaling_word(view),
        _age(view.created, now),
        view.model,
    ]


def _parts(view: ClusterView, now: float) -> Iterator[RenderableType]:
    yield _verdict(view)
    yield from _conditions(view, now)
    yield from _plan(view)
    yield from _section("revisions", [_revision_text(view)] if view.revisions else [])
    yield from _pods("engines", view.engines, now, revisions=True)
    yield from _pods("gateways", view.gateways, now, revisions=False)
    yield from _section("scaling", _scaling(view, now))
    yield from _section("failovers", [_failover(event, now) for event in view.failovers[: -_LAST - 1 : -1]])
    yield from _endpoint(view)
    yield from _section("not shown", view.missing)


def _verdict(view: ClusterView) -> RenderableType:
    verdict = view.verdict
    head = Text.assemble((f"{view.namespace}/{view.name}", "bold"), " ", (verdict.word, STYLE[verdict.level]))
    head.append(f": {one_line(verdict.message)}")
    if not verdict.action:
        return head
    return Group(head, Text.assemble(("what to do: ", "bold"), verdict.action))


def _section(title: str, lines: Sequence[str | Text]) -> Iterator[RenderableType]:
    if not lines:
        return
    yield Text()
    yield Text(title, style="bold")
    for line in lines:
        yield indented(line if isinstance(line, Text) else Text(one_line(line)))


def _conditions(view: ClusterView, now: float) -> Iterator[RenderableType]:
    """Those that matter. Several often say the same, or what the verdict says: each message stands once."""
    heavy = by_weight(view.conditions)
    heads: dict[tuple[bool, str], list[str]] = {}
    for condition in heavy:
        unsure = condition.status is ConditionStatus.UNKNOWN
        since = _age(condition.last_transition_time, now)
        head = one_line(f"{condition.type}={condition.status.value} {condition.reason} ({since})")
        heads.setdefault((unsure, one_line(condition.message)), []).append(
            one_line(condition.type) if unsure else head
        )
    lines = [
        _condition_line(unsure, message, found, message == one_line(view.verdict.message))
        for (unsure, message), found in heads.items()
    ]
    fine = [c.type for c in view.conditions if c not in heavy]
    if fine:
        lines.append(Text("fine: " + one_line(", ".join(fine)), style="dim"))
    yield from _section("conditions", lines)


def _condition_line(unsure: bool, message: str, heads: Sequence[str], told: bool) -> Text:
    line = Text(("unknown: " if unsure else "") + ", ".join(heads), style="dim" if unsure else "yellow")
    return line if told else line.append(f": {message}", style="dim" if unsure else "default")


def _plan(view: ClusterView) -> Iterator[RenderableType]:
    plan = view.plan
    if plan is None:
        return
    gpus = f"{some(plan.gpus, 'GPU')} a replica" + (f" ({plan.accelerator})" if plan.accelerator else "")
    limits = f"{plan.max_concurrency} requests at once a replica"
    if plan.context_length is not None:
        limits += f", {plan.context_length} tokens of context"
    yield from _section(
        "plan", [f"{plan.model} on vLLM {plan.engine_version}, {gpus}", limits, *plan.reasons]
    )


def _revision(view: ClusterView) -> str:
    known = view.revisions
    if known is None or known.stable is None:
        return "-"
    return known.stable if known.stable == known.target else f"{known.stable} -> {known.target}"


def _revision_text(view: ClusterView) -> str:
    known = view.revisions
    if known is None or known.target is None:
        return "none yet"
    if known.stable == known.target:
        return f"{known.stable}, {known.updated_replicas or 'none'} ready"
    return f"{known.stable} serves, {known.target} is to take over: {known.updated_replicas} ready"


def _pods(title: str, pods: Sequence[PodView], now: float, *, revisions: bool) -> Iterator[RenderableType]:
    if not pods:
        return
    yield Text()
    yield Text(title, style="bold")
    headers = ["POD", *(["REVISION"] if revisions else []), "STATE", "RESTARTS", "AGE", "NODE"]
    rows: list[list[str | Text]] = [
        [
            pod.pod,
            *([pod.revision] if revisions else []),
            Text(one_line(pod.state), style="green" if pod.state == "ready" else "yellow"),
            str(pod.restarts),
            _age(pod.created, now),
            pod.node or "-",
        ]
        for pod in pods
    ]
    yield columns(headers, rows, indent=2)


def _scaling_word(view: ClusterView) -> str:
    acts = next((c for c in view.conditions if c.type == "ScalingActive"), None)
    if view.autoscaling == "Disabled":
        return "by hand"
    if acts is not None and acts.status is ConditionStatus.TRUE:
        return "follows demand"
    return acts.reason if acts is not None else "-"


def _scaling(view: ClusterView, now: float) -> list[str | Text]:
    known = view.scaling
    if known is None:
        return []
    limited = f", limited by {known.limited_by}" if known.limited_by else ""
    lines: list[str | Text] = [
        f"{some(known.target, 'replica')} wanted{limited}; scaling: {_scaling_word(view)}"
    ]
    for decision in known.last_decisions[: -_LAST - 1 : -1]:
        when = _age(decision.time, now)
        lines.append(f"{when} ago from {decision.from_} to {decision.to}: {decision.reason}")
    return lines


def _failover(event: FailoverEvent, now: float) -> str:
    when = _age(event.time, now)
    if event.kind == "EngineUp":
        return f"{when} ago {event.pod} was taken back by {event.gateway}"
    found = f", found in {event.detection_ms / 1000:.1f} s" if event.detection_ms is not None else ""
    cut = f", {some(event.streams_cut, 'stream')} cut" if event.streams_cut is not None else ""
    return f"{when} ago {event.pod} was lost, said {event.gateway}{found}{cut}"


def _endpoint(view: ClusterView) -> Iterator[RenderableType]:
    if not view.endpoint:
        return
    lines = [f'{view.endpoint} (model "{view.served_name}")']
    if view.verdict.serves:
        lines.append(f'try it: kubectl inference chat {view.name} -n {view.namespace} "Hello"')
    yield from _section("endpoint", lines)


def _age(text: str, now: float) -> str:
    return age(seconds_since(text, now)) if text else "-"
