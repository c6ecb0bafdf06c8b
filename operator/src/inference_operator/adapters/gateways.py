"""Questions to the gateways' agents, over their HTTP port."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import aiohttp
import orjson

from ..api import names

log = logging.getLogger(__name__)

_TIMEOUT: Final = aiohttp.ClientTimeout(total=1.0)
#: A `/state` is some 200 bytes an engine; more than this is no answer of an agent.
_LONGEST_ANSWER: Final = 8 << 20


class AgentGateways:
    """Implements `ports.Gateways`."""

    def __init__(self, port: int = names.AGENT_PORT) -> None:
        self._port = port

    async def loads(self, namespace: str, cluster: str, addresses: Sequence[str]) -> Mapping[str, int]:
        """Requests by engine pod, over the gateways that answer within a second; none is an error."""
        found: Counter[str] = Counter()
        # A session of its own: this happens when a cluster shrinks, and no connection is worth keeping.
        async with aiohttp.ClientSession(timeout=_TIMEOUT) as session:
            asked = (self._ask(session, f"{namespace}/{cluster}", address) for address in addresses)
            for loads in await asyncio.gather(*asked):
                found.update(loads)
        return found

    async def _ask(self, session: aiohttp.ClientSession, cluster: str, address: str) -> dict[str, int]:
        try:
            async with session.get(f"http://{host(address)}:{self._port}/state") as answer:
                answer.raise_for_status()
                state = await read_json(answer, _LONGEST_ANSWER)
            tracks = state["clusters"][cluster]["tracks"]
            return {
                engine["pod"]: int(engine["in_flight"]) + int(engine["queued"])
                for track in tracks
                for engine in track["engines"]
            }
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError, KeyError, TypeError) as error:
            log.info(
                "a gateway doesn't say how busy its engines are",
                extra={"gateway": address, "reason": str(error) or type(error).__name__},
            )
            return {}


def host(address: str) -> str:
    """An IP address as it stands in a URL."""
    return f"[{address}]" if ":" in address else address


async def read_json(answer: aiohttp.ClientResponse, limit: int) -> Any:
    """The body as JSON. Raises ValueError for one above `limit` bytes, and for what is no JSON."""
    body = await answer.content.read(limit + 1)
    while len(body) <= limit and not answer.content.at_eof():
        body += await answer.content.read(limit + 1 - len(body))
    if len(body) > limit:
        raise ValueError(f"more than {limit} bytes")
    return orjson.loads(body)
