"""This pod's key in a cluster's report ConfigMap: written on change, at most once a second."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, Protocol

from ..api import names
from ..api.routing import GatewayReport
from ..ports import KubeError

log = logging.getLogger(__name__)

_PERIOD_SECONDS: Final = 1.0
_BACKOFF_MAX_SECONDS: Final = 30.0


class Writer(Protocol):
    """The part of the Kubernetes client that reports need."""

    async def apply(self, obj: dict[str, Any]) -> dict[str, Any]:
        """Server-side apply with this pod's own field manager."""


class Reporter:
    """Keeps one cluster's report equal to what `current` says."""

    def __init__(
        self,
        writer: Writer,
        cluster: tuple[str, str],
        current: Callable[[], GatewayReport],
        on_write: Callable[[], None],
    ) -> None:
        self._writer = writer
        self._namespace, self._name = cluster
        self._current = current
        self._on_write = on_write
        self._written: GatewayReport | None = None

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
        """One write, if something has changed since the last."""
        report = self._current()
        if report == self._written:
            return
        await self._writer.apply(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"namespace": self._namespace, "name": names.report_name(self._name)},
                "data": {f"{names.REPORT_KEY_PREFIX}{report.gateway}": report.model_dump_json()},
            }
        )
        self._written = report
        self._on_write()
