"""The HTTP server of one simulated engine."""

import asyncio
import hmac
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import orjson
from aiohttp import web

from sandbox.engine import VLLM_VERSION, openai, text
from sandbox.engine.core import EngineCore, EngineDeadError, QueueFullError
from sandbox.engine.fault_board import FaultBoard
from sandbox.engine.metrics import CONTENT_TYPE, Metrics
from sandbox.engine.openai import ApiError, Call
from sandbox.engine.settings import Settings

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

# vLLM checks the key for these prefixes alone: /metrics, /health, /tokenize, /load stay open.
GUARDED: Final = ("/v1", "/v2", "/inference", "/cohere")
DONE: Final = b"data: [DONE]\n\n"


class EngineServer:
    """Routes and their handlers; `busy` holds the connections with an open generation call, `idle` is set
    while there is none."""

    def __init__(self, settings: Settings, core: EngineCore, metrics: Metrics, board: FaultBoard) -> None:
        self._settings = settings
        self._core = core
        self._metrics = metrics
        self._board = board
        self._created = int(time.time())
        self.busy: set[web.RequestHandler] = set()
        self.draining = False
        self.idle = asyncio.Event()
        self.idle.set()

    def app(self) -> web.Application:
        """The application with every route the simulator has."""
        # vLLM takes bodies of any size; aiohttp's own limit of 1 MiB would refuse long prompts with 413.
        app = web.Application(middlewares=[self._guard], client_max_size=256 * 1024**2)
        app.router.add_get("/metrics", self._metrics_page)
        for path, handler in (
            ("/health", self._health),
            ("/ping", self._health),
            ("/version", self._version),
            ("/load", self._load),
            ("/v1/models", self._models),
        ):
            # FastAPI routes take the named method alone: HEAD is 405, and a probe that uses it fails.
            app.router.add_get(path, handler, allow_head=False)
        app.router.add_post("/ping", self._health)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/v1/completions", self._completion)
        app.router.add_post("/tokenize", self._tokenize)
        return app

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            if request.path.startswith(GUARDED) and not self._authorized(request):
                return _json({"error": "Unauthorized"}, 401)
            return await handler(request)
        except ApiError as error:
            return _json(error.body(), error.status)
        except web.HTTPException as error:
            return _json(ApiError(error.status, error.reason).body(), error.status)

    def _authorized(self, request: web.Request) -> bool:
        if not self._settings.api_keys:
            return True
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        matches = [hmac.compare_digest(given.encode(), key.encode()) for key in self._settings.api_keys]
        return scheme.lower() == "bearer" and any(matches)

    @property
    def _names(self) -> tuple[str, ...]:
        wrong = self._board.faults.wrong_model
        return (wrong,) if wrong else self._settings.served_names

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response(status=503 if self._core.dead else 200)

    async def _metrics_page(self, _: web.Request) -> web.Response:
        return web.Response(body=self._metrics.render(), headers={"Content-Type": CONTENT_TYPE})

    async def _version(self, _: web.Request) -> web.Response:
        return _json({"version": VLLM_VERSION})

    async def _load(self, _: web.Request) -> web.Response:
        # Without --enable-server-load-tracking vLLM's counter is never touched.
        return _json({"server_load": len(self.busy) if self._settings.load_tracking else 0})

    async def _models(self, _: web.Request) -> web.Response:
        return _json(openai.model_list(self._settings, self._names, self._created))

    async def _tokenize(self, request: web.Request) -> web.Response:
        body = await _body(request)
        prompt = text.chat_prompt(body["messages"]) if "messages" in body else body.get("prompt")
        if not isinstance(prompt, str):
            raise openai.bad_request("prompt must be a text.", "prompt")
        tokens = text.token_ids(prompt)
        length = self._settings.max_model_len
        return _json({"count": len(tokens), "max_model_len": length, "tokens": tokens, "token_strs": None})

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._generate(request, chat=True)

    async def _completion(self, request: web.Request) -> web.StreamResponse:
        return await self._generate(request, chat=False)

    async def _generate(self, request: web.Request, *, chat: bool) -> web.StreamResponse:
        if self.draining:
            # Our reading: the measured drain says that running and queued requests finish, not what a new
            # one gets. 503 lets a gateway send it elsewhere.
            raise ApiError(
                503, "The engine is shutting down and takes no new requests.", "ServiceUnavailable"
            )
        body = await _body(request)
        faults = self._board.faults
        call = openai.parse_call(body, self._settings, self._names, chat=chat, wrong=faults.wrong_answers)
        if self._board.fails_now():
            raise ApiError(500, "Internal server error (fault error_rate).", "InternalServerError")
        self._submit(call)
        connection = request.protocol
        self.busy.add(connection)
        self.idle.clear()
        try:
            if call.stream:
                return await self._stream(request, call)
            await call.request.done.wait()
            self._check_alive()
            return _json(call.answer())
        finally:
            # Reached by cancellation too, when the client has left.
            self._core.abort(call.request)
            self.busy.discard(connection)
            if not self.busy:
                self.idle.set()

    def _submit(self, call: Call) -> None:
        try:
            self._core.submit(call.request)
        except QueueFullError as error:
            raise ApiError(503, str(error), "ServiceUnavailable") from None
        except EngineDeadError as error:
            raise _dead(error) from None

    def _check_alive(self) -> None:
        if self._core.dead:
            raise _dead(EngineDeadError())

    async def _stream(self, request: web.Request, call: Call) -> web.StreamResponse:
        headers = {"Content-Type": "text/event-stream; charset=utf-8"}
        response = web.StreamResponse(headers=headers)
        # vLLM's 200 goes out before the first token, even before the request is scheduled: a proxy that has
        # seen it can't retry any more.
        await response.prepare(request)
        cut_after = self._board.cuts_now()
        generation = call.request
        if call.chat:
            await generation.news.wait()
            await response.write(_event(call.chunk("", None, role=True)))
        while True:
            await generation.news.wait()
            generation.news.clear()
            reason = generation.finish_reason
            if self._core.dead:
                await response.write(_event(_dead(EngineDeadError()).body()) + DONE)
                return response
            await response.write(_event(call.chunk(generation.take_text(), reason)))
            if cut_after is not None and generation.generated >= cut_after and request.transport:
                request.transport.close()
                return response
            if reason is not None:
                break
        usage = _event(call.last_chunk()) if call.usage_chunk else b""
        await response.write(usage + DONE)
        return response


def _dead(error: EngineDeadError) -> ApiError:
    return ApiError(500, str(error), "InternalServerError")


async def _body(request: web.Request) -> dict[str, Any]:
    # vLLM's own check, and an easy one to fall over: curl -d alone sends a form.
    if request.content_type != "application/json":
        raise ApiError(400, "Unsupported Media Type: Only 'application/json' is allowed")
    try:
        body = orjson.loads(await request.read())
    except orjson.JSONDecodeError as error:
        raise ApiError(400, f"1 validation error:\n  JSON decode error: {error}") from None
    if not isinstance(body, dict):
        raise ApiError(400, "1 validation error:\n  the body must be a JSON object")
    return body


def _json(content: dict[str, Any], status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(content), status=status, content_type="application/json")


def _event(content: dict[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(content) + b"\n\n"
