"""Every child of some clusters, as YAML (tests/goldens/manifests; `make golden` rewrites them)."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from inference_operator.core.decide import decide
from inference_operator.core.model import Plan
from inference_operator.core.revision import revision_name
from inference_operator.render.children import children
from inference_operator.render.policies import agent_access
from inference_operator.render.settings import RenderSettings
from tests.goldens import check_golden
from tests.unit.core.builders import NOW, PLAN, make_plan, make_spec, observed

SETTINGS = RenderSettings(
    agent_image="ghcr.io/inferencecluster/inference-operator:0.1.0",
    haproxy_image="docker.io/library/haproxy:3.2",
)

CASES: dict[str, tuple[Plan, dict[str, Any]]] = {
    "minimal": (PLAN, {}),
    "large": (
        make_plan(tensor=8, gpus=8, max_concurrency=256),
        {
            "replicas": 4,
            "model": {"source": {"huggingFace": {"tokenSecretRef": {"name": "hub"}}}},
            "engine": {
                "env": [{"name": "VLLM_LOGGING_LEVEL", "value": "WARNING"}],
                "resources": {"cpu": "32", "memory": "256Gi"},
                "loadTimeout": "1h",
                "drainTimeout": "10m",
            },
            "placement": {
                "nodeSelector": {"pool": "gpu"},
                "tolerations": [{"key": "team", "operator": "Equal", "value": "ml", "effect": "NoSchedule"}],
                "runtimeClassName": "nvidia",
                "priorityClassName": "high",
                "nodeLossTolerationSeconds": 10,
            },
            "imagePullSecrets": [{"name": "registry"}],
            "podMetadata": {"labels": {"team": "ml"}, "annotations": {"example.com/note": "x"}},
            "gateway": {"replicas": 3, "queue": {"length": 200, "timeout": "30s"}},
        },
    ),
    "volume-any-gpu": (
        make_plan(accelerator=None, gpu_products=(), args=("/models/llama", "--max-num-seqs", "64")),
        {
            "model": {"source": {"persistentVolumeClaim": {"claimName": "weights", "path": "llama"}}},
            "gateway": {"replicas": 1},
        },
    ),
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_rendered_manifests_are_as_reviewed(name: str) -> None:
    plan, fields = CASES[name]
    spec, state = make_spec(**fields), observed()
    decision = decide(spec, revision_name(plan, spec), state, NOW)
    made = [*children(spec, plan, state, decision, SETTINGS), *agent_access("ml", [("llama", "uid-1")])]
    made = json.loads(json.dumps(made))  # parts that two objects share would become YAML aliases
    check_golden(f"manifests/{name}.yaml", yaml.safe_dump_all(made, sort_keys=False, width=110))
