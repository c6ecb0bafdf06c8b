"""HTTP between our own programs: addresses in URLs, and bodies of bounded size.

A module of its own, since the agents use it and shouldn't load the API's models for it.
"""

from __future__ import annotations

from typing import Any

import aiohttp
import orjson


def host(address: str) -> str:
    """An IP address as it stands in a URL."""
    return f"[{address}]" if ":" in address else address


async def read_json(answer: aiohttp.ClientResponse, limit: int) -> Any:
    """The body as JSON. Raises ValueError for one above `limit` bytes, and for what is no JSON."""
    return orjson.loads(await read_body(answer, limit))


async def read_body(answer: aiohttp.ClientResponse, limit: int) -> bytes:
    """The body. Raises ValueError for one above `limit` bytes, without reading on."""
    body = await answer.content.read(limit + 1)
    while len(body) <= limit and not answer.content.at_eof():
        body += await answer.content.read(limit + 1 - len(body))
    if len(body) > limit:
        raise ValueError(f"more than {limit} bytes")
    return body
