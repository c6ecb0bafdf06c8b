"""The digest is frozen: a change of it makes every cluster in the world plan again."""

from typing import Any

import pytest

from inference_operator.api.parse import parse_spec
from inference_operator.api.v1alpha1 import InferenceClusterSpec
from inference_operator.planner.digest import input_digest
from tests.data.bad_input import Json, merge, string_leaves, with_text

BASE: Json = {"model": {"id": "meta-llama/Llama-3.1-8B-Instruct"}}


def digest(spec: Json) -> str:
    parsed = parse_spec(spec)
    assert isinstance(parsed, InferenceClusterSpec), parsed
    return input_digest(parsed)


RICH: Json = {
    "model": {
        "id": "Qwen/Qwen3-8B",
        "servedName": "qwen",
        "source": {"persistentVolumeClaim": {"claimName": "models", "path": "qwen"}},
        "contextLength": 8192,
    },
    "engine": {
        "version": "0.31.0",
        "args": ["--max-num-seqs=16"],
        "env": [{"name": "A", "value": "b"}],
        "resources": {"memory": "64Gi"},
        "drainTimeout": "90s",
    },
    "accelerator": {"type": "H100", "perNode": 4},
    "parallelism": {"tensor": 2},
    "replicas": 3,
    "placement": {"tolerations": [{"key": "gpu", "operator": "Exists"}]},
    "imagePullSecrets": [{"name": "registry"}],
    "podMetadata": {"labels": {"team": "search"}},
}


def test_digests_stand_here_word_by_word() -> None:
    assert digest(BASE) == "bb1eefc4ac7659eaee550365f3cb5cebde9a47f6b5a76228c428783050e263ee"
    assert digest(RICH) == "a5e13a732757384af136c1295c3749affcf044fceb184fba3c1d229eed4e2c6a"


@pytest.mark.parametrize(
    "same",
    [
        {"replicas": 7},
        {"suspend": True},
        {"rollout": {"strategy": "Recreate"}},
        {"cost": {"gpuHourPrice": "2.50", "maxCostPerMillionTokens": "1"}},
        {"gateway": {"replicas": 3, "queue": {"length": 1}}},
        {"engine": {"type": "VLLM", "args": [], "env": []}},
        {"engine": {"loadTimeout": "1800s", "drainTimeout": "300s", "resources": {}}},
        {"accelerator": {"perNode": 8, "resourceName": "nvidia.com/gpu"}},
        {"placement": {"nodeLossTolerationSeconds": 30, "nodeSelector": {}}},
        {"model": {"servedName": "meta-llama/Llama-3.1-8B-Instruct", "source": {"huggingFace": {}}}},
        {"podMetadata": {"labels": {}}},
    ],
    ids=str,
)
def test_what_means_the_same_pods_has_the_same_digest(same: Json) -> None:
    assert digest(merge(BASE, same)) == digest(BASE)


@pytest.mark.parametrize(
    "other",
    [
        {"engine": {"version": "0.32.0"}},  # the default moves with releases, so naming it says more
        {"parallelism": {"tensor": 1}},  # a later planner may choose what is left out
        {"engine": {"args": ["--enforce-eager"]}},
        {"engine": {"env": [{"name": "A", "value": ""}]}},
        {"engine": {"drainTimeout": "301s"}},
        {"model": {"source": {"huggingFace": {"tokenSecretRef": {"name": "a"}}}}},
        {"placement": {"nodeLossTolerationSeconds": 0}},
        {"podMetadata": {"labels": {"a": ""}}},
    ],
    ids=str,
)
def test_what_means_other_pods_has_another_digest(other: Json) -> None:
    assert digest(merge(BASE, other)) != digest(BASE)


#: Strings that have no other legal value beside the rest of the sample.
ONE_CHOICE = ("spec.engine.type", "spec.placement.tolerations[0].operator")
OUTSIDE = ("spec.autoscaling.", "spec.rollout.", "spec.gateway.", "spec.cost.")


@pytest.mark.parametrize("leaf", list(string_leaves()), ids=lambda leaf: leaf[0])
def test_every_string_of_the_spec_but_the_gateways_counts(leaf: tuple[str, Any, Json]) -> None:
    path, place, sample = leaf
    node: Any = sample
    for part in place:
        node = node[part]
    changed = with_text(sample, place, CHANGES.get(path, f"{node}x"))
    if path in ONE_CHOICE:
        assert not isinstance(parse_spec(changed), InferenceClusterSpec), "it has a second choice: test it"
        return
    assert (digest(changed) != digest(sample)) is not path.startswith(OUTSIDE)


CHANGES = {
    "spec.autoscaling.mode": "Disabled",
    "spec.cost.gpuHourPrice": "9",
    "spec.cost.currency": "EUR",
    "spec.cost.maxCostPerMillionTokens": "9",
    "spec.autoscaling.behavior.scaleUp.selectPolicy": "Min",
    "spec.autoscaling.behavior.scaleDown.selectPolicy": "Min",
    "spec.autoscaling.behavior.scaleUp.policies[0].type": "Percent",
    "spec.autoscaling.behavior.scaleDown.policies[0].type": "Percent",
    "spec.engine.version": "0.31.0",
    "spec.engine.resources.cpu": "9",
    "spec.engine.resources.memory": "65Gi",
    "spec.engine.loadTimeout": "46m",
    "spec.engine.drainTimeout": "11m",
    "spec.rollout.strategy": "Recreate",
    "spec.gateway.queue.timeout": "61s",
    "spec.placement.tolerations[0].effect": "NoExecute",
}
