"""Cases of bad input: the rows of bad_input.yaml, and strange texts in every string field of the schema."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from inference_operator.api.names import API_VERSION, KIND
from inference_operator.api.schema import structural
from inference_operator.api.v1alpha1 import InferenceClusterSpec

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "manifests" / "samples"
#: What no string of the spec may hold: a line of its own, a control character, something beyond ASCII.
STRANGE = {
    "newline inside": "a\nb",
    "newline at the end": "a\n",
    "NUL": "a\x00b",
    "umlaut": "ä",
    "emoji": "a🚀",
}

Json = dict[str, Any]
Path_ = tuple[str | int, ...]


@dataclass(frozen=True)
class Invalid:
    """SpecValid=False: the reason, the field named, and words of the message."""

    reason: str
    field: str
    says: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """One case. Exactly one of refused, invalid and accepted is set."""

    case: str
    name: str
    spec: Json
    refused: str | None = None
    invalid: Invalid | None = None
    accepted: bool = False
    healed: Json | None = None

    def manifest(self, spec: Json | None = None) -> Json:
        """The object to send."""
        return {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": self.name},
            "spec": self.spec if spec is None else spec,
        }


def merge(spec: Json, patch: Json) -> Json:
    """JSON merge patch (RFC 7396): null removes."""
    out = copy.deepcopy(spec)
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        elif isinstance(value, dict):
            out[key] = merge(out[key] if isinstance(out.get(key), dict) else {}, value)
        else:
            out[key] = copy.deepcopy(value)
    return out


def rows() -> list[Row]:
    """The rows of the file. Raises ValueError for a row that expects nothing, or two things."""
    document = yaml.safe_load((Path(__file__).parent / "bad_input.yaml").read_text(encoding="utf-8"))
    return [_row(raw, document["base"]) for raw in document["rows"]]


def _row(raw: Json, base: Json) -> Row:
    expected = [key for key in ("refused", "invalid", "accepted") if key in raw]
    if len(expected) != 1 or set(raw) - {"case", "name", "patch", "heals", *expected}:
        raise ValueError(f"row {raw.get('case')!r}: needs one of refused, invalid, accepted and no other key")
    if "invalid" in raw and "heals" not in raw:
        raise ValueError(f"row {raw['case']!r}: how does it heal?")
    spec = merge(base, raw.get("patch", {}))
    invalid = raw.get("invalid")
    return Row(
        case=raw["case"],
        name=raw.get("name", "bad-input"),
        spec=spec,
        refused=raw.get("refused"),
        invalid=Invalid(invalid["reason"], invalid["field"], tuple(invalid["says"])) if invalid else None,
        accepted=raw.get("accepted", False),
        healed=merge(spec, raw["heals"]) if "heals" in raw else None,
    )


def samples() -> dict[str, Json]:
    """Specs of manifests/samples by file name."""
    return {
        p.name: yaml.safe_load(p.read_text(encoding="utf-8"))["spec"] for p in sorted(SAMPLES.glob("*.yaml"))
    }


def string_leaves() -> Iterator[tuple[str, Path_, Json]]:
    """Every string of the spec's schema: (path as in a message, its place in a sample, that sample's spec).

    Raises ValueError for a leaf that no sample sets: a new field has to be in manifests/samples/full.yaml.
    """
    yield from _leaves(structural(InferenceClusterSpec), "spec", ())


def _leaves(schema: Json, text: str, path: Path_) -> Iterator[tuple[str, Path_, Json]]:
    if schema["type"] == "string":
        for spec in samples().values():
            place = _place(spec, path)
            if place is not None:
                yield text, place, spec
                return
        raise ValueError(f"{text}: no file in manifests/samples sets it")
    for name, child in schema.get("properties", {}).items():
        yield from _leaves(child, f"{text}.{name}", (*path, name))
    if "items" in schema:
        yield from _leaves(schema["items"], f"{text}[0]", (*path, 0))
    if "additionalProperties" in schema:
        yield from _leaves(schema["additionalProperties"], f"{text}.*", (*path, "*"))


def _place(spec: Json, path: Path_) -> Path_ | None:
    """The path with `*` replaced by the map's first key; None if the spec doesn't set it."""
    node: Any = spec
    place: list[str | int] = []
    for part in path:
        if part == "*" and isinstance(node, dict) and node:
            part = next(iter(node))
        try:
            node = node[part]
        except (KeyError, IndexError, TypeError):
            return None
        place.append(part)
    return tuple(place)


def with_text(spec: Json, place: Path_, text: str) -> Json:
    """The spec with one string replaced."""
    out = copy.deepcopy(spec)
    node: Any = out
    for part in place[:-1]:
        node = node[part]
    node[place[-1]] = text
    return out


def with_key(spec: Json, place: Path_, key: str) -> Json:
    """The spec with one key of a map replaced."""
    out = copy.deepcopy(spec)
    node: Any = out
    for part in place[:-1]:
        node = node[part]
    node[key] = node.pop(place[-1])
    return out


def strange_rows() -> list[Row]:
    """One row for each string leaf, and each map's key, with each strange text: all are refused."""
    out = []
    for text, place, spec in string_leaves():
        field = text.replace("[0]", r"\[0\]").replace(".*", r"\..+")
        for label, strange in STRANGE.items():
            expected = rf"{field}: (Invalid value: .*should match|Unsupported value)"
            out.append(
                Row(f"{text}: {label}", "bad-input", with_text(spec, place, strange), refused=expected)
            )
            if text.endswith(".*"):
                expected = rf"{text.removesuffix('.*')}: Invalid value: .*form of a label's"
                bad = with_key(spec, place, strange)
                out.append(Row(f"{text}, key: {label}", "bad-input", bad, refused=expected))
    return out
