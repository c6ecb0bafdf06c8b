"""The frozen record of a revision: what is written is what is read, in this release and the next."""

from __future__ import annotations

import json
from typing import Any

import pytest

from inference_operator.core.record import RecordError, decode, decode_plan, encode, encode_plan, make_record

from .builders import PLAN, make_plan

TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "engine"}]}}


@pytest.mark.parametrize(
    "plan",
    [
        PLAN,
        make_plan(reasons=("because", "and")),
        make_plan(accelerator=None, gpu_products=(), context_length=None, args=()),
    ],
    ids=["usual", "with reasons", "without what is optional"],
)
def test_a_record_survives_json(plan: Any) -> None:
    record = make_record(plan, TEMPLATE)
    assert decode(json.loads(json.dumps(encode(record)))) == record


def test_a_record_has_this_shape() -> None:
    got = encode(make_record(PLAN, TEMPLATE))
    assert sorted(got) == ["hashVersion", "plan", "template", "templateDigest"]
    assert got["hashVersion"] == 1
    assert sorted(got["plan"]) == [
        "accelerator",
        "args",
        "contextLength",
        "engine",
        "gpuProducts",
        "gpus",
        "image",
        "inputDigest",
        "maxConcurrency",
        "model",
        "resourceName",
        "servedName",
        "tensor",
        "version",
    ]


def test_what_a_newer_release_added_is_ignored() -> None:
    assert decode_plan({**encode_plan(PLAN), "speculative": {"method": "ngram"}}) == PLAN


@pytest.mark.parametrize(
    "change",
    [
        {"plan": None},
        {"plan": {}},
        {"template": "text"},
        {"plan": {**encode_plan(PLAN), "gpus": "many"}},
        {"plan": {**encode_plan(PLAN), "gpus": float("inf")}},
        {"plan": {**encode_plan(PLAN), "reasons": [1]}},
        {"plan": {**encode_plan(PLAN), "model": "x" * 201}},
    ],
)
def test_an_unreadable_record_is_told_apart(change: dict[str, Any]) -> None:
    with pytest.raises(RecordError, match="unreadable revision record"):
        decode({**encode(make_record(PLAN, TEMPLATE)), **change})


def test_an_empty_record_is_unreadable() -> None:
    with pytest.raises(RecordError):
        decode({})
