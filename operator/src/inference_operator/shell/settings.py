"""kopf's settings, away from defaults that end or stall an operator."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Final

import kopf

#: kopf's own series ends after 54 s, and an API outage that is longer than that would end the operator.
BACKOFF_MAX: Final = 30.0
#: The watch is opened again this often, and each opening shows that it lives (see watch.py).
WATCH_SECONDS: Final = 120


class EndlessBackoffs:
    """Re-iterable: 1, 2, 4 … 30, 30, 30 … seconds, each jittered by a quarter. Not Sized: never counted."""

    def __iter__(self) -> Iterator[float]:
        """A new series."""
        delay = 1.0
        while True:
            yield delay * random.uniform(0.75, 1.25)  # noqa: S311 - spreads load, guards nothing
            delay = min(BACKOFF_MAX, delay * 2)


class NoProgress(kopf.ProgressStorage):
    """Keeps nothing: event handlers have no progress, and kopf must never write to a user's object."""

    def fetch(self, **_: Any) -> None:
        """Nothing was stored."""

    def store(self, **_: Any) -> None:
        """Drop it."""

    def purge(self, **_: Any) -> None:
        """Nothing to remove."""

    def touch(self, **_: Any) -> None:
        """Nothing to touch."""

    def clear(self, *, essence: Any) -> Any:
        """The default copies the whole object for each event, which halves the event rate."""
        return essence


class NoDiffBase(kopf.DiffBaseStorage):
    """Keeps nothing: the snapshot annotation is for change handlers, and would show up in GitOps diffs."""

    def build(self, **_: Any) -> Any:
        """The default copies the whole object for each event."""
        return {}

    def fetch(self, **_: Any) -> None:
        """Nothing was stored."""

    def store(self, **_: Any) -> None:
        """Drop it."""


def make_settings() -> kopf.OperatorSettings:
    """Settings for a watch that lasts as long as the process."""
    settings = kopf.OperatorSettings()
    settings.networking.error_backoffs = EndlessBackoffs()
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 10
    settings.watching.connect_timeout = 10
    settings.watching.server_timeout = WATCH_SECONDS
    settings.watching.chunk_size = 500
    # Without it kopf watches CRDs and namespaces cluster-wide, which needs more rights, and hangs on a 403.
    settings.scanning.disabled = True
    settings.persistence.progress_storage = NoProgress()
    settings.persistence.diffbase_storage = NoDiffBase()
    settings.posting.enabled = False
    settings.peering.standalone = True
    return settings
