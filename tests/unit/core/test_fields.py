"""Drift is seen by our managedFields entry: the sets were recorded on a real API server (tests/goldens)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from inference_operator.api import names
from inference_operator.core.canonical import digest
from inference_operator.core.fields import field_set, managed_digest, needs_apply

Object = dict[str, Any]
RECORDED: Object = json.loads(
    (Path(__file__).parents[2] / "goldens" / "managed_fields.json").read_text(encoding="utf-8")
)


def identity(pair: Object) -> str:
    obj = pair["applied"]
    return f"{obj['kind']} {obj['metadata']['name']}"


def live(pair: Object, manager: str = names.FIELD_MANAGER, **entry: str) -> Object:
    """What an informer gets: the applied object with its managed fields."""
    entries = [
        {
            "manager": "kube-controller-manager",
            "operation": "Update",
            "subresource": "status",
            "fieldsV1": {},
        },
        {"manager": manager, "operation": "Apply", "fieldsV1": pair["fieldsV1"], **entry},
    ]
    obj = pair["applied"]
    return {**obj, "metadata": {**obj["metadata"], "managedFields": entries}}


@pytest.mark.parametrize("pair", RECORDED["applied"], ids=identity)
def test_the_field_set_is_the_one_that_the_api_server_records(pair: Object) -> None:
    assert field_set(pair["applied"]) == pair["fieldsV1"]


@pytest.mark.parametrize("pair", RECORDED["applied"], ids=identity)
def test_an_object_as_applied_needs_nothing(pair: Object) -> None:
    desired, seen = pair["applied"], live(pair)
    assert needs_apply(desired, seen["metadata"]["annotations"], managed_digest(seen)) is None


def test_every_kind_that_is_rendered_was_recorded() -> None:
    kinds = {pair["applied"]["kind"] for pair in RECORDED["applied"]}
    assert kinds == {
        "ConfigMap",
        "ControllerRevision",
        "Deployment",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "Role",
        "RoleBinding",
        "Service",
        "ServiceAccount",
    }


def test_a_foreign_edit_is_seen_though_the_annotation_is_unchanged() -> None:
    pair = RECORDED["edited"]
    assert "f:replicas" not in pair["fieldsV1"]["f:spec"], "as recorded: the edited field is no longer ours"
    seen = live(pair)
    why = needs_apply(pair["applied"], seen["metadata"]["annotations"], managed_digest(seen))
    assert why == "someone else changed a field of ours"


def test_an_absent_object_is_applied() -> None:
    assert needs_apply(RECORDED["applied"][0]["applied"], None, "") == "it doesn't exist"


@pytest.mark.parametrize("annotations", [{}, {names.ANNOTATION_HASH: "0" * 16}])
def test_a_changed_wish_is_applied(annotations: dict[str, str]) -> None:
    pair = RECORDED["applied"][0]
    why = needs_apply(pair["applied"], annotations, managed_digest(live(pair)))
    assert why == "what is wanted has changed"


@pytest.mark.parametrize(
    "seen",
    [
        live(RECORDED["applied"][0], manager="kubectl"),
        live(RECORDED["applied"][0], operation="Update"),
        live(RECORDED["applied"][0], subresource="status"),
        {"metadata": {}},
    ],
    ids=["another manager's", "an update", "the status", "no managed fields"],
)
def test_only_our_own_apply_entry_counts(seen: Object) -> None:
    assert managed_digest(seen) == ""


def test_the_order_of_keys_does_not_matter() -> None:
    assert digest({"a": 1, "b": [1, 2]}) == digest({"b": [1, 2], "a": 1})
    assert digest({"b": [1, 2]}) != digest({"b": [2, 1]})
