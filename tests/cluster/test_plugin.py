"""The kubectl plugin on a real API server: its proxies, its rights, what it says of living clusters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from sandbox.lab import Lab, condition, manifest

pytest_plugins = ["tests.plugins.sandbox", "tests.plugins.operator"]

Json = dict[str, Any]
Plugin = Callable[..., subprocess.CompletedProcess[str]]
CLUSTER_LABEL = "inferencecluster.io/cluster"
KINDS = "deploy,svc,cm,sa,netpol,pdb,controllerrevision"
SOURCES = Path(__file__).parents[2] / "operator" / "src"


@pytest.fixture
def plugin(operator: Lab, namespace: str, tmp_path: Path) -> Plugin:
    """`kubectl inference ARGUMENTS -n NAMESPACE`, as kubectl finds it on the PATH."""
    program = tmp_path / "kubectl-inference"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m inference_operator.cli "$@"\n')
    program.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": str(SOURCES),
        "KUBECONFIG": str(operator.sandbox.kubeconfig),
    }

    def run(*arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
        command = [str(operator.sandbox.bin("kubectl")), "inference", *arguments, "-n", namespace]
        return subprocess.run(
            command, input=text, capture_output=True, text=True, env=environment, timeout=60, check=False
        )

    return run


@pytest.fixture
def llama(operator: Lab, namespace: str) -> Iterator[Json]:
    """A cluster of two engines that serves, as `kubectl get` has it."""
    operator.apply(manifest("llama", replicas=2), namespace)
    yield operator.until_ready("llama", namespace, replicas=2, timeout=120)


def answer(done: subprocess.CompletedProcess[str]) -> str:
    """Standard output of a command that went well."""
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_status_top_chat_and_explain_of_a_cluster_that_serves(
    operator: Lab, namespace: str, llama: Json, plugin: Plugin
) -> None:
    engines = {pod["metadata"]["name"] for pod in operator.engines("llama", namespace)}
    table = answer(plugin("status")).splitlines()
    assert table[1].split()[:5] == ["llama", "yes", "True", "Serving", "2/2"]
    story = answer(plugin("status", "llama"))
    assert story.startswith(f"{namespace}/llama SERVES: ")
    assert all(engine in story for engine in engines)
    assert "not shown" not in story
    document = json.loads(answer(plugin("status", "llama", "-o", "json")))
    assert {engine["pod"]: engine["state"] for engine in document["engines"]} == dict.fromkeys(
        engines, "ready"
    )
    assert len(document["gateways"]) == 2
    assert document["revisions"] == llama["status"]["revisions"]

    spoken = plugin("chat", "llama", "Hello, who are you?", "--max-tokens", "24")
    assert answer(spoken).strip()
    figures = spoken.stderr.strip()
    assert any(figures.startswith(f"[{engine}: first token after ") for engine in engines), figures
    assert "24 tokens at " in figures

    explained = answer(plugin("explain", "llama"))
    assert "what is wrong with the spec" not in explained
    assert "The operator's word counts" not in explained


def test_top_shows_what_a_load_does_to_each_engine(
    operator: Lab, namespace: str, llama: Json, plugin: Plugin
) -> None:
    with operator.load("llama", "llama", namespace=namespace, concurrent=12, seconds=15, tokens=100) as sent:
        time.sleep(5)
        loads = json.loads(answer(plugin("top", "llama", "-o", "json")))["items"]
        table = answer(plugin("top", "llama", "--once"))
    assert sum(outcome.error == "" for outcome in sent) > 0
    (load,) = loads
    assert (load["gateways"], load["silent"]) == (2, [])
    assert load["demand"] == pytest.approx(12, abs=4)
    assert [engine["state"] for engine in load["engines"]] == ["UP", "UP"]
    assert all(engine["inFlight"] > 0 for engine in load["engines"])
    assert load["capacity"] == 2 * llama["status"]["plan"]["maxConcurrency"]
    assert "2 of 2 engines up" in table


def test_a_broken_spec_is_explained_as_the_operator_sees_it(
    operator: Lab, namespace: str, plugin: Plugin
) -> None:
    operator.apply(manifest("llama", parallelism={"tensor": 3}), namespace)

    def refused() -> Json:
        found = condition(operator.cluster("llama", namespace) or {}, "SpecValid")
        return found if found.get("status") == "False" else {}

    told = operator.until("SpecValid is False", refused, timeout=30)
    explained = answer(plugin("explain", "llama"))
    field, _, message = told["message"].partition(": ")
    assert f"what is wrong with the spec\n  {field}: {message}\n" in explained
    assert "The operator's word counts" not in explained
    assert "DOES NOT SERVE, SPEC INVALID" in answer(plugin("status", "llama"))
    failed = plugin("status", "lama")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr.rstrip().endswith("did you mean llama?")


def test_what_is_rendered_is_what_the_operator_makes_and_can_be_applied(
    operator: Lab, namespace: str, llama: Json, plugin: Plugin
) -> None:
    rendered = answer(plugin("render", "-f", "-", text=json.dumps(manifest("llama", replicas=2))))
    assert f"revision {llama['status']['revisions']['stable']}\n" in rendered
    objects = list(filter(None, yaml.safe_load_all(rendered)))
    made = {
        f"{obj['kind'].lower()}s/{obj['metadata']['name']}".replace("policys", "policies")
        for obj in objects
        if not obj["kind"].startswith("Role")
    }
    children = operator.children("llama", namespace)
    assert made == {c for c in children if c.split("/")[0] not in ("pods", "replicasets", "endpointslices")}

    text = answer(plugin("render", "-f", "-", text=json.dumps(manifest("other"))))
    applied = operator.sandbox.kubectl(["apply", "-n", namespace, "-f", "-"], input=text).stdout
    assert "deployment.apps/other-gateway created" in applied
    operator.sandbox.kubectl(
        ["delete", "-n", namespace, "--wait=false", KINDS, "-l", f"{CLUSTER_LABEL}=other"]
    )


def reader(operator: Lab, namespace: str, file: Path) -> Path:
    """A kubeconfig of an account with the rights that the plugin's help names, and no others."""
    kubectl = operator.sandbox.kubectl
    rules = [
        {"apiGroups": ["inferencecluster.io"], "resources": ["inferenceclusters"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["configmaps", "pods/proxy"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["services/proxy"], "verbs": ["create"]},
    ]
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "reader"}}
    subject = {"kind": "ServiceAccount", "name": "reader", "namespace": namespace}
    role_ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}
    for obj in (
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reader"}},
        {**rbac, "kind": "Role", "rules": rules},
        {**rbac, "kind": "RoleBinding", "roleRef": role_ref, "subjects": [subject]},
    ):
        kubectl(["apply", "-n", namespace, "-f", "-"], input=json.dumps(obj))
    token = kubectl(["create", "token", "reader", "-n", namespace]).stdout.strip()
    config = yaml.safe_load(operator.sandbox.kubeconfig.read_text())
    config["users"] = [{"name": "reader", "user": {"token": token}}]
    for context in config["contexts"]:
        context["context"]["user"] = "reader"
    file.write_text(yaml.safe_dump(config))
    return file


def test_the_rights_that_the_help_names_are_enough_and_others_are_told(
    operator: Lab, namespace: str, llama: Json, plugin: Plugin, tmp_path: Path
) -> None:
    kubeconfig = str(reader(operator, namespace, tmp_path / "reader"))
    for command in (["status"], ["status", "llama"], ["explain", "llama"], ["top", "--once"]):
        told = answer(plugin(*command, "--kubeconfig", kubeconfig))
        assert "llama" in told
        assert "not shown" not in told
    answer(plugin("chat", "llama", "Hello", "--max-tokens", "5", "--kubeconfig", kubeconfig))
    refused = plugin("status", "-A", "--kubeconfig", kubeconfig)
    assert refused.returncode == 1
    assert "no right for this" in refused.stderr
    assert "at the cluster scope" in refused.stderr
