"""The CustomResourceDefinition, made from the pydantic models.

What pydantic writes is JSON Schema; the API server takes a narrower, structural form: no references, no null,
no unions, no additionalProperties beside properties. Defaults are left out, but for the one that the scale
subresource needs (see defaults.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel

from .names import GROUP, KIND, PLURAL, SHORT, VERSION
from .v1alpha1 import InferenceClusterSpec, InferenceClusterStatus

Schema = dict[str, Any]

#: Longest metadata.name of any object: a bound for the cost of the name rule.
_LONGEST_NAME: Final = 253
#: Name of a Service and room for "-gateway" behind it.
NAME_PATTERN: Final = "^[a-z]([-a-z0-9]{0,50}[a-z0-9])?$"

#: Keywords that mean the same in both forms.
_KEPT: Final = (
    "type",
    "format",
    "enum",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "multipleOf",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
)
_HANDLED: Final = frozenset(
    (
        *_KEPT,
        "title",
        "default",
        "description",
        "properties",
        "required",
        "items",
        "additionalProperties",
        "patternProperties",
        "propertyNames",
        "exclusiveMinimum",
        "exclusiveMaximum",
    )
)


class SchemaError(Exception):
    """A model has something that a structural schema can't say; names the field and the keyword."""


def structural(model: type[BaseModel]) -> Schema:
    """Structural schema of a model. Raises SchemaError for what can't be expressed."""
    document = model.model_json_schema(by_alias=True, mode="validation")
    return _convert(document, document.get("$defs", {}), model.__name__, ())


def custom_resource_definition() -> dict[str, Any]:
    """The CRD as the API server takes it."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": KIND.lower(),
                "shortNames": [SHORT],
                "categories": ["inference"],
            },
            "scope": "Namespaced",
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": _root()},
                    "subresources": {
                        "status": {},
                        "scale": {
                            "specReplicasPath": ".spec.replicas",
                            "statusReplicasPath": ".status.replicas",
                            "labelSelectorPath": ".status.selector",
                        },
                    },
                    "additionalPrinterColumns": _columns(),
                }
            ],
        },
    }


def _root() -> Schema:
    spec = structural(InferenceClusterSpec)
    spec["properties"]["replicas"]["default"] = InferenceClusterSpec.model_fields["replicas"].default
    return {
        "type": "object",
        "description": "A served model: its engines, the gateway in front of them, and how both change.",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {
                "type": "object",
                "properties": {"name": {"type": "string", "maxLength": _LONGEST_NAME}},
            },
            "spec": spec,
            "status": structural(InferenceClusterStatus),
        },
        "x-kubernetes-validations": [_name_rule()],
    }


def _name_rule() -> dict[str, str]:
    """A legal name of a custom resource (dots, 253 characters) can be an illegal one of its Service."""
    name = "self.metadata.name"
    dashed = f"{name}.lowerAscii().replace('.', '-').replace('_', '-')"
    lettered = f"({name}.matches('^[A-Za-z]') ? '' : 'm') + {dashed}"
    nearest = f"({lettered}).find('{NAME_PATTERN.removesuffix('$')}')"
    return {
        "rule": f"{name}.matches('{NAME_PATTERN}')",
        "message": "metadata.name has to be at most 52 lower-case letters, digits and dashes, a letter first",
        "messageExpression": (
            "'metadata.name has to be at most 52 lower-case letters, digits and dashes, a letter first; "
            f"the nearest legal name is ' + {nearest}"
        ),
        "fieldPath": ".metadata.name",
        "reason": "FieldValueInvalid",
    }


def _columns() -> list[dict[str, Any]]:
    ready = '.status.conditions[?(@.type=="Ready")]'
    columns = (
        ("Ready", "string", f"{ready}.status", 0),
        ("Reason", "string", f"{ready}.reason", 0),
        ("Model", "string", ".spec.model.id", 0),
        ("Replicas", "integer", ".spec.replicas", 0),
        ("Available", "integer", ".status.readyReplicas", 0),
        ("Accelerator", "string", ".spec.accelerator.type", 1),
        ("Endpoint", "string", ".status.endpoint", 1),
        ("Age", "date", ".metadata.creationTimestamp", 0),
    )
    return [
        {"name": name, "type": kind, "jsonPath": path, **({"priority": priority} if priority else {})}
        for name, kind, path, priority in columns
    ]


def _convert(
    node: Mapping[str, Any], defs: Mapping[str, Schema], path: str, open_refs: tuple[str, ...]
) -> Schema:
    node, open_refs = _resolve(node, defs, path, open_refs)
    unknown = [key for key in node if key not in _HANDLED and not key.startswith(("x-kubernetes-", "$defs"))]
    if unknown:
        raise SchemaError(f"{path}: a structural schema can't say {', '.join(unknown)}")
    out: Schema = {key: node[key] for key in _KEPT if key in node}
    if "description" in node:
        out["description"] = " ".join(node["description"].split())
    for key, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if key in node:
            out |= {bound: node[key], key: True}
    out |= {key: value for key, value in node.items() if key.startswith("x-kubernetes-")}
    if out.get("type") == "integer":
        out["format"] = "int32" if abs(out.get("maximum", 2**63)) < 2**31 else "int64"
    if "items" in node:
        out["items"] = _convert(node["items"], defs, f"{path}[]", open_refs)
    if "properties" in node:
        out["properties"] = {
            name: _convert(child, defs, f"{path}.{name}", open_refs)
            for name, child in node["properties"].items()
        }
        if node.get("required"):
            out["required"] = node["required"]
    else:
        _convert_map(node, out, defs, path, open_refs)
    return out


def _resolve(
    node: Mapping[str, Any], defs: Mapping[str, Schema], path: str, open_refs: tuple[str, ...]
) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Inline a reference and take null out of a union; what stands beside them wins."""
    while "$ref" in node or "anyOf" in node:
        if "$ref" in node:
            name = node["$ref"].rpartition("/")[2]
            if name in open_refs:
                raise SchemaError(f"{path}: {name} holds itself, which a structural schema can't say")
            open_refs = (*open_refs, name)
            inner, beside = defs[name], {key: value for key, value in node.items() if key != "$ref"}
        else:
            options = [option for option in node["anyOf"] if option.get("type") != "null"]
            if len(options) != 1:
                raise SchemaError(f"{path}: a union is no structural schema: use optional fields and a rule")
            inner, beside = options[0], {key: value for key, value in node.items() if key != "anyOf"}
        node = {**inner, **beside}
    return node, open_refs


def _convert_map(
    node: Mapping[str, Any], out: Schema, defs: Mapping[str, Schema], path: str, open_refs: tuple[str, ...]
) -> None:
    """Free keys: values by additionalProperties, keys by a rule, since propertyNames isn't structural."""
    patterns = node.get("patternProperties", {})
    values = next(iter(patterns.values()), node.get("additionalProperties"))
    if not isinstance(values, Mapping):
        return
    out["additionalProperties"] = _convert(values, defs, f"{path}{{}}", open_refs)
    keys = node.get("propertyNames", {})
    pattern = next(iter(patterns), keys.get("pattern"))
    longest = keys.get("maxLength")
    if longest is None or pattern is None:
        raise SchemaError(f"{path}: keys without a bound or a pattern")
    # A raw CEL string: the pattern's backslashes are the regular expression's.
    expression = f"self.all(key, size(key) <= {longest} && key.matches(r'{pattern}'))"
    message = f"a key has to have the form of a label's, [prefix/]name, and at most {longest} characters"
    out.setdefault("x-kubernetes-validations", []).append({"rule": expression, "message": message})
