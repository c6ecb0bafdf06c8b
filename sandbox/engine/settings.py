"""From parsed flags and environment to the settings that act, with the checks vLLM makes before it loads."""

import argparse
import math
from collections.abc import Mapping
from dataclasses import dataclass

from sandbox.engine import faults as fault_module
from sandbox.engine import shapes
from sandbox.engine.faults import Faults


class StartError(ValueError):
    """The engine can't start with these arguments; the process prints it and ends with code 1."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything one simulated engine needs to know. Times in seconds, sizes in tokens unless named."""

    model: str
    served_names: tuple[str, ...]
    host: str
    port: int
    control_port: int
    headless: bool
    api_keys: tuple[str, ...]
    seed: int
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    max_queued_requests: int | None
    max_queued_tokens: int | None
    block_size: int
    num_gpu_blocks: int
    prefix_caching: bool
    gpu_memory_utilization: float
    kv_cache_dtype: str
    shutdown_timeout: float
    load_tracking: bool
    force_usage: bool
    keep_alive_seconds: float
    load_seconds: float
    prefill_tokens_per_second: float
    token_seconds: float
    batch_growth: float
    faults: Faults


def from_arguments(args: argparse.Namespace, env: Mapping[str, str]) -> Settings:
    """Check and complete the arguments; raises StartError with vLLM's own words where it has some."""
    _check_vllm_port(env.get("VLLM_PORT"))
    model = args.model_tag or args.model or "Qwen/Qwen3-0.6B"
    shape = shapes.SHAPES.get(model, shapes.UNKNOWN_SHAPE)
    tensor = args.tensor_parallel_size or 1
    _check_layout(args, env, shape, tensor)
    utilization = _utilization(args)
    gpu_gib = _number(env, "INFERENCE_SIM_GPU_MEMORY_GIB", 80.0)
    seqs, batched = _batch_defaults(gpu_gib)
    max_num_seqs = _positive("max_num_seqs", args.max_num_seqs, seqs)
    block_size = args.block_size or 16
    blocks = args.num_gpu_blocks_override or _cache_blocks(
        args, shape, gpu_gib, utilization, tensor, block_size
    )
    max_model_len = _max_model_len(args, shape, blocks * block_size)
    try:
        faults = fault_module.from_environment(env.get("INFERENCE_SIM_FAULTS", ""), args.revision)
    except fault_module.FaultError as error:
        raise StartError(str(error)) from None
    keys = tuple(key for key in (args.api_key or [env.get("VLLM_API_KEY")]) if key)
    return Settings(
        model=model,
        served_names=tuple(args.served_model_name or [model]),
        host=args.host or "",
        port=args.port if args.port is not None else 8000,
        control_port=int(_number(env, "INFERENCE_SIM_CONTROL_PORT", 8999)),
        headless=args.headless,
        api_keys=keys,
        seed=args.seed or 0,
        max_model_len=max_model_len,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=_positive("max_num_batched_tokens", args.max_num_batched_tokens, batched),
        max_queued_requests=args.max_num_queued_reqs,
        max_queued_tokens=args.max_num_queued_tokens,
        block_size=block_size,
        num_gpu_blocks=blocks,
        prefix_caching=args.enable_prefix_caching is not False,
        gpu_memory_utilization=utilization,
        kv_cache_dtype=args.kv_cache_dtype or "auto",
        shutdown_timeout=args.shutdown_timeout or 0,
        load_tracking=bool(args.enable_server_load_tracking),
        force_usage=bool(args.enable_force_include_usage),
        keep_alive_seconds=_number(env, "VLLM_HTTP_TIMEOUT_KEEP_ALIVE", 5),
        load_seconds=_number(env, "INFERENCE_SIM_LOAD_SECONDS", 2.0),
        prefill_tokens_per_second=max(1.0, _number(env, "INFERENCE_SIM_PREFILL_TOKENS_PER_SECOND", 8000)),
        token_seconds=max(0.0005, _number(env, "INFERENCE_SIM_TOKEN_SECONDS", 0.02)),
        batch_growth=_number(env, "INFERENCE_SIM_BATCH_GROWTH", 0.01),
        faults=faults,
    )


def _check_vllm_port(value: str | None) -> None:
    # A Service named `vllm` makes the kubelet inject VLLM_PORT=tcp://10.0.0.1:8000 (service links), and
    # vLLM reads a variable of that name as a port number.
    if value and "://" in value:
        raise StartError(
            f"VLLM_PORT '{value}' appears to be a URI. This may be caused by a Kubernetes service discovery "
            "issue, check the warning in: https://docs.vllm.ai/en/stable/configuration/env_vars/"
        )
    if value and not value.isdigit():
        raise StartError(f"VLLM_PORT '{value}' must be a valid integer")


def _check_layout(
    args: argparse.Namespace, env: Mapping[str, str], shape: shapes.ModelShape, tensor: int
) -> None:
    if tensor < 1:
        raise StartError(f"tensor_parallel_size must be at least 1, got {tensor}.")
    if shape is not shapes.UNKNOWN_SHAPE and shape.heads % tensor:
        raise StartError(
            f"Total number of attention heads ({shape.heads}) must be divisible by tensor parallel size "
            f"({tensor})."
        )
    world = tensor * (args.pipeline_parallel_size or 1) * (args.prefill_context_parallel_size or 1)
    local_copies = args.data_parallel_size_local or args.data_parallel_size or 1
    if args.data_parallel_rank is not None or args.data_parallel_external_lb:
        local_copies = 1
    needed = math.ceil(world / (args.nnodes or 1)) * local_copies
    visible = env.get("NVIDIA_VISIBLE_DEVICES")
    if visible is None or visible == "all":
        return
    gpus = 0 if visible in ("", "none", "void") else len(visible.split(","))
    if needed > gpus:
        raise StartError(
            f"World size ({needed}) is larger than the number of available GPUs ({gpus}) in this node."
        )


def _utilization(args: argparse.Namespace) -> float:
    value = 0.92 if args.gpu_memory_utilization is None else float(args.gpu_memory_utilization)
    if not 0 < value <= 1:
        raise StartError(f"GPU memory utilization must be in (0, 1], got {value}.")
    return value


def _batch_defaults(gpu_gib: float) -> tuple[int, int]:
    """max_num_seqs and max_num_batched_tokens of the API server by GPU memory, as vLLM chooses them."""
    if gpu_gib >= 160:
        return 1024, 16384
    return (1024, 8192) if gpu_gib >= 70 else (256, 2048)


def _cache_blocks(
    args: argparse.Namespace,
    shape: shapes.ModelShape,
    gpu_gib: float,
    utilization: float,
    tensor: int,
    block_size: int,
) -> int:
    world = tensor * (args.pipeline_parallel_size or 1)
    free = shapes.available_kv_bytes(shape, gpu_gib, utilization, world, args.quantization)
    if args.kv_cache_memory_bytes:
        free = float(args.kv_cache_memory_bytes) * world
    if free <= 0:
        raise StartError(
            "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when "
            f"initializing the engine. ({shape.weights_gib} GiB of weights on {world} GPU(s) of "
            f"{gpu_gib:g} GiB)"
        )
    token_bytes = shapes.kv_bytes_per_token(shape, tensor, args.kv_cache_dtype or "auto")
    return int(free / (token_bytes * block_size))


def _max_model_len(args: argparse.Namespace, shape: shapes.ModelShape, cache_tokens: int) -> int:
    wanted: int = shape.max_context if args.max_model_len is None else args.max_model_len
    if wanted == -1:
        return min(shape.max_context, cache_tokens)
    if wanted < 1:
        raise StartError(f"max_model_len must be at least 1, got {wanted}.")
    if shape is not shapes.UNKNOWN_SHAPE and wanted > shape.max_context:
        raise StartError(
            f"User-specified max_model_len ({wanted}) is greater than the derived max_model_len "
            f"(max_position_embeddings={shape.max_context} or model_max_length=None in model's config.json)."
        )
    if wanted > cache_tokens:
        raise StartError(
            f"To serve at least one request with the models's max seq len ({wanted}), more KV cache memory "
            "is needed than is available. Based on the available memory, the estimated maximum model length "
            f"is {cache_tokens}. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when "
            "initializing the engine."
        )
    return wanted


def _positive(name: str, value: int | None, default: int) -> int:
    if value is not None and value < 1:
        raise StartError(f"{name} must be at least 1, got {value}.")
    return default if value is None else value


def _number(env: Mapping[str, str], name: str, default: float) -> float:
    text = env.get(name, "")
    try:
        value = float(text) if text else default
    except ValueError:
        raise StartError(f"environment variable {name} must be a number, got {text!r}") from None
    if value < 0 or not math.isfinite(value):
        raise StartError(f"environment variable {name} must be zero or more, got {text!r}")
    return value
