"""`status` against an API server: tables, documents, and what is told without some rights."""

from __future__ import annotations

import json

import pytest
import yaml

from inference_operator.api import names
from tests.unit.core.builders import engines_of, loading, report, revision
from tests.unit.core.statuses import FIRST, SERVING, status

from .conftest import Plugin
from .fake_api import GROUP, FakeApi, forbidden
from .objects import cluster, pods

PODS = "/api/v1/namespaces/ml/pods"


def test_without_a_name_the_namespace_of_the_context_is_listed(api: FakeApi, plugin: Plugin) -> None:
    api.clusters = [cluster(), cluster(name="elsewhere", namespace="other")]
    got = plugin("status")
    assert got.status == 0
    assert [line.split()[0] for line in got.out.splitlines()] == ["NAME", "llama"]
    assert api.requests == [("GET", f"{GROUP}/namespaces/ml/inferenceclusters", None)]
    assert api.authorizations == {"Bearer secret-1"}


@pytest.mark.parametrize(
    ("options", "want"),
    [(["-A"], ["ml", "other"]), (["--context", "other", "-A"], ["ml", "other"])],
)
def test_all_namespaces(api: FakeApi, plugin: Plugin, options: list[str], want: list[str]) -> None:
    api.clusters = [cluster(name="b", namespace="other"), cluster()]
    lines = plugin("status", *options).out.splitlines()
    assert lines[0].split()[:2] == ["NAMESPACE", "NAME"]
    assert [line.split()[0] for line in lines[1:]] == want


@pytest.mark.parametrize(
    ("options", "namespace"),
    [([], "ml"), (["-n", "prod"], "prod"), (["--context", "other"], "default")],
)
def test_the_namespace_is_the_options_or_the_contexts(
    api: FakeApi, plugin: Plugin, options: list[str], namespace: str
) -> None:
    got = plugin("status", *options)
    assert got.out.startswith(f"No InferenceCluster in namespace {namespace} of context")
    assert api.requests[0][1] == f"{GROUP}/namespaces/{namespace}/inferenceclusters"


def test_with_a_name_the_story_is_told_with_pods_and_what_the_gateways_see(
    api: FakeApi, plugin: Plugin
) -> None:
    api.clusters = [cluster()]
    api.pods = pods(SERVING.pods)
    seen = report("g-0", a_0="UP", a_1="DOWN").model_dump_json()
    name = names.report_name("llama")
    api.config_maps = [{"metadata": {"name": name, "namespace": "ml"}, "data": {"gateway.g-0": seen}}]
    got = plugin("status", "llama")
    assert got.status == 0
    assert got.out.startswith("ml/llama SERVES: Revision a serves with 2 engines\n")
    assert "down for the gateways" in got.out
    assert "\x1b" not in got.out
    assert "not shown" not in got.out


def test_without_the_right_to_see_pods_the_rest_is_told(api: FakeApi, plugin: Plugin) -> None:
    api.clusters = [cluster()]
    api.answers[PODS] = forbidden("list", "pods")
    got = plugin("status", "llama")
    assert got.status == 0
    assert "SERVES" in got.out
    assert "not shown\n  engines and gateways: no right for this" in got.out


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_the_documents_are_stable(api: FakeApi, plugin: Plugin, form: str) -> None:
    new = revision("a", [loading("a-0")])
    api.clusters = [cluster(status(new, n=1, before=FIRST), n=1)]
    api.pods = pods(new.pods)
    got = plugin("status", "llama", "-o", form)
    document = json.loads(got.out) if form == "json" else yaml.safe_load(got.out)
    assert list(document) == [
        "apiVersion",
        "kind",
        "namespace",
        "name",
        "created",
        "generation",
        "observedGeneration",
        "verdict",
        "model",
        "servedName",
        "wanted",
        "ready",
        "autoscaling",
        "endpoint",
        "conditions",
        "plan",
        "revisions",
        "scaling",
        "failovers",
        "engines",
        "gateways",
        "missing",
    ]
    assert (document["apiVersion"], document["kind"]) == (
        "cli.inferencecluster.io/v1alpha1",
        "ClusterStatus",
    )
    assert document["verdict"]["word"] == "STARTING"
    assert document["verdict"]["serves"] is False
    assert document["engines"] == [
        {
            "pod": "a-0",
            "node": "gpu-0",
            "revision": "a",
            "state": "loading",
            "restarts": 0,
            "created": "2027-01-15T07:59:40Z",
        }
    ]
    assert document["conditions"][0]["lastTransitionTime"] == "2027-01-15T08:00:00Z"


def test_the_list_document_holds_every_cluster(api: FakeApi, plugin: Plugin) -> None:
    api.clusters = [cluster(), cluster(name="second")]
    document = json.loads(plugin("status", "-o", "json").out)
    assert document["kind"] == "ClusterStatusList"
    assert [item["name"] for item in document["items"]] == ["llama", "second"]


@pytest.mark.parametrize(
    "arguments",
    [["llama", "-A"], ["--watch", "-o", "json"], ["--watch"], ["-o", "xml"], ["--nonsense"]],
)
def test_a_wrong_command_line_ends_with_status_2(api: FakeApi, plugin: Plugin, arguments: list[str]) -> None:
    got = plugin("status", *arguments)
    assert got.status == 2
    assert "Usage: kubectl inference status" in got.err
    assert not api.requests


def test_a_pipe_gets_whole_lines(api: FakeApi, plugin: Plugin) -> None:
    api.clusters = [cluster(status(revision("a", engines_of("a", 1)), n=2))]
    long = "x" * 900
    api.clusters[0]["status"]["conditions"][0]["message"] = long
    assert long in plugin("status", "llama").out.splitlines()[0]
