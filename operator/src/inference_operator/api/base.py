"""What the API's models have in common, and the words that a CRD schema knows beyond JSON Schema."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

ATOMIC: Final[dict[str, Any]] = {"x-kubernetes-list-type": "atomic"}
BY_NAME: Final[dict[str, Any]] = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
BY_TYPE: Final[dict[str, Any]] = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
#: Selectors are replaced as a whole, as in a pod: half of one selects something else.
ATOMIC_MAP: Final[dict[str, Any]] = {"x-kubernetes-map-type": "atomic"}


class ApiModel(BaseModel):
    """Strict: what the API server's schema refuses is refused here too, should the schema be older."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
    )


class StatusModel(ApiModel):
    """What a newer operator has written may hold fields that this one doesn't know: they are ignored."""

    model_config = ConfigDict(extra="ignore")


def rule(expression: str, message: str) -> dict[str, str]:
    """One CEL rule of x-kubernetes-validations."""
    return {"rule": expression, "message": message}


def validations(*rules: dict[str, str]) -> dict[str, Any]:
    """CEL rules as an addition to a field's or a model's JSON schema."""
    return {"x-kubernetes-validations": list(rules)}
