"""Golden text of `status NAME`: what somebody reads at 3 a.m. UPDATE_GOLDENS=1 rewrites it."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console, RenderableType

from inference_operator.api.conditions import ConditionType, Reason
from inference_operator.api.routing import GatewayReport
from inference_operator.api.v1alpha1 import (
    ConditionStatus,
    InferenceClusterStatus,
    ScalingDecision,
    ScalingStatus,
)
from inference_operator.cli.status_text import overview, story
from inference_operator.cli.view import ClusterView, Level, cluster_view
from inference_operator.core.model import Problem, Revision
from inference_operator.core.status import compute_status, rfc3339
from tests.unit.core.builders import (
    NOW,
    PLAN,
    engine,
    engines_of,
    gateway,
    loading,
    make_plan,
    make_spec,
    observed,
    report,
    revision,
    unschedulable,
)
from tests.unit.core.statuses import FIRST, NEVER_SEEN, SERVED, SERVING, SETTLED, down, known, status

from .objects import cluster, pods

GOLDENS = Path(__file__).parent / "goldens"
PROBLEM = Problem(
    "spec.parallelism.tensor",
    Reason.TENSOR_NOT_DIVIDING,
    "3 GPUs can't share 32 attention heads (8 KV heads) evenly; legal: 1, 2, 4, 8",
)


def fresh(*revisions: Revision, **options: Any) -> InferenceClusterStatus:
    """After a pass that found today's rendering equal to the recorded one."""
    return status(*revisions, rendering=SERVING.template_digest, **options)


def serving() -> ClusterView:
    decision = ScalingDecision(
        time=rfc3339(NOW - 7200), from_=1, to=2, by="kubectl", reason="kubectl set spec.replicas"
    )
    before = SETTLED.model_copy(update={"scaling": ScalingStatus(target=2, last_decisions=[decision])})
    plan = make_plan(reasons=("tensor 1 is the default of spec.parallelism.tensor",))
    return cluster_view(cluster(fresh(SERVING, before=before, plan=plan)), pods(SERVING.pods))


def first_creation() -> ClusterView:
    new = revision("a", [loading("a-0"), loading("a-1", phase="Pending", node="gpu-1")], age=30)
    return cluster_view(cluster(fresh(new, before=FIRST)), pods(new.pods))


def rolling_out() -> ClusterView:
    old = revision("a", engines_of("a", 2), age=5000)
    new = revision("b", [engine("b-0"), loading("b-1")], age=100)
    return cluster_view(cluster(fresh(old, new, target="b")), pods(old.pods, new.pods))


def degraded() -> ClusterView:
    lost = revision("a", [engine("a-0"), loading("a-1", restarts=1)])
    seen = [report(g, events=[down("a-1", 12)], a_0="UP", a_1="DOWN") for g in ("g-0", "g-1")]
    return cluster_view(cluster(fresh(lost, before=SERVED, gates=gateway(*seen))), pods(lost.pods), seen)


def invalid() -> ClusterView:
    spec = make_spec(replicas=2, parallelism={"tensor": 3})
    state = observed(gateway=NEVER_SEEN, status=FIRST)
    refused = compute_status(spec, state, None, plan=None, now=NOW, problems=[PROBLEM])
    return cluster_view(cluster(refused, parallelism={"tensor": 3}))


def held() -> ClusterView:
    old = revision("a", engines_of("a", 1), age=5000)
    new = revision("b", [unschedulable("b-0")], age=100)
    return cluster_view(cluster(fresh(old, new, n=1, target="b"), n=1), pods(old.pods, new.pods))


def stopped() -> ClusterView:
    return cluster_view(cluster(fresh(revision("a", [], 0), n=0), n=0), pods())


def text(shown: RenderableType, width: int = 110, **options: Any) -> str:
    """As a terminal of that width shows it, without colours."""
    out = io.StringIO()
    Console(file=out, width=width, highlight=False, markup=False, emoji=False, **options).print(shown)
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


@pytest.mark.parametrize("scene", [serving, first_creation, rolling_out, degraded, invalid, held, stopped])
def test_the_story_of_a_cluster(scene: Any) -> None:
    got = text(story(scene(), NOW))
    path = GOLDENS / f"{scene.__name__.replace('_', '-')}.txt"
    if os.environ.get("UPDATE_GOLDENS") == "1":
        path.write_text(got)
    assert got == path.read_text()


@pytest.mark.parametrize(
    ("scene", "level", "word"),
    [
        (serving, Level.OK, "SERVES"),
        (first_creation, Level.BUSY, "STARTING"),
        (rolling_out, Level.BUSY, "SERVES, ROLLING OUT"),
        (degraded, Level.BAD, "SERVES, DEGRADED"),
        (invalid, Level.BAD, "DOES NOT SERVE, SPEC INVALID"),
        (held, Level.BAD, "SERVES, WAITING FOR CAPACITY"),
        (stopped, Level.OFF, "STOPPED"),
    ],
)
def test_the_verdict_says_whether_it_serves_and_what_is_the_matter(
    scene: Any, level: Level, word: str
) -> None:
    found = scene().verdict
    assert (found.level, found.word) == (level, word)
    assert bool(found.action) == (level is not Level.OK)


def test_the_overview_holds_one_line_a_cluster() -> None:
    lines = text(overview([serving(), rolling_out()], NOW, namespaces=True), 160).splitlines()
    assert lines[0].split()[:4] == ["NAMESPACE", "NAME", "SERVES", "READY"]
    assert lines[1].split() == [
        *("ml", "llama", "yes", "True", "Serving", "2/2", "a", "by", "hand", "3d", PLAN.model_id)
    ]
    assert "a -> b" in lines[2]


def test_the_reason_in_the_overview_is_the_one_that_explains_the_others() -> None:
    scenes = [first_creation(), rolling_out(), degraded(), invalid(), held(), stopped()]
    lines = text(overview(scenes, NOW, namespaces=False), 160).splitlines()[1:]
    assert [line.split()[1:4] for line in lines] == [
        ["no", "False", "Progressing"],
        ["yes", "False", "Progressing"],
        ["yes", "True", "EngineDown"],
        ["no", "False", "TensorNotDividing"],
        ["yes", "False", "Unschedulable"],
        ["no", "False", "Stopped"],
    ]


def test_a_narrow_terminal_cuts_no_name() -> None:
    view = serving().model_copy(update={"name": "a-very-long-name-of-a-cluster-in-a-small-terminal"})
    out = io.StringIO()
    Console(file=out, width=40, highlight=False).print(overview([view], NOW, namespaces=True), crop=False)
    assert f"ml         {view.name}  yes" in out.getvalue()
    assert PLAN.model_id in out.getvalue()


def test_a_status_that_lags_behind_the_spec_is_told() -> None:
    view = cluster_view(cluster(generation=5))
    assert "the operator hasn't looked at the last 2 changes yet" in view.verdict.message


def test_a_cluster_that_no_operator_has_seen_is_told_from_one_that_fails() -> None:
    raw = cluster()
    del raw["status"]
    view = cluster_view(raw)
    assert (view.verdict.word, view.verdict.serves) == ("UNKNOWN", None)
    assert "app.kubernetes.io/name=inference-operator" in view.verdict.action


def test_an_invalid_spec_of_a_cluster_that_serves_on_says_both() -> None:
    view = cluster_view(cluster(status(SERVING, problems=[PROBLEM])))
    assert view.verdict.word == "SERVES, SPEC INVALID"


@pytest.mark.parametrize(
    ("pod", "reports", "want"),
    [
        (engine("a-0"), [], "ready"),
        (engine("a-0"), [report("g-0", a_0="UP"), report("g-1", a_0="DOWN")], "down for some gateways"),
        (engine("a-0"), [report("g-0", a_0="DOWN")], "down for the gateways"),
        (engine("a-0"), [report("g-0", a_0="DRAIN"), report("g-1", a_0="UP")], "draining"),
        (loading("a-0"), [report("g-0", a_0="DOWN")], "loading"),
        (loading("a-0", phase="Pending"), [], "starting"),
        (loading("a-0", waiting="CrashLoopBackOff"), [], "CrashLoopBackOff"),
        (unschedulable("a-0"), [], "waiting for a node"),
        (engine("a-0", terminating=True), [], "terminating"),
        (engine("a-0", ready=False, phase="Failed"), [], "Failed"),
    ],
)
def test_the_state_of_an_engine(pod: Any, reports: Sequence[GatewayReport], want: str) -> None:
    view = cluster_view(cluster(), pods([pod]), reports)
    assert [engine.state for engine in view.engines] == [want]


def test_foreign_text_is_neither_markup_nor_obeyed_by_the_terminal() -> None:
    raw = cluster()
    ready = next(c for c in raw["status"]["conditions"] if c["type"] == "Ready")
    ready["message"] = "[red]bold[/red] \x1b[2Jgone\r\nnext"
    got = text(story(cluster_view(raw), NOW), force_terminal=True, color_system=None)
    assert "[red]bold[/red] \ufffd[2Jgone next" in got
    assert "\x1b[2J" not in got


def test_what_another_release_wrote_is_left_out() -> None:
    raw = cluster()
    raw["status"]["conditions"].append(
        {"type": "Future", "status": "False", "reason": "New", "lastTransitionTime": rfc3339(NOW)}
    )
    raw["status"]["scaling"] = {"target": "many"}
    view = cluster_view(raw)
    assert view.scaling is None
    assert view.wanted == 2
    assert "Future" in text(story(view, NOW))


def test_stalled_wins_over_progress() -> None:
    broken = revision("a", [loading("a-0", waiting="ErrImagePull", waiting_message="no such tag")])
    view = cluster_view(cluster(status(broken, n=1, before=FIRST)))
    assert view.verdict.word == "DOES NOT SERVE, STALLED"
    assert "spec.engine.image" in view.verdict.action


def test_unknown_conditions_come_behind_the_definite_ones() -> None:
    unknown = (ConditionType.SPEC_VALID, ConditionStatus.UNKNOWN, Reason.NOT_OBSERVED)
    bad = (ConditionType.DEGRADED, ConditionStatus.TRUE, Reason.ENGINES_MISSING)
    ready = (ConditionType.READY, ConditionStatus.TRUE, Reason.DEGRADED)
    got = text(story(cluster_view(cluster(known(unknown, bad, ready))), NOW))
    assert got.index("Degraded=True") < got.index("unknown: SpecValid")
