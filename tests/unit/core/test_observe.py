"""Raw objects become Observed; what can't be read is absent, never guessed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from inference_operator.api import names
from inference_operator.api.routing import Drain, Routing, Track
from inference_operator.core.model import ClusterRef, Observed
from inference_operator.core.observe import observe, owned, parse_status, timestamp
from inference_operator.core.record import encode, make_record

from .builders import PLAN

Object = dict[str, Any]
CLUSTER: Object = {"metadata": {"name": "llama", "namespace": "ml", "uid": "uid-1", "generation": 3}}
OWNER = {"kind": "InferenceCluster", "name": "llama", "uid": "uid-1", "controller": True}


def child(kind: str, name: str, *, labels: Object | None = None, uid: str = "uid-1", **parts: Any) -> Object:
    meta = {"name": name, "uid": f"{kind}-{name}", "creationTimestamp": "2027-01-15T08:00:00Z"}
    meta |= {"labels": labels or {}, "ownerReferences": [{**OWNER, "uid": uid}]}  # type: ignore[dict-item]
    return {"kind": kind, "metadata": meta, **parts}


def record(revision: str = "r1", **changes: Any) -> Object:
    data = encode(make_record(PLAN, {"metadata": {}, "spec": {}}))
    labels = {names.LABEL_REVISION: revision}
    return child("ControllerRevision", f"llama-{revision}", labels=labels, **{"data": data, **changes})


def deployment(revision: str = "r1", replicas: int = 2, **status: Any) -> Object:
    labels = {names.LABEL_REVISION: revision, names.LABEL_COMPONENT: "engine"}
    return child("Deployment", f"llama-{revision}", labels=labels, spec={"replicas": replicas}, status=status)


def pod(name: str, owner: str = "llama-r1-abc12", **changes: Any) -> Object:
    labels = {names.LABEL_REVISION: "r1", names.LABEL_COMPONENT: "engine"}
    conditions = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2027-01-15T08:00:05Z"},
        {"type": "Ready", "status": "True"},
    ]
    meta: Object = {
        "name": name,
        "uid": f"uid-{name}",
        "creationTimestamp": "2027-01-15T08:00:00Z",
        "labels": labels,
        "ownerReferences": [{"kind": "ReplicaSet", "name": owner, "uid": "rs", "controller": True}],
    }
    made: Object = {
        "kind": "Pod",
        "metadata": {**meta, **changes.pop("metadata", {})},
        "spec": {"nodeName": "gpu-0"},
        "status": {"phase": "Running", "conditions": conditions, **changes.pop("status", {})},
    }
    return {**made, **changes}


def look(*objects: Object, status: Object | None = None, lost: str = "") -> Observed:
    children: dict[str, list[Object]] = {}
    for obj in objects:
        children.setdefault(obj["kind"], []).append(obj)
    return observe({**CLUSTER, "status": status or {}}, children, lambda node: node != lost)


def test_nothing_exists_for_a_new_cluster() -> None:
    got = look()
    assert got.cluster == ClusterRef("ml", "llama", "uid-1", 3)
    assert got.revisions == ()
    assert got.gateway.wanted == 0
    assert got.status.conditions == []


def test_a_revision_is_its_record_its_deployment_and_its_pods() -> None:
    made = look(record(), deployment(), pod("llama-r1-abc12-x")).revisions
    assert len(made) == 1
    assert (made[0].name, made[0].replicas, made[0].plan) == ("r1", 2, PLAN)
    engine = made[0].pods[0]
    assert (engine.name, engine.node, engine.ready, engine.phase) == (
        "llama-r1-abc12-x",
        "gpu-0",
        True,
        "Running",
    )
    assert engine.loading_since == timestamp("2027-01-15T08:00:05Z")


@pytest.mark.parametrize(
    ("unready_since", "want"),
    [("2027-01-15T08:00:05Z", "2027-01-15T08:00:05Z"), ("2027-01-16T10:00:00Z", "2027-01-16T10:00:00Z")],
    ids=["never ready", "ready for a day"],
)
def test_an_engine_loads_since_it_stopped_being_ready(unready_since: str, want: str) -> None:
    conditions = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2027-01-15T08:00:05Z"},
        {"type": "Ready", "status": "False", "lastTransitionTime": unready_since},
    ]
    ended = {"exitCode": 1, "startedAt": "2027-01-16T09:59:00Z", "finishedAt": "2027-01-16T10:00:00Z"}
    status = {"conditions": conditions, "containerStatuses": [{"lastState": {"terminated": ended}}]}
    engine = look(record(), deployment(), pod("llama-r1-abc12-x", status=status)).revisions[0].pods[0]
    assert engine.loading_since == timestamp(want)
    assert (engine.ended, engine.last_run) == (timestamp("2027-01-16T10:00:00Z"), 60.0)


def test_a_record_alone_has_no_deployment() -> None:
    assert look(record()).revisions[0].replicas is None


def test_revisions_stand_oldest_first() -> None:
    newer = record("r0")
    newer["metadata"]["creationTimestamp"] = "2027-01-15T09:00:00Z"
    assert [made.name for made in look(newer, record("r1")).revisions] == ["r1", "r0"]


@pytest.mark.parametrize("data", [None, {}, {"plan": "x"}])
def test_a_deployment_whose_record_is_gone_or_unreadable_is_told_apart(data: object) -> None:
    got = look(record(data=data), deployment())
    assert got.revisions == ()
    assert got.unrecorded == ("r1",)


def test_a_deleted_record_is_read_from_its_copy_at_the_deployment() -> None:
    data = record()["data"]
    copied = deployment()
    copied["metadata"]["annotations"] = {names.ANNOTATION_RECORD: json.dumps(data)}
    whole = look(record(), copied, pod("llama-r1-abc12-x")).revisions[0]
    lost = look(copied, pod("llama-r1-abc12-x"))
    assert lost.unrecorded == ()
    assert lost.revisions == (replace(whole, recorded=False),)
    younger = record()
    younger["metadata"]["creationTimestamp"] = "2027-01-15T09:00:00Z"
    assert look(younger, copied).revisions[0].created == whole.created, "made again, it keeps its place"


@pytest.mark.parametrize("copy", ["", "{", "[]", "{}"])
def test_a_copy_that_cannot_be_read_is_none(copy: str) -> None:
    copied = deployment()
    copied["metadata"]["annotations"] = {names.ANNOTATION_RECORD: copy}
    assert look(copied).unrecorded == ("r1",)
    assert look(record(), copied).revisions[0].recorded


def test_what_something_else_controls_is_foreign_and_not_ours() -> None:
    got = look(
        child("Deployment", "llama-gateway", uid="uid-2", spec={"replicas": 1}),
        record("r1", metadata={**record("r1")["metadata"], "ownerReferences": []}),
    )
    assert got.foreign == ("ControllerRevision/llama-r1", "Deployment/llama-gateway")
    assert got.revisions == ()
    assert got.gateway.wanted == 0
    assert not owned(child("Service", "x", uid="uid-2"), "uid-1")


def test_a_pod_that_left_its_replica_set_is_told_by_its_name_and_so_is_one_that_came_back() -> None:
    ours = {"kind": "InferenceCluster", "name": "llama", "uid": "uid-1"}

    def alone(name: str, *owners: Object) -> Object:
        made = pod(name)
        made["metadata"]["ownerReferences"] = list(owners)
        return made

    replica_set = pod("p")["metadata"]["ownerReferences"][0]
    got = look(
        record(),
        alone("llama-r1-abc12-lost0"),
        alone("llama-gateway-abc12-lost1"),
        alone("llama-r1-abc12-ours0", ours),
        alone("llama-r1-abc12-back0", ours, replica_set),
        pod("llama-r1-abc12-fine0"),
        alone("llama-r9-abc12-other"),
        alone("somebody"),
    )
    assert got.released == ("llama-r1-abc12-lost0", "llama-gateway-abc12-lost1")
    assert got.regained == ("llama-r1-abc12-back0",)


@pytest.mark.parametrize(
    "stray",
    [
        pod("p", owner="llama-r2-abc12"),
        pod("p", owner="llama-r1"),
        pod("p", metadata={"ownerReferences": []}),
        pod("p", metadata={"labels": {names.LABEL_REVISION: "r2", names.LABEL_COMPONENT: "engine"}}),
        pod("p", metadata={"labels": {}}),
    ],
    ids=["other revision's", "no ReplicaSet's", "nobody's", "wrong label", "no label"],
)
def test_a_pod_that_no_replica_set_of_the_revision_made_is_no_engine(stray: Object) -> None:
    assert look(record(), deployment(), stray).revisions[0].pods == ()


@pytest.mark.parametrize(
    ("change", "field", "want"),
    [
        ({"metadata": {"deletionTimestamp": "2027-01-15T08:00:00Z"}}, "terminating", True),
        ({"metadata": {"annotations": {names.ANNOTATION_DELETION_COST: "-1000"}}}, "deletion_cost", -1000),
        ({"metadata": {"annotations": {names.ANNOTATION_DELETION_COST: "low"}}}, "deletion_cost", None),
        ({"status": {"conditions": []}}, "ready", False),
        ({"spec": {}}, "loading_since", None),
        ({"spec": {"nodeName": "dead"}}, "node_lost", True),
        ({"spec": {}, "status": {}}, "node_lost", False),
        (
            {"status": {"conditions": [{"type": "PodScheduled", "status": "False", "message": "no GPU"}]}},
            "unschedulable",
            "no GPU",
        ),
        (
            {"status": {"containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull"}}}]}},
            "waiting",
            "ErrImagePull",
        ),
        (
            {"status": {"containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]}},
            "waiting",
            "",
        ),
        (
            {"status": {"containerStatuses": [{"restartCount": 2}, {"restartCount": 1}]}},
            "restarts",
            3,
        ),
        (
            {
                "status": {
                    "containerStatuses": [
                        {"lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}
                    ]
                }
            },
            "last_exit",
            "OOMKilled (137)",
        ),
        (
            {
                "status": {
                    "containerStatuses": [
                        {"lastState": {"terminated": {"reason": "Completed", "exitCode": 0}}}
                    ]
                }
            },
            "last_exit",
            "Completed (0)",
        ),
    ],
)
def test_a_pods_state(change: Object, field: str, want: object) -> None:
    made = look(record(), deployment(), pod("p", **change), lost="dead").revisions[0].pods[0]
    assert getattr(made, field) == want


def test_a_deployment_that_cannot_create_pods_says_why() -> None:
    condition = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: gpus"}
    got = look(record(), deployment(conditions=[condition]))
    assert got.revisions[0].create_error == "exceeded quota: gpus"


def gateway_pod(name: str, *, ready: bool = True, ending: bool = False) -> Object:
    made = pod(name, owner="llama-gateway-abc12")
    made["metadata"]["labels"] = {names.LABEL_COMPONENT: "gateway"}
    made["status"]["conditions"] = [{"type": "Ready", "status": "True" if ready else "False"}]
    if ending:
        made["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:00Z"
    return made


def test_the_gateway_is_its_pods_its_routing_and_its_reports() -> None:
    routing = Routing(
        cluster="llama",
        namespace="ml",
        served_name="x",
        tracks=(
            Track(
                revision="r1",
                service="llama-r1",
                share=10_000,
                port=8000,
                health_path="/health",
                metrics_path="/metrics",
                concurrency=4,
            ),
        ),
        drains=(Drain(pod="p", since=5.0),),
        queue_length=1,
        queue_timeout_seconds=1,
        drain_timeout_seconds=1,
    )
    data = {
        "gateway.g-0": '{"gateway": "g-0", "ready": true, "routing_digest": "d", "added": "later"}',
        "gateway.g-1": "not json",
        "other": "{}",
    }
    got = look(
        child("Deployment", "llama-gateway", spec={"replicas": 2}),
        gateway_pod("g-0"),
        gateway_pod("g-1", ready=False),
        gateway_pod("g-2", ending=True),
        child("ConfigMap", "llama-routing", data={names.ROUTING_KEY: routing.model_dump_json()}),
        child("ConfigMap", "llama-gateway-report", data=data),
    ).gateway
    assert got.wanted == 2
    assert got.ready_pods == ("g-0",)
    assert got.pods == ("g-0", "g-1", "g-2")
    assert [report.gateway for report in got.reports] == ["g-0"]
    assert got.shares == {"r1": 10_000}
    assert got.drains == (Drain(pod="p", since=5.0),)


@pytest.mark.parametrize(
    ("made", "want"),
    [("07:59:59", ""), ("08:00:00", ""), ("08:00:01", "uid-of-llama-gateway")],
)
def test_an_account_younger_than_the_gateway_was_made_anew(made: str, want: str) -> None:
    gate, account = child("Deployment", "llama-gateway"), child("ServiceAccount", "llama-gateway")
    gate["metadata"]["creationTimestamp"] = "2027-01-15T08:00:00Z"
    account["metadata"] |= {"creationTimestamp": f"2027-01-15T{made}Z", "uid": "uid-of-llama-gateway"}
    assert look(gate, account).gateway.renewed_account == want
    assert look(account).gateway.renewed_account == look(gate).gateway.renewed_account == ""


def test_an_unreadable_routing_document_is_as_good_as_none() -> None:
    got = look(child("ConfigMap", "llama-routing", data={names.ROUTING_KEY: "{}"})).gateway
    assert got.shares == {}


def test_what_a_newer_release_wrote_into_the_status_costs_only_its_own_field() -> None:
    revisions = {"stable": "r1", "target": "r2", "updatedReplicas": 1, "canary": "r2"}
    got = parse_status({"revisions": revisions, "replicas": "three", "scaling": {"state": "Up"}})
    assert got.revisions is not None
    assert got.revisions.stable == "r1"
    assert got.replicas == 0


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("2026-11-30T12:00:00Z", 1_796_040_000.0),
        ("2026-11-30T13:00:00+01:00", 1_796_040_000.0),
        ("2026-11-30T12:00:00", 1_796_040_000.0),
        ("yesterday", 0.0),
        ("2026-11-30T12:00:60Z", 0.0),
        ("", 0.0),
        (None, 0.0),
        (1_796_040_000, 0.0),
    ],
)
def test_any_time_is_seconds_and_none_is_an_error(text: object, want: float) -> None:
    assert timestamp(text) == want
