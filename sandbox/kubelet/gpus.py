"""GPU devices of one node: which pod holds which, as device manager and NVIDIA plugin give them out."""

from __future__ import annotations

import uuid
from typing import Any

from sandbox.kubelet.quantity import parse

RESOURCE = "nvidia.com/gpu"


class AdmissionError(Exception):
    """The pod can't run on this node; `reason` goes into its status."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Gpus:
    """The devices of `node`, named like the plugin's default (`GPU-<uuid>`), the same after each start."""

    def __init__(self, node: str, count: int) -> None:
        self._devices = [f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{index}.{node}')}" for index in range(count)]
        self._held: dict[str, list[str]] = {}

    def allocate(self, pod: dict[str, Any]) -> dict[str, list[str]]:
        """Devices for each container name of the pod, held until `release`.

        Raises AdmissionError when fewer are free. Init containers run before the others and use the same
        devices; sidecars run beside them and have their own.
        """
        spec = pod["spec"]
        inits = spec.get("initContainers") or []
        side_by_side = [c for c in inits if c.get("restartPolicy") == "Always"] + spec["containers"]
        before = [c for c in inits if c.get("restartPolicy") != "Always"]
        needed = max(sum(map(_wanted, side_by_side)), *map(_wanted, before), 0)
        taken = {device for devices in self._held.values() for device in devices}
        free = [device for device in self._devices if device not in taken]
        if needed > len(free):
            raise AdmissionError(
                "UnexpectedAdmissionError",
                "Pod was rejected: Allocate failed due to requested number of devices unavailable for "
                f"{RESOURCE}. Requested: {needed}, Available: {len(free)}, which is unexpected",
            )
        devices = free[:needed]
        if devices:
            self._held[pod["metadata"]["uid"]] = devices
        shares = {container["name"]: devices[: _wanted(container)] for container in before}
        first = 0
        for container in side_by_side:
            last = first + _wanted(container)
            shares[container["name"]] = devices[first:last]
            first = last
        return shares

    def release(self, uid: str) -> None:
        """Give back what the pod holds; nothing happens when it holds none."""
        self._held.pop(uid, None)


def _wanted(container: dict[str, Any]) -> int:
    # Extended resources can't be overcommitted: the request defaults to the limit and must equal it.
    resources = container.get("resources") or {}
    return int(parse((resources.get("limits") or resources.get("requests") or {}).get(RESOURCE, "0")))
