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
        ("aab", 2),
        ("aaab", 3),
        ("aaaab", 3),
        ("aaa", 2),
        ("aaaa", 3),
    ],
)
def test_as_many_as_a_lost_node_takes_with_it_but_never_the_whole_pool(nodes: str, want: int):
    assert wanted(on(*nodes)) == want


def test_draining_engines_don_t_count():
    assert wanted((engine("e0"), engine("e1", draining=True), engine("e2", node="n1"))) == 1


def test_a_rise_applies_at_once_and_a_fall_only_when_it_lasts():
    retries = Retries()
    assert retries.update("t", on("a", "b"), 0) == 1
    assert retries.update("t", on("a", "a", "b"), 1) == 2
    assert retries.update("t", on("b"), 2) == 2
    assert retries.update("t", on("b"), 61) == 2
    assert retries.update("t", on("a", "a", "b"), 61.5) == 2
    assert retries.update("t", on("b"), 62) == 2
    assert retries.update("t", on("b"), 122) == 1
    assert retries.update("other", on("b"), 122) == 1
