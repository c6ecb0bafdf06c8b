"""kopf as the watch of InferenceClusters, and as nothing else: each event is told to `on_event`.

kopf takes the event loop it runs on for its own: when it ends, it cancels every task that began after it,
and it replaces the signal handlers. So it gets a thread with a loop of its own; a kopf that ends is started
again, one that hangs is seen by the liveness probe and can't keep the process from ending (the thread is a
daemon).

It looks for the CRD once, at its start, and a kopf that doesn't find it then lives on and watches nothing. So
a life that follows another waits for the CRD, and one that never asks for the clusters is ended.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final

import aiohttp
import kopf

from ..api import names
from ..ports import Clock, Credentials
from .settings import make_settings

log = logging.getLogger(__name__)

#: Namespace, name and uid of a cluster, and whether it is gone now.
OnEvent = Callable[[str, str, str, bool], None]

_STOP_SECONDS: Final = 3.0
_RESTART_FIRST: Final = 1.0
_RESTART_MAX: Final = 30.0
#: The API server has answered and kopf has asked for no cluster for this long: it doesn't know the kind.
_DEAF_SECONDS: Final = 10.0


class ClusterWatch:
    """Run `run()` as a task; `last_seen` is the monotonic time of the last sign of life of the watch."""

    def __init__(
        self,
        *,
        credentials: Callable[[], Awaitable[Credentials]],
        on_event: OnEvent,
        crd: Callable[[], Awaitable[None]],
        namespaces: Sequence[str],
        clock: Clock,
    ) -> None:
        """`on_event` is called on the loop that runs `run()`. `crd` returns once the CRD can be worked with:
        it is waited for before each life of kopf but the first. `namespaces` empty: all of them."""
        self._credentials = credentials
        self._crd = crd
        self.on_event = on_event
        self._namespaces = namespaces
        self._clock = clock
        self.last_seen = clock.monotonic()

    async def run(self) -> None:
        """Watch until cancelled."""
        loop = asyncio.get_running_loop()
        delay = _RESTART_FIRST
        while True:
            started = self._clock.monotonic()
            thread = _KopfThread(self, loop)
            thread.start()
            try:
                await self._over(thread)
            finally:
                thread.stop()
                await asyncio.to_thread(thread.join, _STOP_SECONDS)
            delay = _RESTART_FIRST if self._clock.monotonic() - started > 60 else min(_RESTART_MAX, delay * 2)
            log.error("the watch ended, starting it again", extra={"reason": thread.reason, "seconds": delay})
            await self._crd()
            self.seen()  # so that a long absence of the CRD isn't taken for a dead watch
            # API discovery, in which kopf looks for the kind, follows the CRD after a moment.
            await asyncio.sleep(delay)

    async def _over(self, thread: _KopfThread) -> None:
        """Return when kopf has ended, or when it has to be ended: deletion of the CRD between our look and
        kopf's, and API discovery that comes later than the CRD, leave it without anything to watch."""
        while not thread.ended.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(_DEAF_SECONDS):
                    await thread.ended.wait()
                    return
            if not thread.watching and self._clock.monotonic() - self.last_seen >= _DEAF_SECONDS:
                thread.reason = "it never asked for the clusters, since it didn't find their CRD"
                return

    def seen(self) -> None:
        """Called on any thread: the API server has answered the watch."""
        self.last_seen = self._clock.monotonic()

    async def login(
        self, loop: asyncio.AbstractEventLoop, on_request: Callable[[str], None]
    ) -> kopf.AiohttpSession:
        """Called on kopf's loop, at the start and after each 401: a session with the credentials of now.
        `on_request` is told the path of each request."""
        future = asyncio.run_coroutine_threadsafe(_await(self._credentials()), loop)
        credentials = await asyncio.wrap_future(future)
        session = self._session(credentials, on_request)
        return kopf.AiohttpSession(server=credentials.server, aiohttp_session=session)

    @property
    def scope(self) -> dict[str, Any]:
        """kopf's words for where to watch."""
        return {"namespaces": list(self._namespaces)} if self._namespaces else {"clusterwide": True}

    def _session(self, credentials: Credentials, on_request: Callable[[str], None]) -> aiohttp.ClientSession:
        trace = aiohttp.TraceConfig()

        async def asked(_: Any, __: Any, request: aiohttp.TraceRequestStartParams) -> None:
            on_request(request.url.path)

        async def answered(*_: Any) -> None:
            self.seen()

        trace.on_request_start.append(asked)
        trace.on_request_end.append(answered)
        headers = {"User-Agent": names.FIELD_MANAGER}
        if credentials.authorization:
            headers["Authorization"] = credentials.authorization
        connector = aiohttp.TCPConnector(limit=0, ssl=_tls(credentials))
        return aiohttp.ClientSession(
            connector=connector, headers=headers, trace_configs=[trace], trust_env=True, read_bufsize=2**21
        )


class _KopfThread(threading.Thread):
    """One life of kopf."""

    def __init__(self, watch: ClusterWatch, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(name="kopf", daemon=True)
        self.ended = asyncio.Event()
        self.reason = "it returned"
        #: It has asked for the clusters.
        self.watching = False
        self._watch = watch
        self._loop = loop
        self._kopf_loop: asyncio.AbstractEventLoop | None = None
        self._stop_flag: asyncio.Event | None = None
        self._stopping = threading.Event()

    def run(self) -> None:
        """The thread."""
        try:
            asyncio.run(self._operate())
        except BaseException as error:  # whatever ended kopf, it is started again
            self.reason = f"{type(error).__name__}: {error}"
        finally:
            with suppress(RuntimeError):  # our own loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(self.ended.set)

    def stop(self) -> None:
        """Called on any thread: make kopf return."""
        self._stopping.set()
        if self._kopf_loop is not None and self._stop_flag is not None:
            with suppress(RuntimeError):  # its loop is closed: it has ended by itself
                self._kopf_loop.call_soon_threadsafe(self._stop_flag.set)

    async def _operate(self) -> None:
        self._stop_flag = asyncio.Event()
        self._kopf_loop = asyncio.get_running_loop()
        if self._stopping.is_set():
            return
        await kopf.operator(
            registry=self._registry(),
            settings=make_settings(),
            stop_flag=self._stop_flag,
            **self._watch.scope,
        )

    def _registry(self) -> kopf.OperatorRegistry:
        registry = kopf.OperatorRegistry()

        @kopf.on.login(registry=registry)
        async def login(**_: Any) -> kopf.AiohttpSession:
            return await self._watch.login(self._loop, self._asked)

        @kopf.on.event(names.GROUP, names.VERSION, names.PLURAL, registry=registry)
        async def tell(
            event: kopf.RawEvent, namespace: str | None, name: str | None, uid: str | None, **_: Any
        ) -> None:
            self._watch.seen()
            self._loop.call_soon_threadsafe(
                self._watch.on_event, namespace or "", name or "", uid or "", event["type"] == "DELETED"
            )

        return registry

    def _asked(self, path: str) -> None:
        if path.endswith(f"/{names.PLURAL}"):
            self.watching = True


async def _await(value: Awaitable[Credentials]) -> Credentials:
    return await value


def _tls(credentials: Credentials) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=credentials.ca_path)
    if credentials.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if credentials.certificate_path:
        context.load_cert_chain(credentials.certificate_path, credentials.private_key_path)
    return context
