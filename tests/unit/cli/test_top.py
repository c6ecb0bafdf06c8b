"""`top`: the gateways' numbers, summed over gateways; those that are missing are told."""

from __future__ import annotations

import json
from typing import Any

from inference_operator.cli.top import cluster_load

from .conftest import Plugin
from .fake_api import Answer, FakeApi, forbidden, refusal
from .objects import cluster, gateway_pods

Json = dict[str, Any]


def engine(pod: str, state: str = "UP", in_flight: int = 0, queued: int = 0, maxconn: int = 32) -> Json:
    return {"pod": pod, "state": state, "in_flight": in_flight, "queued": queued, "maxconn": maxconn}


def state(*engines: Json, queued: int | None = None, cluster: str = "ml/llama") -> Json:
    """As an agent's /state has it."""
    track = {
        "namespace": "ml",
        "cluster": "llama",
        "revision": "a",
        "share": 10_000,
        "retries": 1,
        "concurrency": 64,
        "queued": sum(e["queued"] for e in engines) if queued is None else queued,
        "in_flight": sum(e["in_flight"] for e in engines),
        "engines": list(engines),
    }
    return {"gateway": "g", "ready": True, "clusters": {cluster: {"tracks": [track], "drains": []}}}


def path(pod: str) -> str:
    return f"/api/v1/namespaces/ml/pods/{pod}:9101/proxy/state"


def test_numbers_are_the_sums_over_all_gateways() -> None:
    load = cluster_load(
        "ml",
        "llama",
        {
            "g-0": state(engine("a-0", in_flight=3, queued=1), engine("a-1", "DRAIN", in_flight=1), queued=5),
            "g-1": state(engine("a-0", in_flight=4), engine("a-1", "DRAIN")),
        },
    )
    assert [(e.pod, e.state, e.in_flight, e.queued, e.limit) for e in load.engines] == [
        ("a-0", "UP", 7, 1, 64),
        ("a-1", "DRAIN", 1, 0, 64),
    ]
    assert (load.in_flight, load.queued, load.demand, load.capacity) == (8, 5, 13, 64)
    assert load.silent == []


def test_gateways_that_disagree_are_both_heard() -> None:
    load = cluster_load("ml", "llama", {"g-0": state(engine("a-0", "DOWN")), "g-1": state(engine("a-0"))})
    assert load.engines[0].state == "DOWN/UP"
    assert load.capacity == 0


def test_what_is_no_state_counts_as_no_word() -> None:
    answers: dict[str, Json | None] = {
        "g-0": None,
        "g-1": {"clusters": {}},
        "g-2": {"clusters": 3},
        "g-3": state(),
    }
    load = cluster_load("ml", "llama", answers)
    assert (load.gateways, load.silent) == (4, ["g-0", "g-1", "g-2"])


def test_the_table(api: FakeApi, plugin: Plugin) -> None:
    api.clusters = [cluster()]
    api.pods = gateway_pods()
    api.answers[path("g-0")] = Answer(state(engine("a-0", in_flight=3, queued=2)))
    api.answers[path("g-1")] = refusal(503, "ServiceUnavailable", "dial tcp: connection refused")
    got = plugin("top", "llama", "--once")
    assert got.status == 0
    assert [line.split() for line in got.out.splitlines()] == [
        ["CLUSTER", "ENGINE", "STATE", "IN", "FLIGHT", "QUEUED", "LIMIT", "REVISION"],
        ["ml/llama", "1", "of", "1", "engine", "up", "3", "of", "64", "2"],
        ["a-0", "UP", "3", "2", "32", "a"],
        ["ml/llama:", "numbers", "are", "too", "low,", "no", "word", "from", "g-1"],
    ]


def test_the_document_of_all_namespaces(api: FakeApi, plugin: Plugin) -> None:
    api.clusters = [cluster(), cluster(name="lonely", namespace="other")]
    api.pods = gateway_pods(1)
    api.answers[path("g-0")] = Answer(state(engine("a-0", in_flight=3)))
    document = json.loads(plugin("top", "-A", "-o", "json").out)
    assert document["kind"] == "ClusterLoadList"
    first, second = document["items"]
    assert first == {
        "namespace": "ml",
        "name": "llama",
        "gateways": 1,
        "silent": [],
        "inFlight": 3,
        "queued": 0,
        "demand": 3,
        "capacity": 64,
        "engines": [{"pod": "a-0", "revision": "a", "state": "UP", "inFlight": 3, "queued": 0, "limit": 32}],
    }
    assert (second["name"], second["gateways"]) == ("lonely", 0)


def test_a_cluster_without_a_gateway_is_told(api: FakeApi, plugin: Plugin) -> None:
    api.clusters = [cluster()]
    assert "ml/llama: no gateway pod runs" in plugin("top").out


def test_without_the_right_to_the_proxy_nothing_is_shown_as_zero(api: FakeApi, plugin: Plugin) -> None:
    api.clusters = [cluster()]
    api.pods = gateway_pods(1)
    api.answers[path("g-0")] = forbidden("get", "pods/proxy")
    got = plugin("top")
    assert (got.status, got.out) == (1, "")
    assert 'cannot get resource "pods/proxy"' in got.err


def test_gateways_that_all_keep_silent_point_to_the_way_to_them(api: FakeApi, plugin: Plugin) -> None:
    api.clusters = [cluster()]
    api.pods = gateway_pods()
    assert "no gateway answers the API server on port 9101" in plugin("top").out
