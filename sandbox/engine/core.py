"""The engine core: continuous batching with a FIFO queue, chunked prefill, KV blocks and preemption.

One step is one timer. A step gives every running request one token (or a piece of its prefill) and takes

    slow x (token_seconds x (1 + batch_growth x (running - 1)) + prefill tokens / prefill_tokens_per_second)

With nothing to do there is no timer, so an idle engine takes no CPU. Statistics are published at the end of
a step, as in vLLM: a core that hangs leaves its gauges as they were.
"""

import asyncio
from collections import deque

from sandbox.engine.kv_cache import KVCache
from sandbox.engine.request import FinishReason, Request
from sandbox.engine.settings import Settings
from sandbox.engine.stats import Stats


class QueueFullError(Exception):
    """The waiting queue is at its limit; `reason` is the label of vllm:admission_rejections_total."""

    def __init__(self, reason: str, limit: int) -> None:
        super().__init__(f"The engine queue is full: {reason} is {limit}. Try again later.")
        self.reason = reason


class EngineDeadError(Exception):
    """The engine core is gone and the process is about to follow."""

    def __init__(self) -> None:
        super().__init__("EngineCore encountered an issue. See stack trace (above) for the root cause.")


class EngineCore:
    """The scheduler and the simulated GPU behind it. Runs on the event loop it is used from."""

    def __init__(self, settings: Settings, stats: Stats) -> None:
        self._settings = settings
        self._stats = stats
        self._loop = asyncio.get_running_loop()
        self._cache = KVCache(
            settings.num_gpu_blocks, settings.block_size, prefix_caching=settings.prefix_caching
        )
        self._running: list[Request] = []
        self._waiting: deque[Request] = deque()
        self._step: asyncio.TimerHandle | None = None
        self._frozen = False
        self.slow = 1.0
        self.dead = False

    @property
    def unfinished(self) -> int:
        """Requests running or queued."""
        return len(self._running) + len(self._waiting)

    def submit(self, request: Request) -> None:
        """Queue a request; raises QueueFullError or EngineDeadError."""
        if self.dead:
            raise EngineDeadError
        self._admit(request)
        request.arrived = self._loop.time()
        self._waiting.append(request)
        self._wake()

    def abort(self, request: Request) -> None:
        """Drop a request whose client has left; no-op when it is over already."""
        if request.finish_reason is not None:
            return
        if request in self._running:
            self._running.remove(request)
        elif request in self._waiting:
            self._waiting.remove(request)
        self._end(request, FinishReason.ABORT)
        if not self._frozen:
            self._publish()

    def freeze(self) -> None:
        """Stop the core as SIGSTOP does: requests are taken in, and nothing comes out."""
        self._frozen = True
        self._cancel_step()

    def thaw(self) -> None:
        """Let a frozen core go on."""
        self._frozen = False
        self._wake()

    def kill(self) -> None:
        """End the core: every request fails, new ones are refused."""
        self.dead = True
        self._cancel_step()
        for request in [*self._running, *self._waiting]:
            self._end(request, FinishReason.ERROR)
        self._running.clear()
        self._waiting.clear()

    def _admit(self, request: Request) -> None:
        settings = self._settings
        # A request that finds a free seat is not queued: it waits for the next step only.
        queued = len(self._waiting) - (settings.max_num_seqs - len(self._running))
        limit = settings.max_queued_requests
        if limit is not None and queued >= limit:
            self._stats.rejected("max_num_queued_reqs")
            raise QueueFullError("max_num_queued_reqs", limit)
        limit = settings.max_queued_tokens
        if limit is None or queued < 0:
            return
        if sum(waiting.prompt_tokens for waiting in self._waiting) + request.prompt_tokens > limit:
            self._stats.rejected("max_num_queued_tokens")
            raise QueueFullError("max_num_queued_tokens", limit)

    def _wake(self) -> None:
        if self._step is None and self.unfinished and not (self._frozen or self.dead):
            self._start_step()

    def _cancel_step(self) -> None:
        if self._step is not None:
            self._step.cancel()
            self._step = None

    def _start_step(self) -> None:
        """Choose the work of the next step within the token budget: running requests, then the queue."""
        budget = self._settings.max_num_batched_tokens
        work: list[tuple[Request, int]] = []
        prefill = 0
        queued = len(self._waiting)
        for request in list(self._running):
            if budget <= 0 or not request.blocks:
                continue
            tokens = min(max(1, request.prefill_left), budget)
            if self._grow(request, tokens):
                work.append((request, tokens))
                budget -= tokens
                prefill += tokens if request.prefill_left > 1 else 0
        # Blocks were short if the queue grew: whoever was sent back to it must not return in the same step.
        short = len(self._waiting) > queued
        while self._waiting and not short and len(self._running) < self._settings.max_num_seqs and budget > 0:
            tokens = self._start_request(self._waiting[0], budget)
            if not tokens:
                break
            request = self._waiting.popleft()
            self._running.append(request)
            work.append((request, tokens))
            budget -= tokens
            prefill += tokens
        work = [(request, tokens) for request, tokens in work if request.blocks]
        seconds = self._settings.token_seconds * (1 + self._settings.batch_growth * max(0, len(work) - 1))
        seconds += prefill / self._settings.prefill_tokens_per_second
        self._publish()
        self._step = self._loop.call_later(seconds * self.slow, self._finish_step, work)

    def _start_request(self, request: Request, budget: int) -> int:
        """Tokens to compute first for a queued request; 0 when there are no blocks for them."""
        cached = self._cache.match(request.block_keys, request.prompt_tokens)
        tokens = min(request.prompt_tokens + request.generated - cached, budget)
        blocks = self._cache.resize(0, cached + tokens)
        if blocks is None:
            return 0
        request.blocks, request.computed = blocks, cached
        if request.scheduled is None:
            request.cached = cached
            request.scheduled = self._loop.time()
            self._stats.admitted(request)
        return tokens

    def _grow(self, request: Request, tokens: int) -> bool:
        """Get blocks for a running request, by sending the youngest ones back to the queue if need be."""
        while True:
            blocks = self._cache.resize(request.blocks, request.computed + tokens)
            if blocks is not None:
                request.blocks = blocks
                return True
            victim = self._running.pop()
            self._cache.release(victim.blocks)
            victim.blocks = victim.computed = 0
            victim.preemptions += 1
            self._waiting.appendleft(victim)
            self._stats.preempted()
            if victim is request:
                return False

    def _finish_step(self, work: list[tuple[Request, int]]) -> None:
        now = self._loop.time()
        self._step = None
        step_tokens = 0
        for request, tokens in work:
            if request.finish_reason is not None:
                continue
            step_tokens += tokens
            request.computed += tokens
            if request.prefill_left == 0:
                self._emit(request, now)
        self._stats.step(step_tokens)
        if self.unfinished:
            self._start_step()
        else:
            self._publish()

    def _emit(self, request: Request, now: float) -> None:
        if request.generated == 0:
            self._cache.remember(request.block_keys)
        request.generated += 1
        self._stats.token(request, now)
        if request.generated >= request.limit:
            self._running.remove(request)
            self._end(request, request.end)
        else:
            request.news.set()

    def _end(self, request: Request, reason: FinishReason) -> None:
        self._cache.release(request.blocks)
        request.blocks = 0
        self._stats.finished(request, reason, self._loop.time())
        request.finish(reason)

    def _publish(self) -> None:
        self._stats.gauges(len(self._running), len(self._waiting), self._cache.usage)
