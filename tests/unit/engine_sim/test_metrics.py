"""The metrics page against the scrape of the real engine, and every metric under load."""

import asyncio
import re
from collections.abc import Callable
from typing import Any

from sandbox.engine import DATA_DIR, VLLM_VERSION
from sandbox.engine.metrics import Metrics
from sandbox.engine.stats import CONSTANT
from tests.unit.engine_sim.conftest import eventually, samples

PAGE = (DATA_DIR / f"vllm-{VLLM_VERSION}-metrics.txt").read_text()


def without_values(page: str) -> list[str]:
    return [line if line.startswith("#") else line.rsplit(" ", 1)[0] for line in page.splitlines()]


def test_names_types_labels_and_buckets_are_those_of_the_real_engine() -> None:
    assert without_values(Metrics("tiny", {}).render().decode()) == without_values(PAGE)


def test_the_model_name_is_escaped() -> None:
    assert 'model_name="a\\"b\\\\c"' in Metrics('a"b\\c', {}).render().decode()


def families() -> set[str]:
    names = re.findall(r"^# TYPE (vllm:\S+) ", PAGE, re.MULTILINE)
    return {
        name if name == "vllm:iteration_tokens_total" else name.removesuffix("_total")
        for name in names
        if not name.endswith("_created")
    }


async def test_every_metric_moves_under_load_or_is_listed_as_constant(engine: Callable[..., Any]) -> None:
    # 20 blocks for 4 running requests of 7 blocks each: they queue, are preempted, and one is turned away.
    running = await engine(
        "tiny --max-num-seqs 4 --max-model-len 256 --num-gpu-blocks-override 20 --max-num-queued-reqs 3"
    )
    seen: dict[str, set[float]] = {}

    async def watch() -> None:
        while True:
            for series, value in samples(running.metrics.render().decode()).items():
                seen.setdefault(series, set()).add(value)
            await asyncio.sleep(0.005)

    async def load(number: int) -> int:
        body = {"prompt": f"{'common prefix ' * 12}{number}", "max_tokens": 64}
        async with running.client.post("/v1/completions", json=body) as response:
            return response.status

    watcher = asyncio.create_task(watch())
    await asyncio.sleep(0.01)
    await load(0)
    running.core.freeze()
    calls = [asyncio.create_task(load(number)) for number in range(1, 9)]
    await eventually(lambda: running.core.unfinished == 7 and any(call.done() for call in calls))
    running.core.thaw()
    statuses = await asyncio.gather(*calls)
    await asyncio.sleep(0.01)
    watcher.cancel()

    assert sorted(statuses) == [200] * 7 + [503]
    moved = {
        re.sub(r"(_total|_bucket|_count|_sum)?(\{.*)?$", "", series)
        for series, values in seen.items()
        if len(values) > 1
    }
    moved = {"vllm:iteration_tokens_total" if name == "vllm:iteration_tokens" else name for name in moved}
    assert moved == families() - set(CONSTANT)


async def test_counts_add_up(engine: Callable[..., Any]) -> None:
    running = await engine("tiny --max-model-len 2048")
    await asyncio.gather(*(running.complete(f"prompt {number}", max_tokens=5) for number in range(10)))
    got = samples(running.metrics.render().decode())
    assert got["vllm:generation_tokens_total"] == 50
    assert got["vllm:prompt_tokens_total"] == 20
    assert got['vllm:request_success_total{finished_reason="length"}'] == 10
    assert got["vllm:time_to_first_token_seconds_count"] == 10
    assert got["vllm:inter_token_latency_seconds_count"] == 40
    assert got['vllm:request_generation_tokens_bucket{le="5.0"}'] == 10
    assert got['vllm:request_generation_tokens_bucket{le="2.0"}'] == 0
    assert got["vllm:request_params_max_tokens_sum"] == 50


async def test_the_cache_is_described_as_configured(engine: Callable[..., Any]) -> None:
    running = await engine("tiny --block-size 32 --num-gpu-blocks-override 2000 --max-model-len 1024")
    info = next(
        series for series in samples(running.metrics.render().decode()) if "cache_config_info" in series
    )
    for label in ('block_size="32"', 'num_gpu_blocks="2000"', 'kv_cache_size_tokens="64000"'):
        assert label in info
