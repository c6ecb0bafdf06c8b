"""A watch-fed copy of one kind of object: list in pages, then watch, for ever.

    list (pages of 500, trimmed as they are parsed) -> watch from the list's resourceVersion
        stream ends or is cut      -> watch again from the last resourceVersion seen (event or bookmark)
        410 or any ERROR event     -> list again; what is no longer there counts as deleted
        any other failure          -> the same again after a back-off (capped, jittered, endless)

Objects deleted while no watch ran are found by the list: nothing stays in the copy as a ghost. Answers of our
own writes may be taken over with `upsert`, so that a reader doesn't see older state than it wrote itself.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import orjson

from ..ports import Clock, KubeError, Object
from .clock import SystemClock
from .errors import network_errors
from .kube import KubeClient
from .resources import RESOURCES

log = logging.getLogger(__name__)

#: ADDED, MODIFIED or DELETED, and the trimmed object.
OnChange = Callable[[str, Object], None]
Key = tuple[str, str]

WATCH_SECONDS: Final = 240
#: Bookmarks come once a minute.
INACTIVITY_SECONDS: Final = 75.0
BACKOFF_FIRST: Final = 0.5
BACKOFF_MAX: Final = 30.0


class _RelistError(Exception):
    """The watch can't go on from its resourceVersion."""


class _Index:
    """Keys of objects by one value that is computed from the object."""

    def __init__(self, index_by: Callable[[Object], Key | None]) -> None:
        self.value = index_by
        self._keys: dict[Key, set[Key]] = {}

    def keys(self, value: Key) -> list[Key]:
        return sorted(self._keys.get(value, ()))

    def add(self, key: Key, obj: Object) -> None:
        value = self.value(obj)
        if value is not None:
            self._keys.setdefault(value, set()).add(key)

    def remove(self, key: Key, obj: Object) -> None:
        value = self.value(obj)
        if value is None:
            return
        keys = self._keys[value]
        keys.discard(key)
        if not keys:
            del self._keys[value]


class Informer:
    """Start `run()` as a task; read with `get` and `list` once `synced` is set.

    `trim` gets each object as the server sent it and returns what is kept (None = the object is ignored).
    `index_by` gives the value under which `indexed` finds an object (None = under none); a change of it is
    told as DELETED and ADDED.
    `on_change` is called on the event loop, in order, and must not block or raise; not for a change of which
    nothing is kept.
    """

    def __init__(
        self,
        client: KubeClient,
        kind: str,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        trim: Callable[[Object], Object | None] | None = None,
        index_by: Callable[[Object], Key | None] | None = None,
        on_change: OnChange | None = None,
        clock: Clock | None = None,
        jitter: Callable[[], float] = random.random,
        inactivity_seconds: float = INACTIVITY_SECONDS,
        backoff_first: float = BACKOFF_FIRST,
    ) -> None:
        self.kind = kind
        self.namespace = namespace
        self.synced = asyncio.Event()
        self._client = client
        self._where: dict[str, Any] = {
            "namespace": namespace,
            "label_selector": label_selector,
            "field_selector": field_selector,
        }
        self._trim = trim or (lambda obj: obj)
        self._on_change = on_change or (lambda event_type, obj: None)
        self._clock = clock or SystemClock()
        self._jitter = jitter
        self._inactivity = inactivity_seconds
        self._backoff_first = backoff_first
        self._objects: dict[Key, Object] = {}
        self._index = _Index(index_by or (lambda obj: None))
        self._version = ""
        #: Monotonic time of the last list page, event or bookmark: a probe sees a dead watch by its age.
        self.last_seen = self._clock.monotonic()
        #: Failures since the last success.
        self.failures = 0

    def get(self, namespace: str, name: str) -> Object | None:
        """The object as last seen ("" for the namespace of a cluster-scoped kind)."""
        return self._objects.get((namespace, name))

    def upsert(self, obj: Object) -> None:
        """Take over the answer of our own write, unless the watch has already told what came after it.

        A watch tells its events in the order of resourceVersion. If it has passed this version, the copy is
        at least as new; if the object isn't in it then, it has been deleted since, and must not come back.
        `on_change` isn't called: the writer knows.
        """
        kept = self._trim(obj)
        if kept is not None and _version(kept) > int(self._version or 0):
            self._put(kept)

    def indexed(self, value: Key) -> list[Object]:
        """The objects for which `index_by` gave this value."""
        return [self._objects[key] for key in self._index.keys(value)]

    def list(self, namespace: str | None = None) -> list[Object]:
        """All objects, or those of one namespace."""
        return [obj for key, obj in self._objects.items() if namespace is None or key[0] == namespace]

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            try:
                if not self._version:
                    await self._relist()
                if not await self._watch_once():
                    # Something between us and the API server ends streams at once.
                    await self._pause(None)
            except _RelistError as reason:
                log.info("listing again", extra={"kind": self.kind, "reason": str(reason)})
                self._version = ""
                await self._pause(None)
            except KubeError as error:
                if error.status == 410:
                    self._version = ""
                log.warning("watch failed", extra={"kind": self.kind, "reason": str(error)})
                await self._pause(error.retry_after)

    async def _pause(self, retry_after: float | None) -> None:
        delay = min(BACKOFF_MAX, self._backoff_first * 2 ** min(self.failures, 10))
        self.failures += 1
        await asyncio.sleep(max(retry_after or 0.0, delay * (0.5 + self._jitter() / 2)))

    async def _relist(self) -> None:
        fresh: dict[Key, Object] = {}
        token = ""
        while True:
            page = await self._client.list_page(self.kind, token=token, **self._where)
            self.last_seen = self._clock.monotonic()
            for item in page["items"]:
                # Items of a list don't say what they are.
                item["kind"], item["apiVersion"] = self.kind, RESOURCES[self.kind].api_version
                kept = self._trim(item)
                if kept is not None:
                    fresh[_key(kept)] = kept
            token = page["metadata"].get("continue", "")
            if not token:
                break
        version = page["metadata"]["resourceVersion"]
        self._replace_all(fresh, int(version))
        self._version = version
        self.synced.set()

    def _replace_all(self, fresh: dict[Key, Object], version: int) -> None:
        for obj in fresh.values():
            self._store(obj)
        for key in [key for key in self._objects if key not in fresh]:
            self._remove(key, version)

    async def _watch_once(self) -> bool:
        """Follow one stream to its end. False: it ended without a single event or bookmark."""
        told = False
        what = f"watch {self.kind}"
        stream = self._client.watch(
            self.kind,
            resource_version=self._version,
            timeout_seconds=WATCH_SECONDS + int(60 * self._jitter()),
            inactivity_seconds=self._inactivity,
            **self._where,
        )
        async with stream as chunks:
            with network_errors(what):
                async for line in _lines(chunks):
                    self._take(orjson.loads(line))
                    told = True
        return told

    def _take(self, event: dict[str, Any]) -> None:
        event_type, obj = event["type"], event["object"]
        if event_type == "ERROR":
            raise _RelistError(f"{obj.get('code')} {obj.get('reason')}: {obj.get('message')}")
        self.last_seen = self._clock.monotonic()
        self.failures = 0
        self._version = obj["metadata"]["resourceVersion"]
        if event_type == "BOOKMARK":
            return
        kept = self._trim(obj)
        if kept is None or event_type == "DELETED":
            self._remove(_key(obj), int(self._version))
        else:
            self._store(kept)

    def _store(self, obj: Object) -> None:
        old = self._objects.get(_key(obj))
        if not self._put(obj):
            return
        if old is not None and self._index.value(old) != self._index.value(obj):
            # Whoever found it by its index has lost it.
            self._on_change("DELETED", old)
            old = None
        if old is None or not _alike(old, obj):
            self._on_change("ADDED" if old is None else "MODIFIED", obj)

    def _remove(self, key: Key, version: int) -> None:
        """Forget an object that was gone at `version`; one that was written later (by us) stays."""
        old = self._objects.get(key)
        if old is None or _version(old) > version:
            return
        del self._objects[key]
        self._index.remove(key, old)
        self._on_change("DELETED", old)

    def _put(self, obj: Object) -> bool:
        key = _key(obj)
        old = self._objects.get(key)
        if old is not None:
            if _version(old) >= _version(obj):
                return False
            self._index.remove(key, old)
        self._objects[key] = obj
        self._index.add(key, obj)
        return True


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Split a stream at newlines, whatever the sizes of its chunks. A last line without an end is dropped."""
    rest = b""
    async for chunk in chunks:
        complete = (rest + chunk).split(b"\n")
        rest = complete.pop()
        for line in complete:
            if line:
                yield line


def _key(obj: Object) -> Key:
    meta = obj["metadata"]
    return meta.get("namespace", ""), meta["name"]


def _alike(old: Object, new: Object) -> bool:
    """Do two states of an object differ in their version only?"""
    meta = {**old["metadata"], "resourceVersion": new["metadata"]["resourceVersion"]}
    return {**old, "metadata": meta} == new


def _version(obj: Object) -> int:
    """Resource versions of one kind are comparable numbers (Kubernetes 1.35 says so, older ones do so)."""
    return int(obj["metadata"]["resourceVersion"])
