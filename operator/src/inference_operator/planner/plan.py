"""From a spec to a plan for one replica, or to everything that is wrong with the spec."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from ..api import defaults
from ..api.conditions import Reason
from ..api.names import ENGINE_PORT
from ..api.v1alpha1 import InferenceClusterSpec
from ..core.model import Plan, Problem
from .arguments import NO_ARGUMENTS, UserArguments, read_arguments
from .catalogue import ModelShape, gpus, models, nearest, nearest_first
from .digest import input_digest
from .flags import Minor, flag_table, known_versions
from .reserved import env_reason, label_reserved

DEFAULT_VERSION: Final = "0.32.0"
DEFAULT_CONCURRENCY: Final = 64
#: Where a volume with weights is mounted in the engine pod.
MODELS_ROOT: Final = "/models"


def make_plan(spec: InferenceClusterSpec) -> Plan | tuple[Problem, ...]:
    """The plan, or its problems, in the order of the spec's fields.

    What depends on an unknown model or engine version is checked once that is known.

    Pure and total: equal specs give equal plans, every spec that the schema allows gives one or the other.
    """
    version = spec.engine.version or DEFAULT_VERSION
    minor = _supported_minor(version)
    problems: list[Problem] = []
    user = NO_ARGUMENTS
    argument_problems: tuple[Problem, ...] = ()
    if minor is not None:
        user, argument_problems = read_arguments(spec, flag_table(minor))
    shape = _shape(spec)
    problems += _model_problems(spec, shape, user)
    if minor is None:
        problems.append(_unsupported(version))
    problems += argument_problems
    problems += _env_problems(spec)
    problems += _accelerator_problems(spec)
    problems += _tensor_problems(spec, shape)
    problems += _metadata_problems(spec)
    if problems or shape is None:
        return tuple(problems)
    return _plan(spec, version, shape, user)


def _plan(spec: InferenceClusterSpec, version: str, shape: ModelShape, user: UserArguments) -> Plan:
    tensor = spec.parallelism.tensor or 1
    concurrency = user.max_num_seqs or DEFAULT_CONCURRENCY
    gpu = gpus()[spec.accelerator.type] if spec.accelerator.type else None
    return Plan(
        input_digest=input_digest(spec),
        model_id=spec.model.id,
        served_name=spec.model.served_name or spec.model.id,
        engine=spec.engine.type.value,
        version=version,
        image=spec.engine.image or f"vllm/vllm-openai:v{version}",
        args=_arguments(spec, tensor, concurrency, user),
        accelerator=spec.accelerator.type,
        gpu_products=gpu.products if gpu else (),
        resource_name=spec.accelerator.resource_name or defaults.RESOURCE_NAME,
        tensor=tensor,
        gpus=tensor,
        max_concurrency=concurrency,
        context_length=spec.model.context_length
        or (user.max_model_len if user.sets_max_model_len else shape.max_context),
        reasons=tuple(_reasons(spec, version, shape, tensor, user)),
    )


def _arguments(
    spec: InferenceClusterSpec, tensor: int, concurrency: int, user: UserArguments
) -> tuple[str, ...]:
    """Everything behind `vllm serve`, in a fixed order."""
    model, source = spec.model, spec.model.source
    volume = source.persistent_volume_claim if source else None
    args = [
        f"{MODELS_ROOT}/{volume.path}" if volume else model.id,
        "--served-model-name",
        model.served_name or model.id,
        "--host",
        "0.0.0.0",  # noqa: S104 - the gateway reaches the engine at its pod's address
        "--port",
        str(ENGINE_PORT),
        "--tensor-parallel-size",
        str(tensor),
        "--max-num-seqs",
        str(concurrency),
    ]
    if model.context_length is not None:
        args += ["--max-model-len", str(model.context_length)]
    if model.revision is not None and volume is None:
        args += ["--revision", model.revision]
    # vLLM's default is 0: SIGTERM cuts every running request.
    args += ["--shutdown-timeout", str(defaults.seconds(spec.engine.drain_timeout or defaults.DRAIN_TIMEOUT))]
    return (*args, *user.rest)


def _reasons(
    spec: InferenceClusterSpec, version: str, shape: ModelShape, tensor: int, user: UserArguments
) -> Iterator[str]:
    """Why the plan is what it is, for status.plan.reasons."""
    if spec.engine.version is None:
        yield f"engine version {version} is this release's default"
    if spec.parallelism.tensor is None:
        yield "tensor 1 is the default of spec.parallelism.tensor"
    if user.max_num_seqs is None:
        yield f"{DEFAULT_CONCURRENCY} requests at once: the default of --max-num-seqs in spec.engine.args"
    if not shape.latent_attention and tensor > shape.kv_heads:
        yield (
            f"tensor {tensor} is above the model's {shape.kv_heads} KV heads: the KV cache is kept "
            f"{tensor // shape.kv_heads} times, so more GPUs hold no longer contexts"
        )


def _shape(spec: InferenceClusterSpec) -> ModelShape | None:
    """The user's architecture, which wins, or the catalogue's."""
    given = spec.model.architecture
    if given is None:
        return models().get(spec.model.id)
    return ModelShape(
        layers=given.layers,
        hidden_size=given.hidden_size,
        heads=given.heads,
        kv_heads=given.kv_heads,
        head_dim=given.head_dim or given.hidden_size // given.heads,
    )


def _model_problems(
    spec: InferenceClusterSpec, shape: ModelShape | None, user: UserArguments
) -> Iterator[Problem]:
    if shape is None:
        near = nearest(spec.model.id, list(models()))
        known = f" ({', '.join(near)}?)" if near else ""
        yield Problem(
            "spec.model.id",
            Reason.UNKNOWN_MODEL,
            f"{spec.model.id} is not in the catalogue: set spec.model.architecture (layers, hiddenSize, "
            f"heads and kvHeads of its config.json), or use one of the {len(models())} known models{known}",
        )
        return
    longest = shape.max_context
    if longest is None or user.overrides_config:
        return
    for field, length in (
        ("spec.model.contextLength", spec.model.context_length),
        ("spec.engine.args", user.max_model_len),
    ):
        if length is not None and length > longest:
            yield Problem(
                field,
                Reason.CONTEXT_TOO_LONG,
                f"{length} tokens are more than {spec.model.id} was made for: at most {longest}, or stretch "
                "it by --hf-overrides in spec.engine.args",
            )


_VERSION = re.compile(r"^(\d+)\.(\d+)\.")


def _supported_minor(version: str) -> Minor | None:
    match = _VERSION.match(version)
    if match is None:
        return None
    minor = (int(match[1]), int(match[2]))
    oldest, newest = known_versions()
    return minor if oldest <= minor <= newest else None


def _unsupported(version: str) -> Problem:
    (oldest_major, oldest), (newest_major, newest) = known_versions()
    return Problem(
        "spec.engine.version",
        Reason.UNSUPPORTED_VERSION,
        f"vLLM {version} is not supported: use {oldest_major}.{oldest}.0 or newer, below "
        f"{newest_major}.{newest + 1} (default {DEFAULT_VERSION})",
    )


def _env_problems(spec: InferenceClusterSpec) -> Iterator[Problem]:
    for index, variable in enumerate(spec.engine.env):
        why = env_reason(variable.name)
        if why is not None:
            field = f"spec.engine.env[{index}].name"
            yield Problem(field, Reason.ENV_RESERVED, f"{variable.name} can't be set here: {why}")


def _accelerator_problems(spec: InferenceClusterSpec) -> Iterator[Problem]:
    wanted = spec.accelerator.type
    if wanted is not None and wanted not in gpus():
        legal = ", ".join(nearest_first(wanted, gpus()))
        yield Problem(
            "spec.accelerator.type",
            Reason.UNKNOWN_ACCELERATOR,
            f"{wanted!r} is not in the catalogue; legal, nearest first: {legal}",
        )


def _tensor_problems(spec: InferenceClusterSpec, shape: ModelShape | None) -> Iterator[Problem]:
    tensor = spec.parallelism.tensor
    if tensor is None:
        return
    field = "spec.parallelism.tensor"
    per_node = spec.accelerator.per_node or defaults.GPUS_PER_NODE
    legal = [n for n in range(1, per_node + 1) if shape is None or shape.splits_into(n)]
    choices = f"legal: {', '.join(map(str, legal))}"
    resource = spec.accelerator.resource_name or defaults.RESOURCE_NAME
    if tensor > 1 and "/mig-" in resource:
        # MIG slices have no peer-to-peer path, so NCCL can't join them.
        yield Problem(
            field, Reason.TENSOR_ON_SLICE, f"{tensor} MIG slices ({resource}) can't share a model: legal: 1"
        )
        return
    if tensor > per_node:
        yield Problem(
            field,
            Reason.TENSOR_ABOVE_NODE,
            f"{tensor} GPUs are more than the {per_node} of a node (spec.accelerator.perNode); {choices}",
        )
    if shape is not None and not shape.splits_into(tensor):
        yield Problem(
            field,
            Reason.TENSOR_NOT_DIVIDING,
            f"{tensor} GPUs can't share {shape.heads} attention heads ({shape.kv_heads} KV heads) evenly; "
            f"{choices}",
        )


def _metadata_problems(spec: InferenceClusterSpec) -> Iterator[Problem]:
    metadata = spec.pod_metadata
    for part, keys in (("labels", metadata.labels), ("annotations", metadata.annotations)):
        for key in sorted(keys):
            if label_reserved(key):
                yield Problem(
                    f"spec.podMetadata.{part}[{key}]",
                    Reason.LABEL_RESERVED,
                    f"{key} belongs to the operator, Kubernetes or Argo CD: use a prefix of your own",
                )
