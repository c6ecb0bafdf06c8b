"""A spec as the API server hands it out -> the model, or everything that doesn't fit it.

The API server has checked the same before, unless the CRD in the cluster is older than the operator. JSON's
rules hold: no bool for a number, no "8" for 8, no unknown field.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from .v1alpha1 import InferenceClusterSpec


@dataclass(frozen=True)
class FieldError:
    """What is wrong with one field."""

    #: As in a manifest: spec.engine.args[2].
    field: str
    message: str


def parse_spec(spec: Any) -> InferenceClusterSpec | tuple[FieldError, ...]:
    """The parsed spec, or all errors at once. Never raises for data that JSON can hold."""
    try:
        # Through JSON: in it an enum is a string and nothing else is converted.
        return InferenceClusterSpec.model_validate_json(json.dumps(spec))
    except ValidationError as error:
        return tuple(
            FieldError(_path(item["loc"]), _message(item["type"], item["msg"]))
            for item in error.errors(include_url=False, include_context=False)
        )


def _path(location: Sequence[int | str]) -> str:
    """`spec.a.b[0].c[some/key]`, the key of a map with control characters escaped."""
    path = "spec"
    for part in location:
        if isinstance(part, str) and part.isidentifier():
            path += f".{part}"
        elif part != "[key]":  # pydantic's mark that the key itself is meant
            path += f"[{json.dumps(part)[1:-1] if isinstance(part, str) else part}]"
    return path


def _message(kind: str, text: str) -> str:
    return "unknown field" if kind == "extra_forbidden" else text.removeprefix("Value error, ")
