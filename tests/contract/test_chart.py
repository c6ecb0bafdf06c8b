"""The Helm chart: what it renders, what it refuses, and that it grants and runs no more than it has to."""

from __future__ import annotations

import base64
import json
import os
import re
import ssl
import subprocess
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from inference_operator.__main__ import main
from inference_operator.adapters.config_file import parse
from inference_operator.api.operator_config import OperatorConfig
from inference_operator.metrics_api.__main__ import main as metrics_main
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


def only(objects: list[Json], kind: str, component: str = "controller") -> Json:
    def of_it(obj: Json) -> bool:
        return obj["metadata"].get("labels", {}).get("app.kubernetes.io/component", component) == component

    found = [obj for obj in objects if obj["kind"] == kind and of_it(obj)]
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
    metrics = list(triples([only(objects, "ClusterRole", "metrics-api")]))
    assert metrics == [("", "pods", "list"), ("", "pods", "watch")]
    for group, resource, verb in triples(objects):
        assert resource not in FORBIDDEN_RESOURCES, resource
        assert verb not in FORBIDDEN_VERBS, verb
        assert "*" not in (group, resource)


@pytest.mark.parametrize(
    ("component", "volumes"),
    [("controller", {"config"}), ("metrics-api", {"tls"})],
    ids=["operator", "metrics"],
)
def test_the_pod_passes_the_restricted_standard(render: Render, component: str, volumes: set[str]) -> None:
    spec = only(render(), "Deployment", component)["spec"]["template"]["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
    assert {volume["name"] for volume in spec.get("volumes", ())} == volumes
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


@pytest.mark.parametrize(
    ("settings", "want"),
    [
        ((), {}),
        (
            (
                "config.prices.gpuHour.H100=2.50",
                "config.prices.gpuHour.default=1.2",
                "config.prices.currency=EUR",
            ),
            {"prices": {"currency": "EUR", "gpuHour": {"H100": "2.50", "default": "1.2"}}},
        ),
        (("config.prometheus.address=http://prom:9090",), {"prometheus": {"address": "http://prom:9090"}}),
    ],
)
def test_the_operator_reads_the_configuration_of_the_values(
    render: Render, settings: tuple[str, ...], want: Json
) -> None:
    objects = render(*settings)
    found = only(objects, "ConfigMap")
    assert parse(found["data"]["config.yaml"]) == OperatorConfig.model_validate(want)
    spec = pod(objects)
    (volume,), (mount,) = spec["volumes"], spec["containers"][0]["volumeMounts"]
    assert volume["configMap"]["name"] == found["metadata"]["name"]
    assert mount["readOnly"] is True
    assert "subPath" not in mount, "the kubelet would never renew it"
    assert environment(objects)["INFERENCE_OPERATOR_CONFIG"] == f"{mount['mountPath']}/config.yaml"


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
    assert only(render(), "PodDisruptionBudget", "metrics-api")["spec"]["minAvailable"] == 1
    single = render("replicaCount=1", "metricsApi.replicaCount=1")
    assert all(obj["kind"] != "PodDisruptionBudget" for obj in single)


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
        ("metricsApi.enabled=maybe", "metricsApi"),
        ("config.prices.gpuHour.H100=free", "gpuHour"),
        ("config.prices.gpuHour.H100=3", "gpuHour"),
        ("config.prices.currency=usd", "currency"),
        ("config.prices.gpuhour.H100=3.0", "gpuhour"),
        ("config.prometheus.address=prometheus:9090", "address"),
        ("metricsApi.tls.caBundle=-----BEGIN", "caBundle"),
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
    # A certificate's key has no place in a file that everybody reads: without the metrics API.
    want = plain(render("metricsApi.enabled=false"))
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


# --- the metrics API ---


def test_the_operator_knows_its_own_metrics_api_and_the_aggregator_its_certificate(render: Render) -> None:
    objects = render()
    service = only(objects, "Service", "metrics-api")
    name, namespace = service["metadata"]["name"], service["metadata"]["namespace"]
    assert environment(objects)["INFERENCE_OPERATOR_METRICS_SERVICE"] == f"{namespace}/{name}"
    secret = only(objects, "Secret", "metrics-api")
    apis = [obj for obj in objects if obj["kind"] == "APIService"]
    assert [api["spec"]["version"] for api in apis] == ["v1beta1", "v1beta2"]
    for api in apis:
        assert api["metadata"]["name"] == f"{api['spec']['version']}.custom.metrics.k8s.io"
        assert api["spec"]["service"] == {"name": name, "namespace": namespace, "port": 443}
        assert api["spec"]["caBundle"] == secret["data"]["tls.crt"]
        assert "insecureSkipTLSVerify" not in api["spec"]


def test_the_certificate_is_for_the_service_and_the_key_is_its_own(render: Render, tmp_path: Path) -> None:
    secret = only(render(), "Secret", "metrics-api")
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    certificate.write_bytes(base64.b64decode(secret["data"]["tls.crt"]))
    key.write_bytes(base64.b64decode(secret["data"]["tls.key"]))
    ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key)
    ask = ["openssl", "x509", "-noout", "-in", certificate, "-checkhost"]
    host = f"{secret['metadata']['name']}.inference-system.svc"
    done = subprocess.run([*ask, host], capture_output=True, text=True, check=True)
    assert "does match" in done.stdout


def test_a_certificate_of_ones_own_takes_the_place_of_the_charts(render: Render) -> None:
    objects = render(
        "metricsApi.tls.secretName=mine",
        "metricsApi.tls.caBundle=Zm9v",
        r"metricsApi.tls.apiServiceAnnotations.cert-manager\.io/inject-ca-from=ns/mine",
    )
    assert all(obj["kind"] != "Secret" for obj in objects)
    spec = only(objects, "Deployment", "metrics-api")["spec"]["template"]["spec"]
    assert spec["volumes"][0]["secret"]["secretName"] == "mine"
    for api in (obj for obj in objects if obj["kind"] == "APIService"):
        assert api["spec"]["caBundle"] == "Zm9v"
        assert api["metadata"]["annotations"] == {"cert-manager.io/inject-ca-from": "ns/mine"}


def test_without_it_nothing_of_it_is_left(render: Render) -> None:
    objects = render("metricsApi.enabled=false")
    assert "INFERENCE_OPERATOR_METRICS_SERVICE" not in environment(objects)
    assert not any("metrics-api" in json.dumps(obj) for obj in objects)


def test_every_variable_of_the_metrics_api_exists_on_its_command_line(render: Render) -> None:
    options = {f"INFERENCE_METRICS_{option.name.upper()}" for option in metrics_main.params if option.name}
    container = only(render(), "Deployment", "metrics-api")["spec"]["template"]["spec"]["containers"][0]
    assert {variable["name"] for variable in container["env"]} <= options
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    defaults = {option.name: option.default for option in metrics_main.params}
    assert ports == {"https": defaults["port"], "http": defaults["probe_port"]}
