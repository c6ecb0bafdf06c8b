"""The Helm chart: what it renders, what it refuses, and that it grants and runs no more than it has to."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from inference_operator.__main__ import main
from sandbox import binaries

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "inference-operator"
BASE = ROOT / "manifests" / "base"
FORBIDDEN_RESOURCES = {
    "secrets",
    "pods/exec",
    "pods/attach",
    "pods/portforward",
    "serviceaccounts/token",
    "nodes/proxy",
    "services/proxy",
    "validatingwebhookconfigurations",
    "mutatingwebhookconfigurations",
    "clusterroles",
    "clusterrolebindings",
}
FORBIDDEN_VERBS = {"*", "escalate", "bind", "impersonate", "deletecollection"}

Json = dict[str, Any]
Render = Callable[..., list[Json]]


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., subprocess.CompletedProcess[str]]:
    """helm of the sandbox's set, with folders of its own."""
    home = tmp_path_factory.mktemp("helm")
    program = binaries.ensure() / "helm"
    environment = os.environ | {f"HELM_{k}_HOME": str(home / k) for k in ("CACHE", "CONFIG", "DATA")}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program, *arguments], capture_output=True, text=True, check=False, env=environment
        )

    return run


@pytest.fixture(scope="session")
def render(helm: Callable[..., subprocess.CompletedProcess[str]]) -> Render:
    """Objects of the chart with these --set values."""

    def run(*settings: str) -> list[Json]:
        done = helm(
            "template",
            "inference-operator",
            str(CHART),
            "--namespace",
            "inference-system",
            *[f"--set={setting}" for setting in settings],
        )
        assert done.returncode == 0, done.stderr
        return [document for document in yaml.safe_load_all(done.stdout) if document]

    return run


def only(objects: list[Json], kind: str) -> Json:
    found = [obj for obj in objects if obj["kind"] == kind]
    assert len(found) == 1, [obj["metadata"]["name"] for obj in found]
    return found[0]


def pod(objects: list[Json]) -> Json:
    template: Json = only(objects, "Deployment")["spec"]["template"]["spec"]
    return template


def environment(objects: list[Json]) -> dict[str, str]:
    return {v["name"]: v["value"] for v in pod(objects)["containers"][0]["env"] if "value" in v}


def triples(objects: list[Json]) -> Iterator[tuple[str, str, str]]:
    for obj in objects:
        for rule in obj.get("rules", ()):
            yield from product(rule["apiGroups"], rule["resources"], rule["verbs"])


def test_lint_finds_nothing(helm: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    done = helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout + done.stderr


def test_rights_stay_below_the_bar(render: Render) -> None:
    objects = render()
    cluster = list(triples([only(objects, "ClusterRole")]))
    assert len(cluster) == len(set(cluster)) <= 60
    for group, resource, verb in triples(objects):
        assert resource not in FORBIDDEN_RESOURCES, resource
        assert verb not in FORBIDDEN_VERBS, verb
        assert "*" not in (group, resource)


def test_the_pod_passes_the_restricted_standard(render: Render) -> None:
    spec = pod(render())
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC", "volumes"} & set(spec)
    for container in spec["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"]["memory"]
        assert "cpu" not in container["resources"]["limits"]


def test_the_image_follows_tag_and_digest_and_the_agent_follows_the_image(render: Render) -> None:
    name = "ghcr.io/inferencecluster/inference-operator"
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    digest = "sha256:" + "a" * 64

    def images(*settings: str) -> tuple[str, str]:
        objects = render(*settings)
        return pod(objects)["containers"][0]["image"], environment(objects)["INFERENCE_OPERATOR_AGENT_IMAGE"]

    assert images() == (f"{name}:{version}",) * 2
    assert images("image.tag=1.2.3") == (f"{name}:1.2.3",) * 2
    assert images(f"image.digest={digest}", "image.tag=1.2.3") == (f"{name}@{digest}",) * 2
    assert images("agentImage=mirror.local/agent:1") == (f"{name}:{version}", "mirror.local/agent:1")


def test_the_version_is_that_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = (ROOT / "pyproject.toml").read_text()
    assert f'version = "{chart["appVersion"]}"' in project


def test_every_variable_and_the_command_exist_on_the_command_line(render: Render) -> None:
    command = main.commands["run"]
    known = {str(option.envvar) for option in command.params if getattr(option, "envvar", None)}
    container = pod(render())["containers"][0]
    assert {variable["name"] for variable in container["env"]} <= known
    assert (container["command"], container["args"]) == (["inference-operator"], ["run"])


def test_the_crd_is_the_generated_one_and_survives_an_uninstall(render: Render) -> None:
    generated = (ROOT / "crds" / "inferenceclusters.yaml").read_text()
    assert (CHART / "files" / "inferenceclusters.yaml").read_text() == generated, "run: make generate"
    crd = only(render(), "CustomResourceDefinition")
    assert crd["metadata"]["annotations"].pop("helm.sh/resource-policy") == "keep"
    if not crd["metadata"]["annotations"]:
        del crd["metadata"]["annotations"]
    assert crd == yaml.safe_load(generated)
    assert all(obj["kind"] != "CustomResourceDefinition" for obj in render("crds.install=false"))


def test_a_budget_is_rendered_only_where_it_lets_a_node_drain(render: Render) -> None:
    budget = only(render(), "PodDisruptionBudget")
    assert budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
    assert all(obj["kind"] != "PodDisruptionBudget" for obj in render("replicaCount=1"))


def test_selectors_hold_only_frozen_labels(render: Render) -> None:
    selector = only(render(), "Deployment")["spec"]["selector"]["matchLabels"]
    assert selector == {
        "app.kubernetes.io/name": "inference-operator",
        "app.kubernetes.io/component": "controller",
        "inferencecluster.io/release": "inference-operator",
    }
    # The operator's informers select by this label: the chart's own objects must not look like children.
    labels = {
        obj["metadata"]["labels"]["app.kubernetes.io/managed-by"] for obj in render("crds.install=false")
    }
    assert labels == {"Helm"}


@pytest.mark.parametrize(
    ("setting", "want"),
    [
        ("replicas=3", "replicas"),
        ("replicaCount=0", "replicaCount"),
        ("replicaCount=two", "replicaCount"),
        ("image.repo=x", "repo"),
        ("image.digest=latest", "digest"),
        ("logLevel=verbose", "logLevel"),
        ("port=80", "port"),
        ("haproxyImage=", "haproxyImage"),
        ("podLabels.a=1", "podLabels"),
    ],
)
def test_wrong_values_are_refused_by_name(
    helm: Callable[..., subprocess.CompletedProcess[str]], setting: str, want: str
) -> None:
    done = helm("template", "x", str(CHART), f"--set={setting}")
    assert done.returncode != 0
    assert want in done.stderr


def test_every_value_is_described_and_in_the_schema() -> None:
    text = (CHART / "values.yaml").read_text()
    schema = yaml.safe_load((CHART / "values.schema.json").read_text())

    def walk(values: Json, properties: Json, path: str) -> Iterator[str]:
        for key, value in values.items():
            if key not in properties:
                yield f"{path}{key}"
            elif isinstance(value, dict) and "properties" in properties[key]:
                yield from walk(value, properties[key]["properties"], f"{path}{key}.")

    assert list(walk(yaml.safe_load(text), schema["properties"], "")) == []
    assert set(schema["properties"]) - set(yaml.safe_load(text)) == {"global"}


def plain(objects: list[Json]) -> str:
    """The chart without Helm's marks, as one YAML file."""
    for obj in objects:
        labels = obj["metadata"].get("labels", {})
        for mapping in (labels, obj["metadata"].get("annotations", {})):
            for key in [key for key in mapping if key.startswith("helm.sh/")]:
                del mapping[key]
        if labels.get("app.kubernetes.io/managed-by") == "Helm":
            labels["app.kubernetes.io/managed-by"] = "kustomize"
        template = obj.get("spec", {}).get("template", {}).get("metadata", {}).get("labels")
        if template:
            template.pop("helm.sh/chart")
            template["app.kubernetes.io/managed-by"] = "kustomize"
        if obj["metadata"].get("annotations") == {}:
            del obj["metadata"]["annotations"]
    header = "# Made from charts/inference-operator: UPDATE_GOLDENS=1 pytest tests/contract/test_chart.py\n"
    return header + yaml.safe_dump_all(objects, sort_keys=False, width=110)


def test_the_plain_manifests_are_the_chart(render: Render) -> None:
    path = BASE / "operator.yaml"
    want = plain(render())
    if os.environ.get("UPDATE_GOLDENS"):
        path.write_text(want)
    assert path.read_text() == want
    build = subprocess.run(
        [binaries.ensure() / "kubectl", "kustomize", str(BASE)], capture_output=True, text=True, check=False
    )
    assert build.returncode == 0, build.stderr
    kinds = re.findall(r"^kind: (\w+)$", build.stdout, re.MULTILINE)
    assert {"Namespace", "CustomResourceDefinition", "Deployment", "ClusterRole"} <= set(kinds)


def test_the_image_s_lock_is_part_of_the_project_s() -> None:
    def pins(path: Path) -> set[str]:
        return set(re.findall(r"^[a-z0-9._-]+==\S+", path.read_text(), re.MULTILINE))

    image, project = pins(ROOT / "operator" / "requirements.lock"), pins(ROOT / "requirements.lock")
    assert image
    assert image <= project, (
        "run: uv pip compile … pyproject.toml -o operator/requirements.lock (see its head)"
    )
