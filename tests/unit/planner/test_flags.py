"""Argument lists are grouped as the engine's own parser groups them."""

import pytest

from inference_operator.planner.catalogue import gpu_of_product, nearest_first
from inference_operator.planner.flags import flag_table, known_versions, split_args

TABLE = flag_table((0, 32))

CASES = [
    (["--seed=1"], [("--seed", "", False, ["1"])]),
    (["--seed", "1"], [("--seed", "", False, ["1"])]),
    (["--max_num_seqs", "1"], [("--max-num-seqs", "", False, ["1"])]),
    (["-tp", "2"], [("--tensor-parallel-size", "", False, ["2"])]),
    (["-tp=2"], [("--tensor-parallel-size", "", False, ["2"])]),
    (["-q", "fp8"], [("--quantization", "", False, ["fp8"])]),
    (["-O3"], [("--optimization-level", "", False, ["3"])]),
    (["-O=2"], [("--optimization-level", "", False, ["2"])]),
    (["--no-enable-prefix-caching"], [("--enable-prefix-caching", "", True, [])]),
    (["--no_enable_prefix_caching"], [("--enable-prefix-caching", "", True, [])]),
    (["--compilation-config.mode=3"], [("--compilation-config", "mode", False, ["3"])]),
    (["-cc.cudagraph_mode", "FULL"], [("--compilation-config", "cudagraph_mode", False, ["FULL"])]),
    (["--max-logprobs", "-1"], [("--max-logprobs", "", False, ["-1"])]),
    (["--max-logprobs=-1"], [("--max-logprobs", "", False, ["-1"])]),
    (['--hf-overrides={"a": "b=c"}'], [("--hf-overrides", "", False, ['{"a": "b=c"}'])]),
    (
        ["--lora-modules", "a=/x", "b=/y", "--enable-lora"],
        [("--lora-modules", "", False, ["a=/x", "b=/y"]), ("--enable-lora", "", False, [])],
    ),
    (["--unheard-of", "4"], [("--unheard-of", "", False, ["4"])]),
]


@pytest.mark.parametrize(("args", "expected"), CASES, ids=[" ".join(args) for args, _ in CASES])
def test_grouping(args: list[str], expected: list[tuple[str, str, bool, list[str]]]) -> None:
    given, stray = split_args(args, TABLE)
    assert [(one.name, one.key, one.negated, one.values) for one in given] == expected
    assert stray == []
    assert [item for one in given for item in one.items] == args


@pytest.mark.parametrize(
    ("args", "index"),
    [(["x"], 0), (["--enforce-eager", "true"], 1), (["--seed=1", "2"], 1), (["--seed", "1", "2"], 2)],
)
def test_what_belongs_to_no_flag(args: list[str], index: int) -> None:
    _, stray = split_args(args, TABLE)
    assert stray == [(index, args[index])]


def test_flags_come_and_go_with_versions() -> None:
    """Read from the wheels; the facts agree with the release notes of those versions."""
    assert "--max-num-queued-reqs" not in flag_table((0, 28)).flags
    assert "--max-num-queued-reqs" in flag_table((0, 29)).flags
    assert "--calculate-kv-scales" in flag_table((0, 27)).flags
    assert flag_table((0, 28)).elsewhere["--calculate-kv-scales"] == "was removed after 0.27"
    assert flag_table((0, 28)).elsewhere["--watchdog-config"] == "exists since 0.33"
    assert known_versions() == ((0, 18), (0, 33))


def test_the_table_of_the_default_version_is_complete() -> None:
    flags = TABLE.flags.values()
    assert len(flags) == 317
    assert len(flags) + sum(flag.negatable for flag in flags) + 1 == 406, "with --no- twins and --help"


def test_choices_are_enforced_only_where_they_are_known() -> None:
    assert "auto" in TABLE.flags["--dtype"].choices
    assert flag_table((0, 31)).flags["--dtype"].choices == ()


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("NVIDIA-H100-80GB-HBM3", "H100"),
        ("NVIDIA-H100-80GB-HBM3-SHARED", "H100"),
        ("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", "H100"),
        ("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb.me-SHARED", "H100"),
        ("NVIDIA-H200-141GB-HBM3", "H200"),
        ("NVIDIA-H100-PCIe", "H100-PCIe"),
        ("NVIDIA-L4", "L4"),
        ("NVIDIA-L40", None),
        ("Tesla-T4", None),
    ],
)
def test_gpus_are_known_by_their_product_label(label: str, name: str | None) -> None:
    gpu = gpu_of_product(label)
    assert (gpu.name if gpu else None) == name


def test_nearest_first() -> None:
    assert nearest_first("h100", ["L4", "H200", "H100"])[0] == "H100"
