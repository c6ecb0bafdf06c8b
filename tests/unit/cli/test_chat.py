"""`chat`: tokens as they come, who gave them, and each way in which an answer can fail."""

from __future__ import annotations

import io
import json
import sys
from typing import Any

import pytest

from inference_operator.cli.chat import Answer as Spoken

from .conftest import Plugin
from .fake_api import Answer, FakeApi, forbidden, refusal
from .objects import cluster

PATH = "/api/v1/namespaces/ml/services/llama-gateway:http/proxy/v1/chat/completions"
DONE = b"data: [DONE]\n\n"


def token(text: str) -> bytes:
    return b"data: " + json.dumps({"choices": [{"delta": {"content": text}}]}).encode() + b"\n\n"


USAGE = b'data: {"choices": [], "usage": {"completion_tokens": 7}}\n\n'


def spoken(*chunks: bytes, **options: Any) -> Answer:
    headers = {"X-Inference-Engine": "llama-a-0", "Content-Type": "text/event-stream"}
    return Answer(chunks=list(chunks), headers=headers, **options)


@pytest.fixture(autouse=True)
def llama(api: FakeApi) -> None:
    api.clusters = [cluster()]


def test_the_answer_goes_to_standard_output_and_its_figures_beside_it(api: FakeApi, plugin: Plugin) -> None:
    api.answers[PATH] = spoken(token("Hel"), token("lo"), USAGE + DONE)
    got = plugin("chat", "llama", "Hi", "--max-tokens", 9, "--system", "Be short.")
    assert (got.status, got.out) == (0, "Hello\n")
    assert got.err.startswith("[llama-a-0: first token after 0.")
    assert "7 tokens" in got.err
    method, path, body = api.requests[-1]
    assert (method, path) == ("POST", PATH)
    assert body == {
        "model": "llama-8b",
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 9,
        "messages": [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Hi"}],
    }


def test_events_may_be_cut_anywhere_by_the_network(api: FakeApi, plugin: Plugin) -> None:
    whole = b": comment\r\n\r\n" + token("Grüße, ").replace(b"\n", b"\r\n") + token("Jo") + DONE
    api.answers[PATH] = spoken(*(whole[i : i + 1] for i in range(len(whole))))
    got = plugin("chat", "llama", "Hi")
    assert (got.status, got.out) == (0, "Grüße, Jo\n")
    assert "2 tokens" in got.err


def test_the_thoughts_of_a_reasoning_model_are_no_part_of_its_answer(api: FakeApi, plugin: Plugin) -> None:
    events = [
        b"data: " + json.dumps({"choices": [{"delta": delta}]}).encode() + b"\n\n"
        for delta in ({"reasoning": "Hm. "}, {"reasoning_content": "Well. "}, {"content": "Yes."})
    ]
    api.answers[PATH] = spoken(*events, DONE)
    got = plugin("chat", "llama", "Hi")
    assert got.out == "Yes.\n"
    assert got.err.startswith("Hm. Well. [llama-a-0: ")
    assert "3 tokens" in got.err


def test_the_terminal_does_not_obey_a_model(api: FakeApi, plugin: Plugin) -> None:
    api.answers[PATH] = spoken(token("\x1b]0;owned\x07[red]x[/red]\nline"), DONE)
    assert plugin("chat", "llama", "Hi").out == "\ufffd]0;owned\ufffd[red]x[/red]\nline\n"


def test_a_conversation_remembers(api: FakeApi, plugin: Plugin, monkeypatch: pytest.MonkeyPatch) -> None:
    api.answers[PATH] = spoken(token("Yes."), DONE)
    monkeypatch.setattr(sys, "stdin", io.StringIO("First?\n\nSecond?\n"))
    got = plugin("chat", "llama", "--system", "Be short.")
    assert (got.status, got.out) == (0, "Yes.\nYes.\n")
    assert api.requests[-1][2]["messages"] == [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "First?"},
        {"role": "assistant", "content": "Yes."},
        {"role": "user", "content": "Second?"},
    ]
    assert len(api.requests) == 3


def test_a_conversation_outlives_a_failed_turn(
    api: FakeApi, plugin: Plugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.answers[PATH] = spoken(token("Yes"), cut=True)
    monkeypatch.setattr(sys, "stdin", io.StringIO("First?\nSecond?\n"))
    got = plugin("chat", "llama")
    assert got.status == 0
    assert got.err.count("error: the answer of ml/llama was cut") == 2
    assert api.requests[-1][2]["messages"] == [{"role": "user", "content": "Second?"}]


GATEWAY = {"error": {"message": "No engine is ready. Retry later.", "type": "service_unavailable"}}
STATUS = "kubectl inference status llama -n ml says why"


@pytest.mark.parametrize(
    ("answer", "want"),
    [
        (Answer(GATEWAY, 503), f"ml/llama can't answer now: No engine is ready. Retry later: {STATUS}"),
        (
            refusal(503, "ServiceUnavailable", "no endpoints available for service"),
            "no endpoints available for service",
        ),
        (refusal(404, "NotFound", 'services "llama-gateway" not found'), "ml/llama has no gateway yet"),
        (
            Answer({"error": {"message": "max_tokens is too large"}}, 400),
            "refuses the question: max_tokens is",
        ),
        (forbidden("create", "services/proxy"), 'cannot create resource "services/proxy"'),
        (spoken(token("Hel"), cut=True), "the answer of ml/llama was cut"),
        (spoken(token("Hel")), "was cut (the answer ended in the middle)"),
        (spoken(b'data: {"error": {"message": "out of\\nmemory"}}\n\n'), "out of"),
    ],
)
def test_each_failure_says_what_and_what_to_do(
    api: FakeApi, plugin: Plugin, answer: Answer, want: str
) -> None:
    api.answers[PATH] = answer
    got = plugin("chat", "llama", "Hi")
    assert got.status == 1
    assert want in got.err
    assert got.out in ("", "Hel\n")
    assert got.err.count("\n") == 1


def test_a_stopped_cluster_needs_a_start_and_no_patience(api: FakeApi, plugin: Plugin) -> None:
    api.clusters = [cluster(n=0)]
    api.answers[PATH] = Answer(GATEWAY, 503)
    got = plugin("chat", "llama", "Hi")
    assert got.status == 1
    assert got.err == (
        "error: ml/llama is stopped (spec.replicas is 0): "
        "kubectl scale ic llama -n ml --replicas=1 starts it\n"
    )


def test_the_rate_is_that_after_the_first_token() -> None:
    assert Spoken("x", "pod-1", 0.5, 1.5, 11).summary() == (
        "pod-1: first token after 0.50 s, 11 tokens at 10.0 tokens/s"
    )
    assert Spoken("x", "", 0.5, 0.5, 1).summary() == "an unnamed engine: first token after 0.50 s, 1 token"
