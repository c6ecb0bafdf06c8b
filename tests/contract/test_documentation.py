"""What people copy from the documentation works."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from inference_operator.api.v1alpha1 import InferenceClusterSpec
from inference_operator.planner.plan import make_plan

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
NOTES = (ROOT / "charts" / "inference-operator" / "templates" / "NOTES.txt").read_text(encoding="utf-8")
MINIMAL = (ROOT / "manifests" / "samples" / "minimal.yaml").read_text(encoding="utf-8")
#: Where a first cluster is shown, and where it is asked.
FIRST_CLUSTERS = {
    "README": re.search(r"```yaml\n(.*?)```", README, re.DOTALL),
    "minimal.yaml": re.search(r"(.*)", MINIMAL, re.DOTALL),
    "NOTES.txt": re.search(r"<<END\n(.*?)  END", NOTES, re.DOTALL),
}
REQUESTS = {"README": README, "NOTES.txt": NOTES}


def document(found: re.Match[str] | None) -> dict[str, Any]:
    assert found is not None
    parsed = yaml.safe_load(found[1])
    assert isinstance(parsed, dict)
    return parsed


@pytest.mark.parametrize("place", FIRST_CLUSTERS)
def test_every_first_cluster_is_the_same_and_plans(place: str) -> None:
    shown, sample = document(FIRST_CLUSTERS[place]), document(FIRST_CLUSTERS["minimal.yaml"])
    assert (shown["metadata"], shown["spec"]["model"]) == (sample["metadata"], sample["spec"]["model"])
    assert not isinstance(make_plan(InferenceClusterSpec.model_validate(shown["spec"])), tuple)


@pytest.mark.parametrize("place", REQUESTS)
def test_the_request_asks_for_the_model_that_is_served(place: str) -> None:
    (body,) = re.findall(r"-d '(\{.*\})'", REQUESTS[place])
    sample = document(FIRST_CLUSTERS["minimal.yaml"])
    assert json.loads(body)["model"] == sample["spec"]["model"]["servedName"]
    assert f"http://{sample['metadata']['name']}-gateway/v1/" in REQUESTS[place]
    assert f"ic/{sample['metadata']['name']} " in REQUESTS[place]


def test_the_quoted_message_is_the_planners() -> None:
    (quoted,) = re.findall(r"^spec\.parallelism\.tensor: (.*)$", README, re.MULTILINE)
    spec = document(FIRST_CLUSTERS["README"])["spec"] | {"parallelism": {"tensor": 3}}
    problems = make_plan(InferenceClusterSpec.model_validate(spec))
    assert isinstance(problems, tuple)
    assert [p.message for p in problems] == [quoted]
