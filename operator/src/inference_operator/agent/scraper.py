"""Reads the engines' metrics pages every two seconds, each engine by one gateway only.

So what the gateways count can be added up. Which gateway it is follows from the names of those that are alive
(rendezvous hashing): when one comes or goes, only its own engines change hands. For a moment two may count
the same engine, or none; a counter that a gateway sees for the first time is its start, so nothing is counted
that was counted before.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Iterable
from typing import Final

import aiohttp

from ..adapters.web import host, read_body
from . import engine_page
from .engine_page import Counters, Page
from .model import Gateway
from .tokens import TokenWindow

log = logging.getLogger(__name__)

#: Namespace, cluster, revision.
Track = tuple[str, str, str]

_PERIOD_SECONDS: Final = 2.0
_TIMEOUT: Final = aiohttp.ClientTimeout(total=1.0)
_AT_ONCE: Final = 16
#: vLLM's page has some 50 kB; one that is larger than this isn't read on.
_LONGEST_PAGE: Final = 4 << 20


def reader(gateways: Iterable[str], engine: str) -> str:
    """Which of the gateways reads this engine's page."""
    return max(gateways, key=lambda name: (hashlib.sha256(f"{name}/{engine}".encode()).digest(), name))


class Scraper:
    """What the engines of this gateway's clusters have counted since it started."""

    def __init__(
        self,
        own: str,
        gateway: Callable[[], Gateway],
        peers: Callable[[], Iterable[str]],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`own` is this gateway pod's name, `peers` are those of the other ones that are alive."""
        self._now = monotonic
        self._own = own
        self._gateway = gateway
        self._peers = peers
        #: Of each engine that this gateway reads, by track and pod.
        self.pages: dict[tuple[Track, str], Page] = {}
        self.totals: dict[Track, Counters] = {}
        #: By namespace and cluster.
        self.windows: dict[tuple[str, str], TokenWindow] = {}

    async def run(self) -> None:
        """Read for ever."""
        connector = aiohttp.TCPConnector(limit=_AT_ONCE, limit_per_host=1)
        async with aiohttp.ClientSession(timeout=_TIMEOUT, connector=connector) as session:
            while True:
                await self.round(session)
                await asyncio.sleep(_PERIOD_SECONDS)

    async def round(self, session: aiohttp.ClientSession) -> None:
        """Look at every engine of ours once."""
        wanted: dict[tuple[Track, str], str] = {}
        tracks: set[Track] = set()
        everybody = [self._own, *self._peers()]
        for pool in self._gateway().pools:
            track = (pool.namespace, pool.cluster, pool.track.revision)
            tracks.add(track)
            for engine in pool.engines:
                if reader(everybody, engine.pod) == self._own:
                    address = f"{host(engine.address)}:{pool.track.port}{pool.track.metrics_path}"
                    wanted[track, engine.pod] = f"http://{address}"
        # What is gone, or is another gateway's now, starts anew if it comes back.
        self.pages = {key: page for key, page in self.pages.items() if key in wanted}
        self.totals = {track: self.totals.get(track, Counters()) for track in tracks}
        clusters = {(namespace, cluster) for namespace, cluster, _ in tracks}
        now = self._now()
        self.windows = {key: self.windows.get(key) or TokenWindow(now) for key in clusters}
        await asyncio.gather(*(self._look(session, *key, url) for key, url in wanted.items()))

    async def _look(self, session: aiohttp.ClientSession, track: Track, pod: str, url: str) -> None:
        before = self.pages.get((track, pod))
        try:
            page = engine_page.read(await _text(session, url), before.counters if before else Counters())
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            log.debug("no figures", extra={"engine": pod, "reason": str(error) or type(error).__name__})
            return
        if before is not None:
            counted = page.counters.since(before.counters)
            self.totals[track] += counted
            self.windows[track[:2]].add(self._now(), counted)
        self.pages[track, pod] = page


async def _text(session: aiohttp.ClientSession, url: str) -> str:
    async with session.get(url) as answer:
        answer.raise_for_status()
        return (await read_body(answer, _LONGEST_PAGE)).decode(errors="replace")
