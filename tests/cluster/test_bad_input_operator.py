"""The `invalid` rows of tests/data/bad_input.yaml on an installed operator.

Each gets one condition, one Event and no children, and is good again with the spec that heals it.
"""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from sandbox.lab import Lab, condition, manifest
from tests.data.bad_input import Json, Row, merge, rows

pytest_plugins = ["tests.plugins.sandbox", "tests.plugins.operator"]

NAMESPACE = "bad-specs"
ROWS = [replace(row, name=f"bad-{index}") for index, row in enumerate(r for r in rows() if r.invalid)]


@pytest.fixture(scope="module")
def lab(operator: Lab) -> Iterator[Lab]:
    """An operator that has been given all rows at once."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    bad = [row.manifest() for row in ROWS]
    for objects in ([namespace], bad):
        items = {"apiVersion": "v1", "kind": "List", "items": objects}
        operator.sandbox.kubectl(
            ["apply", "--server-side", *(["-n", NAMESPACE] if objects is bad else []), "-f", "-"],
            input=json.dumps(items),
        )
    yield operator
    operator.sandbox.kubectl(["delete", "ic", "--all", "-n", NAMESPACE, "--wait=false"])
    operator.sandbox.kubectl(["delete", "namespace", NAMESPACE, "--wait=false"])


def told(lab: Lab, name: str) -> list[tuple[str, str]]:
    """(reason, note) of the Warning Events about a cluster."""
    found = lab.get(f"apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events") or {"items": []}
    return [
        (event["reason"], event.get("note", ""))
        for event in found["items"]
        if event["regarding"]["name"] == name and event["type"] == "Warning"
    ]


def await_validity(lab: Lab, name: str, status: str) -> Json:
    def look() -> Json | None:
        cluster = lab.cluster(name, NAMESPACE) or {}
        found = condition(cluster, "SpecValid")
        fresh = found.get("observedGeneration") == cluster.get("metadata", {}).get("generation")
        return found if fresh and found.get("status") == status else None

    return lab.until(f"SpecValid={status} of {name}", look, timeout=30)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.case)
def test_a_bad_spec_is_explained_and_heals(lab: Lab, row: Row) -> None:
    assert row.invalid is not None
    assert row.healed is not None
    found = await_validity(lab, row.name, "False")
    assert found["reason"] == row.invalid.reason
    assert row.invalid.field in found["message"]
    assert not [word for word in row.invalid.says if word not in found["message"]], found["message"]
    assert lab.children(row.name, NAMESPACE) == []
    lab.until("its Event", lambda: told(lab, row.name), timeout=10)
    assert told(lab, row.name) == [(row.invalid.reason, found["message"])]

    # Suspended, so that forty gateways needn't start for forty rows; one row goes all the way below.
    lab.apply(row.manifest(merge(row.healed, {"suspend": True})), NAMESPACE)
    assert await_validity(lab, row.name, "True")["reason"] == "Valid"


def test_a_healed_cluster_serves(operator: Lab, namespace: str) -> None:
    operator.apply(manifest("heals", parallelism={"tensor": 3}), namespace)
    operator.until(
        "SpecValid=False",
        lambda: condition(operator.cluster("heals", namespace) or {}, "SpecValid").get("status") == "False",
        timeout=30,
    )
    operator.apply(manifest("heals", parallelism={"tensor": 1}), namespace)
    operator.until_ready("heals", namespace, replicas=1, timeout=120)
