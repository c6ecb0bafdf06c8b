"""Environment of a container: references, order, sources, service links."""

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.kubelet import environment, quantity
from sandbox.kubelet.environment import ConfigError, Sources

POD = {
    "metadata": {
        "name": "web-0",
        "namespace": "prod",
        "uid": "u-1",
        "labels": {"app": "web"},
        "annotations": {"a/b": "note"},
    },
    "spec": {"nodeName": "gpu-0", "serviceAccountName": "robot"},
}
OBJECTS = {
    ("configmaps", "settings"): {"data": {"a": "1", "b": "2"}},
    ("secrets", "keys"): {"data": {"token": base64.b64encode(b"s3cret").decode()}},
}
VLLM = {
    "metadata": {"name": "vllm-gpu", "namespace": "prod"},
    "spec": {"clusterIP": "10.96.0.7", "ports": [{"name": "http-api", "port": 8000, "protocol": "TCP"}]},
}
HEADLESS = {"metadata": {"name": "peers", "namespace": "prod"}, "spec": {"clusterIP": "None"}}
API_SERVER = {
    "metadata": {"name": "kubernetes", "namespace": "default"},
    "spec": {"clusterIP": "10.96.0.1", "ports": [{"name": "https", "port": 443}]},
}


def build(container: dict[str, Any], **spec: Any) -> dict[str, str]:
    pod = POD | {"spec": {**POD["spec"], **spec}}
    services = [VLLM, HEADLESS, API_SERVER]
    sources = Sources(
        pod=pod,
        pod_ip="10.244.0.2",
        host_ip="10.244.255.1",
        lookup=lambda kind, name: OBJECTS.get((kind, name)),
        services=services,
        allocatable={"cpu": "32", "memory": "64Gi"},
    )
    return environment.build(container, sources)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)", "1"),
        ("x$(A)y$(B)", "x1y2"),
        ("$(C)", "$(C)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$A ${A} $( A )", "$A ${A} $( A )"),
        ("$(A", "$(A"),
    ],
)
def test_expand(text: str, expected: str) -> None:
    assert environment.expand(text, {"A": "1", "B": "2"}) == expected


@given(st.text(alphabet="ab$() "))
def test_expansion_without_references_only_halves_dollars(text: str) -> None:
    if "$" not in text:
        assert environment.expand(text, {"a": "x"}) == text
    assert environment.expand(text.replace("$", "$$"), {"a": "x", "b": "y"}) == text


def test_later_sources_win_and_see_earlier_ones() -> None:
    container = {
        "envFrom": [{"prefix": "P_", "configMapRef": {"name": "settings"}}, {"secretRef": {"name": "keys"}}],
        "env": [
            {"name": "P_b", "value": "own"},
            {"name": "SEEN", "value": "$(P_a) $(P_b) $(token) $(VLLM_GPU_SERVICE_HOST)"},
        ],
    }
    env = build(container)
    assert (env["P_a"], env["P_b"], env["SEEN"]) == ("1", "own", "1 own s3cret 10.96.0.7")


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        (
            {"configMapKeyRef": {"name": "settings", "key": "none"}},
            "couldn't find key none in ConfigMap prod/settings",
        ),
        ({"secretKeyRef": {"name": "gone", "key": "x"}}, "Secret prod/gone not found"),
        ({"fieldRef": {"fieldPath": "status.phase"}}, "'status.phase' is not supported"),
        ({"fileKeyRef": {}}, "env X: no source in valueFrom is supported (fileKeyRef)"),
    ],
)
def test_missing_values_are_config_errors(reference: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError) as error:
        build({"env": [{"name": "X", "valueFrom": reference}]})
    assert expected in str(error.value)


def test_optional_values_may_be_missing() -> None:
    optional = {"name": "gone", "key": "x", "optional": True}
    container = {
        "envFrom": [{"configMapRef": {"name": "gone", "optional": True}}],
        "env": [{"name": "X", "valueFrom": {"secretKeyRef": optional}}],
    }
    assert "X" not in build(container)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("metadata.name", "web-0"),
        ("metadata.labels['app']", "web"),
        ("metadata.annotations['a/b']", "note"),
        ("metadata.labels['none']", ""),
        ("metadata.labels", 'app="web"'),
        ("spec.serviceAccountName", "robot"),
        ("status.podIP", "10.244.0.2"),
        ("status.hostIP", "10.244.255.1"),
    ],
)
def test_fields(path: str, expected: str) -> None:
    assert environment.field(path, POD, "10.244.0.2", "10.244.255.1") == expected


@pytest.mark.parametrize(
    ("resource", "divisor", "expected"),
    [
        ("limits.memory", "1Mi", "1536"),
        ("limits.memory", "0", "1610612736"),
        ("requests.cpu", "1", "1"),  # 250m, rounded up
        ("requests.cpu", "1m", "250"),
        ("limits.cpu", "1", "32"),  # no limit: what the node has
    ],
)
def test_resources(resource: str, divisor: str, expected: str) -> None:
    container = {"resources": {"limits": {"memory": "1.5Gi"}, "requests": {"cpu": "250m"}}}
    reference = {"resource": resource, "divisor": divisor}
    assert environment.resource(reference, container, {"cpu": "32"}) == expected


def test_service_links() -> None:
    env = build({})
    assert env["VLLM_GPU_PORT"] == env["VLLM_GPU_PORT_8000_TCP"] == "tcp://10.96.0.7:8000"
    assert env["VLLM_GPU_SERVICE_PORT"] == env["VLLM_GPU_SERVICE_PORT_HTTP_API"] == "8000"
    assert env["VLLM_GPU_PORT_8000_TCP_ADDR"] == "10.96.0.7"
    assert not any(name.startswith("PEERS") for name in env)
    without = build({}, enableServiceLinks=False)
    assert without["KUBERNETES_SERVICE_HOST"] == "10.96.0.1"
    assert not any(name.startswith("VLLM") for name in without)


def test_references_are_all_found() -> None:
    container = {
        "envFrom": [{"configMapRef": {"name": "a"}}, {"secretRef": {"name": "b"}}],
        "env": [
            {"name": "X", "valueFrom": {"secretKeyRef": {"name": "c", "key": "k"}}},
            {"name": "Y", "valueFrom": {"configMapKeyRef": {"name": "d", "key": "k"}}},
            {"name": "Z", "value": "plain"},
        ],
    }
    expected = {("configmaps", "a"), ("secrets", "b"), ("secrets", "c"), ("configmaps", "d")}
    assert environment.references(container) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("1", 1), ("500m", 0.5), ("2Gi", 2 << 30), ("1e3", 1000), ("3k", 3000), ("0", 0)]
)
def test_quantities(text: str, expected: float) -> None:
    assert float(quantity.parse(text)) == expected


@pytest.mark.parametrize("text", ["", "Gi", "1GiB", "one"])
def test_no_quantities(text: str) -> None:
    with pytest.raises(ValueError, match="is not a Kubernetes quantity"):
        quantity.parse(text)
