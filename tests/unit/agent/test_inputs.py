"""Routing documents and endpoints: taken, refused, kept on disk."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from inference_operator.agent.endpoints import KEEP_SECONDS
from inference_operator.agent.inputs import Inputs
from tests.unit.agent.builders import routing, track
from tests.unit.agent.test_endpoints import endpoint, slice_of

CLUSTER = ("team-a", "llama")
GOOD = routing(track(), drains=({"pod": "e1", "since": 1.0},)).model_dump_json()


class Told:
    def __init__(self) -> None:
        self.refused: list[str] = []
        self.changes = 0
        self.inputs = Inputs((CLUSTER,), lambda _, message: self.refused.append(message), self.changed)

    def changed(self) -> None:
        self.changes += 1


def test_complete_needs_a_document_and_the_endpoints():
    told = Told()
    assert not told.inputs.complete
    told.inputs.routing_text(CLUSTER, GOOD)
    assert not told.inputs.complete
    told.inputs.slices(CLUSTER, [])
    assert told.inputs.complete
    assert told.changes == 2


def test_drains_and_endpoints_become_engines():
    told = Told()
    told.inputs.routing_text(CLUSTER, GOOD)
    told.inputs.slices(CLUSTER, [slice_of(endpoint("e0"), endpoint("e1", "10.0.1.2"))])
    (pool,) = told.inputs.gateway(0.0).pools
    assert [(e.pod, e.draining) for e in pool.engines] == [("e0", False), ("e1", True)]
    assert pool.backend == "team-a.llama.v1"
    told.inputs.slices(CLUSTER, [slice_of(endpoint("e0"), endpoint("e1", "10.0.1.2"))])
    assert told.changes == 2


def test_the_digest_is_of_the_document_in_force():
    told = Told()
    assert told.inputs.digest(CLUSTER) == ""
    told.inputs.routing_text(CLUSTER, GOOD)
    told.inputs.routing_text(CLUSTER, "{")
    assert told.inputs.digest(CLUSTER) == hashlib.sha256(GOOD.encode()).hexdigest()
    assert len(told.refused) == 1
    assert "the old one stays in force" in told.refused[0]


def test_a_document_may_be_right_again_after_a_refusal():
    told = Told()
    told.inputs.routing_text(CLUSTER, "{")
    told.inputs.routing_text(CLUSTER, GOOD)
    told.inputs.routing_text(CLUSTER, "{")
    assert len(told.refused) == 2


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("queue_timeout_seconds", "1e300"),
        ("drain_timeout_seconds", "Infinity"),
        ("drain_timeout_seconds", "0"),
        ("queue_length", "9" * 30),
        ("port", "70000"),
        ("since", "NaN"),
    ],
)
def test_a_number_out_of_bounds_is_refused_with_its_field(field: str, value: str):
    told = Told()
    told.inputs.routing_text(CLUSTER, re.sub(rf'"{field}":[0-9.]+', f'"{field}":{value}', GOOD))
    assert told.inputs.digest(CLUSTER) == ""
    assert len(told.refused) == 1
    assert field in told.refused[0]


def test_other_gateways_are_peers_the_own_pod_is_not():
    told = Told()
    told.inputs.slices(
        CLUSTER,
        [
            slice_of(
                endpoint("gateway-0", "10.0.0.1"), endpoint("gateway-1", "10.0.0.2"), service="llama-gateway"
            )
        ],
    )
    assert told.inputs.peers("gateway-0") == {"gateway-1": "10.0.0.2"}


async def test_what_was_saved_is_restored(tmp_path: Path):
    path = tmp_path / "state.json"
    told, again = Told(), Told()
    told.inputs.routing_text(CLUSTER, GOOD)
    told.inputs.slices(CLUSTER, [slice_of(endpoint("e0"))])
    await told.inputs.save(path)
    written = path.stat().st_mtime_ns
    await told.inputs.save(path)
    assert path.stat().st_mtime_ns == written
    again.inputs.restore(path)
    assert again.inputs.complete
    assert again.inputs.gateway(0.0) == told.inputs.gateway(0.0)
    assert again.inputs.digest(CLUSTER) == told.inputs.digest(CLUSTER)


async def test_engines_without_slices_are_kept_through_a_restart_and_then_forgotten(tmp_path: Path):
    path = tmp_path / "state.json"
    told, again = Told(), Told()
    told.inputs.routing_text(CLUSTER, GOOD)
    told.inputs.slices(CLUSTER, [slice_of(endpoint("e0"))])
    told.inputs.slices(CLUSTER, [])
    before = told.inputs.gateway(0.0)
    await told.inputs.save(path)
    again.inputs.restore(path)
    again.inputs.slices(CLUSTER, [])
    assert again.inputs.gateway(1000.0) == before
    assert [engine.pod for engine in before.pools[0].engines] == ["e0"]
    assert again.inputs.gateway(1000.0 + KEEP_SECONDS).pools[0].engines == ()
    await again.inputs.save(path)
    assert b"e0" not in path.read_bytes()


def test_other_gateways_stay_peers_while_their_slices_are_missing():
    told = Told()
    slices = [slice_of(endpoint("gateway-1", "10.0.0.2"), service="llama-gateway")]
    told.inputs.slices(CLUSTER, slices)
    told.inputs.slices(CLUSTER, [])
    assert told.inputs.peers("gateway-0") == {"gateway-1": "10.0.0.2"}


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"team-a/llama": {"engines": {"s": [{"x": 1}]}}}', '{"team-a/llama": 5}', "null"]
)
def test_an_unreadable_state_is_ignored(tmp_path: Path, text: str):
    path = tmp_path / "state.json"
    path.write_text(text)
    told = Told()
    told.inputs.restore(path)
    assert not told.inputs.complete


def test_a_missing_state_is_nothing_special(tmp_path: Path):
    Told().inputs.restore(tmp_path / "state.json")
