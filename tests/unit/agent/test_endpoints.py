"""EndpointSlices become engines."""

from __future__ import annotations

from typing import Any

import pytest

from inference_operator.agent.endpoints import KEEP_SECONDS, LastKnown, engines, trim
from inference_operator.agent.model import Engine


def slice_of(*endpoints: dict[str, Any], service: str = "llama-v1", name: str = "s") -> dict[str, Any]:
    trimmed = trim(
        {
            "metadata": {
                "namespace": "ns",
                "name": name,
                "resourceVersion": "1",
                "labels": {"kubernetes.io/service-name": service},
                "managedFields": [{}],
            },
            "addressType": "IPv4",
            "endpoints": list(endpoints),
        }
    )
    assert trimmed is not None
    return trimmed


def endpoint(pod: str = "e0", address: str = "10.0.1.1", **conditions: Any) -> dict[str, Any]:
    return {
        "addresses": [address],
        "conditions": conditions,
        "nodeName": "n0",
        "targetRef": {"kind": "Pod", "name": pod},
    }


@pytest.mark.parametrize(
    ("conditions", "want"),
    [
        ({"ready": True, "serving": True, "terminating": False}, "serves"),
        ({"ready": True}, "serves"),
        ({}, "serves"),
        ({"ready": None}, "serves"),
        ({"ready": False, "serving": False, "terminating": False}, "absent"),
        ({"ready": False, "serving": True, "terminating": True}, "drains"),
        ({"ready": False, "serving": False, "terminating": True}, "absent"),
        ({"ready": False}, "absent"),
    ],
)
def test_conditions_decide(conditions: dict[str, Any], want: str):
    found = engines([slice_of(endpoint(**conditions))])["llama-v1"]
    got = "absent" if not found else "drains" if found[0].draining else "serves"
    assert got == want


def test_slices_of_a_service_are_joined_and_sorted():
    found = engines(
        [
            slice_of(endpoint("e2"), name="s1"),
            slice_of(endpoint("e1"), endpoint("e0"), name="s2"),
            slice_of(endpoint("x0"), service="llama-v2", name="s3"),
        ]
    )
    assert {s: [e.pod for e in es] for s, es in found.items()} == {
        "llama-v1": ["e0", "e1", "e2"],
        "llama-v2": ["x0"],
    }


def test_an_endpoint_in_two_slices_counts_as_the_better_one():
    leaving = slice_of(endpoint(ready=False, serving=True, terminating=True), name="s1")
    serving = slice_of(endpoint(ready=True), name="s2")
    for order in ([leaving, serving], [serving, leaving]):
        assert engines(order)["llama-v1"] == (Engine("e0", "10.0.1.1", "n0", False),)


@pytest.mark.parametrize(
    "bad",
    [
        endpoint("e 1"),
        endpoint("e1", "not-an-address"),
        endpoint("e1", "10.0.0.1\nserver"),
        {"addresses": [], "targetRef": {"name": "e1"}},
        {"addresses": ["10.0.0.1"]},
    ],
)
def test_a_bad_endpoint_is_left_out_and_the_others_stay(bad: dict[str, Any]):
    assert [e.pod for e in engines([slice_of(bad, endpoint("e0"))])["llama-v1"]] == ["e0"]


def test_a_slice_without_endpoints_is_a_service_without_engines():
    assert engines([slice_of()]) == {"llama-v1": ()}


def known(service: str = "llama-v1", *pods: str) -> dict[str, tuple[Engine, ...]]:
    return {service: tuple(Engine(pod, "10.0.1.1", "n0") for pod in pods)}


def test_without_any_slice_the_engines_stay_until_it_lasts_too_long():
    last = LastKnown()
    last.update(known("llama-v1", "e0"))
    assert not last.update({}), "nothing may change in HAProxy"
    last.forget(100.0)
    last.update({})
    last.forget(100.0 + KEEP_SECONDS - 0.1)
    assert last.engines == known("llama-v1", "e0")
    last.forget(100.0 + KEEP_SECONDS)
    assert last.engines == {}


def test_a_slice_in_between_starts_the_clock_anew():
    last = LastKnown()
    last.update(known("llama-v1", "e0"))
    last.update({})
    last.forget(100.0)
    assert last.update(known("llama-v1", "e1")), "a slice is news at once"
    last.forget(120.0)
    last.update({})
    last.forget(100.0 + KEEP_SECONDS)
    assert last.engines == known("llama-v1", "e1")


def test_an_empty_slice_is_news_at_once_also_while_slices_are_missing():
    last = LastKnown()
    last.update({**known("llama-v1", "e0"), **known("llama-v2", "x0")})
    last.update(known("llama-v2", "x0"))
    assert last.update({**known("llama-v1"), **known("llama-v2", "x0")})
    assert last.engines == {**known("llama-v1"), **known("llama-v2", "x0")}


def test_services_are_forgotten_one_by_one():
    last = LastKnown()
    last.update({**known("llama-v1", "e0"), **known("llama-v2", "x0")})
    last.update(known("llama-v2", "x0"))
    last.forget(100.0)
    last.update({})
    last.forget(110.0)
    last.forget(100.0 + KEEP_SECONDS)
    assert last.engines == known("llama-v2", "x0")
    last.forget(110.0 + KEEP_SECONDS)
    assert last.engines == {}


def test_a_first_list_is_news_even_if_it_is_empty():
    last = LastKnown()
    assert not last.heard
    assert last.update({})
    assert last.heard
    assert not last.update({})
