"""A cache of ConfigMaps, Secrets and Services, kept by one watch for each kind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from sandbox.kubelet.api import JSON, Api, ApiError

KINDS = ("configmaps", "secrets", "services")
Listener = Callable[[str, str, str], None]
"""(kind, namespace, name) of what has changed or gone."""


class Store:
    """Objects by kind, namespace and name; `listeners` hear of every later change."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._objects: dict[str, dict[tuple[str, str], JSON]] = {kind: {} for kind in KINDS}
        self._synced = {kind: asyncio.Event() for kind in KINDS}
        self.listeners: set[Listener] = set()

    async def run(self) -> None:
        """Keep the cache; never returns."""
        async with asyncio.TaskGroup() as group:
            for kind in KINDS:
                group.create_task(self._follow(kind))

    async def wait_synced(self) -> None:
        for event in self._synced.values():
            await event.wait()

    def get(self, kind: str, namespace: str, name: str) -> JSON | None:
        return self._objects[kind].get((namespace, name))

    async def fetch(self, kind: str, namespace: str, name: str) -> JSON | None:
        """Like `get`, but asks the API server for what the cache doesn't hold.

        A pod can be created right after its ConfigMap, and the two watches race.
        """
        found = self.get(kind, namespace, name)
        if found is None:
            try:
                found = await self._api.get(f"/api/v1/namespaces/{namespace}/{kind}/{name}")
            except ApiError as error:
                if error.status != 404:
                    raise
                return None
        return found

    def services(self, namespace: str) -> list[JSON]:
        """The namespace's Services and the API server's."""
        api_server = ("default", "kubernetes")
        services = self._objects["services"].items()
        return [item for key, item in services if key[0] == namespace or key == api_server]

    async def _follow(self, kind: str) -> None:
        objects = self._objects[kind]
        async for event, item in self._api.watch(f"/api/v1/{kind}"):
            if event == "SYNC":
                fresh = {_key(each): each for each in item["items"]}
                changed = {key for key in objects.keys() | fresh if objects.get(key) != fresh.get(key)}
                objects.clear()
                objects |= fresh
                self._synced[kind].set()
            else:
                changed = {_key(item)}
                if event == "DELETED":
                    objects.pop(_key(item), None)
                else:
                    objects[_key(item)] = item
            for key in changed:
                for listener in tuple(self.listeners):
                    listener(kind, *key)


def _key(item: JSON) -> tuple[str, str]:
    return item["metadata"]["namespace"], item["metadata"]["name"]
