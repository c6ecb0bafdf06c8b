"""Sizes of a few well-known models, and how many KV-cache blocks fit beside them.

Sources of the table: the models' own config.json; weights in GiB and KV bytes per token at bf16 follow
from them (2 x layers x kv_heads x head_dim x 2 bytes, latent attention excepted). The memory figure is
rough on purpose: total x utilisation - weights - activation peak, which vLLM 0.11 measured at 4.8-5.6 GiB
for dense models on an H100.
"""

from dataclasses import dataclass
from typing import Final

GIB: Final = 1024**3
ACTIVATION_GIB: Final = 5.2


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What decides layout and memory of one model.

    weights_gib are those of the published checkpoint, `quantized` says that it is below 16 bits already;
    kv_bytes_per_token is of the whole model at 2 bytes a value.
    """

    heads: int
    kv_heads: int
    max_context: int
    weights_gib: float
    kv_bytes_per_token: int
    quantized: bool = False


SHAPES: Final = {
    "Qwen/Qwen3-0.6B": ModelShape(16, 8, 40960, 1.1, 114688),
    "Qwen/Qwen2.5-7B-Instruct": ModelShape(28, 4, 32768, 14.2, 57344),
    "Qwen/Qwen2.5-72B-Instruct": ModelShape(64, 8, 32768, 135.4, 327680),
    "Qwen/Qwen3-8B": ModelShape(32, 8, 40960, 15.3, 147456),
    "Qwen/Qwen3-32B": ModelShape(64, 8, 40960, 61.0, 262144),
    "deepseek-ai/DeepSeek-V3": ModelShape(128, 128, 163840, 625.9, 70272, quantized=True),
    "meta-llama/Llama-3.1-8B-Instruct": ModelShape(32, 8, 131072, 15.0, 131072),
    "meta-llama/Llama-3.1-70B-Instruct": ModelShape(64, 8, 131072, 131.4, 327680),
    "microsoft/phi-4": ModelShape(40, 10, 16384, 27.3, 204800),
    "mistralai/Mistral-Small-24B-Instruct-2501": ModelShape(32, 8, 32768, 43.9, 163840),
    "mistralai/Mixtral-8x7B-Instruct-v0.1": ModelShape(32, 8, 32768, 87.0, 131072),
    "openai/gpt-oss-20b": ModelShape(64, 8, 131072, 12.8, 24576, quantized=True),
    "openai/gpt-oss-120b": ModelShape(64, 8, 131072, 60.7, 36864, quantized=True),
}

# Any other model is served too, as something of the size of an 8B model that every layout fits.
UNKNOWN_SHAPE: Final = ModelShape(32, 8, 32768, 15.0, 131072)

_WEIGHT_SHARE: Final = {"fp8": 0.5, "modelopt": 0.5, "modelopt_fp4": 0.25, "awq": 0.25, "awq_marlin": 0.25}


def available_kv_bytes(
    shape: ModelShape, gpu_gib: float, utilization: float, world: int, quant: str | None
) -> float:
    """KV-cache bytes over all GPUs of one model copy; zero or less when the weights leave no room."""
    weights = shape.weights_gib * (1.0 if shape.quantized else _WEIGHT_SHARE.get(quant or "", 1.0))
    return (gpu_gib * utilization * world - weights - ACTIVATION_GIB * world) * GIB


def kv_bytes_per_token(shape: ModelShape, tensor_parallel: int, cache_dtype: str) -> float:
    """Bytes one token takes over all ranks; beyond kv_heads ranks the heads are copied, not divided."""
    copies = max(1.0, tensor_parallel / shape.kv_heads)
    return shape.kv_bytes_per_token * copies * (0.5 if cache_dtype.startswith("fp8") else 1.0)
