"""The frozen record of a revision: what its plan was and the pod template as it was written once.

It is the `data` of an apps/v1 ControllerRevision, the kind in which StatefulSets keep theirs: the API server
itself refuses a change of `data`, so no release and no person can rewrite a running revision by accident.

    {"hashVersion": 1, "plan": {…}, "template": {metadata, spec}, "templateDigest": "16 hex digits"}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

from .canonical import digest
from .model import Plan
from .revision import HASH_VERSION


class RecordError(ValueError):
    """A record can't be read: says which part is missing or of the wrong type."""


@dataclass(frozen=True)
class Record:
    """One revision's plan and pod template, as they were at its creation."""

    plan: Plan
    #: A pod template: metadata and spec.
    template: Mapping[str, Any]
    template_digest: str


def make_record(plan: Plan, template: Mapping[str, Any]) -> Record:
    """The record of a revision that is made now."""
    return Record(plan, template, digest(template))


def encode(record: Record) -> dict[str, Any]:
    """`data` of the ControllerRevision."""
    return {
        "hashVersion": HASH_VERSION,
        "plan": encode_plan(record.plan),
        "template": dict(record.template),
        "templateDigest": record.template_digest,
    }


def decode(data: Mapping[str, Any]) -> Record:
    """The other way round. Raises RecordError.

    Keys that a newer release added are ignored, so that an operator can be rolled back.
    """
    try:
        template = data["template"]
        if not isinstance(template, Mapping):
            raise TypeError("template is no object")
        return Record(decode_plan(data["plan"]), template, str(data["templateDigest"]))
    except (KeyError, TypeError, ValueError) as error:
        raise RecordError(f"unreadable revision record: {error!r}") from error


def encode_plan(plan: Plan) -> dict[str, Any]:
    """JSON of a plan; None and empty values are left out."""
    document = {
        "inputDigest": plan.input_digest,
        "model": plan.model_id,
        "servedName": plan.served_name,
        "engine": plan.engine,
        "version": plan.version,
        "image": plan.image,
        "args": list(plan.args),
        "accelerator": plan.accelerator,
        "gpuProducts": list(plan.gpu_products),
        "resourceName": plan.resource_name,
        "tensor": plan.tensor,
        "gpus": plan.gpus,
        "maxConcurrency": plan.max_concurrency,
        "contextLength": plan.context_length,
        "reasons": list(plan.reasons),
    }
    return {key: value for key, value in document.items() if value is not None and value != []}


def decode_plan(document: object) -> Plan:
    """The other way round. Raises ValueError for what is missing, of the wrong type or out of bounds."""
    read = _PlanDocument.model_validate(document)
    return Plan(
        input_digest=read.input_digest,
        model_id=read.model,
        served_name=read.served_name,
        engine=read.engine,
        version=read.version,
        image=read.image,
        args=tuple(read.args),
        accelerator=read.accelerator,
        gpu_products=tuple(read.gpu_products),
        resource_name=read.resource_name,
        tensor=read.tensor,
        gpus=read.gpus,
        max_concurrency=read.max_concurrency,
        context_length=read.context_length,
        reasons=tuple(read.reasons),
    )


_Count = Annotated[int, Field(ge=0, le=2**31 - 1)]


class _PlanDocument(BaseModel):
    """Strict, since what a person wrote into a record must not come up as an error in the middle of a pass:
    the bounds are those of the status, where the plan is told."""

    model_config = ConfigDict(extra="ignore", strict=True, alias_generator=to_camel)

    input_digest: Annotated[str, StringConstraints(max_length=64)]
    model: Annotated[str, StringConstraints(max_length=200)]
    served_name: str
    engine: str
    version: Annotated[str, StringConstraints(max_length=40)]
    image: str
    args: list[str] = []
    accelerator: Annotated[str, StringConstraints(max_length=63)] | None = None
    gpu_products: list[str] = []
    resource_name: str
    tensor: _Count
    gpus: _Count
    max_concurrency: _Count
    context_length: _Count | None = None
    reasons: list[str] = []
