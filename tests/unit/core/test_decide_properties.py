"""What holds for every state that can be observed, however unlikely."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from inference_operator.api.routing import FULL_SHARE, Drain, EngineReport, GatewayReport
from inference_operator.api.v1alpha1 import InferenceClusterSpec, RolloutStrategy
from inference_operator.core.decide import decide
from inference_operator.core.gateways import acknowledged
from inference_operator.core.model import Decision, EnginePod, GatewayObserved, Observed, Revision
from inference_operator.core.rollout import engines
from inference_operator.core.scaledown import FIRST_TO_GO
from inference_operator.core.status import compute_status

from .builders import NOW, PLAN, engine, make_spec, observed, revision

NAMES = ("old", "mid", "new")
STATES = st.sampled_from(
    ["ready", "ready", "ready", "loading", "crashing", "unschedulable", "ending", "lost", "failed"]
)


@st.composite
def pods(draw: st.DrawFn, name: str) -> list[EnginePod]:
    made = []
    for index in range(draw(st.integers(0, 4))):
        pod = engine(f"{name}-{index}", name, created=NOW - draw(st.integers(0, 2000)))
        cost = draw(st.sampled_from([None, None, FIRST_TO_GO, 5]))
        changes: dict[str, dict[str, object]] = {
            "ready": {},
            "loading": {"ready": False},
            "crashing": {"ready": False, "waiting": "CrashLoopBackOff", "restarts": 5},
            "unschedulable": {
                "ready": False,
                "node": "",
                "loading_since": None,
                "unschedulable": "3 Insufficient nvidia.com/gpu.",
            },
            "ending": {"terminating": True},
            "lost": {"node_lost": True},
            "failed": {"ready": False, "phase": "Failed"},
        }
        made.append(replace(pod, deletion_cost=cost, **changes[draw(STATES)]))  # type: ignore[arg-type]
    return made


@st.composite
def gateways(draw: st.DrawFn, revisions: list[Revision]) -> GatewayObserved:
    every = [pod for made in revisions for pod in made.pods]
    names = [pod.name for pod in every]
    drains = draw(st.lists(st.sampled_from(names), unique=True, max_size=3)) if names else []
    ready = draw(st.sampled_from([(), ("g-0",), ("g-0", "g-1")]))
    state = st.sampled_from(["UP", "UP", "DOWN", "DRAIN"])
    reports = []
    for gateway in draw(st.sampled_from([(), ("g-0",), ("g-0", "g-1")])):
        seen = tuple(
            EngineReport(pod=pod.name, revision=pod.revision, state=draw(state), idle=draw(st.booleans()))
            for pod in every
            if draw(st.integers(0, 9)) > 0
        )
        reports.append(GatewayReport(gateway=gateway, ready=True, routing_digest="", engines=seen))
    return GatewayObserved(
        wanted=2,
        ready_pods=ready,
        pods=("g-0", "g-1"),
        reports=tuple(reports),
        drains=tuple(Drain(pod=name, since=NOW - draw(st.integers(0, 400))) for name in drains),
    )


@st.composite
def states(draw: st.DrawFn) -> Observed:
    made = []
    for age, name in enumerate(reversed(draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=3)))):
        found = draw(pods(name))
        live = sum(not pod.terminating for pod in found)
        replicas = draw(st.sampled_from([None, 0, live, live, live, live + 1, max(0, live - 1)]))
        error = draw(st.sampled_from(["", "", "exceeded quota: gpus"]))
        made.append(revision(name, found, replicas, age=100 + age, create_error=error))
    stable = draw(st.sampled_from([None, *NAMES]))
    return observed(*made, stable=stable, gateway=draw(gateways(made)))


SPECS = st.builds(
    lambda n, strategy: make_spec(replicas=n, rollout={"strategy": strategy}),
    st.integers(0, 5),
    st.sampled_from(["RollingUpdate", "RollingUpdate", "Recreate"]),
)
TARGETS = st.sampled_from(NAMES)


def whole_shares_for_engines_that_take_requests(
    spec: InferenceClusterSpec, state: Observed, got: Decision
) -> None:
    drained = {drain.pod for drain in got.drains}
    takes = {
        made.name: sum(pod.name not in drained for pod in made.ready)
        for made in state.revisions
        if made.name not in got.retire
    }
    assert sum(got.shares.values()) == (FULL_SHARE if spec.replicas else 0)
    if spec.replicas and any(takes.values()):
        for name, share in got.shares.items():
            assert (share > 0) == (takes.get(name, 0) > 0)


def drains_of_live_pods_and_marks_of_drained_ones(
    spec: InferenceClusterSpec, state: Observed, got: Decision
) -> None:
    live = {pod.name for made in state.revisions for pod in made.live}
    drained = {drain.pod for drain in got.drains}
    assert drained <= live
    assert set(got.cheapest) <= drained
    before = {drain.pod: drain.since for drain in state.gateway.drains}
    assert all(drain.since == before.get(drain.pod, NOW) for drain in got.drains)


def at_most_one_engine_above_the_wanted_number(
    spec: InferenceClusterSpec, state: Observed, got: Decision
) -> None:
    present = sum(engines(made) for made in state.revisions)
    assert sum(got.replicas.values()) <= max(spec.replicas + 1, present)
    assert all(count >= 0 for count in got.replicas.values())


def all_but_one_wanted_engine_stay_or_what_there_was(
    spec: InferenceClusterSpec, state: Observed, got: Decision
) -> None:
    if spec.rollout.strategy is RolloutStrategy.RECREATE:
        return
    ready = [pod for made in state.revisions for pod in made.ready]
    # A target's engine counts when the gateways have it; an old one counts until it is drained.
    counts = [pod for pod in ready if pod.revision != got.target or acknowledged(state.gateway, pod)]
    drained = {drain.pod for drain in got.drains}
    assert sum(pod.name not in drained for pod in counts) >= min(spec.replicas - 1, len(counts))


def replicas_lowered_only_by_what_may_go(spec: InferenceClusterSpec, state: Observed, got: Decision) -> None:
    for made in state.revisions:
        asked = got.replicas.get(made.name)
        if asked is None or made.replicas is None:
            continue
        may_go = sum(pod.name in got.cheapest and pod.deletion_cost == FIRST_TO_GO for pod in made.live)
        assert asked >= min(made.replicas, len(made.live) - may_go)


def only_revisions_without_engines_retired(
    spec: InferenceClusterSpec, state: Observed, got: Decision
) -> None:
    assert got.target not in got.retire
    assert got.stable not in got.retire
    assert all(not engines(made) for made in state.revisions if made.name in got.retire)
    assert not set(got.retire) & set(got.replicas)


@settings(max_examples=300, deadline=None)
@given(SPECS, states(), TARGETS)
def test_every_decision_keeps_the_rules(spec: InferenceClusterSpec, state: Observed, target: str) -> None:
    got = decide(spec, target, state, NOW)
    whole_shares_for_engines_that_take_requests(spec, state, got)
    drains_of_live_pods_and_marks_of_drained_ones(spec, state, got)
    at_most_one_engine_above_the_wanted_number(spec, state, got)
    all_but_one_wanted_engine_stay_or_what_there_was(spec, state, got)
    replicas_lowered_only_by_what_may_go(spec, state, got)
    only_revisions_without_engines_retired(spec, state, got)


def applied(spec: InferenceClusterSpec, state: Observed, got: Decision) -> Observed:
    """The same moment after our own writes: nobody else has reacted yet."""
    marked = set(got.cheapest)

    def pod(old: EnginePod) -> EnginePod:
        ours = old.deletion_cost == FIRST_TO_GO
        cost = FIRST_TO_GO if old.name in marked else None if ours else old.deletion_cost
        return replace(old, deletion_cost=cost)

    known = {made.name for made in state.revisions}
    kept = [
        replace(made, replicas=got.replicas.get(made.name, made.replicas), pods=tuple(map(pod, made.pods)))
        for made in state.revisions
        if made.name not in got.retire
    ]
    new = [revision(name, [], count, age=1) for name, count in got.replicas.items() if name not in known]
    gateway = replace(state.gateway, shares=got.shares, drains=got.drains)
    after = replace(state, revisions=(*kept, *new), gateway=gateway)
    status = compute_status(spec, after, got, plan=PLAN, now=NOW)
    return replace(after, status=status)


@settings(max_examples=100, deadline=None)
@given(SPECS, states(), TARGETS)
def test_our_own_writes_settle(spec: InferenceClusterSpec, state: Observed, target: str) -> None:
    """Deciding again on what we wrote ends at one decision without a note: no flapping among ourselves."""
    seen = []
    for _ in range(6):
        got = decide(spec, target, state, NOW)
        seen.append(replace(got, notes=()))
        state = applied(spec, state, got)
    assert seen[-1] == seen[-2]
    assert decide(spec, target, state, NOW).notes == ()
