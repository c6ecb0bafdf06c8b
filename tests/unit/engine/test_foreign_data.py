"""What other people can write (status, reports, routing, records, annotations) never ends a pass.

Each test spoils some places of a document that is right, or puts any JSON in its place.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from inference_operator.api import names
from inference_operator.ports import KubeError
from tests.unit.engine.fake_kube import FakeKube, Object
from tests.unit.engine.rig import Rig, cluster

ODD_VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 10**30, 0.5, 1e300, -1e300, float("nan"), float("inf")),
    *("", "x" * 300, "x" * 2000, "yesterday", "0001-01-01T00:00:00+23:59", "2026-13-41T25:61:61Z"),
    *("2026-11-30T12:00:00", "True", "Ready", "\ud800", [], {}, [None], [[]], {"a": 1}),
)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20))
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
ODD = st.one_of(st.sampled_from(ODD_VALUES), JSON)

EVENT = {
    "kind": "EngineDown",
    "pod": "llama-r-abc-0",
    "revision": "r",
    "time": 1_799_999_990.0,
    "detection_ms": 900,
    "streams_cut": 1,
    "message": "",
}
REPORT: Object = {
    "gateway": "llama-gateway-abc-0",
    "ready": True,
    "routing_digest": "d",
    "engines": [{"pod": "llama-r-abc-0", "revision": "r", "state": "DRAIN", "idle": True}],
    "events": [EVENT, {**EVENT, "kind": "EngineUp", "time": 1_799_999_995.0}],
}
FAILOVER = {
    "time": "2027-01-15T08:00:00Z",
    "kind": "EngineDown",
    "pod": "llama-r-abc-0",
    "gateway": "llama-gateway-abc-0",
    "detectionMs": 900,
    "streamsCut": 1,
}


class StrictKube(FakeKube):
    """What isn't JSON can't be sent."""

    async def apply(self, obj: Object) -> Object:
        orjson.dumps(obj)
        return await super().apply(obj)

    async def apply_status(self, obj: Object) -> Object:
        orjson.dumps(obj)
        return await super().apply_status(obj)


def pod(name: str, component: str, workload: str, revision: str = "") -> Object:
    labels = {
        names.LABEL_MANAGED_BY: names.MANAGED_BY,
        names.LABEL_CLUSTER: "llama",
        names.LABEL_COMPONENT: component,
        names.LABEL_REVISION: revision,
    }
    owner = {"kind": "ReplicaSet", "name": f"{workload}-abc", "uid": "rs", "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ns", "labels": labels, "ownerReferences": [owner]},
        "spec": {"nodeName": "node"},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


async def make_settled() -> dict[Any, Object]:
    """A cluster that serves, with a report and a failover."""
    rig = Rig(StrictKube())
    rig.kube.create(cluster())
    await rig.run_until_quiet()
    revision = str(rig.status()["revisions"]["target"])
    for index in range(2):
        workload = f"llama-{revision}"
        rig.kube.create(pod(f"{workload}-abc-{index}", names.COMPONENT_ENGINE, workload, revision))
        rig.kube.create(pod(f"llama-gateway-abc-{index}", names.COMPONENT_GATEWAY, "llama-gateway"))
    await rig.run_until_quiet()
    rig.kube.named(names.KIND, "llama")["status"]["failover"] = {"lastEvents": [FAILOVER]}
    return rig.kube.objects


SETTLED = asyncio.run(make_settled())


def rig_with(objects: dict[Any, Object]) -> Rig:
    kube = StrictKube()
    kube.objects = copy.deepcopy(objects)
    for number, obj in enumerate(kube.objects.values()):
        obj["metadata"]["resourceVersion"] = str(-1 - number)  # older than whatever is written now
    return Rig(kube)


def places(node: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a document at which a value stands."""
    for key in node if isinstance(node, dict) else range(len(node)):
        yield node, key
        if isinstance(node[key], dict | list):
            yield from places(node[key])


def is_json(value: Any) -> bool:
    """Could the API server have stored it as a part of an object?"""
    try:
        return orjson.dumps(value) is not None
    except TypeError:
        return False


@st.composite
def spoiled(draw: st.DrawFn, document: Any) -> Any:
    """The document with one to three places changed, or something else altogether."""
    if draw(st.integers(0, 9)) == 0:
        return draw(ODD)
    made = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        found = list(places(made))
        if found:
            node, key = draw(st.sampled_from(found))
            node[key] = copy.deepcopy(draw(ODD))  # the next change may be inside it
    return made


def run(objects: dict[Any, Object]) -> Rig:
    """Two passes: what is told in the first is read in the second. A child that is gone comes back."""
    del objects["Service", "ns", "llama-gateway"]
    rig = rig_with(objects)

    async def passes() -> None:
        await rig.run()
        await rig.run()

    asyncio.run(passes())
    assert rig.kube.named("Service", "llama-gateway")
    return rig


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_status(data: st.DataObject) -> None:
    objects = copy.deepcopy(SETTLED)
    stored = objects[names.KIND, "ns", "llama"]
    status = data.draw(spoiled(stored["status"]).filter(is_json))
    stored["status"] = status if isinstance(status, dict) else {"conditions": status}
    run(objects)


@settings(max_examples=60, deadline=None)
@given(spoiled(SETTLED[names.KIND, "ns", "llama"]["status"]).filter(is_json))
def test_any_status_of_a_cluster_that_is_being_deleted(status: Any) -> None:
    objects = copy.deepcopy(SETTLED)
    stored = objects[names.KIND, "ns", "llama"]
    stored["status"] = status if isinstance(status, dict) else {"conditions": status}
    stored["metadata"] |= {"deletionTimestamp": "2026-11-30T12:00:00Z", "finalizers": ["x" * 2000]}
    rig = rig_with(objects)
    asyncio.run(rig.run())
    assert rig.condition("Ready")["reason"] == "Deleting"
    assert rig.kube.writes == ["status InferenceCluster llama"]


@settings(max_examples=60, deadline=None)
@given(spoiled(REPORT), spoiled(REPORT), st.booleans())
def test_any_report(first: Any, second: Any, without_conditions: bool) -> None:
    objects = copy.deepcopy(SETTLED)
    objects["ConfigMap", "ns", "llama-gateway-report"]["data"] = {
        "gateway.llama-gateway-abc-0": json.dumps(first),
        "gateway.llama-gateway-abc-1": json.dumps(second),
        "gateway.": "[" * 100_000,
    }
    if without_conditions:
        objects[names.KIND, "ns", "llama"]["status"]["conditions"] = None
    run(objects)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_routing(data: st.DataObject) -> None:
    objects = copy.deepcopy(SETTLED)
    stored = objects["ConfigMap", "ns", "llama-routing"]["data"]
    routing = json.loads(stored[names.ROUTING_KEY])
    routing["drains"] = [{"pod": "llama-r-abc-0", "since": 1_799_999_990.0}]
    stored[names.ROUTING_KEY] = json.dumps(data.draw(spoiled(routing)))
    run(objects)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.booleans())
def test_any_plan_in_a_record_or_in_its_copy(data: st.DataObject, recorded: bool) -> None:
    objects = copy.deepcopy(SETTLED)
    key = next(key for key in objects if key[0] == "ControllerRevision")
    plan = data.draw(spoiled(objects[key]["data"]["plan"]))
    if recorded:
        assume(is_json(plan))
        objects[key]["data"]["plan"] = plan
    else:
        record = {**objects.pop(key)["data"], "plan": plan}
        deployment = objects["Deployment", "ns", key[2]]
        deployment["metadata"]["annotations"][names.ANNOTATION_RECORD] = json.dumps(record)
    run(objects)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=50) | JSON.map(json.dumps) | st.sampled_from(["[" * 100_000, "9" * 5000, "1e999"]))
def test_any_annotation(text: str) -> None:
    objects = copy.deepcopy(SETTLED)
    for key in [key for key in objects if key[0] == "ControllerRevision"]:
        del objects[key]
    for obj in objects.values():
        annotations = obj["metadata"].setdefault("annotations", {})
        for name in (names.ANNOTATION_RECORD, names.ANNOTATION_HASH, names.ANNOTATION_DELETION_COST):
            annotations[name] = text
    run(objects)


async def test_a_first_status_that_fails_keeps_no_child_from_coming_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    objects = copy.deepcopy(SETTLED)
    objects[names.KIND, "ns", "llama"]["status"]["conditions"] = None
    del objects["Service", "ns", "llama-gateway"]
    rig = rig_with(objects)
    refused = KubeError("status: 422 Invalid", status=422, transient=False)
    rig.kube.refuse = lambda what: refused if what.startswith("status") else None
    with pytest.raises(KubeError, match="422"):
        await rig.run()
    assert rig.kube.named("Service", "llama-gateway")
    assert "no first status" in caplog.messages
