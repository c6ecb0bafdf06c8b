"""What happens in the engine, told to the metrics page under vLLM's names."""

from typing import Final

from sandbox.engine.metrics import Metrics
from sandbox.engine.request import FinishReason, Request
from sandbox.engine.settings import Settings

# Metrics the simulator never moves, and why. A test holds every other metric to move under load.
CONSTANT: Final = {
    "vllm:estimated_flops_per_gpu": "0 in vLLM without --enable-mfu-metrics",
    "vllm:estimated_read_bytes_per_gpu": "0 in vLLM without --enable-mfu-metrics",
    "vllm:estimated_write_bytes_per_gpu": "0 in vLLM without --enable-mfu-metrics",
    "vllm:engine_sleep_state": "always awake: sleep needs VLLM_SERVER_DEV_MODE",
    "vllm:external_prefix_cache_queries": "no KV connector is simulated",
    "vllm:external_prefix_cache_hits": "no KV connector is simulated",
    "vllm:mm_cache_queries": "text only",
    "vllm:mm_cache_hits": "text only",
    "vllm:cache_config_info": "an info metric: its labels speak, its value is 1",
}


def cache_config_labels(settings: Settings) -> dict[str, str]:
    """The labels of vllm:cache_config_info that follow from the settings; the rest stay as scraped."""
    tokens = settings.num_gpu_blocks * settings.block_size
    return {
        "block_size": str(settings.block_size),
        "effective_attention_block_size": str(settings.block_size),
        "cache_dtype": settings.kv_cache_dtype,
        "enable_prefix_caching": str(settings.prefix_caching),
        "gpu_memory_utilization": str(settings.gpu_memory_utilization),
        "kv_cache_memory_bytes": "None",
        "kv_cache_max_concurrency": str(tokens / settings.max_model_len),
        "kv_cache_size_tokens": str(tokens),
        "num_gpu_blocks": str(settings.num_gpu_blocks),
    }


class Stats:
    """One method per event of the core."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def admitted(self, request: Request) -> None:
        """A request was scheduled for the first time: its prompt is looked up in the prefix cache."""
        metrics = self._metrics
        metrics.inc("vllm:prefix_cache_queries_total", request.prompt_tokens)
        metrics.inc("vllm:prefix_cache_hits_total", request.cached)
        metrics.inc("vllm:prompt_tokens_cached_total", request.cached)
        metrics.inc("vllm:prompt_tokens_cached_by_source_total", request.cached, "device")

    def rejected(self, reason: str) -> None:
        """A request was refused by a queue limit."""
        self._metrics.inc("vllm:admission_rejections_total", 1, reason)

    def preempted(self) -> None:
        """A running request lost its blocks."""
        self._metrics.inc("vllm:num_preemptions_total")

    def step(self, tokens: int) -> None:
        """An engine step computed that many tokens."""
        self._metrics.histogram("vllm:iteration_tokens_total").observe(tokens)

    def token(self, request: Request, now: float) -> None:
        """A token was sampled; request.generated counts it already."""
        metrics = self._metrics
        metrics.inc("vllm:generation_tokens_total")
        if request.generated == 1:
            request.first_token = now
            metrics.inc("vllm:prompt_tokens_total", request.prompt_tokens)
            metrics.inc(
                "vllm:prompt_tokens_by_source_total", request.prompt_tokens - request.cached, "local_compute"
            )
            metrics.inc("vllm:prompt_tokens_by_source_total", request.cached, "local_cache_hit")
            metrics.histogram("vllm:time_to_first_token_seconds").observe(now - request.arrived)
        else:
            metrics.histogram("vllm:inter_token_latency_seconds").observe(now - request.last_token)
        request.last_token = now

    def finished(self, request: Request, reason: FinishReason, now: float) -> None:
        """A request ended. vLLM observes aborted ones too, with the times they had so far."""
        self._metrics.inc("vllm:request_success_total", 1, reason)
        scheduled = now if request.scheduled is None else request.scheduled
        first = request.first_token or now
        last = request.last_token or now
        per_token = (last - first) / (request.generated - 1) if request.generated > 1 else 0.0
        for name, value in (
            ("request_prompt_tokens", request.prompt_tokens),
            ("request_generation_tokens", request.generated),
            ("request_max_num_generation_tokens", request.limit),
            ("request_params_n", 1),
            ("request_time_per_output_token_seconds", per_token),
            ("e2e_request_latency_seconds", now - request.arrived),
            ("request_queue_time_seconds", scheduled - request.arrived),
            ("request_inference_time_seconds", last - scheduled),
            ("request_prefill_time_seconds", first - scheduled),
            ("request_decode_time_seconds", last - first),
            ("request_num_preemptions", request.preemptions),
            ("request_prefill_kv_computed_tokens", request.prompt_tokens - request.cached),
        ):
            self._metrics.histogram(f"vllm:{name}").observe(value)
        if request.max_tokens is not None:
            self._metrics.histogram("vllm:request_params_max_tokens").observe(request.max_tokens)

    def gauges(self, running: int, waiting: int, cache_usage: float) -> None:
        """Publish the state of the scheduler."""
        metrics = self._metrics
        metrics.set("vllm:num_requests_running", float(running))
        metrics.set("vllm:num_requests_waiting", float(waiting))
        metrics.set("vllm:num_requests_waiting_by_reason", float(waiting), "capacity")
        metrics.set("vllm:kv_cache_usage_perc", cache_usage)
