"""Tokens of the simulated model: how a prompt is counted and what is answered to it."""

import zlib
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, Final

Prompt = str | list[int]

# English text is close to four characters a token.
CHARACTERS_PER_TOKEN: Final = 4
VOCABULARY_SIZE: Final = 128_256

# 128 words of one syllable: answers can be told apart at a glance and mean nothing.
_WORDS: Final = tuple(
    onset + rime for onset in "bdfghklmnprstvwz" for rime in ("a", "en", "il", "o", "ur", "as", "e", "im")
)


def count(prompt: Prompt) -> int:
    """Number of tokens of a prompt, at least 1 (the beginning-of-text token)."""
    return max(1, len(prompt) if isinstance(prompt, list) else -(-len(prompt) // CHARACTERS_PER_TOKEN))


def token_ids(prompt: str) -> list[int]:
    """The prompt as token numbers; equal pieces of text have equal numbers."""
    pieces = (prompt[at : at + CHARACTERS_PER_TOKEN] for at in range(0, len(prompt), CHARACTERS_PER_TOKEN))
    return [zlib.crc32(piece.encode()) % VOCABULARY_SIZE for piece in pieces]


def block_keys(prompt: Prompt, block_size: int) -> list[int]:
    """One key per full block of the prompt; a key stands for its block and everything before it."""
    step = block_size if isinstance(prompt, list) else block_size * CHARACTERS_PER_TOKEN
    keys: list[int] = []
    key = 0
    for at in range(0, len(prompt) - step + 1, step):
        piece = prompt[at : at + step]
        key = hash((key, piece if isinstance(piece, str) else tuple(piece)))
        keys.append(key)
    return keys


def chat_prompt(messages: list[dict[str, Any]]) -> str:
    """Flatten chat messages the way a chat template does; parts that are not text count as nothing."""
    lines = []
    for message in messages:
        content = message.get("content") or ""
        if isinstance(content, list):
            content = "".join(part.get("text", "") for part in content if isinstance(part, dict))
        lines.append(f"<|{message.get('role', 'user')}|>\n{content}\n")
    return "".join(lines) + "<|assistant|>\n"


def answer(seed: int, prompt: Prompt, *, wrong: bool = False) -> Iterator[str]:
    """The endless answer to a prompt, one token of text at a time.

    The same (seed, prompt) gives the same text in every process, so that a probe can compare engines. With
    `wrong` it is another text, as of a damaged checkpoint.
    """
    raw = prompt if isinstance(prompt, str) else ",".join(map(str, prompt))
    state = int.from_bytes(blake2b(f"{seed}|{wrong}|{raw}".encode(), digest_size=8).digest(), "big")
    glue = ""
    while True:
        # Knuth's MMIX generator; its high bits are the good ones.
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        yield glue + _WORDS[(state >> 40) % len(_WORDS)]
        glue = " "
