"""What users copy for Argo CD, Flux and kustomize: it parses, builds, fits the chart, and fights nobody."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from inference_operator.api import defaults
from inference_operator.api.names import GROUP, KIND
from inference_operator.api.schema import custom_resource_definition
from sandbox import binaries

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "manifests"
CHART = "charts/inference-operator"
GUIDE = (ROOT / "docs" / "guides" / "gitops.md").read_text(encoding="utf-8")
REPLICAS = "/spec/replicas"

Json = dict[str, Any]
Run = Callable[..., str]


def documents(path: Path) -> list[Json]:
    return [document for document in yaml.safe_load_all(path.read_text(encoding="utf-8")) if document]


def only(objects: list[Json], kind: str, name: str | None = None) -> Json:
    found = [obj for obj in objects if obj["kind"] == kind and name in (None, obj["metadata"]["name"])]
    assert len(found) == 1, [obj["metadata"]["name"] for obj in found]
    return found[0]


APPLICATIONS = {
    path.stem: obj
    for path in sorted((MANIFESTS / "argocd").glob("*.yaml"))
    for obj in documents(path)
    if obj.get("kind") == "Application"
}
OPERATOR, CLUSTERS = APPLICATIONS["application"], APPLICATIONS["clusters"]


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Output of helm or kubectl of the sandbox's set."""
    home = tmp_path_factory.mktemp("helm")
    environment = os.environ | {f"HELM_{k}_HOME": str(home / k) for k in ("CACHE", "CONFIG", "DATA")}

    def of(program: str, *arguments: str) -> str:
        done = subprocess.run(
            [binaries.ensure() / program, *arguments],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return of


@pytest.fixture(scope="session")
def chart(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[Json]]:
    """The chart's objects with these values, as release inference-operator in inference-system."""

    def render(path: str, values: Json) -> list[Json]:
        file = tmp_path_factory.mktemp("values") / "values.yaml"
        file.write_text(yaml.safe_dump(values), encoding="utf-8")
        place = ("inference-operator", str(ROOT / path), "--namespace", "inference-system")
        return [obj for obj in yaml.safe_load_all(run("helm", "template", *place, "-f", str(file))) if obj]

    return render


def pointers(a: Any, b: Any, path: str = "") -> Iterator[str]:
    """JSON pointers of the values of `a` that `b` has otherwise or not at all."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key, value in a.items():
            yield from pointers(value, b.get(key), f"{path}/{key.replace('~', '~0').replace('/', '~1')}")
    elif a != b:
        yield path


def ignored(application: Json, obj: Json) -> list[str]:
    """Pointers that an Application ignores in an object."""
    group = obj["apiVersion"].rpartition("/")[0]
    return [
        pointer
        for entry in application["spec"]["ignoreDifferences"]
        if (entry["group"], entry["kind"]) == (group, obj["kind"])
        and entry.get("name", obj["metadata"]["name"]) == obj["metadata"]["name"]
        for pointer in entry["jsonPointers"]
    ]


def seen(application: Json, git: Json, live: Json) -> list[str]:
    """What Argo CD calls OutOfSync: values of Git that differ, unless they are ignored or below what is."""
    hidden = ignored(application, git)
    return [
        pointer
        for pointer in pointers(git, live)
        if not any(f"{pointer}/".startswith(f"{h}/") for h in hidden)
    ]


# --- Argo CD ---


@pytest.mark.parametrize("name", APPLICATIONS)
def test_what_an_application_ignores_it_doesn_t_overwrite_either(name: str) -> None:
    """Acceptance I2: the entry needs group, kind and pointer, and the sync needs the option."""
    spec = APPLICATIONS[name]["spec"]
    assert {"RespectIgnoreDifferences=true", "ServerSideApply=true"} <= set(spec["syncPolicy"]["syncOptions"])
    assert spec["ignoreDifferences"]
    for entry in spec["ignoreDifferences"]:
        assert entry.keys() >= {"group", "kind", "jsonPointers"}
        assert all(pointer.startswith("/") for pointer in entry["jsonPointers"])


def test_an_autoscaler_s_change_is_no_difference() -> None:
    (git,) = documents(MANIFESTS / "samples" / "full.yaml")
    live = {
        **git,
        "spec": {**git["spec"], "replicas": git["spec"]["replicas"] + 3},
        "status": {"replicas": 5},
    }
    assert list(pointers(git, live)) == [REPLICAS]
    assert seen(CLUSTERS, git, live) == []
    live["spec"]["suspend"] = True
    assert seen(CLUSTERS, git, live) == ["/spec/suspend"]


def test_the_ignored_field_is_the_one_that_is_scaled() -> None:
    definition = custom_resource_definition()["spec"]
    (version,) = definition["versions"]
    assert version["subresources"]["scale"]["specReplicasPath"].replace(".", "/") == REPLICAS
    entries = CLUSTERS["spec"]["ignoreDifferences"]
    assert entries == [{"group": definition["group"], "kind": KIND, "jsonPointers": [REPLICAS]}]
    (block,) = (part for part in re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL) if "ignoreDiff" in part)
    shown = yaml.safe_load(block)["spec"]
    assert shown["ignoreDifferences"] == entries
    assert set(shown["syncPolicy"]["syncOptions"]) <= set(CLUSTERS["spec"]["syncPolicy"]["syncOptions"])


def test_clusters_may_come_before_the_operator() -> None:
    """Acceptance I8."""
    sync = CLUSTERS["spec"]["syncPolicy"]
    assert "SkipDryRunOnMissingResource=true" in sync["syncOptions"]
    assert sync["retry"]["limit"] > 5


def test_rendering_the_operator_again_is_no_difference(chart: Callable[..., list[Json]]) -> None:
    source = OPERATOR["spec"]["source"]
    assert source["helm"]["releaseName"] == "inference-operator"
    assert OPERATOR["spec"]["destination"]["namespace"] == "inference-system"
    before, after = (chart(source["path"], source["helm"]["valuesObject"]) for _ in range(2))
    changed = {a["kind"]: list(pointers(a, b)) for a, b in zip(before, after, strict=True) if a != b}
    assert changed.keys() == {"Secret", "APIService"}, "else there is nothing to ignore"
    assert [seen(OPERATOR, a, b) for a, b in zip(before, after, strict=True)] == [[] for _ in before]


def test_with_cert_manager_there_is_nothing_to_ignore(chart: Callable[..., list[Json]]) -> None:
    (block,) = (part for part in re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL) if "metricsApi" in part)
    values = yaml.safe_load(block)
    objects = chart(CHART, values)
    assert objects == chart(CHART, values)
    assert not [obj for obj in objects if obj["kind"] == "Secret"]
    issued = documents(MANIFESTS / "argocd" / "certificate.yaml")
    leaf = only(issued, "Certificate", "inference-metrics-api")
    assert leaf["spec"]["secretName"] == values["metricsApi"]["tls"]["secretName"]
    for api in (obj for obj in objects if obj["kind"] == "APIService"):
        service = api["spec"]["service"]
        assert "caBundle" not in api["spec"]
        assert f"{service['name']}.{service['namespace']}.svc" in leaf["spec"]["dnsNames"]
        injected = api["metadata"]["annotations"]["cert-manager.io/inject-ca-from"]
        assert injected == f"{leaf['metadata']['namespace']}/{leaf['metadata']['name']}"
    authority = only(issued, "Certificate", "inference-metrics-api-ca")
    issuer = only(issued, "Issuer", leaf["spec"]["issuerRef"]["name"])
    assert issuer["spec"]["ca"]["secretName"] == authority["spec"]["secretName"]
    only(issued, "Issuer", authority["spec"]["issuerRef"]["name"])


# --- Flux ---


def test_the_helm_release_installs_the_chart(chart: Callable[..., list[Json]]) -> None:
    objects = documents(MANIFESTS / "flux" / "operator.yaml")
    spec = only(objects, "HelmRelease")["spec"]
    only(objects, "GitRepository", spec["chart"]["spec"]["sourceRef"]["name"])
    rendered = chart(spec["chart"]["spec"]["chart"], spec["values"])
    image = only(rendered, "Deployment", "inference-operator")["spec"]["template"]["spec"]["containers"][0][
        "image"
    ]
    assert image.startswith(spec["values"]["image"]["repository"])


@pytest.mark.parametrize("sample", ["full", "minimal"])
def test_flux_applies_no_number_of_replicas(sample: str, run: Run, tmp_path: Path) -> None:
    objects = documents(MANIFESTS / "flux" / "clusters.yaml")
    spec = only(objects, "Kustomization")["spec"]
    only(objects, "GitRepository", spec["sourceRef"]["name"])
    (git,) = documents(MANIFESTS / "samples" / f"{sample}.yaml")
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump(git), encoding="utf-8")
    config = {"resources": ["cluster.yaml"], "patches": spec["patches"]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    git["spec"].pop("replicas", None)
    assert yaml.safe_load(run("kubectl", "kustomize", str(tmp_path))) == git


def test_flux_waits_for_clusters_longer_than_they_may_load() -> None:
    spec = only(documents(MANIFESTS / "flux" / "clusters.yaml"), "Kustomization")["spec"]
    assert spec["wait"] is True
    assert defaults.seconds(spec["timeout"]) > defaults.seconds(defaults.LOAD_TIMEOUT)


def test_no_folder_for_flux_looks_like_a_kustomize_one() -> None:
    """kustomize takes a file of this name for its own, whatever kind stands in it."""
    for folder in ("argocd", "flux"):
        assert not list((MANIFESTS / folder).rglob("kustomization.y*ml"))


# --- kustomize ---


@pytest.fixture(scope="session")
def overlay(run: Run) -> Callable[[str], list[Json]]:
    def build(name: str) -> list[Json]:
        return list(yaml.safe_load_all(run("kubectl", "kustomize", str(MANIFESTS / name))))

    return build


def container(objects: list[Json]) -> Json:
    found: Json = only(objects, "Deployment")["spec"]["template"]["spec"]["containers"][0]
    return found


def test_production_takes_every_image_from_one_registry(overlay: Callable[[str], list[Json]]) -> None:
    objects = overlay("overlays/production")
    assert only(objects, "Deployment")["spec"]["replicas"] == 3
    only(objects, "PodDisruptionBudget")
    made = container(objects)
    environment = {entry["name"]: entry.get("value") for entry in made["env"]}
    images = [made["image"], *(value for name, value in environment.items() if name.endswith("_IMAGE"))]
    assert len(images) == 3
    assert all(image.startswith("registry.example.com/") for image in images)
    assert environment["INFERENCE_OPERATOR_AGENT_IMAGE"] == made["image"]
    base = {entry["name"] for entry in container(overlay("base"))["env"]}
    assert environment.keys() == base, "a patch must not bring a variable that the operator doesn't have"


def test_a_single_node_can_be_drained_and_everything_moves_with_the_namespace(
    overlay: Callable[[str], list[Json]],
) -> None:
    objects = overlay("overlays/single-node")
    assert only(objects, "Deployment")["spec"]["replicas"] == 1
    assert not [obj for obj in objects if obj["kind"] == "PodDisruptionBudget"]
    namespace = only(objects, "Namespace")["metadata"]["name"]
    assert namespace == "inference"
    assert "inference-system" not in yaml.safe_dump_all(objects)
    for obj in objects:
        assert obj["metadata"].get("namespace", namespace) == namespace
        for subject in obj.get("subjects", ()):
            assert subject["namespace"] == namespace


@pytest.mark.parametrize("name", ["production", "single-node"])
def test_an_overlay_lacks_nothing_of_the_base(name: str, overlay: Callable[[str], list[Json]]) -> None:
    def kinds(objects: list[Json]) -> set[str]:
        return {obj["kind"] for obj in objects} - {"PodDisruptionBudget"}

    assert kinds(overlay(f"overlays/{name}")) == kinds(overlay("base"))


# --- the guide ---


def test_the_guide_names_every_file() -> None:
    for folder in ("argocd", "flux"):
        for path in (MANIFESTS / folder).glob("*.yaml"):
            assert path.name in GUIDE or path.name.endswith("_test.yaml"), path
    for path in (MANIFESTS / "overlays").iterdir():
        assert f"(../../manifests/overlays/{path.name})" in GUIDE


def test_the_guide_s_policy_is_for_our_kind() -> None:
    assert f"action/{GROUP}/{KIND}/suspend" in GUIDE
