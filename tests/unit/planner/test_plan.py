"""Plans: the command line word by word, and what holds for every spec."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_operator.api.parse import parse_spec
from inference_operator.api.v1alpha1 import InferenceClusterSpec
from inference_operator.core.model import Plan
from inference_operator.planner.catalogue import gpus, models
from inference_operator.planner.flags import flag_table, known_versions
from inference_operator.planner.plan import DEFAULT_VERSION, make_plan
from inference_operator.planner.reserved import flag_reason
from tests.data.bad_input import samples

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


def spec(**fields: Any) -> InferenceClusterSpec:
    parsed = parse_spec({"model": {"id": LLAMA}} | fields)
    assert isinstance(parsed, InferenceClusterSpec), parsed
    return parsed


def plan(**fields: Any) -> Plan:
    made = make_plan(spec(**fields))
    assert isinstance(made, Plan), made
    return made


def test_the_smallest_spec() -> None:
    made = plan()
    assert made.args == (
        *(LLAMA, "--served-model-name", LLAMA, "--host", "0.0.0.0", "--port", "8000"),
        *("--tensor-parallel-size", "1", "--max-num-seqs", "64", "--shutdown-timeout", "300"),
    )
    assert made.image == "vllm/vllm-openai:v0.32.0"
    assert (made.accelerator, made.gpu_products, made.resource_name) == (None, (), "nvidia.com/gpu")
    assert (made.tensor, made.gpus, made.max_concurrency, made.context_length) == (1, 1, 64, 131072)


def test_the_fullest_spec() -> None:
    made = make_plan(InferenceClusterSpec.model_validate_json(json.dumps(samples()["full.yaml"])))
    assert isinstance(made, Plan), made
    revision = "1605565b47bb9346c5515c34102e054115b4f98b"
    assert made.args == (
        *("example-org/Llama-3.1-70B-finetuned", "--served-model-name", "llama-70b"),
        *("--host", "0.0.0.0", "--port", "8000", "--tensor-parallel-size", "4", "--max-num-seqs", "128"),
        *("--max-model-len", "32768", "--revision", revision, "--shutdown-timeout", "600"),
        "--enable-prefix-caching",
    )
    assert made.image == "registry.example.com/vllm/vllm-openai:v0.32.0"
    assert made.gpu_products == ("NVIDIA-H100-80GB-HBM3",)
    assert made.context_length == 32768


def test_weights_on_a_volume_are_served_from_its_path_without_a_revision() -> None:
    source = {"persistentVolumeClaim": {"claimName": "models", "path": "llama/8b"}}
    made = plan(model={"id": LLAMA, "revision": "main", "source": source})
    assert made.args[:3] == ("/models/llama/8b", "--served-model-name", LLAMA)
    assert "--revision" not in made.args


@pytest.mark.parametrize(
    ("argument", "tokens"),
    [("--max-model-len=8k", 8000), ("--max-model-len=8K", 8192), ("--max-model-len=auto", None)],
)
def test_a_context_length_by_argument_is_understood(argument: str, tokens: int | None) -> None:
    assert plan(engine={"args": [argument]}).context_length == tokens


def test_a_stretched_context_is_the_users_own_word() -> None:
    made = plan(
        model={"id": LLAMA, "contextLength": 262144},
        engine={"args": ['--hf-overrides={"rope_parameters": {"factor": 2}}']},
    )
    assert made.context_length == 262144


def test_the_users_concurrency_takes_the_place_of_the_default() -> None:
    made = plan(engine={"args": ["--enforce-eager", "--max-num-seqs", "200"]})
    assert made.max_concurrency == 200
    assert made.args.count("--max-num-seqs") == 1
    assert made.args[-1] == "--enforce-eager"


def test_copied_kv_heads_are_explained() -> None:
    made = plan(model={"id": "Qwen/Qwen2.5-7B-Instruct"}, parallelism={"tensor": 4})
    assert not [reason for reason in made.reasons if "KV heads" in reason]
    made = plan(model={"id": "Qwen/Qwen3-30B-A3B"}, parallelism={"tensor": 8})
    assert "tensor 8 is above the model's 4 KV heads: the KV cache is kept 2 times" in " ".join(made.reasons)


@pytest.mark.parametrize("model", sorted(models()))
@pytest.mark.parametrize("tensor", [1, 2, 3, 4, 5, 6, 7, 8])
def test_a_layout_is_planned_exactly_if_it_divides_the_heads(model: str, tensor: int) -> None:
    shape = models()[model]
    made = make_plan(spec(model={"id": model}, parallelism={"tensor": tensor}))
    fits = shape.heads % tensor == 0 and (
        shape.latent_attention or shape.kv_heads % tensor == 0 or tensor % shape.kv_heads == 0
    )
    assert isinstance(made, Plan) is fits
    if isinstance(made, Plan):
        assert made.gpus == tensor


@pytest.mark.parametrize("name", sorted(gpus()))
def test_every_accelerator_has_product_labels(name: str) -> None:
    assert all(product.startswith("NVIDIA-") for product in plan(accelerator={"type": name}).gpu_products)
    assert plan(accelerator={"type": name}).gpu_products


NAMES = st.sampled_from(
    [*flag_table((0, 32)).flags, *flag_table((0, 32)).short, "--nonsense", "-O3", "word", "-1"]
)
ARGUMENTS = st.lists(
    st.one_of(NAMES, st.builds(lambda n, v: f"{n}={v}", NAMES, st.sampled_from(["", "1", "x", "a=b"]))),
    max_size=6,
)


@given(args=ARGUMENTS)
def test_any_arguments_give_a_plan_or_problems_and_never_a_reserved_flag(args: list[str]) -> None:
    made = make_plan(spec(engine={"args": [item for item in args if item]}))
    if not isinstance(made, Plan):
        assert all(problem.field.startswith("spec.") and problem.message for problem in made)
        return
    own = make_plan(spec())
    assert isinstance(own, Plan)
    theirs = made.args[len(own.args) :]
    table = flag_table((0, 32))
    for item in theirs:
        name = item.split("=")[0].replace("_", "-")
        assert flag_reason(table.short.get(name, name)) is None


def test_sixteen_wrong_flags_are_judged_quickly() -> None:
    """Planning runs on the event loop; comparing all of them with all flags once took three seconds."""
    bad = spec(engine={"args": [f"--{'max-num-batched-tokens-' * 10}{index}" for index in range(16)]})
    make_plan(bad)
    started = time.thread_time()
    problems = make_plan(bad)
    assert time.thread_time() - started < 0.25
    assert isinstance(problems, tuple)
    assert ["nearest" in problem.message for problem in problems] == [True] * 3 + [False] * 13


@pytest.mark.parametrize("minor", range(known_versions()[0][1], known_versions()[1][1] + 1))
def test_what_the_operator_renders_exists_in_every_supported_version(minor: int) -> None:
    table = flag_table((0, minor))
    made = plan(
        engine={"version": f"0.{minor}.0"}, model={"id": LLAMA, "revision": "main", "contextLength": 4096}
    )
    flags = [item for item in made.args if item.startswith("--")]
    assert len(flags) == 8
    assert all(flag in table.flags for flag in flags)


def test_the_default_version_is_one_whose_choices_are_known() -> None:
    _, minor, _ = DEFAULT_VERSION.split(".")
    assert flag_table((0, int(minor))).flags["--dtype"].choices


def test_the_data_is_found_in_the_package() -> None:
    """The wheel carries planner/data: nothing is read relative to the working directory."""
    import inference_operator.planner as planner

    folder = Path(planner.__path__[0]) / "data"
    assert {p.name for p in folder.iterdir()} == {"README.md", "gpus.json", "models.json", "vllm_flags.json"}
