"""An engine's metrics page -> the few figures that are used. Pure.

Names differ between engines and versions, so each figure has several; what the page has, counts, the first of
the list if it has two. An engine with several data-parallel ranks shows a series for each: they are added up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final

from prometheus_client.parser import text_string_to_metric_families


@dataclass(frozen=True)
class Counters:
    """What only grows, until the engine starts again. Tokens, seconds, requests."""

    prompt_tokens: float = 0.0
    #: Of those, the ones that were in the cache.
    cached_tokens: float = 0.0
    generation_tokens: float = 0.0
    #: Time to first token: sum and number of requests.
    ttft_sum: float = 0.0
    ttft_count: float = 0.0
    #: Time per output token after the first, one value a request.
    tpot_sum: float = 0.0
    tpot_count: float = 0.0

    def __add__(self, other: Counters) -> Counters:
        return Counters(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def since(self, before: Counters) -> Counters:
        """What was counted since then. A smaller number means a new start: all of it is new (acceptance M4).

        Never negative, never more than what stands there now.
        """
        pairs = [(getattr(self, f.name), getattr(before, f.name)) for f in fields(self)]
        if any(now < then for now, then in pairs):
            return self
        return Counters(*(now - then for now, then in pairs))


@dataclass(frozen=True)
class Page:
    """One look at an engine."""

    counters: Counters
    #: Requests in the batch and in the engine's own queue; None = it doesn't say.
    running: float | None
    waiting: float | None


#: Field of Counters -> names of samples, newest vLLM first, then TensorRT-LLM.
_COUNTERS: Final[Mapping[str, tuple[str, ...]]] = {
    "prompt_tokens": ("vllm:prompt_tokens_total", "trtllm_prompt_tokens_total"),
    "cached_tokens": ("vllm:prompt_tokens_cached_total",),
    "generation_tokens": ("vllm:generation_tokens_total", "trtllm_generation_tokens_total"),
    "ttft_sum": ("vllm:time_to_first_token_seconds_sum", "trtllm_time_to_first_token_seconds_sum"),
    "ttft_count": ("vllm:time_to_first_token_seconds_count", "trtllm_time_to_first_token_seconds_count"),
    # Until vLLM 0.15 the latency between tokens was called time_per_output_token.
    "tpot_sum": (
        "vllm:request_time_per_output_token_seconds_sum",
        "vllm:inter_token_latency_seconds_sum",
        "vllm:time_per_output_token_seconds_sum",
        "trtllm_time_per_output_token_seconds_sum",
    ),
    "tpot_count": (
        "vllm:request_time_per_output_token_seconds_count",
        "vllm:inter_token_latency_seconds_count",
        "vllm:time_per_output_token_seconds_count",
        "trtllm_time_per_output_token_seconds_count",
    ),
}
_RUNNING: Final = ("vllm:num_requests_running", "trtllm_num_requests_running")
_WAITING: Final = ("vllm:num_requests_waiting", "trtllm_num_requests_waiting")
_ALL: Final = frozenset(name for names in (*_COUNTERS.values(), _RUNNING, _WAITING) for name in names)


def read(text: str, before: Counters) -> Page:
    """`before`: what this engine's last page said, for figures that are missing on this one.

    Raises ValueError for what is no page of metrics, and for one without any figure that is known.
    """
    found = _samples(text)
    if not found:
        raise ValueError("the page has none of the engine's metrics")
    said = {key: _first(found, names) for key, names in _COUNTERS.items()}
    counters = {key: getattr(before, key) if value is None else value for key, value in said.items()}
    return Page(Counters(**counters), _first(found, _RUNNING), _first(found, _WAITING))


def _samples(text: str) -> dict[str, float]:
    """Sums by name. Of some 450 lines 20 are wanted, and the parser is slow: it gets no other."""
    wanted = (line for line in text.splitlines() if line.partition("{")[0].partition(" ")[0] in _ALL)
    found: dict[str, float] = {}
    for family in text_string_to_metric_families("\n".join(wanted) + "\n"):
        for sample in family.samples:
            # Only finite numbers can be added up and told on.
            if 0 <= sample.value < float("inf"):
                found[sample.name] = found.get(sample.name, 0.0) + sample.value
    return found


def _first(found: Mapping[str, float], names: tuple[str, ...]) -> float | None:
    return next((found[name] for name in names if name in found), None)
