"""Retries follow the spread of engines over nodes."""

from __future__ import annotations

import pytest

from inference_operator.agent.topology import Retries, wanted
from tests.unit.agent.builders import engine


def on(*nodes: str):
    return tuple(engine(f"e{number}", node=node) for number, node in enumerate(nodes))


@pytest.mark.parametrize(
    ("nodes", "want"),
    [
        ("", 1),
        ("a", 1),
        ("ab", 1),
        ("aa", 1),
        ("abc", 1),
        ("aab", 3),
        ("aaab", 3),
        ("aaaab", 3),
        ("aaa", 3),
        ("aaaa", 3),
    ],
)
def test_enough_for_a_lost_node_and_no_more(nodes: str, want: int):
    assert wanted(on(*nodes)) == want


def test_draining_engines_don_t_count():
    assert wanted((engine("e0"), engine("e1", draining=True), engine("e2", node="n1"))) == 1


def test_a_rise_applies_at_once_and_a_fall_only_when_it_lasts():
    retries = Retries()
    assert retries.update("t", on("a", "b"), 0) == 1
    assert retries.update("t", on("a", "a", "b"), 1) == 3
    assert retries.update("t", on("b"), 2) == 3
    assert retries.update("t", on("b"), 61) == 3
    assert retries.update("t", on("a", "a", "b"), 61.5) == 3
    assert retries.update("t", on("b"), 62) == 3
    assert retries.update("t", on("b"), 122) == 1
    assert retries.update("other", on("b"), 122) == 1
