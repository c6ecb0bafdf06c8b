"""`explain`, and that there is a word for each answer that a condition can give."""

from __future__ import annotations

import json

import pytest

from inference_operator.api.conditions import REASONS, ConditionType, Reason
from inference_operator.api.v1alpha1 import Condition, ConditionStatus
from inference_operator.cli.advice import QUESTION, action, matters
from inference_operator.core.model import EnginePod, Problem
from tests.unit.core.builders import NOW, engine, gateway, loading, report, revision
from tests.unit.core.statuses import FIRST, SERVED, SERVING, down, status

from .conftest import Plugin
from .fake_api import FakeApi
from .objects import cluster

ANSWERS = [
    (kind, answer, reason)
    for kind, by_status in REASONS.items()
    for answer, reasons in by_status.items()
    for reason in reasons
]


def condition(kind: str, answer: str, reason: str) -> Condition:
    return Condition(
        type=kind, status=ConditionStatus(answer), reason=reason, last_transition_time="2027-01-01T00:00:00Z"
    )


def test_each_condition_has_its_question() -> None:
    assert set(QUESTION) == set(ConditionType)


@pytest.mark.parametrize(("kind", "answer", "reason"), ANSWERS)
def test_each_answer_that_matters_has_something_to_do(
    kind: ConditionType, answer: str, reason: Reason
) -> None:
    made = condition(kind.value, answer, reason.value)
    todo = action(made, "ml", "llama")
    assert bool(todo) == matters(made)
    assert "NAME" not in todo
    assert "NS" not in todo


@pytest.mark.parametrize(
    ("kind", "answer", "reason", "want"),
    [
        ("Ready", "True", "Serving", False),
        ("Ready", "False", "Progressing", True),
        ("Ready", "Unknown", "NotObserved", True),
        ("Degraded", "False", "AllReady", False),
        ("Degraded", "True", "EnginesMissing", True),
        ("ScalingActive", "False", "Disabled", False),
        ("ScalingActive", "False", "Conflict", True),
        ("Future", "False", "New", False),
    ],
)
def test_which_answers_matter(kind: str, answer: str, reason: str, want: bool) -> None:
    assert matters(condition(kind, answer, reason)) is want


@pytest.mark.parametrize(
    ("revisions", "kind", "want"),
    [
        ([engine("a-0"), loading("a-1", restarts=1)], "FailoverActive", "kubectl logs a-1 -n ml --previous"),
        (
            [loading("a-0", restarts=5, ended=NOW - 1, last_run=5.0)],
            "Stalled",
            "kubectl logs a-0 -n ml --previous",
        ),
        ([loading("a-0", loading_since=NOW - 90_000)], "Stalled", "kubectl logs a-0 -n ml"),
    ],
)
def test_the_commands_name_the_pod_that_the_message_is_about(
    revisions: list[EnginePod], kind: str, want: str
) -> None:
    seen = gateway(report("g-0", events=[down("a-1", 12)], a_1="DOWN", a_0="UP"))
    before = SERVED if kind == "FailoverActive" else FIRST
    got = status(revision("a", revisions), n=len(revisions), before=before, gates=seen)
    found = next(c for c in got.conditions if c.type == kind)
    assert want in action(found, "ml", "llama"), found.message


def test_a_spec_that_does_not_hold_is_explained_by_field(api: FakeApi, plugin: Plugin) -> None:
    problem = Problem("spec.parallelism.tensor", Reason.TENSOR_NOT_DIVIDING, "…")
    api.clusters = [cluster(status(SERVING, problems=[problem]), parallelism={"tensor": 3})]
    got = plugin("explain", "llama")
    assert got.status == 0
    assert (
        "what is wrong with the spec\n  spec.parallelism.tensor: 3 GPUs can't share 32 attention heads "
        "(8 KV heads) evenly; legal: 1, 2, 4, 8\n"
    ) in got.out
    assert "The operator's word counts" not in got.out
    assert "what to do: Set spec.parallelism.tensor to one of the legal values" in got.out


def test_a_disagreement_with_the_operator_is_told(api: FakeApi, plugin: Plugin) -> None:
    api.clusters = [cluster(parallelism={"tensor": 3})]
    assert "The operator accepts this spec, this plugin doesn't" in plugin("explain", "llama").out
    problem = Problem("spec.engine.version", Reason.UNSUPPORTED_VERSION, "…")
    api.clusters = [cluster(status(SERVING, problems=[problem]))]
    assert "The operator refuses this spec, this plugin doesn't" in plugin("explain", "llama").out


def test_fields_that_the_schema_does_not_know_are_told(api: FakeApi, plugin: Plugin) -> None:
    raw = cluster()
    raw["spec"]["modle"] = 1
    api.clusters = [raw]
    assert "spec.modle: unknown field" in plugin("explain", "llama").out


def test_the_document(api: FakeApi, plugin: Plugin) -> None:
    api.clusters = [cluster(parallelism={"tensor": 3})]
    document = json.loads(plugin("explain", "llama", "-o", "json").out)
    assert document["kind"] == "ClusterExplanation"
    assert document["specProblems"][0]["field"] == "spec.parallelism.tensor"
    assert {"type", "status", "reason", "message", "question", "action"} <= set(document["conditions"][0])
    assert {c["type"] for c in document["conditions"]} == {kind.value for kind in ConditionType}


def test_a_cluster_without_a_status_points_to_the_operator(api: FakeApi, plugin: Plugin) -> None:
    raw = cluster()
    del raw["status"]
    api.clusters = [raw]
    assert "See whether it runs: kubectl get pods -A" in plugin("explain", "llama").out
