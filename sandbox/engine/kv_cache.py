"""KV-cache blocks of one engine: who holds how many, and which prompt prefixes are still known."""

from collections import OrderedDict


class KVCache:
    """A pool of equal blocks. Prefixes only shorten the prefill: blocks are not shared between requests."""

    def __init__(self, blocks: int, block_size: int, *, prefix_caching: bool) -> None:
        self.blocks = blocks
        self.block_size = block_size
        self.free = blocks
        self._prefix_caching = prefix_caching
        self._known: OrderedDict[int, None] = OrderedDict()

    @property
    def usage(self) -> float:
        """Share of the blocks in use, 0..1."""
        return 1 - self.free / self.blocks

    def resize(self, held: int, tokens: int) -> int | None:
        """Blocks held after growing to `tokens`; None when the pool has too few, and nothing changes."""
        wanted = -(-tokens // self.block_size)
        if wanted - held > self.free:
            return None
        self.free -= wanted - held
        return wanted

    def release(self, held: int) -> None:
        """Give blocks back."""
        self.free += held

    def match(self, keys: list[int], prompt_tokens: int) -> int:
        """Tokens of the prompt that need no prefill; the last one is always computed, for its logits."""
        if not self._prefix_caching:
            return 0
        hits = 0
        for key in keys:
            if key not in self._known:
                break
            self._known.move_to_end(key)
            hits += 1
        return min(hits * self.block_size, prompt_tokens - 1)

    def remember(self, keys: list[int]) -> None:
        """Note the blocks of a prefilled prompt; the longest unused are forgotten first."""
        if not self._prefix_caching:
            return
        for key in keys:
            self._known[key] = None
            self._known.move_to_end(key)
        while len(self._known) > self.blocks:
            self._known.popitem(last=False)
