"""The command that people can type as it stands, in any folder."""

from __future__ import annotations

import shlex
from pathlib import Path

_DOCUMENTED = "tools/sandbox"
_PATH = shlex.quote(str(Path(__file__).resolve().parent.parent / _DOCUMENTED))


def command(words: str = "") -> str:
    """`words` of the command line with the launcher before them, by its full path."""
    return f"{_PATH} {words}".rstrip()


def spelled_out(text: str) -> str:
    """The text with `tools/sandbox` as its full path."""
    return text.replace(_DOCUMENTED, _PATH)
