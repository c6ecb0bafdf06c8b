"""The command line of `vllm serve`."""

import subprocess
import sys

import pytest

from sandbox.engine import cli
from tests.unit.engine_sim.conftest import ROOT


def parsed(command_line: str) -> dict[str, object]:
    return {
        name: value
        for name, value in vars(cli.parse_serve(command_line.split())).items()
        if value is not None
    }


@pytest.mark.parametrize(
    ("command_line", "name", "want"),
    [
        ("m --tensor-parallel-size 4", "tensor_parallel_size", 4),
        ("m --tensor-parallel-size=4", "tensor_parallel_size", 4),
        ("m -tp 4", "tensor_parallel_size", 4),
        ("m --tensor_parallel_size 4", "tensor_parallel_size", 4),
        ("m -O3", "optimization_level", "3"),
        ("m --max-model-len 32k", "max_model_len", 32_000),
        ("m --max-model-len 32K", "max_model_len", 32_768),
        ("m --max-model-len auto", "max_model_len", -1),
        ("m --max-model-len -1", "max_model_len", -1),
        ("m --enable-prefix-caching", "enable_prefix_caching", True),
        ("m --no-enable-prefix-caching", "enable_prefix_caching", False),
        ("m --served-model-name a b", "served_model_name", ["a", "b"]),
        ("m --moe-backend flashinfer-trtllm", "moe_backend", "flashinfer_trtllm"),
        ("m --max-num-queued-reqs 7", "max_num_queued_reqs", 7),
        ("m --kv-cache-memory-bytes 1G", "kv_cache_memory_bytes", 2**30),
        ('m --speculative-config {"method":"ngram"}', "speculative_config", {"method": "ngram"}),
        ("m --speculative-config.method ngram", "speculative_config", {"method": "ngram"}),
        ("m --eplb-config.window_size=10", "eplb_config", {"window_size": 10}),
        (
            "m --kv-transfer-config.kv_connector Nixl --kv-transfer-config.extra.list+ a,b "
            "--kv-transfer-config.extra.list+=c",
            "kv_transfer_config",
            {"kv_connector": "Nixl", "extra": {"list": ["a", "b", "c"]}},
        ),
    ],
)
def test_flag_is_read_as_vllm_reads_it(command_line: str, name: str, want: object) -> None:
    assert parsed(command_line)[name] == want


@pytest.mark.parametrize(
    ("command_line", "message"),
    [
        ("m --swap-space 4", "unrecognized arguments: --swap-space 4"),
        ("m --disable-log-requests", "unrecognized arguments: --disable-log-requests"),
        ("m --max-num-seqs many", "invalid int value: 'many'"),
        ("m --max-num-queued-reqs many", "invalid int value: 'many'"),
        ("m --kv-cache-dtype fp3", "invalid choice: 'fp3'"),
        ("m --max-lora-rank 7", "invalid choice: 7"),
        ("m --kv-transfer-config {broken", "argument --kv-transfer-config: invalid"),
        ("m --port", "argument --port: expected one argument"),
        ("m --speculative-config.method", "argument --speculative-config.method: expected one argument"),
        ("m --ssl-keyfile k.pem", "argument --ssl-keyfile: known to vLLM 0.32.0, not imitated"),
    ],
)
def test_wrong_arguments_end_with_code_2(
    command_line: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parsed(command_line)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_every_flag_of_the_real_parser_is_known() -> None:
    known = {name for action in cli.build_parser()._actions for name in action.option_strings}
    assert set(cli.load_flags()) <= known
    assert set(cli.SHORT_OPTIONS) <= set(cli.load_flags())


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["serve", "--help"], 0, "--tensor-parallel-size"),
        (["--help"], 0, "usage: vllm"),
        (["--version"], 0, "0.32.0"),
        (["bench"], 2, "usage: vllm"),
        (["serve", "m", "--nonsense"], 2, "vllm serve: error: unrecognized arguments: --nonsense"),
    ],
)
def test_command(arguments: list[str], code: int, text: str) -> None:
    command = [sys.executable, "-m", "sandbox.engine", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert text in done.stdout + done.stderr
