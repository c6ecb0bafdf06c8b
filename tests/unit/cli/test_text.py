"""Ages, and what is taken out of foreign text."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_operator.cli.text import age, one_line, printable


@pytest.mark.parametrize(
    ("seconds", "want"),
    [
        (-5, "0s"),
        (0, "0s"),
        (119.9, "119s"),
        (120, "2m"),
        (7_199, "119m"),
        (7_200, "2h"),
        (172_799, "47h"),
        (172_800, "2d"),
    ],
)
def test_ages_are_short(seconds: float, want: str) -> None:
    assert age(seconds) == want


@given(st.text())
def test_no_control_character_gets_through(text: str) -> None:
    assert all(unicodedata.category(char) != "Cc" or char in "\n\t" for char in printable(text))
    assert len(printable(text)) == len(text)
    assert "\n" not in one_line(text)


def test_letters_of_every_script_stay() -> None:
    assert printable("Grüße, 世界 👩‍💻\n\tשלום") == "Grüße, 世界 👩‍💻\n\tשלום"


def test_text_that_is_written_backwards_is_seen() -> None:
    assert printable("a\u202eb") == "a\ufffdb"
