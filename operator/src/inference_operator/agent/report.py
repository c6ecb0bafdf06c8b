"""This pod's key in a cluster's report ConfigMap: written on change, at most once a second.

It is compared with what the key really holds: the operator believes it, so a foreign edit must not stay. The
other gateways' keys are of no concern here, and an equal key is never written, so gateways can't drive each
other.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable
from typing import Any, Final, Protocol

from ..api import names
from ..api.routing import GatewayReport
from ..ports import KubeError

log = logging.getLogger(__name__)

_PERIOD_SECONDS: Final = 1.0
_BACKOFF_MAX_SECONDS: Final = 30.0
#: Somebody who changes the key again and again, such as an admission webhook, is not answered faster.
REPAIR_SECONDS: Final = 30.0


class Writer(Protocol):
    """The part of the Kubernetes client that reports need."""

    async def apply(self, obj: dict[str, Any]) -> dict[str, Any]:
        """Server-side apply with this pod's own field manager."""


class Copy(Protocol):
    """The watched copy of the report ConfigMap, trimmed by `trim`."""

    def get(self, namespace: str, name: str) -> dict[str, Any] | None:
        """The object as last seen; None = not seen."""

    def upsert(self, obj: dict[str, Any]) -> None:
        """Take over the answer of a write, unless something newer was seen."""


def trim(obj: dict[str, Any], pod: str) -> dict[str, Any]:
    """Keep the pod's own report, "" when it has none."""
    meta = obj["metadata"]
    return {
        "metadata": {key: meta[key] for key in ("namespace", "name", "resourceVersion")},
        "report": (obj.get("data") or {}).get(_key(pod), ""),
    }


class Reporter:
    """Keeps one cluster's report equal to what `current` says."""

    def __init__(
        self,
        writer: Writer,
        copy: Copy,
        cluster: tuple[str, str],
        current: Callable[[], GatewayReport],
        on_write: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._writer = writer
        self._copy = copy
        self._namespace, cluster_name = cluster
        self._name = names.report_name(cluster_name)
        self._current = current
        self._on_write = on_write
        self._clock = clock
        self._written = ""
        self._repaired = -math.inf

    async def run(self) -> None:
        """Write changes for ever; a failed write is repeated after 1, 2, 4, … 30 s with what is true then."""
        pause = _PERIOD_SECONDS
        while True:
            try:
                await self.write()
                pause = _PERIOD_SECONDS
            except KubeError as error:
                log.warning("report not written", extra={"reason": str(error)})
                pause = min(2 * pause, _BACKOFF_MAX_SECONDS)
            await asyncio.sleep(pause)

    async def write(self) -> None:
        """One write, if the key doesn't hold what is true now."""
        report = self._current()
        text = report.model_dump_json()
        if text == self._live():
            self._written = text
            return
        foreign = text == self._written
        if foreign and self._clock() - self._repaired < REPAIR_SECONDS:
            return
        answer = await self._writer.apply(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"namespace": self._namespace, "name": self._name},
                "data": {_key(report.gateway): text},
            }
        )
        self._written = text
        if foreign:
            self._repaired = self._clock()
            log.warning(
                "somebody else had changed this gateway's report: written again",
                extra={"config_map": f"{self._namespace}/{self._name}"},
            )
        # Else an older event that is still on its way would look like a foreign edit.
        self._copy.upsert(answer)
        self._on_write()

    def _live(self) -> str:
        """What the key holds, as far as is known: without a copy, what was written last.

        A deleted ConfigMap counts as unknown. The agent may not make it, the operator does, without our key.
        """
        seen = self._copy.get(self._namespace, self._name)
        return self._written if seen is None else str(seen["report"])


def _key(pod: str) -> str:
    return f"{names.REPORT_KEY_PREFIX}{pod}"
