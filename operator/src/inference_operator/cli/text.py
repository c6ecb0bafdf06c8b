"""Small texts: ages, untrusted strings, plurals."""

from __future__ import annotations

import unicodedata
from typing import Final

#: Overrides of the writing direction: they make a name look like another one.
_DIRECTIONS: Final = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def printable(text: str) -> str:
    """What others wrote, without what a terminal would obey: escape sequences, carriage returns, directions.

    Newlines and tabs stay.
    """
    return "".join(
        "\ufffd"
        if (unicodedata.category(char) == "Cc" and char not in "\n\t") or char in _DIRECTIONS
        else char
        for char in text
    )


def one_line(text: str) -> str:
    """The same in one line."""
    return printable(" ".join(text.split()))


def age(seconds: float) -> str:
    """As kubectl shows it: 45s, 12m, 3h, 2d."""
    seconds = max(0, int(seconds))
    for limit, size, unit in ((120, 1, "s"), (7_200, 60, "m"), (172_800, 3_600, "h")):
        if seconds < limit:
            return f"{seconds // size}{unit}"
    return f"{seconds // 86_400}d"


def some(count: int, noun: str) -> str:
    """1 engine, 2 engines."""
    return f"{count} {noun}" + ("" if count == 1 else "s")
