"""Checks before the load, and what follows from the flags."""

import pytest

from sandbox.engine.settings import StartError
from tests.unit.engine_sim.conftest import make_settings

LLAMA_8B = "meta-llama/Llama-3.1-8B-Instruct"
LLAMA_70B = "meta-llama/Llama-3.1-70B-Instruct"


@pytest.mark.parametrize(
    ("command_line", "env", "message"),
    [
        ("m", {"VLLM_PORT": "tcp://10.96.0.7:8000"}, "VLLM_PORT 'tcp://10.96.0.7:8000' appears to be a URI"),
        ("m", {"VLLM_PORT": "x"}, "VLLM_PORT 'x' must be a valid integer"),
        (
            "microsoft/phi-4 -tp 16",
            {},
            r"attention heads \(40\) must be divisible by tensor parallel size \(16\)",
        ),
        ("m -tp 4", {"NVIDIA_VISIBLE_DEVICES": "0,1"}, r"World size \(4\) is larger than .* GPUs \(2\)"),
        ("m", {"NVIDIA_VISIBLE_DEVICES": "void"}, r"World size \(1\) is larger than .* GPUs \(0\)"),
        ("m -tp 2 -pp 2 -dp 2", {"NVIDIA_VISIBLE_DEVICES": "0,1,2,3"}, r"World size \(8\)"),
        (LLAMA_70B, {}, "No available memory for the cache blocks"),
        (f"{LLAMA_8B}", {"INFERENCE_SIM_GPU_MEMORY_GIB": "24"}, "estimated maximum model length"),
        (f"{LLAMA_8B} --max-model-len 200000", {}, r"max_model_len \(200000\) is greater than the derived"),
        ("m --gpu-memory-utilization 1.2", {}, r"must be in \(0, 1\], got 1.2"),
        ("m --max-num-seqs 0", {}, "max_num_seqs must be at least 1, got 0"),
        ("m", {"INFERENCE_SIM_TOKEN_SECONDS": "fast"}, "INFERENCE_SIM_TOKEN_SECONDS must be a number"),
        ("m", {"INFERENCE_SIM_LOAD_SECONDS": "-1"}, "INFERENCE_SIM_LOAD_SECONDS must be zero or more"),
        ("m", {"INFERENCE_SIM_FAULTS": "crash"}, "INFERENCE_SIM_FAULTS is not JSON"),
        ("m --revision fault-error_rate-7", {}, "fault error_rate must be between 0 and 1, got 7"),
    ],
)
def test_start_is_refused(command_line: str, env: dict[str, str], message: str) -> None:
    with pytest.raises(StartError, match=message):
        make_settings(command_line, **env)


@pytest.mark.parametrize(
    ("command_line", "devices"),
    [
        ("m -tp 4", "0,1,2,3"),
        ("m -tp 8", "all"),
        ("m -tp 8 --nnodes 2", "GPU-a,GPU-b,GPU-c,GPU-d"),
        ("m -tp 2 -dp 8 -dpn 3 --data-parallel-external-lb", "0,1"),
        ("m -tp 2 -dp 8 -dpl 2", "0,1,2,3"),
    ],
)
def test_layout_fits_the_visible_gpus(command_line: str, devices: str) -> None:
    make_settings(command_line, NVIDIA_VISIBLE_DEVICES=devices)


def test_cache_of_a_known_model_is_what_the_memory_leaves() -> None:
    got = make_settings(LLAMA_8B)
    # 80 GiB x 0.92 - 15.0 of weights - 5.2 of activations = 53.4 GiB, at 128 KiB a token.
    assert got.num_gpu_blocks * got.block_size == pytest.approx(53.4 * 1024 * 8, rel=0.001)
    assert make_settings(f"{LLAMA_8B} --kv-cache-dtype fp8").num_gpu_blocks == pytest.approx(
        2 * got.num_gpu_blocks, abs=1
    )
    assert make_settings(f"{LLAMA_8B} --num-gpu-blocks-override 9000").num_gpu_blocks == 9000
    assert make_settings(f"{LLAMA_70B} -tp 4").max_model_len == 131072


def test_auto_length_is_the_largest_that_fits() -> None:
    got = make_settings(f"{LLAMA_8B} --max-model-len auto", INFERENCE_SIM_GPU_MEMORY_GIB="24")
    assert got.max_model_len == got.num_gpu_blocks * got.block_size < 131072


@pytest.mark.parametrize(
    ("memory", "want"), [("180", (1024, 16384)), ("80", (1024, 8192)), ("24", (256, 2048))]
)
def test_batch_limits_follow_the_gpu_memory(memory: str, want: tuple[int, int]) -> None:
    got = make_settings("m --max-model-len 1024", INFERENCE_SIM_GPU_MEMORY_GIB=memory)
    assert (got.max_num_seqs, got.max_num_batched_tokens) == want


def test_api_key_comes_from_the_flag_before_the_environment() -> None:
    assert make_settings("m --api-key a b", VLLM_API_KEY="c").api_keys == ("a", "b")
    assert make_settings("m", VLLM_API_KEY="c").api_keys == ("c",)
    assert make_settings("m").api_keys == ()


def test_faults_come_from_the_environment_and_from_the_revision() -> None:
    got = make_settings(
        "m --revision fault-error_rate-0.5-crash-true", INFERENCE_SIM_FAULTS='{"slow": 3}'
    ).faults
    assert got.active() == {"error_rate": 0.5, "crash_after_seconds": 0.0, "slow": 3.0}
    assert make_settings("m --revision 5f0b02c75b57c5855da9ae460ce51323ea669d8a").faults.active() == {}
