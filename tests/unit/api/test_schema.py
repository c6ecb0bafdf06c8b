"""The CRD as data: structural, bounded, and the same as the committed file."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from inference_operator.api import defaults
from inference_operator.api.schema import NAME_PATTERN, SchemaError, custom_resource_definition, structural
from inference_operator.api.v1alpha1 import InferenceClusterSpec, InferenceClusterStatus

ROOT = Path(__file__).resolve().parents[3]
SPEC = structural(InferenceClusterSpec)
STATUS = structural(InferenceClusterStatus)

Json = dict[str, Any]

#: What a structural schema of apiextensions.k8s.io/v1 takes and this project uses.
ALLOWED = {
    "type",
    "format",
    "enum",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "maxItems",
    "maxProperties",
    "description",
    "properties",
    "required",
    "items",
    "additionalProperties",
    "x-kubernetes-validations",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
}


def walk(schema: Json, path: str) -> Iterator[tuple[str, Json]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from walk(child, f"{path}.{name}")
    for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if key in schema:
            yield from walk(schema[key], path + mark)


NODES = [*walk(SPEC, "spec"), *walk(STATUS, "status")]


@pytest.mark.parametrize(("path", "schema"), NODES, ids=[path for path, _ in NODES])
def test_each_node_is_structural_and_bounded(path: str, schema: Json) -> None:
    assert set(schema) <= ALLOWED, "a keyword that a structural schema can't hold, or null, or a default"
    kind = schema["type"]
    if kind == "string" and "enum" not in schema:
        assert "maxLength" in schema
        if path.startswith("spec"):
            assert schema["pattern"].startswith("^")
            assert schema["pattern"].endswith("$")
            assert "(?" not in schema["pattern"], "RE2 has no look-around"
    if kind == "array":
        assert "maxItems" in schema
        assert schema["x-kubernetes-list-type"] in ("atomic", "map")
    if kind == "object":
        assert ("properties" in schema) != ("additionalProperties" in schema)
    if "additionalProperties" in schema:
        assert "maxProperties" in schema
    if kind == "integer" and path.startswith("spec"):
        assert {"minimum", "maximum"} <= set(schema)


def test_no_field_of_the_spec_names_a_namespace() -> None:
    assert not [path for path, _ in walk(SPEC, "spec") if "namespace" in path.rsplit(".", 1)[-1].lower()]


def test_every_field_of_the_spec_is_described() -> None:
    bare = [path for path, schema in walk(SPEC, "spec") if "description" not in schema]
    assert all(path.endswith(("[]", "{}")) for path in bare), bare


def test_the_words_of_descriptions_are_the_defaults_of_the_code() -> None:
    said = {path: match[1] for path, schema in walk(SPEC, "spec") if (match := _default(schema))}
    expected = {
        "spec.engine.loadTimeout": defaults.LOAD_TIMEOUT,
        "spec.engine.drainTimeout": defaults.DRAIN_TIMEOUT,
        "spec.accelerator.perNode": str(defaults.GPUS_PER_NODE),
        "spec.accelerator.resourceName": defaults.RESOURCE_NAME,
        "spec.placement.nodeLossTolerationSeconds": str(defaults.NODE_LOSS_TOLERATION_SECONDS),
        "spec.gateway.replicas": str(defaults.GATEWAY_REPLICAS),
        "spec.gateway.queue.length": str(defaults.QUEUE_LENGTH),
        "spec.gateway.queue.timeout": defaults.QUEUE_TIMEOUT,
    }
    assert expected.items() <= said.items()


def _default(schema: Json) -> re.Match[str] | None:
    return re.search(r"Default (.+)\.$", schema.get("description", ""))


def test_replicas_alone_has_a_default() -> None:
    crd = custom_resource_definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    found = [path for path, schema in walk(crd, "") if "default" in schema]
    assert found == [".spec.replicas"]


def largest(schema: Json) -> int:
    """Bytes of the largest legal value as compact JSON; a printable character is at most two (\\")."""
    kind = schema["type"]
    if kind == "string":
        if "enum" in schema:
            return max(len(json.dumps(value)) for value in schema["enum"])
        escaped = 2 if re.search(r"\[ -~\]", schema["pattern"]) else 1
        return schema["maxLength"] * escaped + 2
    if kind == "boolean":
        return 5
    if kind == "integer":
        return max(len(str(schema["minimum"])), len(str(schema["maximum"])))
    if kind == "array":
        return schema["maxItems"] * (largest(schema["items"]) + 1) + 2
    if "properties" in schema:
        return sum(largest(child) + len(name) + 4 for name, child in schema["properties"].items()) + 2
    longest_key = int(re.search(r"size\(key\) <= (\d+)", schema["x-kubernetes-validations"][0]["rule"])[1])
    return schema["maxProperties"] * (longest_key + 4 + largest(schema["additionalProperties"])) + 2


def test_the_largest_legal_spec_stays_below_32_kib() -> None:
    assert largest(SPEC) < 32 * 1024


def test_the_crd_file_is_small_and_up_to_date() -> None:
    assert (ROOT / "crds" / "inferenceclusters.yaml").stat().st_size < 200_000
    for tool in ("gen_crd.py", "gen_reference.py"):
        done = subprocess.run(
            [sys.executable, ROOT / "tools" / tool, "--check"], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout


def test_a_changed_file_fails_the_check_and_shows_the_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    from tools import gen_crd

    monkeypatch.setattr(gen_crd, "ROOT", tmp_path)
    assert gen_crd.write_or_check({"a.yaml": "x: 1\n"}, check=False) == 0
    assert gen_crd.write_or_check({"a.yaml": "x: 1\n"}, check=True) == 0
    assert gen_crd.write_or_check({"a.yaml": "x: 2\n"}, check=True) == 1
    assert "-x: 1\n+x: 2\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "legal"),
    [
        ("a", True),
        ("a-1", True),
        ("a" * 52, True),
        ("a" * 53, False),
        ("1a", False),
        ("a.b", False),
        ("a-", False),
    ],
)
def test_the_name_pattern(name: str, legal: bool) -> None:
    assert bool(re.fullmatch(NAME_PATTERN, name)) is legal


class Node(BaseModel):
    children: list["Node"]


class Either(BaseModel):
    value: int | str


class Pair(BaseModel):
    value: tuple[int, str]


class Unique(BaseModel):
    value: set[str]


class Open(BaseModel):
    value: dict[str, str]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Node, "Node.children[]: Node holds itself"),
        (Either, "Either.value: a union"),
        (Pair, "Pair.value: .*prefixItems"),
        (Unique, "Unique.value: .*uniqueItems"),
        (Open, "Open.value: keys without a bound"),
    ],
)
def test_what_a_structural_schema_cannot_say_is_an_error(model: type[BaseModel], message: str) -> None:
    with pytest.raises(SchemaError, match=message.replace("[]", r"\[\]")):
        structural(model)


class Numbers(BaseModel):
    above: Annotated[int, Field(gt=0, lt=10)]
    maybe: int | None = None


def test_exclusive_bounds_and_optional_fields_are_rewritten() -> None:
    assert structural(Numbers) == {
        "type": "object",
        "properties": {
            "above": {
                "type": "integer",
                "format": "int32",
                "minimum": 0,
                "exclusiveMinimum": True,
                "maximum": 10,
                "exclusiveMaximum": True,
            },
            "maybe": {"type": "integer", "format": "int64"},
        },
        "required": ["above"],
    }
