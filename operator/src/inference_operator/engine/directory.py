"""Which InferenceClusters exist, by namespace: what the agents' shared Role has to name.

Fed by the watch, by each pass (which reads its cluster live) and by one full list when a process begins to
lead. A change queues the pass over the namespace's agent access, under the key (namespace, "").
"""

from __future__ import annotations

from collections.abc import Callable

from .queue import Key


def access_key(namespace: str) -> Key:
    """Key of the pass over a namespace's agent access. No object has an empty name."""
    return namespace, ""


class Directory:
    """Names and uids of the existing clusters."""

    def __init__(self, add: Callable[[Key], None]) -> None:
        """`add` queues a key."""
        self._add = add
        self._clusters: dict[str, dict[str, str]] = {}

    def seen(self, namespace: str, name: str, uid: str) -> None:
        """The cluster exists."""
        clusters = self._clusters.setdefault(namespace, {})
        if clusters.get(name) != uid:
            clusters[name] = uid
            self._add(access_key(namespace))

    def gone(self, namespace: str, name: str) -> None:
        """The cluster doesn't exist (any more)."""
        clusters = self._clusters.get(namespace, {})
        if clusters.pop(name, None) is not None:
            self._add(access_key(namespace))
        if not clusters:
            self._clusters.pop(namespace, None)

    def everything(self) -> list[Key]:
        """Keys of all clusters."""
        return [(namespace, name) for namespace, found in self._clusters.items() for name in found]

    def clusters(self, namespace: str) -> list[tuple[str, str]]:
        """(name, uid), sorted."""
        return sorted(self._clusters.get(namespace, {}).items())
