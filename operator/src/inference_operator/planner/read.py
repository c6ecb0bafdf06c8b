"""The way from the API server's object to a spec or to problems, in the planner's words."""

from __future__ import annotations

from typing import Any

from ..api.conditions import Reason
from ..api.parse import parse_spec
from ..api.v1alpha1 import InferenceClusterSpec
from ..core.model import Problem


def read_spec(spec: Any) -> InferenceClusterSpec | tuple[Problem, ...]:
    """The object's `spec` as a model, or what doesn't fit the schema (reason SchemaViolation).

    Only an object that was stored under an older CRD can have such problems: the API server refuses them.
    """
    parsed = parse_spec(spec)
    if isinstance(parsed, InferenceClusterSpec):
        return parsed
    return tuple(Problem(error.field, Reason.SCHEMA_VIOLATION, error.message) for error in parsed)
