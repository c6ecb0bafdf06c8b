"""Questions to the gateways' agents, over their HTTP port."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import aiohttp

from ..api import names
from ..core.model import TokenWindow
from .web import host, read_json

log = logging.getLogger(__name__)

_T = TypeVar("_T")

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
        for loads in await self._ask_all(f"{namespace}/{cluster}", addresses, _loads):
            found.update(loads or {})
        return found

    async def tokens(
        self, namespace: str, cluster: str, addresses: Sequence[str]
    ) -> Sequence[TokenWindow] | None:
        """What each gateway has counted lately; None when one of them doesn't say so within a second."""
        found = await self._ask_all(f"{namespace}/{cluster}", addresses, _tokens)
        windows = [window for window in found if window is not None]
        return windows if len(windows) == len(addresses) else None

    async def _ask_all(
        self, cluster: str, addresses: Sequence[str], read: Callable[[Any], _T]
    ) -> list[_T | None]:
        # A session of its own: it is asked seldom, and no connection is worth keeping.
        async with aiohttp.ClientSession(timeout=_TIMEOUT) as session:
            return await asyncio.gather(
                *(self._ask(session, cluster, address, read) for address in addresses)
            )

    async def _ask(
        self, session: aiohttp.ClientSession, cluster: str, address: str, read: Callable[[Any], _T]
    ) -> _T | None:
        """What the gateway says of the cluster; None = nothing that can be read."""
        try:
            async with session.get(f"http://{host(address)}:{self._port}/state") as answer:
                answer.raise_for_status()
                state = await read_json(answer, _LONGEST_ANSWER)
            return read(state["clusters"][cluster])
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError, KeyError, TypeError) as error:
            log.info(
                "a gateway doesn't say what its engines do",
                extra={"gateway": address, "reason": str(error) or type(error).__name__},
            )
            return None


def _loads(state: Any) -> dict[str, int]:
    return {
        engine["pod"]: int(engine["in_flight"]) + int(engine["queued"])
        for track in state["tracks"]
        for engine in track["engines"]
    }


def _tokens(state: Any) -> TokenWindow:
    said = state["tokens"]
    window = TokenWindow(
        seconds=float(said["seconds"]),
        prompt=int(said["prompt"]),
        cached=int(said["cached"]),
        generation=int(said["generation"]),
    )
    if min(window.seconds, window.prompt, window.cached, window.generation) < 0:
        raise ValueError(f"a negative number: {window}")
    return window
