"""`kubectl inference top`: how busy each engine is, from what the gateways count."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import BaseModel, Field, ValidationError
from rich.console import Group, RenderableType
from rich.text import Text

from ..api import names
from ..api.base import ApiModel
from ..ports import Object
from .access import Session, connected
from .live import keep_showing
from .options import Scope
from .output import columns, show, write_document
from .text import one_line, some
from .view import document

_REFRESH_SECONDS: Final = 1.0


class _Engine(BaseModel):
    """One engine as one gateway's `/state` has it; field names are the agent's."""

    pod: str
    state: str
    in_flight: int
    queued: int
    maxconn: int


class _Track(BaseModel):
    """One revision, likewise."""

    revision: str
    queued: int
    in_flight: int
    concurrency: int
    engines: list[_Engine]


class EngineLoad(ApiModel):
    """One engine, over all gateways."""

    pod: str
    revision: str
    #: UP, DOWN, DRAIN; several where the gateways disagree.
    state: str
    in_flight: int
    queued: int = Field(description="Requests that wait for this very engine.")
    limit: int = Field(description="Requests that the gateways let it work on at once.")


class ClusterLoad(ApiModel):
    """One cluster, over all gateways."""

    namespace: str
    name: str
    gateways: int
    #: Gateway pods whose numbers are missing.
    silent: list[str]
    in_flight: int
    queued: int = Field(description="Waiting requests, those that wait for any engine included.")
    demand: int
    #: Requests that the engines that are UP work on at once, by the plan.
    capacity: int
    engines: list[EngineLoad]


async def run(scope: Scope, name: str | None, output: str, once: bool) -> None:
    """Print it once, or on a terminal every second until Ctrl-C."""
    async with connected(scope) as session:
        if output != "table":
            items = [load.model_dump(mode="json", by_alias=True) for load in await _loads(session, name)]
            write_document(document("ClusterLoadList", items=items), output)
        elif once or not sys.stdout.isatty():
            show(await _look(session, name))
        else:
            await keep_showing(lambda: _look(session, name), _REFRESH_SECONDS)


async def _look(session: Session, name: str | None) -> RenderableType:
    return _text(session, await _loads(session, name))


async def _loads(session: Session, name: str | None) -> list[ClusterLoad]:
    clusters = [await session.cluster(name)] if name is not None else await session.clusters()
    namespace = session.own_namespace if name is not None else session.namespace
    pods = await session.pods(namespace, name, names.COMPONENT_GATEWAY)
    live = [pod for pod in pods if (pod.get("status") or {}).get("phase") == "Running"]
    answers = dict(zip(map(_key, live), await session.agents(live), strict=True))
    found = []
    for cluster in clusters:
        key = (cluster["metadata"]["namespace"], cluster["metadata"]["name"])
        own = {pod: answer for (space, pod, of), answer in answers.items() if (space, of) == key}
        found.append(cluster_load(*key, own))
    return found


def _key(pod: Object) -> tuple[str, str, str]:
    metadata = pod["metadata"]
    return metadata["namespace"], metadata["name"], metadata["labels"][names.LABEL_CLUSTER]


def cluster_load(namespace: str, name: str, answers: Mapping[str, Object | None]) -> ClusterLoad:
    """Sum the gateways' `/state` by gateway pod; None = no answer. What can't be read counts as none."""
    tracks = {pod: _tracks(answer, f"{namespace}/{name}") for pod, answer in answers.items()}
    known = [track for found in tracks.values() for track in found or ()]
    queued, in_flight = sum(t.queued for t in known), sum(t.in_flight for t in known)
    rows: dict[str, list[tuple[_Track, _Engine]]] = {}
    for track in known:
        for engine in track.engines:
            rows.setdefault(engine.pod, []).append((track, engine))
    engines = [_engine_load(pod, seen) for pod, seen in sorted(rows.items())]
    return ClusterLoad(
        namespace=namespace,
        name=name,
        gateways=len(answers),
        silent=sorted(pod for pod, found in tracks.items() if found is None),
        in_flight=in_flight,
        queued=queued,
        demand=queued + in_flight,
        capacity=sum(rows[e.pod][0][0].concurrency for e in engines if e.state == "UP"),
        engines=engines,
    )


def _engine_load(pod: str, seen: Sequence[tuple[_Track, _Engine]]) -> EngineLoad:
    states = sorted({engine.state or "NEW" for _, engine in seen})
    return EngineLoad(
        pod=pod,
        revision=seen[0][0].revision,
        state="/".join(states),
        in_flight=sum(engine.in_flight for _, engine in seen),
        queued=sum(engine.queued for _, engine in seen),
        limit=sum(engine.maxconn for _, engine in seen),
    )


def _tracks(answer: Object | None, cluster: str) -> list[_Track] | None:
    try:
        return [_Track.model_validate(t) for t in (answer or {})["clusters"][cluster]["tracks"]]
    except (ValidationError, KeyError, TypeError):
        return None


_STYLE: Final = {"UP": "green", "DOWN": "red", "DRAIN": "yellow"}


def _text(session: Session, loads: Sequence[ClusterLoad]) -> RenderableType:
    if not loads:
        where = f"in namespace {session.namespace}" if session.namespace else "in any namespace"
        return Text(f"No InferenceCluster {where} of context {session.context.name}")
    headers = ["CLUSTER", "ENGINE", "STATE", "IN FLIGHT", "QUEUED", "LIMIT", "REVISION"]
    rows: list[list[str | Text]] = []
    for load in loads:
        cluster = f"{load.namespace}/{load.name}"
        total = f"{load.in_flight} of {load.capacity}"
        rows.append([Text(cluster, style="bold"), _count(load), "", total, str(load.queued), "", ""])
        for e in load.engines:
            state = Text(one_line(e.state), style=_STYLE.get(e.state, "yellow"))
            rows.append(["", e.pod, state, str(e.in_flight), str(e.queued), str(e.limit), e.revision])
    return Group(columns(headers, rows), *_remarks(loads))


def _count(load: ClusterLoad) -> str:
    up = sum(engine.state == "UP" for engine in load.engines)
    return f"{up} of {some(len(load.engines), 'engine')} up"


def _remarks(loads: Sequence[ClusterLoad]) -> list[RenderableType]:
    """Numbers that are too small have to be told from small ones."""
    found: list[RenderableType] = []
    for load in loads:
        where = f"{load.namespace}/{load.name}"
        if not load.gateways:
            text = f"{where}: no gateway pod runs: kubectl inference status {load.name} says why"
        elif len(load.silent) == load.gateways:
            text = (
                f"{where}: no gateway answers the API server on port {names.AGENT_PORT}: kubectl inference "
                f"status {load.name} says whether they run; a network policy may keep it out"
            )
        elif load.silent:
            text = f"{where}: numbers are too low, no word from {', '.join(load.silent)}"
        else:
            continue
        found.append(Text(one_line(text), style="red"))
    return found
