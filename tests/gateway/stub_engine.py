"""A tiny streaming engine: `python -m tests.gateway.stub_engine ADDRESS PORT [early] [failing]`.

POST /v1/chat/completions?tokens=N streams N tokens, 20 ms apart, and `[DONE]`. With `early` the headers go
out at once, as vLLM does it; otherwise with the first token, 50 ms later. `/fail` answers 500 with `failing`
and 200 without it, `/health` always 200.
"""

from __future__ import annotations

import asyncio
import sys

from aiohttp import web

FIRST_TOKEN_SECONDS = 0.05
TOKEN_SECONDS = 0.02


async def health(request: web.Request) -> web.Response:
    return web.Response(text="ok")


async def fail(request: web.Request) -> web.Response:
    return web.Response(status=500 if request.app[FAILING] else 200)


async def chat(request: web.Request) -> web.StreamResponse:
    await request.read()
    tokens = int(request.query.get("tokens", "50"))
    response = web.StreamResponse(
        headers={"Content-Type": "text/event-stream", "X-Engine": request.app[ADDRESS]}
    )
    if request.app[EARLY]:
        await response.prepare(request)
    await asyncio.sleep(FIRST_TOKEN_SECONDS)
    if not request.app[EARLY]:
        await response.prepare(request)
    for _ in range(tokens):
        await response.write(b'data: {"t":1}\n\n')
        await asyncio.sleep(TOKEN_SECONDS)
    await response.write(b"data: [DONE]\n\n")
    await response.write_eof()
    return response


ADDRESS = web.AppKey("address", str)
EARLY = web.AppKey("early", bool)
FAILING = web.AppKey("failing", bool)


def main() -> None:
    address, port = sys.argv[1], int(sys.argv[2])
    application = web.Application()
    application[ADDRESS] = address
    application[EARLY] = "early" in sys.argv[3:]
    application[FAILING] = "failing" in sys.argv[3:]
    application.add_routes(
        [
            web.get("/health", health),
            web.post("/fail", fail),
            web.post("/v1/chat/completions", chat),
        ]
    )
    web.run_app(application, host=address, port=port, print=None, access_log=None, shutdown_timeout=60)


if __name__ == "__main__":
    main()
