"""The OpenAI-compatible bodies: checking requests, shaping answers, with vLLM's words for errors."""

import time
import uuid
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

from sandbox.engine import text
from sandbox.engine.request import FinishReason, Request
from sandbox.engine.settings import Settings
from sandbox.engine.text import Prompt

# An answer ends by itself after so many tokens when the client set no limit; a limit is always reached.
NATURAL_LENGTH: Final = 16


class ApiError(Exception):
    """An error answer: status, message, and the type and parameter of vLLM's error object."""

    def __init__(self, status: int, message: str, kind: str = "", param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind or HTTPStatus(status).phrase
        self.param = param

    def body(self) -> dict[str, Any]:
        """The JSON body: {"error": {"message", "type", "param", "code"}}."""
        error = {"message": str(self), "type": self.kind, "param": self.param, "code": self.status}
        return {"error": error}


def bad_request(message: str, param: str | None = None) -> ApiError:
    return ApiError(400, message, "BadRequestError", param)


@dataclass(slots=True)
class Call:
    """One accepted call of /v1/chat/completions (chat) or /v1/completions."""

    chat: bool
    model: str
    request: Request
    stream: bool
    usage_chunk: bool
    id: str = field(default="")
    created: int = field(default_factory=lambda: int(time.time()))

    def __post_init__(self) -> None:
        self.id = f"{'chatcmpl' if self.chat else 'cmpl'}-{uuid.uuid4().hex}"

    def usage(self) -> dict[str, Any]:
        """Token counts of this call."""
        request = self.request
        return {
            "prompt_tokens": request.prompt_tokens,
            "total_tokens": request.prompt_tokens + request.generated,
            "completion_tokens": request.generated,
            "prompt_tokens_details": None,
        }

    def answer(self) -> dict[str, Any]:
        """The whole body of a call without streaming, once the request is done."""
        content, reason = self.request.take_text(), self.request.finish_reason
        choice: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": reason, "stop_reason": None}
        if self.chat:
            choice["message"] = {"role": "assistant", "content": content, "tool_calls": []}
        else:
            choice["text"] = content
        return self._envelope([choice], "chat.completion") | {"usage": self.usage()}

    def chunk(self, content: str, reason: FinishReason | None, *, role: bool = False) -> dict[str, Any]:
        """One event of a stream; `role` makes the opening event of a chat."""
        choice: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": reason}
        if self.chat:
            choice["delta"] = {"role": "assistant", "content": ""} if role else {"content": content}
        else:
            choice |= {"text": content, "stop_reason": None}
        return self._envelope([choice], "chat.completion.chunk")

    def last_chunk(self) -> dict[str, Any]:
        """The event with the usage, sent last if stream_options.include_usage asked for it."""
        return self._envelope([], "chat.completion.chunk") | {"usage": self.usage()}

    def _envelope(self, choices: list[dict[str, Any]], chat_object: str) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": chat_object if self.chat else "text_completion",
            "created": self.created,
            "model": self.model,
            "choices": choices,
        }


def parse_call(
    body: dict[str, Any], settings: Settings, names: tuple[str, ...], *, chat: bool, wrong: bool
) -> Call:
    """Check a body as vLLM does; raises ApiError 400 or 404. `wrong` makes the answer another text."""
    model = _model(body, names)
    prompt = _chat_prompt(body) if chat else _text_prompt(body)
    if body.get("n") not in (None, 1):
        raise bad_request("n must be 1: the engine simulator gives one answer a request.", "n")
    max_tokens = _max_tokens(body, chat=chat)
    prompt_tokens = text.count(prompt)
    _check_length(settings, prompt_tokens, max_tokens)
    seed = body.get("seed")
    tokens_seed = settings.seed if seed is None else _integer("seed", seed)
    limit, end = _limit(body, max_tokens, settings.max_model_len - prompt_tokens)
    stop = _stop_strings(body)
    if stop:
        limit, end = _stopped(stop, text.answer(tokens_seed, prompt, wrong=wrong), limit, end)
    stream = body.get("stream") or False
    options = body.get("stream_options") or {}
    return Call(
        chat=chat,
        model=model,
        request=Request(
            prompt=prompt,
            prompt_tokens=prompt_tokens,
            limit=limit,
            end=end,
            max_tokens=max_tokens,
            tokens=text.answer(tokens_seed, prompt, wrong=wrong),
            block_keys=text.block_keys(prompt, settings.block_size) if settings.prefix_caching else [],
        ),
        stream=bool(stream),
        usage_chunk=bool(options.get("include_usage")) or settings.force_usage,
    )


def _model(body: dict[str, Any], names: tuple[str, ...]) -> str:
    model = body.get("model")
    if model in (None, ""):
        return names[0]
    if model not in names:
        raise ApiError(404, f"The model `{model}` does not exist.", "NotFoundError", "model")
    return str(model)


def _missing(name: str) -> ApiError:
    detail = {"type": "missing", "loc": ("body", name), "msg": "Field required"}
    return ApiError(400, f"1 validation error:\n  {detail}", "Bad Request", name)


def _chat_prompt(body: dict[str, Any]) -> Prompt:
    messages = body.get("messages")
    if messages is None:
        raise _missing("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise bad_request("messages must be a list of objects with role and content.", "messages")
    if not messages:
        raise bad_request("messages must not be empty.", "messages")
    return text.chat_prompt(messages)


def _text_prompt(body: dict[str, Any]) -> Prompt:
    prompt = body.get("prompt")
    if prompt is None:
        raise _missing("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str | list):
        prompt = prompt[0]
    if isinstance(prompt, list) and prompt and all(isinstance(token, int) for token in prompt):
        return prompt
    if isinstance(prompt, str):
        return prompt
    raise bad_request(
        "prompt must be one text or one list of token ids: the simulator has no batches.", "prompt"
    )


def _max_tokens(body: dict[str, Any], *, chat: bool) -> int | None:
    name = "max_completion_tokens" if chat and body.get("max_completion_tokens") is not None else "max_tokens"
    value = body.get(name)
    if value is None:
        # The OpenAI default of the completions endpoint; a chat runs until the model ends it.
        return None if chat else 16
    limit = _integer(name, value)
    if limit < 1:
        raise bad_request(f"{name} must be at least 1, got {limit}.", name)
    return limit


def _check_length(settings: Settings, prompt_tokens: int, max_tokens: int | None) -> None:
    wanted = max_tokens or 1
    if prompt_tokens + wanted <= settings.max_model_len:
        return
    raise bad_request(
        f"This model's maximum context length is {settings.max_model_len} tokens. However, you requested "
        f"{wanted} output tokens and your prompt contains at least {prompt_tokens} input tokens, for a total "
        f"of at least {prompt_tokens + wanted} tokens. Please reduce the length of the input prompt or the "
        "number of requested output tokens.",
        "input_tokens",
    )


def _limit(body: dict[str, Any], max_tokens: int | None, room: int) -> tuple[int, FinishReason]:
    if max_tokens is not None:
        return max_tokens, FinishReason.LENGTH
    if body.get("ignore_eos") or room < NATURAL_LENGTH:
        return room, FinishReason.LENGTH
    return NATURAL_LENGTH, FinishReason.STOP


def _stop_strings(body: dict[str, Any]) -> list[str]:
    stop = body.get("stop") or []
    strings = [stop] if isinstance(stop, str) else stop
    if not isinstance(strings, list) or not all(isinstance(entry, str) and entry for entry in strings):
        raise bad_request("stop must be a text or a list of texts, none of them empty.", "stop")
    return strings


def _stopped(stop: list[str], tokens: Any, limit: int, end: FinishReason) -> tuple[int, FinishReason]:
    """Where a stop string ends the answer. The text keeps the token with it: only the count matters here."""
    so_far = ""
    for number in range(1, limit + 1):
        so_far += next(tokens)
        if any(entry in so_far for entry in stop):
            return number, FinishReason.STOP
    return limit, end


def _integer(name: str, value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise bad_request(f"{name} must be an integer, got {value!r}.", name)


def model_list(settings: Settings, names: tuple[str, ...], created: int) -> dict[str, Any]:
    """The body of /v1/models."""
    cards = [
        {
            "id": name,
            "object": "model",
            "created": created,
            "owned_by": "vllm",
            "root": settings.model,
            "parent": None,
            "max_model_len": settings.max_model_len,
        }
        for name in names
    ]
    return {"object": "list", "data": cards}
