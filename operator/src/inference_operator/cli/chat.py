"""`kubectl inference chat`: ask the model through the API server, as a client would through the gateway."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TextIO

import orjson

from ..adapters.plain import Stream
from ..adapters.resources import RESOURCES
from ..api import names
from ..ports import KubeError, NotFound, Object
from .access import Session, connected, explained
from .errors import PluginError
from .options import Scope
from .text import one_line, printable, some

_ENGINE_HEADER: Final = "X-Inference-Engine"
#: A line of an event stream that is longer than this is no answer of an engine. Bytes.
_LONGEST_LINE: Final = 4 << 20


@dataclass(frozen=True)
class Answer:
    """What came back, and how fast."""

    text: str
    engine: str
    #: Seconds from the request to the first token, and to the last one.
    first: float
    total: float
    tokens: int

    def summary(self) -> str:
        """One line for people. The rate is that after the first token."""
        rate = (self.tokens - 1) / (self.total - self.first) if self.total > self.first else 0.0
        speed = f" at {rate:.1f} tokens/s" if self.tokens > 1 and rate else ""
        engine = one_line(self.engine) or "an unnamed engine"
        return f"{engine}: first token after {self.first:.2f} s, {some(self.tokens, 'token')}{speed}"


@dataclass(frozen=True)
class Question:
    """What is the same in every turn."""

    model: str
    max_tokens: int | None

    def body(self, messages: list[Object]) -> Object:
        """A chat completion request."""
        body: Object = {
            "model": self.model,
            "messages": messages,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        return body if self.max_tokens is None else {**body, "max_tokens": self.max_tokens}


def run(scope: Scope, name: str, prompt: str | None, max_tokens: int | None, system: str | None) -> None:
    """One question, or without a prompt a conversation until the end of input.

    One event loop for all turns, which is left while a person types.
    """
    with asyncio.Runner() as runner:
        manager = connected(scope)
        session = runner.run(manager.__aenter__())
        try:
            cluster = runner.run(session.cluster(name))
            question = Question(_served_name(cluster), max_tokens)
            messages: list[Object] = [{"role": "system", "content": system}] if system else []
            if prompt is not None:
                messages.append({"role": "user", "content": prompt})
                _tell(runner.run(ask(session, cluster, question.body(messages))))
                return
            _converse(runner, session, cluster, question, messages)
        finally:
            runner.run(manager.__aexit__(None, None, None))


def _converse(
    runner: asyncio.Runner, session: Session, cluster: Object, question: Question, messages: list[Object]
) -> None:
    with suppress(ImportError):
        import readline  # noqa: F401 - its import gives input() keys to edit with
    sys.stderr.write(f"Talking to {one_line(question.model)}; Ctrl-D ends it.\n")
    while (prompt := _typed()) is not None:
        if not prompt.strip():
            continue
        turn = [*messages, {"role": "user", "content": prompt}]
        try:
            answer = runner.run(ask(session, cluster, question.body(turn)))
        except PluginError as error:
            # An engine that died in mid-answer is no reason to lose the conversation.
            sys.stderr.write(f"\nerror: {error}\n")
            continue
        _tell(answer)
        messages[:] = [*turn, {"role": "assistant", "content": answer.text}]


def _typed() -> str | None:
    try:
        return input("> " if sys.stdin.isatty() else "")
    except EOFError:
        return None


def _tell(answer: Answer) -> None:
    sys.stdout.write("\n")
    sys.stdout.flush()
    sys.stderr.write(f"[{answer.summary()}]\n")


async def ask(session: Session, cluster: Object, body: Object) -> Answer:
    """Send it and print the tokens as they come. Raises PluginError."""
    metadata = cluster["metadata"]
    service = f"{names.gateway_service_name(metadata['name'])}:http"
    path = RESOURCES["Service"].path(metadata["namespace"], service, "proxy/v1/chat/completions")
    begin = time.monotonic()
    first = last = 0.0
    chunks = tokens = 0
    shown = False
    text: list[str] = []
    try:
        async with session.client.stream(path, body, f"ask {metadata['name']}") as stream:
            engine = stream.headers.get(_ENGINE_HEADER, "")
            async for event in events(stream):
                tokens = int((event.get("usage") or {}).get("completion_tokens") or tokens)
                piece, thought = _pieces(event)
                if not piece and not thought:
                    continue
                last = time.monotonic() - begin
                first = first or last
                chunks += 1
                text.append(piece)
                _write(sys.stderr, thought)
                _write(sys.stdout, piece)
                shown = True
    except KubeError as error:
        if shown:
            _write(sys.stdout, "\n")
        raise _refused(session, cluster, error, cut=shown) from error
    return Answer("".join(text), engine, first, last, tokens or chunks)


async def events(stream: Stream) -> AsyncIterator[Object]:
    """The JSON of each `data:` line, until `[DONE]`.

    Raises KubeError when the stream ends before: the engine died, or sent an error as an event.
    """
    async for line in _lines(stream.chunks):
        if not line.startswith(b"data:"):
            continue
        data = line.removeprefix(b"data:").strip()
        if data == b"[DONE]":
            return
        try:
            event: Any = orjson.loads(data)
        except orjson.JSONDecodeError:
            continue
        if isinstance(event, dict) and "error" in event:
            raise _broken(f"the engine says {one_line(str(event['error']))}")
        if isinstance(event, dict):
            yield event
    raise _broken("the answer ended in the middle")


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    rest = b""
    async for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line
        if len(rest) > _LONGEST_LINE:
            raise _broken(f"a line of more than {_LONGEST_LINE} bytes")


def _broken(why: str) -> KubeError:
    return KubeError(why, status=200, transient=True)


def _pieces(event: Object) -> tuple[str, str]:
    """What an event adds to the answer, and to the thoughts that a reasoning model has before it.

    vLLM calls those `reasoning`, and called them `reasoning_content` before.
    """
    delta = ((event.get("choices") or [{}])[0].get("delta")) or {}
    return str(delta.get("content") or ""), str(
        delta.get("reasoning") or delta.get("reasoning_content") or ""
    )


def _write(file: TextIO, piece: str) -> None:
    if piece:
        file.write(printable(piece))
        file.flush()


def _served_name(cluster: Object) -> str:
    model = cluster["spec"]["model"]
    return str(model.get("servedName") or model["id"])


def _refused(session: Session, cluster: Object, error: KubeError, *, cut: bool) -> PluginError:
    """A gateway's or an engine's own no has to be told from the API server's."""
    metadata = cluster["metadata"]
    where = f"{metadata['namespace']}/{metadata['name']}"
    see = f"kubectl inference status {metadata['name']} -n {metadata['namespace']} says why"
    why = one_line(_said(str(error))).rstrip(".")
    if isinstance(error, NotFound) and "services" in why:
        return PluginError(f"{where} has no gateway yet: {see}")
    if cut or error.status == 200:
        return PluginError(f"the answer of {where} was cut ({why}): ask again; {see}")
    if error.status in (502, 503, 504) and cluster["spec"].get("replicas") == 0:
        start = f"kubectl scale ic {metadata['name']} -n {metadata['namespace']} --replicas=1"
        return PluginError(f"{where} is stopped (spec.replicas is 0): {start} starts it")
    if error.status in (502, 503, 504):
        return PluginError(f"{where} can't answer now: {why}: {see}")
    if error.status in (400, 404, 422):
        return PluginError(f"{where} refuses the question: {why}: change it, or {see}")
    return explained(error, session.context)


def _said(text: str) -> str:
    """The message of an OpenAI-style error body in the text of a KubeError, else the text itself."""
    try:
        return str(orjson.loads(text[text.index("{") :])["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return text
