"""Parsing of specs: JSON's rules, all errors at once, paths as in a manifest."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_operator.api.parse import FieldError, parse_spec
from inference_operator.api.v1alpha1 import (
    EngineType,
    InferenceClusterSpec,
    InferenceClusterStatus,
    RolloutStrategy,
)
from tests.data.bad_input import samples

MODEL = {"id": "meta-llama/Llama-3.1-8B-Instruct"}


def errors(spec: Any) -> dict[str, str]:
    parsed = parse_spec(spec)
    assert isinstance(parsed, tuple), parsed
    return {error.field: error.message for error in parsed}


@pytest.mark.parametrize("file", sorted(samples()))
def test_samples_are_read_and_written_back_as_they_are(file: str) -> None:
    parsed = parse_spec(samples()[file])
    assert isinstance(parsed, InferenceClusterSpec)
    written = parsed.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)
    assert written == samples()[file]


def test_an_enum_is_read_from_its_word() -> None:
    parsed = parse_spec({"model": MODEL, "engine": {"type": "VLLM"}, "rollout": {"strategy": "Recreate"}})
    assert isinstance(parsed, InferenceClusterSpec)
    assert parsed.engine.type is EngineType.VLLM
    assert parsed.rollout.strategy is RolloutStrategy.RECREATE


@pytest.mark.parametrize("value", ["8", 8.0, 8.5, True, None, [8], {"a": 8}])
def test_only_a_whole_number_is_a_whole_number(value: Any) -> None:
    assert list(errors({"model": MODEL, "replicas": value})) == ["spec.replicas"]


@pytest.mark.parametrize("value", [0, 1, "true", "yes"])
def test_only_a_boolean_is_a_boolean(value: Any) -> None:
    assert list(errors({"model": MODEL, "suspend": value})) == ["spec.suspend"]


def test_all_errors_are_told_at_once_with_their_paths() -> None:
    told = errors(
        {
            "model": {"source": {}},
            "engine": {"args": ["--a", 3], "env": [{"name": "A", "value": "x", "valueFrom": {}}]},
            "placement": {"nodeSelector": {"a/b": "c d", "\n": "x"}},
            "tier": "Small",
        }
    )
    assert told == {
        "spec.model.id": "Field required",
        "spec.model.source": "set exactly one of huggingFace and persistentVolumeClaim",
        "spec.engine.args[1]": "Input should be a valid string",
        "spec.engine.env[0].valueFrom": "unknown field",
        "spec.placement.nodeSelector[a/b]": told["spec.placement.nodeSelector[a/b]"],
        "spec.placement.nodeSelector[\\n]": told["spec.placement.nodeSelector[\\n]"],
        "spec.tier": "unknown field",
    }


@pytest.mark.parametrize("spec", [None, 3, "x", [], True])
def test_what_is_no_object_is_an_error_of_the_spec(spec: Any) -> None:
    assert list(errors(spec)) == ["spec"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(["model", "engine", "replicas", "placement", "x"]), JSON))
def test_no_json_makes_it_raise(spec: Any) -> None:
    parsed = parse_spec(spec)
    assert isinstance(parsed, InferenceClusterSpec) or all(isinstance(e, FieldError) for e in parsed)


def test_a_newer_status_is_read_by_an_older_operator() -> None:
    status = InferenceClusterStatus.model_validate_json(
        '{"observedGeneration": 3, "tier": {"effective": "Small"},'
        ' "revisions": {"stable": "a", "canary": "b"},'
        ' "conditions": [{"type": "Ready", "status": "True", "reason": "Serving", "hint": "x",'
        ' "lastTransitionTime": "2026-01-01T00:00:00Z"}]}'
    )
    assert status.observed_generation == 3
    assert status.revisions is not None
    assert status.revisions.stable == "a"
    assert status.conditions[0].reason == "Serving"
