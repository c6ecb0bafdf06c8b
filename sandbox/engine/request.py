"""One generation request on its way through the engine."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from sandbox.engine.text import Prompt


class FinishReason(StrEnum):
    """Why a request ended; the values are those of vllm:request_success_total."""

    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"
    ERROR = "error"


@dataclass(eq=False, slots=True)
class Request:
    """State of one request. `limit` is how many tokens it will produce, times are of the loop's clock."""

    prompt: Prompt
    prompt_tokens: int
    limit: int
    end: FinishReason
    max_tokens: int | None
    tokens: Iterator[str]
    block_keys: list[int] = field(default_factory=list)

    # Set with every new token and at the end; the reader clears it.
    news: asyncio.Event = field(default_factory=asyncio.Event)
    done: asyncio.Event = field(default_factory=asyncio.Event)
    generated: int = 0
    finish_reason: FinishReason | None = None

    arrived: float = 0.0
    scheduled: float | None = None
    first_token: float = 0.0
    last_token: float = 0.0

    cached: int = 0
    computed: int = 0
    blocks: int = 0
    preemptions: int = 0
    _sent: int = 0

    @property
    def prefill_left(self) -> int:
        """Tokens to compute before the next one can be sampled; after a preemption the answer counts too."""
        return self.prompt_tokens + self.generated - self.computed

    def take_text(self) -> str:
        """Text of the tokens generated since the last call."""
        fresh, self._sent = self.generated - self._sent, self.generated
        return "".join(next(self.tokens) for _ in range(fresh))

    def finish(self, reason: FinishReason) -> None:
        """Mark the end and wake whoever reads."""
        self.finish_reason = reason
        self.news.set()
        self.done.set()
