"""No string from outside reaches HAProxy unless it is made of harmless characters."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from inference_operator.agent import config, words
from inference_operator.agent.model import Engine, Pool, check_routing
from tests.unit.agent import builders

HARMLESS = set(string.ascii_letters + string.digits + "-._~/:[]")
#: What HAProxy's grammar, its CLI or a log reader would take for something else than a word.
ATTACKS = [
    "x\n    server evil 10.0.0.1:80",
    "x\r\nshutdown sessions server a/b",
    "x y",
    "x\ty",
    "x;show info",
    "x#comment",
    'x"',
    "x'",
    "x\\",
    "x\0",
    "%[env(SECRET)]",
    "${SECRET}",
    "<<",
    "x{}",
    "é",
    "х",  # Cyrillic
    "",
    "-x",
    "x-",
    "x\x85y",
    "x\u2028y",
    "x" * 300,
]
CHECKS = [
    lambda value: words.label(value, "field"),
    lambda value: words.pod_name(value, "field"),
    lambda value: words.path(value, "field"),
    lambda value: words.address(value, "field"),
]
hostile = st.one_of(
    st.text(),
    st.text(alphabet="/a0-.\n\r\0 #{};'\"\\%$<[]"),
    st.sampled_from(ATTACKS),
    st.tuples(st.sampled_from(["/health", "v1", "10.0.0.1", "::1"]), st.sampled_from(ATTACKS)).map("".join),
)


@pytest.mark.parametrize("value", ATTACKS)
@pytest.mark.parametrize("check", CHECKS)
def test_attacks_are_refused(check, value):
    with pytest.raises(words.RefusedError, match="field"):
        check(value)


@pytest.mark.parametrize("check", CHECKS)
@settings(max_examples=2_500)
@given(value=hostile)
def test_whatever_passes_is_one_harmless_word(check, value):
    try:
        passed = check(value)
    except words.RefusedError:
        return
    assert passed
    assert set(passed) <= HARMLESS


@settings(max_examples=1_000)
@given(revision=hostile, health=hostile, pod=hostile, address=hostile)
def test_a_rendered_file_never_gets_a_line_or_a_word_more(revision, health, pod, address):
    plain = builders.pool(Engine("e0", "10.0.1.1", "n"))
    want = shape(config.file(builders.gateway(plain), builders.settings(), {}))
    try:
        track = builders.track(revision, health_path=health)
        pool = Pool("team-a", "llama", track, (Engine(pod, address, "n"),), 1, 100, 5.0)
        text = config.file(builders.gateway(pool), builders.settings(), {})
    except (words.RefusedError, ValidationError):
        return
    assert shape(text) == want


def shape(text: str) -> list[int]:
    return [len(line.split()) for line in text.split("\n")]


@pytest.mark.parametrize(
    ("value", "want"),
    [("10.0.0.1", "10.0.0.1"), ("2001:DB8::0:1", "2001:db8::1"), ("::ffff:10.0.0.1", "::ffff:a00:1")],
)
def test_addresses_come_in_one_form(value, want):
    assert re.fullmatch(r"[0-9a-f.:]+", words.address(value, "field"))
    assert words.address(value, "field") == want


def test_zones_are_refused():
    with pytest.raises(words.RefusedError):
        words.address("fe80::1%eth0", "field")


@pytest.mark.parametrize(
    "document",
    [
        builders.routing(builders.track(health_path="/a b")),
        builders.routing(builders.track("v\n1")),
        builders.routing(builders.track(service="a/b")),
        builders.routing(builders.track(), builders.track()),
        builders.routing(builders.track(), cluster="a.b"),
    ],
)
def test_routing_documents_with_a_bad_word_are_refused_as_a_whole(document):
    with pytest.raises(words.RefusedError):
        check_routing(document)


def test_messages_name_the_field_and_what_is_legal():
    with pytest.raises(words.RefusedError, match=r"health_path.*'/a b'.*a path like /health"):
        check_routing(builders.routing(builders.track(health_path="/a b")))
