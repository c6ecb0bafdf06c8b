"""The other gateway pods' demand, asked once a second over their agents' /demand."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

import aiohttp

from ..adapters.web import host

log = logging.getLogger(__name__)

_PERIOD_SECONDS: Final = 1.0
_TIMEOUT: Final = aiohttp.ClientTimeout(total=0.8)
#: A peer that is silent for this long gives up its share.
_SILENT_SECONDS: Final = 2.0


class Peers:
    """Demand by peer; a peer that isn't asked successfully in time doesn't count."""

    def __init__(self, addresses: Callable[[], Mapping[str, str]], port: int) -> None:
        self._addresses = addresses
        self._port = port
        self._heard: dict[str, tuple[float, dict[str, int]]] = {}

    def live(self) -> list[dict[str, int]]:
        """Demand by `namespace/cluster` of each live peer; one just found counts, with no demand yet."""
        limit = time.monotonic() - _SILENT_SECONDS
        return [demand for at, demand in self._heard.values() if at > limit]

    def names(self) -> list[str]:
        """Those that live, by their pods' names."""
        limit = time.monotonic() - _SILENT_SECONDS
        return [pod for pod, (at, _) in self._heard.items() if at > limit]

    async def run(self) -> None:
        """Ask for ever."""
        async with aiohttp.ClientSession(timeout=_TIMEOUT) as session:
            while True:
                addresses = dict(self._addresses())
                now = time.monotonic()
                self._heard = {pod: self._heard.get(pod, (now, {})) for pod in addresses}
                await asyncio.gather(*(self._ask(session, pod, where) for pod, where in addresses.items()))
                await asyncio.sleep(_PERIOD_SECONDS)

    async def _ask(self, session: aiohttp.ClientSession, pod: str, address: str) -> None:
        try:
            async with session.get(f"http://{host(address)}:{self._port}/demand") as answer:
                answer.raise_for_status()
                clusters = (await answer.json())["clusters"]
            demand = {name: int(entry["demand"]) for name, entry in clusters.items()}
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError, KeyError, TypeError) as error:
            log.debug("peer is silent", extra={"peer": pod, "reason": str(error) or type(error).__name__})
            return
        self._heard[pod] = (time.monotonic(), demand)
