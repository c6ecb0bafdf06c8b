"""What a decision makes exist, in which order, and what must go."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference_operator.api import names
from inference_operator.api.routing import Drain, Routing
from inference_operator.core.canonical import digest
from inference_operator.core.model import Decision, Observed, Plan
from inference_operator.core.record import decode
from inference_operator.render.children import children, rendering_digest, unwanted
from inference_operator.render.settings import RenderSettings
from tests.unit.core.builders import PLAN, engines_of, make_plan, make_spec, observed, revision

Object = dict[str, Any]
SETTINGS = RenderSettings(agent_image="operator:1", haproxy_image="haproxy:3.2")
NEW = Decision(stable="new", target="new", total=2, replicas={"new": 2}, shares={"new": 10_000})


def render(
    decision: Decision = NEW, state: Observed | None = None, plan: Plan | None = PLAN, **spec: Any
) -> list[Object]:
    return children(make_spec(**{"replicas": 2, **spec}), plan, state or observed(), decision, SETTINGS)


def ids(objects: list[Object]) -> list[str]:
    return [f"{obj['kind']} {obj['metadata']['name']}" for obj in objects]


def find(objects: list[Object], kind: str, name: str) -> Object:
    return next(o for o in objects if o["kind"] == kind and o["metadata"]["name"] == name)


def routing(objects: list[Object]) -> Routing:
    data = find(objects, "ConfigMap", "llama-routing")["data"]
    return Routing.model_validate_json(data[names.ROUTING_KEY])


def test_a_new_cluster_consists_of_these_objects_in_this_order() -> None:
    assert ids(render()) == [
        "ControllerRevision llama-new",
        "ServiceAccount llama-gateway",
        "NetworkPolicy llama-gateway",
        "NetworkPolicy llama-engine",
        "ConfigMap llama-gateway-report",
        "ConfigMap llama-routing",
        "Service llama-gateway",
        "Deployment llama-gateway",
        "Service llama-new",
        "Deployment llama-new",
        "PodDisruptionBudget llama-gateway",
        "PodDisruptionBudget llama-engine",
    ]


def test_every_child_is_owned_labelled_and_carries_its_own_digest() -> None:
    for obj in render():
        meta = obj["metadata"]
        assert meta["namespace"] == "ml"
        assert meta["ownerReferences"] == [
            {
                "apiVersion": "inferencecluster.io/v1alpha1",
                "kind": "InferenceCluster",
                "name": "llama",
                "uid": "uid-1",
                "controller": True,
            }
        ]
        assert meta["labels"]["app.kubernetes.io/managed-by"] == "inference-operator"
        assert meta["labels"]["inferencecluster.io/cluster"] == "llama"
        assert "app.kubernetes.io/instance" not in json.dumps(obj)
        others = {k: v for k, v in meta["annotations"].items() if k != names.ANNOTATION_HASH}
        bare = {**obj, "metadata": {key: value for key, value in meta.items() if key != "annotations"}}
        if others:
            bare["metadata"]["annotations"] = others
        assert meta["annotations"] == {**others, names.ANNOTATION_HASH: digest(bare)}


def test_the_same_decision_renders_the_same_twice() -> None:
    assert render() == render()


def test_nothing_null_is_sent() -> None:
    """Server-side apply takes null for a value that is owned."""
    assert "null" not in json.dumps(render())


# --- records are frozen ---


def recorded(**changes: Any) -> Observed:
    made = revision(
        "new", engines_of("new", 2), template={"metadata": {}, "spec": {"frozen": True}}, **changes
    )
    return observed(made, stable="new")


def test_a_record_holds_what_the_deployment_is_made_from() -> None:
    made = render()
    record = decode(find(made, "ControllerRevision", "llama-new")["data"])
    assert record.plan == PLAN
    assert find(made, "Deployment", "llama-new")["spec"]["template"] == record.template
    assert record.template_digest == rendering_digest("llama", "new", PLAN, make_spec())


def test_a_recorded_revision_is_never_rendered_nor_written_again() -> None:
    made = render(state=recorded(), engine={"env": [{"name": "NEW", "value": "1"}]})
    assert not any(obj["kind"] == "ControllerRevision" for obj in made)
    assert find(made, "Deployment", "llama-new")["spec"]["template"]["spec"] == {"frozen": True}


def test_a_deployment_carries_a_copy_of_its_record_from_which_a_deleted_one_is_made_again() -> None:
    first = render()
    record = find(first, "ControllerRevision", "llama-new")["data"]
    copy = find(first, "Deployment", "llama-new")["metadata"]["annotations"][names.ANNOTATION_RECORD]
    assert json.loads(copy) == record
    again = render(state=recorded(recorded=False), engine={"env": [{"name": "NEW", "value": "1"}]})
    assert decode(find(again, "ControllerRevision", "llama-new")["data"]).template["spec"] == {"frozen": True}


def test_what_the_gateway_is_told_follows_the_newest_plan() -> None:
    made = render(state=recorded(), plan=make_plan(max_concurrency=7))
    assert [track.concurrency for track in routing(made).tracks] == [7]


def test_without_a_plan_the_recorded_one_serves() -> None:
    made = render(state=recorded(), plan=None)
    assert [track.concurrency for track in routing(made).tracks] == [64]


# --- several revisions ---

ROLLING = Decision(
    stable="old",
    target="new",
    replicas={"old": 2, "new": 1},
    shares={"old": 6667, "new": 3333},
    drains=(Drain(pod="old-1", since=5.0),),
)
OLD = observed(revision("old", engines_of("old", 2)), stable="old")


def test_a_rollout_has_both_revisions_and_the_routing_between_them() -> None:
    made = render(ROLLING, OLD)
    assert find(made, "Deployment", "llama-old")["spec"]["replicas"] == 2
    assert find(made, "Deployment", "llama-new")["spec"]["replicas"] == 1
    got = routing(made)
    assert [(t.revision, t.service, t.share) for t in got.tracks] == [
        ("old", "llama-old", 6667),
        ("new", "llama-new", 3333),
    ]
    assert got.drains == ROLLING.drains


def test_selectors_of_revisions_are_disjoint_and_the_service_has_the_pods_of_one() -> None:
    made = render(ROLLING, OLD)
    old, new = (find(made, "Deployment", f"llama-{name}") for name in ("old", "new"))
    assert old["spec"]["selector"] != new["spec"]["selector"]
    for name in ("old", "new"):
        selector = find(made, "Deployment", f"llama-{name}")["spec"]["selector"]["matchLabels"]
        assert find(made, "Service", f"llama-{name}")["spec"]["selector"] == selector
        assert selector == {
            "inferencecluster.io/cluster": "llama",
            "inferencecluster.io/component": "engine",
            "inferencecluster.io/revision": name,
        }


def test_a_revision_whose_size_is_not_decided_keeps_its_service_and_is_left_alone() -> None:
    made = ids(render(Decision(stable="old", target="new", replicas={"new": 1}), OLD))
    assert "Service llama-old" in made
    assert "Deployment llama-old" not in made


def test_a_retired_revision_is_deleted_with_its_record_last_and_has_no_track() -> None:
    decision = Decision(stable="new", target="new", total=2, replicas={"new": 2}, retire=("old",))
    made = render(decision, OLD)
    assert not any(name.endswith("llama-old") for name in ids(made))
    assert [track.revision for track in routing(made).tracks] == ["new"]
    assert unwanted(make_spec(replicas=2), OLD, decision) == [
        ("HorizontalPodAutoscaler", "llama-engine"),
        ("Deployment", "llama-old"),
        ("Service", "llama-old"),
        ("ControllerRevision", "llama-old"),
    ]


# --- budgets ---


@pytest.mark.parametrize(
    ("replicas", "gateways", "want"),
    [
        (2, 2, []),
        (1, 2, ["llama-engine"]),
        (0, 1, ["llama-engine", "llama-gateway"]),
    ],
)
def test_a_budget_over_one_pod_would_block_every_drain(replicas: int, gateways: int, want: list[str]) -> None:
    spec = {"replicas": replicas, "gateway": {"replicas": gateways}}
    decision = replace(NEW, total=replicas)
    gone = [name for kind, name in unwanted(make_spec(**spec), observed(), decision) if "Budget" in kind]
    assert gone == want
    made = {o["metadata"]["name"] for o in render(decision, **spec) if o["kind"] == "PodDisruptionBudget"}
    assert made == {"llama-engine", "llama-gateway"} - set(want)


def test_budgets_let_broken_pods_go() -> None:
    for obj in render():
        if obj["kind"] == "PodDisruptionBudget":
            assert obj["spec"]["maxUnavailable"] == 1
            assert obj["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


# --- the engine's objects ---


def test_a_deadline_of_progress_allows_for_a_node_an_image_and_a_load() -> None:
    made = find(render(engine={"loadTimeout": "1h"}), "Deployment", "llama-new")
    assert made["spec"]["progressDeadlineSeconds"] == 3600 + 1800
    assert made["spec"]["revisionHistoryLimit"] == 0


def test_engines_are_listed_when_they_are_ready() -> None:
    spec = find(render(), "Service", "llama-new")["spec"]
    assert spec["clusterIP"] == "None"
    assert spec["publishNotReadyAddresses"] is False


# --- nothing that a user writes becomes structure ---

TEXT = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=40)


@settings(max_examples=50, deadline=None)
@given(TEXT, TEXT)
def test_text_of_users_arrives_as_it_was_written(value: str, argument: str) -> None:
    made = render(plan=make_plan(args=(argument,)), engine={"env": [{"name": "A", "value": value}]})
    again = json.loads(json.dumps(made))
    (container,) = find(again, "Deployment", "llama-new")["spec"]["template"]["spec"]["containers"]
    assert container["args"] == [argument]
    assert {"name": "A", "value": value} in container["env"]


# --- queue and limits ---


def test_the_gateway_is_told_its_limits() -> None:
    got = routing(render())
    assert (got.queue_length, got.queue_timeout_seconds, got.drain_timeout_seconds) == (1000, 60.0, 300.0)
    spec = {"gateway": {"queue": {"length": 5, "timeout": "2m"}}, "engine": {"drainTimeout": "10s"}}
    got = routing(render(**spec))
    assert (got.queue_length, got.queue_timeout_seconds, got.drain_timeout_seconds) == (5, 120.0, 10.0)


def test_the_report_has_no_data_of_ours() -> None:
    assert "data" not in find(render(), "ConfigMap", "llama-gateway-report")
