"""Batching, queueing, KV blocks and preemption, on a real event loop with steps of 1-2 ms."""

import asyncio

import pytest

from sandbox.engine import stats, text
from sandbox.engine.core import EngineCore, EngineDeadError, QueueFullError
from sandbox.engine.kv_cache import KVCache
from sandbox.engine.metrics import Metrics
from sandbox.engine.request import FinishReason, Request
from tests.unit.engine_sim.conftest import make_settings


def make_core(command_line: str = "tiny", **env: str) -> tuple[EngineCore, Metrics]:
    wanted = make_settings(command_line, **env)
    metrics = Metrics("tiny", stats.cache_config_labels(wanted))
    return EngineCore(wanted, stats.Stats(metrics)), metrics


def make_request(tokens: int = 4, prompt_tokens: int = 8, name: str = "x") -> Request:
    prompt = name * (prompt_tokens * text.CHARACTERS_PER_TOKEN)
    return Request(
        prompt=prompt,
        prompt_tokens=prompt_tokens,
        limit=tokens,
        end=FinishReason.LENGTH,
        max_tokens=tokens,
        tokens=text.answer(0, prompt),
        block_keys=text.block_keys(prompt, 16),
    )


async def finish(*requests: Request) -> None:
    async with asyncio.timeout(5):
        for request in requests:
            await request.done.wait()


async def test_requests_over_the_batch_limit_wait_in_order() -> None:
    core, metrics = make_core("tiny --max-num-seqs 2")
    requests = [make_request(name=name) for name in "abcd"]
    for request in requests:
        core.submit(request)
    await requests[0].news.wait()
    assert metrics.get("vllm:num_requests_running") == 2
    assert metrics.get("vllm:num_requests_waiting") == 2
    assert metrics.get("vllm:num_requests_waiting_by_reason", "capacity") == 2
    await finish(*requests)
    assert metrics.get("vllm:num_requests_running") == metrics.get("vllm:num_requests_waiting") == 0
    assert requests[0].first_token < requests[2].first_token
    assert requests[1].last_token <= requests[2].first_token
    assert [request.generated for request in requests] == [4] * 4


async def test_an_idle_core_has_no_timer() -> None:
    core, _ = make_core()
    request = make_request()
    core.submit(request)
    await finish(request)
    assert core._step is None
    assert core.unfinished == 0


async def test_a_bigger_batch_makes_slower_steps() -> None:
    async def seconds(batch: int) -> float:
        core, _ = make_core(INFERENCE_SIM_BATCH_GROWTH="1")
        requests = [make_request(tokens=10, name=str(number)) for number in range(batch)]
        for request in requests:
            core.submit(request)
        await finish(*requests)
        return requests[0].last_token - requests[0].first_token

    # Nine steps of 2 ms alone, of 2 x (1 + 4) ms in a batch of five; timers only ever fire late.
    assert await seconds(5) >= 9 * 0.010 - 0.001
    assert await seconds(1) >= 9 * 0.002 - 0.001


async def test_prefill_takes_time_and_is_cut_to_the_token_budget() -> None:
    core, metrics = make_core(
        "tiny --max-num-batched-tokens 100", INFERENCE_SIM_PREFILL_TOKENS_PER_SECOND="10000"
    )
    request = make_request(tokens=1, prompt_tokens=350)
    core.submit(request)
    await finish(request)
    assert request.first_token - request.arrived >= 0.035
    assert metrics.histogram("vllm:iteration_tokens_total").counts[5] == 3  # 64 < 100 <= 128
    assert metrics.histogram("vllm:iteration_tokens_total").total == 350


async def test_a_known_prefix_is_not_computed_again() -> None:
    core, metrics = make_core()
    for hits in (0, 32):
        request = make_request(prompt_tokens=40)
        core.submit(request)
        await finish(request)
        assert request.cached == hits
    assert metrics.get("vllm:prefix_cache_queries_total") == 80
    assert metrics.get("vllm:prompt_tokens_by_source_total", "local_cache_hit") == 32
    assert metrics.get("vllm:prompt_tokens_by_source_total", "local_compute") == 48


async def test_when_blocks_run_out_the_youngest_request_is_preempted_and_finishes_later() -> None:
    core, metrics = make_core(
        "tiny --max-model-len 64 --num-gpu-blocks-override 4 --no-enable-prefix-caching"
    )
    old, young = make_request(tokens=40, name="a"), make_request(tokens=40, name="b")
    core.submit(old)
    core.submit(young)
    await finish(old, young)
    assert (old.preemptions, old.generated, young.generated) == (0, 40, 40)
    assert young.preemptions >= 1
    assert metrics.get("vllm:num_preemptions_total") == young.preemptions
    assert metrics.get("vllm:kv_cache_usage_perc") == 0


async def test_cache_usage_is_the_share_of_blocks_in_use() -> None:
    core, metrics = make_core("tiny --max-model-len 160 --num-gpu-blocks-override 10")
    request = make_request(tokens=20, prompt_tokens=40)
    core.submit(request)
    await request.news.wait()
    assert metrics.get("vllm:kv_cache_usage_perc") == pytest.approx(0.3)


async def test_an_aborted_request_frees_its_place() -> None:
    core, metrics = make_core("tiny --max-num-seqs 1")
    first, second = make_request(tokens=100_000, name="a"), make_request(name="b")
    core.submit(first)
    core.submit(second)
    await first.news.wait()
    core.abort(first)
    await finish(second)
    core.abort(second)
    assert metrics.get("vllm:request_success_total", "abort") == 1
    assert metrics.get("vllm:request_success_total", "length") == 1
    assert metrics.get("vllm:kv_cache_usage_perc") == 0


@pytest.mark.parametrize("flag", ["--max-num-queued-reqs 1", "--max-num-queued-tokens 10"])
async def test_a_full_queue_refuses(flag: str) -> None:
    core, metrics = make_core(f"tiny --max-num-seqs 1 {flag}")
    core.submit(make_request(name="a"))
    core.submit(make_request(name="b"))
    with pytest.raises(QueueFullError):
        core.submit(make_request(name="c"))
    assert metrics.get("vllm:admission_rejections_total", flag.split()[0][2:].replace("-", "_")) == 1


async def test_a_frozen_core_leaves_its_gauges_and_goes_on_when_thawed() -> None:
    core, metrics = make_core()
    core.freeze()
    request = make_request()
    core.submit(request)
    await asyncio.sleep(0.02)
    assert request.generated == 0
    assert metrics.get("vllm:num_requests_running") == metrics.get("vllm:num_requests_waiting") == 0
    core.thaw()
    await finish(request)


async def test_a_dead_core_fails_what_it_had_and_refuses_more() -> None:
    core, _ = make_core("tiny --max-num-seqs 1")
    requests = [make_request(name="a"), make_request(name="b")]
    for request in requests:
        core.submit(request)
    core.kill()
    assert [request.finish_reason for request in requests] == [FinishReason.ERROR] * 2
    with pytest.raises(EngineDeadError):
        core.submit(make_request())


def test_the_prefix_memory_is_bounded_and_forgets_the_longest_unused() -> None:
    cache = KVCache(blocks=3, block_size=16, prefix_caching=True)
    cache.remember([1, 2, 3])
    assert cache.match([1], 100) == 16
    cache.remember([4])
    assert cache.match([2], 100) == 0
    assert cache.match([1], 100) == 16


def test_answers_depend_on_seed_and_prompt_alone() -> None:
    def start(seed: int, prompt: text.Prompt, *, wrong: bool = False) -> str:
        tokens = text.answer(seed, prompt, wrong=wrong)
        return "".join(next(tokens) for _ in range(8))

    # A literal: it must be the same in every process and on every machine.
    assert start(0, "hello") == "tim gas re lim dur te we pe"
    assert (
        len(
            {
                start(0, "hello"),
                start(1, "hello"),
                start(0, "hallo"),
                start(0, [1, 2]),
                start(0, "hello", wrong=True),
            }
        )
        == 5
    )
