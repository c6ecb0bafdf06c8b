"""The revision's name is frozen: these literals hold in every release, or every cluster rolls at the
upgrade."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from inference_operator.api import defaults
from inference_operator.core.model import Plan
from inference_operator.core.revision import revision_name

from .builders import PLAN, make_plan, make_spec


def name(plan: Plan = PLAN, **spec: Any) -> str:
    return revision_name(plan, make_spec(**spec))


EVERYTHING: dict[str, Any] = {
    "model": {
        "revision": "5f0b02c",
        "source": {"huggingFace": {"tokenSecretRef": {"name": "hub", "key": "token"}}},
    },
    "engine": {
        "env": [{"name": "A", "value": "1"}],
        "resources": {"cpu": "8", "memory": "64Gi"},
        "loadTimeout": "1h",
        "drainTimeout": "10m",
    },
    "placement": {
        "nodeSelector": {"pool": "gpu"},
        "tolerations": [{"key": "team", "operator": "Equal", "value": "a", "effect": "NoSchedule"}],
        "runtimeClassName": "nvidia",
        "schedulerName": "volcano",
        "priorityClassName": "high",
        "nodeLossTolerationSeconds": 5,
    },
    "imagePullSecrets": [{"name": "registry"}],
    "podMetadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}},
}


@pytest.mark.parametrize(
    ("plan", "spec", "want"),
    [
        (PLAN, {}, "10b1ca052b"),
        (PLAN, EVERYTHING, "d4886b219d"),
        (
            make_plan(accelerator=None, gpu_products=(), tensor=4, gpus=4, resource_name="amd.com/gpu"),
            {"model": {"source": {"persistentVolumeClaim": {"claimName": "weights", "path": "llama"}}}},
            "34c335efc6",
        ),
    ],
)
def test_names_are_the_ones_that_were_given_before(plan: Plan, spec: dict[str, Any], want: str) -> None:
    assert name(plan, **spec) == want


@pytest.mark.parametrize(
    "change",
    [
        {"model_id": "Qwen/Qwen2.5-7B-Instruct"},
        {"served_name": "other"},
        {"engine": "Other"},
        {"version": "0.33.0"},
        {"image": "mirror/vllm:v0.32.0"},
        {"args": ("--max-num-seqs", "32")},
        {"accelerator": "H200"},
        {"gpu_products": ("NVIDIA-H200",)},
        {"resource_name": "nvidia.com/gpu.shared"},
        {"tensor": 2},
        {"gpus": 2},
    ],
    ids=lambda change: next(iter(change)),
)
def test_every_part_of_the_plan_that_reaches_the_pods_changes_the_name(change: dict[str, Any]) -> None:
    assert name(make_plan(**change)) != name()


def test_what_only_explains_the_plan_or_tells_the_gateway_changes_nothing() -> None:
    other = make_plan(input_digest="1" * 64, reasons=("why",), max_concurrency=1, context_length=1)
    assert name(other) == name()
    left = {field.name for field in dataclasses.fields(Plan)}
    assert len(left) == 15, "a new field of Plan: is it part of the pods? then add it to the digest and above"


@pytest.mark.parametrize(
    "spec",
    [
        {"model": {"revision": "abc"}},
        {"model": {"source": {"huggingFace": {"tokenSecretRef": {"name": "hub"}}}}},
        {"model": {"source": {"huggingFace": {"tokenSecretRef": {"name": "hub", "key": "other"}}}}},
        {"model": {"source": {"persistentVolumeClaim": {"claimName": "weights", "path": "a"}}}},
        {"model": {"source": {"persistentVolumeClaim": {"claimName": "weights", "path": "b"}}}},
        {"engine": {"env": [{"name": "A", "value": "1"}]}},
        {"engine": {"env": [{"name": "A", "value": ""}]}},
        {"engine": {"resources": {"cpu": "1"}}},
        {"engine": {"resources": {"memory": "1Gi"}}},
        {"engine": {"loadTimeout": "31m"}},
        {"engine": {"drainTimeout": "6m"}},
        {"placement": {"nodeSelector": {"a": "b"}}},
        {"placement": {"tolerations": [{"operator": "Exists"}]}},
        {"placement": {"tolerations": [{"key": "a", "operator": "Exists"}]}},
        {"placement": {"runtimeClassName": "nvidia"}},
        {"placement": {"schedulerName": "volcano"}},
        {"placement": {"priorityClassName": "high"}},
        {"placement": {"nodeLossTolerationSeconds": 0}},
        {"imagePullSecrets": [{"name": "registry"}]},
        {"podMetadata": {"labels": {"a": "b"}}},
        {"podMetadata": {"annotations": {"a": "b"}}},
    ],
)
def test_every_field_of_the_spec_that_reaches_the_pods_changes_the_name(spec: dict[str, Any]) -> None:
    assert name(**spec) != name()


@pytest.mark.parametrize(
    "spec",
    [
        {"replicas": 7},
        {"suspend": True},
        {"gateway": {"replicas": 3, "queue": {"length": 5}}},
        {"rollout": {"strategy": "Recreate"}},
        {"engine": {"loadTimeout": defaults.LOAD_TIMEOUT, "drainTimeout": "300s", "args": [], "env": []}},
        {"engine": {"resources": {}}},
        {"placement": {"nodeLossTolerationSeconds": 30, "nodeSelector": {}}},
        {"podMetadata": {"labels": {}}},
        {"model": {"source": {"huggingFace": {}}}},
    ],
)
def test_scale_gateway_and_spelled_out_defaults_change_nothing(spec: dict[str, Any]) -> None:
    assert name(**spec) == name()


def test_a_default_resource_name_is_left_out() -> None:
    assert PLAN.resource_name == defaults.RESOURCE_NAME
    assert name(make_plan(resource_name="other.com/gpu")) != name()
