"""`render`: what the operator would make, without any cluster."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from .conftest import Plugin

SAMPLES = Path(__file__).parents[3] / "manifests" / "samples"
MANIFEST = """
apiVersion: inferencecluster.io/v1alpha1
kind: InferenceCluster
metadata: {name: NAME}
spec: {model: {id: MODEL}, replicas: 2}
"""


def manifest(name: str = "qwen", model: str = "Qwen/Qwen3-8B") -> str:
    return MANIFEST.replace("NAME", name).replace("MODEL", model)


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nonexistent")


def objects(text: str) -> list[dict[str, Any]]:
    return list(filter(None, yaml.safe_load_all(text)))


@pytest.mark.parametrize("sample", sorted(SAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_each_sample_is_rendered_whole(plugin: Plugin, sample: Path) -> None:
    got = plugin("render", "-f", sample)
    assert (got.status, got.err) == (0, "")
    made = objects(got.out)
    kinds = {obj["kind"] for obj in made}
    assert {"ControllerRevision", "Deployment", "Service", "ConfigMap", "Role", "RoleBinding"} <= kinds
    assert all("ownerReferences" not in obj["metadata"] for obj in made)
    assert not any(line.lstrip().startswith("&") or ": *id" in line for line in got.out.splitlines())


def test_the_plan_stands_in_comments(plugin: Plugin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(manifest()))
    lines = plugin("render", "-f", "-", "-n", "ml").out.splitlines()
    assert lines[0].startswith("# InferenceCluster ml/qwen: revision ")
    assert "# GPUs: 1 x nvidia.com/gpu a replica, tensor 1" in lines
    assert "# reason: tensor 1 is the default of spec.parallelism.tensor" in lines


def test_the_namespace_and_the_images_are_what_is_asked_for(plugin: Plugin, tmp_path: Path) -> None:
    file = tmp_path / "qwen.yaml"
    file.write_text(manifest())
    got = plugin(
        "render", "-f", file, "-n", "ml", "--agent-image", "x/agent:1", "--haproxy-image", "x/proxy:2"
    )
    made = objects(got.out)
    assert {obj["metadata"]["namespace"] for obj in made} == {"ml"}
    gateway = next(o for o in made if o["kind"] == "Deployment" and o["metadata"]["name"] == "qwen-gateway")
    containers = gateway["spec"]["template"]["spec"]["containers"]
    assert {container["image"] for container in containers} == {"x/agent:1", "x/proxy:2"}


def test_replicas_follow_the_spec_and_equal_input_gives_equal_output(plugin: Plugin, tmp_path: Path) -> None:
    file = tmp_path / "qwen.yaml"
    file.write_text(manifest())
    first = plugin("render", "-f", file).out
    assert first == plugin("render", "-f", file).out
    engines = [
        o for o in objects(first) if o["kind"] == "Deployment" and "gateway" not in o["metadata"]["name"]
    ]
    assert [o["spec"]["replicas"] for o in engines] == [2]


def test_every_problem_is_told_and_good_clusters_are_rendered_beside_it(
    plugin: Plugin, tmp_path: Path
) -> None:
    file = tmp_path / "three.yaml"
    other = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: ml}\n"
    text = [manifest("good"), other, manifest("Bad.Name"), manifest("bad", "nobody/nothing")]
    file.write_text("---\n".join(text))
    got = plugin("render", "-f", file)
    assert got.status == 1
    problems = got.err.splitlines()
    assert problems[0].startswith("Bad.Name: metadata.name: 'Bad.Name' is no legal name: at most 52")
    assert problems[1].startswith("bad: spec.model.id: nobody/nothing is not in the catalogue")
    assert problems[2] == (
        f"error: 2 InferenceClusters of {file} can't be planned: mend the fields named above"
    )
    assert got.out.startswith("# InferenceCluster default/good")


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("a: [", "is no YAML"),
        ("", "holds no InferenceCluster"),
        ("[1, 2]", "holds no InferenceCluster"),
        ("kind: Pod", "holds no InferenceCluster"),
        (
            "kind: InferenceCluster\napiVersion: inferencecluster.io/v9",
            "has apiVersion inferencecluster.io/v9",
        ),
        ("kind: InferenceCluster\napiVersion: inferencecluster.io/v1alpha1", "can't be planned"),
        (
            "kind: InferenceCluster\napiVersion: inferencecluster.io/v1alpha1\nmetadata: x\nspec: 3",
            "can't be planned",
        ),
    ],
)
def test_a_file_that_is_no_manifest(plugin: Plugin, tmp_path: Path, text: str, want: str) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(text)
    got = plugin("render", "-f", file)
    assert (got.status, got.out) == (1, "")
    assert want in got.err.splitlines()[-1]


def test_a_list_is_looked_into(plugin: Plugin, tmp_path: Path) -> None:
    file = tmp_path / "list.yaml"
    items = [yaml.safe_load(manifest("a")), yaml.safe_load(manifest("b"))]
    file.write_text(yaml.safe_dump({"kind": "List", "apiVersion": "v1", "items": items}))
    heads = [line for line in plugin("render", "-f", file).out.splitlines() if "revision" in line[:60]]
    assert [head.split()[2] for head in heads if head.startswith("# Inf")] == ["default/a:", "default/b:"]


def test_a_file_that_is_not_there(plugin: Plugin, tmp_path: Path) -> None:
    got = plugin("render", "-f", tmp_path / "none.yaml")
    assert got.status == 1
    assert got.err.startswith(f"error: can't read {tmp_path}/none.yaml: ")
