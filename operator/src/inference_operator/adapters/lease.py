"""Leader election over one Lease, with the rules of client-go: 15 s lease, 10 s to renew, a try every 2 s.

    follow: read every 2 s; the holder's record unchanged for its leaseDuration (our monotonic clock: the two
            machines' clocks are never compared), or released -> PUT ourselves with its resourceVersion
    lead:   renew every 2 s; no success for 10 s -> lost, 5 s before anyone else can take over

Ours, since the library's elector lets a hung request outlive its own deadline (it inherits a five-minute
time-out) and doesn't catch network errors; here every request ends with the deadline.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Final, Protocol

from ..ports import Clock, Conflict, KubeError, Object

log = logging.getLogger(__name__)

LEASE_SECONDS: Final = 15.0
RENEW_SECONDS: Final = 10.0
RETRY_SECONDS: Final = 2.0
#: The lead's work must stop within this; together with the renew deadline it ends as the lease does.
STOP_SECONDS: Final = 5.0


class LeaseApi(Protocol):
    """The part of the client that an elector uses."""

    async def get(self, kind: str, namespace: str | None, name: str) -> Object | None:
        """The object, or None when it doesn't exist."""

    async def create(self, obj: Object) -> Object:
        """POST; raises Conflict when it exists."""

    async def replace(self, obj: Object) -> Object:
        """PUT; raises Conflict when the resourceVersion is no longer the newest."""


class LeadStuckError(Exception):
    """The lead's work didn't stop in time: the process must end, since another leader may be at work."""


class Elector:
    """Runs one coroutine while, and only while, this process holds the Lease."""

    def __init__(
        self,
        api: LeaseApi,
        *,
        namespace: str,
        name: str,
        identity: str,
        clock: Clock,
        on_change: Callable[[bool], None] = lambda leading: None,
        lease_seconds: float = LEASE_SECONDS,
        renew_seconds: float = RENEW_SECONDS,
        retry_seconds: float = RETRY_SECONDS,
        stop_seconds: float = STOP_SECONDS,
    ) -> None:
        """`identity` gets a random part, so that two processes of one host are two contenders."""
        self.identity = f"{identity}_{uuid.uuid4()}"
        self._api = api
        self._namespace = namespace
        self._name = name
        self._clock = clock
        self._on_change = on_change
        self._lease_seconds = lease_seconds
        self._renew_seconds = renew_seconds
        self._retry_seconds = retry_seconds
        self._stop_seconds = stop_seconds
        #: The record as last seen, and when (monotonic) it was first seen so.
        self._record: Object | None = None
        self._record_since = 0.0
        self._renewed = float("-inf")

    @property
    def leading(self) -> bool:
        """The Lease is ours for at least `lease - renew` more seconds: writing is safe."""
        return self._clock.monotonic() < self._renewed + self._renew_seconds

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Follow, lead, follow …, until cancelled; then stop the work and release the Lease.

        Raises LeadStuckError when the work outlives the Lease, and whatever `lead` raises.
        """
        while True:
            await self._acquire()
            log.info("leading", extra={"lease": self._name, "identity": self.identity})
            self._on_change(True)
            work = asyncio.ensure_future(lead())
            try:
                await self._hold(work)
            finally:
                self._expire()
                self._on_change(False)
                await self._stop(work)
                await self._release()
            log.warning("lost the lease, standing by", extra={"lease": self._name})

    async def _acquire(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._renew_seconds):
                    if await self._try():
                        return
            except (KubeError, TimeoutError) as error:
                log.warning("can't take the lease", extra={"lease": self._name, "reason": str(error)})
            await asyncio.sleep(self._retry_seconds)

    async def _hold(self, work: asyncio.Future[None]) -> None:
        """Renew until the deadline passes without a success, or the work ends by itself."""
        while True:
            done, _ = await asyncio.wait({work}, timeout=self._retry_seconds)
            if done:
                work.result()
                return
            left = self._renewed + self._renew_seconds - self._clock.monotonic()
            if left <= 0:
                return
            try:
                async with asyncio.timeout(left):
                    if not await self._try() and not self._is_ours():
                        return
            except (KubeError, TimeoutError) as error:
                log.warning("can't renew the lease", extra={"lease": self._name, "reason": str(error)})

    async def _try(self) -> bool:
        """Take or renew the Lease. False: someone else holds it, or wrote to it at the same time."""
        started = self._clock.monotonic()
        current = await self._api.get("Lease", self._namespace, self._name)
        try:
            if current is None:
                self._record = await self._api.create(self._lease(None))
            else:
                self._see(current)
                if not self._free(current):
                    return False
                self._record = await self._api.replace(self._lease(current))
        except Conflict:
            return False
        # Counted from before the request: the server's answer may have been long on its way.
        self._renewed = started
        return True

    def _see(self, current: Object) -> None:
        if self._record is None or self._record["spec"] != current["spec"]:
            self._record = current
            self._record_since = self._clock.monotonic()

    def _is_ours(self) -> bool:
        holder = self._record["spec"].get("holderIdentity") if self._record else None
        return bool(holder == self.identity)

    def _free(self, current: Object) -> bool:
        holder = current["spec"].get("holderIdentity")
        if not holder or holder == self.identity:
            return True
        duration = current["spec"].get("leaseDurationSeconds", self._lease_seconds)
        return self._clock.monotonic() > self._record_since + float(duration)

    def _lease(self, current: Object | None) -> Object:
        now = datetime.fromtimestamp(self._clock.now(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        old = current["spec"] if current else {}
        ours = old.get("holderIdentity") == self.identity
        metadata = {"name": self._name, "namespace": self._namespace}
        if current:
            metadata["resourceVersion"] = current["metadata"]["resourceVersion"]
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": metadata,
            "spec": {
                "holderIdentity": self.identity,
                "leaseDurationSeconds": round(self._lease_seconds),
                "acquireTime": old["acquireTime"] if ours else now,
                "renewTime": now,
                "leaseTransitions": old.get("leaseTransitions", 0) + (0 if ours or not current else 1),
            },
        }

    def _expire(self) -> None:
        self._renewed = float("-inf")

    async def _stop(self, work: asyncio.Future[None]) -> None:
        if work.done():
            return
        work.cancel()
        _, pending = await asyncio.wait({work}, timeout=self._stop_seconds)
        if pending:
            raise LeadStuckError(
                f"the work didn't stop within {self._stop_seconds:g} s after the lease {self._name} was lost"
            )

    async def _release(self) -> None:
        """Let the next one take over at once; without this it waits for the lease to run out."""
        try:
            async with asyncio.timeout(self._retry_seconds):
                current = await self._api.get("Lease", self._namespace, self._name)
                if current and current["spec"].get("holderIdentity") == self.identity:
                    current["spec"].update(holderIdentity="", leaseDurationSeconds=1)
                    await self._api.replace(current)
        except (KubeError, TimeoutError) as error:
            log.warning("can't release the lease", extra={"lease": self._name, "reason": str(error)})
