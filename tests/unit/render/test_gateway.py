"""The gateway's pods and rules."""

from __future__ import annotations

import json
from typing import Any

import pytest

from inference_operator.api import names
from inference_operator.core.model import ClusterRef
from inference_operator.render import gateway, policies
from inference_operator.render.settings import RenderSettings
from tests.unit.core.builders import REF, make_spec

Object = dict[str, Any]
SETTINGS = RenderSettings(agent_image="operator:1", haproxy_image="haproxy:3.2")


def deployment(ref: ClusterRef = REF, **spec: Any) -> Object:
    return gateway.deployment(ref, make_spec(**spec), SETTINGS)


def pod(**spec: Any) -> Object:
    found: Object = deployment(**spec)["spec"]["template"]["spec"]
    return found


def container(name: str, **spec: Any) -> Object:
    made = pod(**spec)
    return next(c for c in [*made["initContainers"], *made["containers"]] if c["name"] == name)


def test_two_pods_by_default_and_one_more_before_one_goes() -> None:
    made = deployment()["spec"]
    assert made["replicas"] == 2
    assert made["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert deployment(gateway={"replicas": 3})["spec"]["replicas"] == 3


def test_an_account_that_was_made_anew_replaces_the_pods_and_the_first_one_does_not() -> None:
    def template(account: str) -> Object:
        made: Object = gateway.deployment(REF, make_spec(), SETTINGS, account)["spec"]["template"]
        return made

    assert template("") == deployment()["spec"]["template"]
    annotations = [template(uid)["metadata"]["annotations"] for uid in ("", "uid-2", "uid-3")]
    key = "inferencecluster.io/service-account-uid"
    assert [found.get(key) for found in annotations] == [None, "uid-2", "uid-3"]
    assert template("uid-2")["spec"] == template("")["spec"]


def test_haproxy_is_started_by_name_on_the_file_that_bootstrap_wrote() -> None:
    assert container("bootstrap")["command"] == ["inference-agent", "bootstrap"]
    want = ["haproxy", "-W", "-db", "-S", "/run/gateway/master.sock", "-f", "/run/gateway/haproxy.cfg"]
    assert container("haproxy")["command"] == want
    assert container("haproxy")["image"] == "haproxy:3.2"
    assert container("agent")["command"] == ["inference-agent", "run", "--cluster", "ml/llama"]


def test_all_containers_share_one_folder_one_user_and_no_gpu() -> None:
    made = pod()
    assert made["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "fsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    for each in [*made["initContainers"], *made["containers"]]:
        assert {"name": "run", "mountPath": "/run/gateway"} in each["volumeMounts"]
        assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in each["env"]
        assert each["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }


def test_only_the_agent_has_a_token() -> None:
    made = pod()
    assert made["automountServiceAccountToken"] is False
    assert made["serviceAccountName"] == "llama-gateway"
    holders = [
        each["name"]
        for each in [*made["initContainers"], *made["containers"]]
        if any(mount["name"] == "token" for mount in each["volumeMounts"])
    ]
    assert holders == ["agent"]
    (token,) = (volume for volume in made["volumes"] if volume["name"] == "token")
    assert [next(iter(source)) for source in token["projected"]["sources"]] == [
        "serviceAccountToken",
        "configMap",
        "downwardAPI",
    ]


def test_the_agents_word_makes_the_pod_ready() -> None:
    agent = container("agent")
    assert agent["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert (agent["readinessProbe"]["periodSeconds"], agent["readinessProbe"]["failureThreshold"]) == (1, 2)
    assert "readinessProbe" not in container("haproxy")
    assert container("haproxy")["livenessProbe"]["httpGet"]["path"] == "/-/haproxy"


def test_the_agent_knows_its_pod_and_haproxys_memory() -> None:
    made = {
        v["name"]: v.get("value") or v["valueFrom"]["fieldRef"]["fieldPath"]
        for v in container("agent")["env"]
    }
    assert made == {
        "NVIDIA_VISIBLE_DEVICES": "void",
        "POD_NAME": "metadata.name",
        "POD_NAMESPACE": "metadata.namespace",
        "POD_IP": "status.podIP",
        "GATEWAY_MEMORY_MIB": "1024",
    }
    assert container("haproxy")["resources"]["limits"] == {"memory": "1024Mi"}


@pytest.mark.parametrize(("drain", "want"), [("5m", 330), ("1h", 3630)])
def test_the_grace_is_longer_than_the_longest_stream(drain: str, want: int) -> None:
    assert pod(engine={"drainTimeout": drain})["terminationGracePeriodSeconds"] == want


def test_engine_images_and_gateway_images_may_need_the_same_secret() -> None:
    assert pod(imagePullSecrets=[{"name": "registry"}])["imagePullSecrets"] == [{"name": "registry"}]


def test_clients_reach_port_80_of_a_service_whose_name_is_never_cut() -> None:
    ref = ClusterRef("ml", "a" * 52, "uid-1", 1)
    made = gateway.client_service(ref)
    assert made["metadata"]["name"] == "a" * 52 + "-gateway"
    assert made["spec"]["ports"] == [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": "http"}]
    assert len(deployment(ref)["metadata"]["name"]) <= names.MAX_CHILD_NAME


# --- rules ---


def test_engines_take_connections_from_their_gateway_only() -> None:
    spec = policies.engine_policy(REF)["spec"]
    assert spec["policyTypes"] == ["Ingress"]
    assert spec["podSelector"]["matchLabels"] == names.engine_selector("llama")
    source = {"podSelector": {"matchLabels": names.gateway_selector("llama")}}
    assert spec["ingress"] == [{"from": [source], "ports": [{"protocol": "TCP", "port": 8000}]}]


def test_the_gateway_takes_clients_from_anywhere_and_questions_from_inside() -> None:
    spec = policies.gateway_policy(REF)["spec"]
    assert spec["ingress"] == [
        {"ports": [{"protocol": "TCP", "port": 8080}]},
        {"from": [{"namespaceSelector": {}}], "ports": [{"protocol": "TCP", "port": 9101}]},
    ]


def test_agents_of_a_namespace_share_one_role_with_the_names_of_their_documents() -> None:
    role, binding = policies.agent_access("ml", [("qwen", "u2"), ("llama", "u1")])
    assert role["metadata"]["name"] == binding["metadata"]["name"] == "inference-gateway-agents"
    assert [(o["name"], o["uid"], o.get("controller")) for o in role["metadata"]["ownerReferences"]] == [
        ("llama", "u1", None),
        ("qwen", "u2", None),
    ]
    reports = ["llama-gateway-report", "qwen-gateway-report"]
    assert role["rules"] == [
        {
            "apiGroups": ["discovery.k8s.io"],
            "resources": ["endpointslices"],
            "verbs": ["list", "watch"],
        },
        {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": ["llama-routing", "qwen-routing", *reports],
            "verbs": ["list", "watch"],
        },
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": reports, "verbs": ["patch"]},
    ]
    assert [subject["name"] for subject in binding["subjects"]] == ["llama-gateway", "qwen-gateway"]
    assert "secrets" not in json.dumps(role)


def test_the_order_of_clusters_changes_nothing_and_none_needs_no_role() -> None:
    one, other = [("a", "1"), ("b", "2")], [("b", "2"), ("a", "1")]
    assert policies.agent_access("ml", one) == policies.agent_access("ml", other)
    assert policies.agent_access("ml", []) == []
