"""The agent's Kubernetes client: it says clearly when the API server doesn't know this pod any more.

Watches and reports go on trying, at most every 30 s each. Only a person, or the operator by a new pod, can
help.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

from ..adapters.kube import KubeClient
from ..ports import KubeError, Object

log = logging.getLogger(__name__)

_PERIOD_SECONDS: Final = 60.0


class AgentClient(KubeClient):
    """The calls that the agent makes, with one log line a minute while they are answered with 401."""

    _told = -math.inf

    async def list_page(self, *args: Any, **kwargs: Any) -> Object:
        """See `KubeClient.list_page`."""
        with self._telling():
            return await super().list_page(*args, **kwargs)

    @asynccontextmanager
    async def watch(self, *args: Any, **kwargs: Any) -> AsyncIterator[AsyncIterator[bytes]]:
        """See `KubeClient.watch`."""
        with self._telling():
            async with super().watch(*args, **kwargs) as chunks:
                yield chunks

    async def apply(self, obj: Object) -> Object:
        """See `KubeClient.apply`."""
        with self._telling():
            return await super().apply(obj)

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except KubeError as error:
            now = time.monotonic()
            if error.status == 401 and now - self._told >= _PERIOD_SECONDS:
                self._told = now
                log.error(
                    "the API server refuses this pod's token: HAProxy serves on, but new engines, drains and "
                    "shares are not seen. A token dies with its ServiceAccount, also when that is made anew "
                    "under the same name: then this pod has to be replaced",
                    extra={"reason": str(error)},
                )
            raise
