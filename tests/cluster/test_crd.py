"""The CRD on a real API server: what it accepts, keeps and serves."""

import json

import kubernetes
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inference_operator.api.names import API_VERSION, GROUP, KIND, PLURAL
from tests.data.bad_input import SAMPLES, Json, samples, string_leaves, with_text
from tests.plugins.crd import NAMESPACE, Server

pytest_plugins = ["tests.plugins.sandbox", "tests.plugins.crd"]

LEAVES = list(string_leaves())


def cluster(name: str, spec: Json) -> Json:
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": spec}


def suspended(name: str) -> Json:
    """An operator in the same sandbox leaves it alone."""
    return cluster(name, {"model": {"id": "meta-llama/Llama-3.1-8B-Instruct"}, "suspend": True})


def stored(server: Server, name: str) -> Json:
    done = server.sandbox.kubectl(["get", "ic", name, "-n", NAMESPACE, "-o", "json", "--show-managed-fields"])
    found: Json = json.loads(done.stdout)
    return found


def apply(server: Server, manifest: Json, *options: str) -> Json:
    done = server.sandbox.kubectl(
        ["apply", "--server-side", "-n", NAMESPACE, "-f", "-", "-o", "json", *options],
        input=json.dumps(manifest),
    )
    applied: Json = json.loads(done.stdout)
    return applied


def test_it_is_established_and_structural(server: Server) -> None:
    crd = json.loads(server.sandbox.kubectl(["get", "crd", f"{PLURAL}.{GROUP}", "-o", "json"]).stdout)
    conditions = {one["type"]: one["status"] for one in crd["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}


@pytest.mark.parametrize("file", sorted(samples()))
def test_samples_are_accepted_as_they_are(server: Server, file: str) -> None:
    done = server.sandbox.kubectl(
        ["create", "--dry-run=server", "-n", NAMESPACE, "-f", str(SAMPLES / file), "-o", "json"]
    )
    assert json.loads(done.stdout)["spec"] == {"replicas": 1} | samples()[file]


def test_a_second_apply_writes_nothing(server: Server) -> None:
    def versions() -> tuple[str, str]:
        first, second = (apply(server, suspended("again"))["metadata"]["resourceVersion"] for _ in range(2))
        return first, second

    # An operator in the same sandbox may write its status in between, but not each time.
    pairs = (versions() for _ in range(5))
    assert any(first == second for first, second in pairs)
    # Nothing but replicas is filled in: a default would show as a difference in GitOps tools.
    assert stored(server, "again")["spec"] == suspended("again")["spec"] | {"replicas": 1}


def test_it_can_be_scaled_and_an_apply_keeps_the_scale(server: Server) -> None:
    apply(server, suspended("scaled"))
    server.sandbox.kubectl(["scale", "ic", "scaled", "-n", NAMESPACE, "--replicas=7"])
    apply(server, suspended("scaled"))
    assert stored(server, "scaled")["spec"]["replicas"] == 7
    path = f"/apis/{API_VERSION}/namespaces/{NAMESPACE}/{PLURAL}/scaled/scale"
    scale = json.loads(server.sandbox.kubectl(["get", "--raw", path]).stdout)
    assert scale["spec"] == {"replicas": 7}


def test_status_is_written_through_its_subresource_alone(server: Server) -> None:
    status = {"readyReplicas": 5, "selector": "a=b"}
    assert "status" not in server.create(suspended("no-status") | {"status": status})
    apply(server, suspended("status"))
    written = apply(
        server,
        suspended("status") | {"status": status},
        *("--subresource=status", "--dry-run=server", "--field-manager=test", "--force-conflicts"),
    )
    assert written["status"]["readyReplicas"] == 5


def test_lists_by_key_merge_between_appliers(server: Server) -> None:
    def with_env(name: str) -> Json:
        manifest = suspended("merge")
        manifest["spec"]["engine"] = {"env": [{"name": name, "value": "x"}]}
        return manifest

    apply(server, with_env("A"), "--field-manager=one")
    apply(server, with_env("B"), "--field-manager=two")
    env = stored(server, "merge")["spec"]["engine"]["env"]
    assert sorted(item["name"] for item in env) == ["A", "B"]


def test_every_field_is_explained(server: Server) -> None:
    done = server.sandbox.kubectl(["explain", "ic.spec", "--recursive"])
    assert "nodeLossTolerationSeconds" in done.stdout
    done = server.sandbox.kubectl(["explain", "ic.spec.model.contextLength"])
    assert "Longest prompt plus answer, in tokens." in done.stdout


def test_columns_say_what_a_user_looks_for(server: Server) -> None:
    apply(server, suspended("columns"))
    done = server.sandbox.kubectl(["get", "ic", "columns", "-n", NAMESPACE, "-o", "wide"])
    header, row = done.stdout.splitlines()
    assert header.split() == [
        "NAME",
        "READY",
        "REASON",
        "MODEL",
        "REPLICAS",
        "AVAILABLE",
        "ACCELERATOR",
        "ENDPOINT",
        "AGE",
    ]
    assert "meta-llama/Llama-3.1-8B-Instruct" in row


@settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(text=st.text(max_size=12) | st.from_regex(r"[ -~]{1,12}", fullmatch=True))
@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: leaf[0])
def test_any_text_is_refused_or_kept_byte_for_byte(
    server: Server, leaf: tuple[str, tuple[str | int, ...], Json], text: str
) -> None:
    _, place, sample = leaf
    spec = with_text(sample, place, text)
    try:
        kept = server.create(cluster("fuzz", spec))
    except kubernetes.client.ApiException as error:
        assert error.status == 422, error.body
        return
    assert kept["spec"] == {"replicas": 1} | spec
