"""Chores of every few seconds: bounded logs and memory limits."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from sandbox.kubelet import procfs
from sandbox.kubelet.container import Container
from sandbox.kubelet.logs import ContainerLog
from sandbox.kubelet.node import Node
from sandbox.kubelet.quantity import parse

_PERIOD = 3.0


async def keep_house(nodes: Collection[Node]) -> None:
    """Do the chores for ever."""
    while True:
        await asyncio.sleep(_PERIOD)
        containers = [
            container
            for node in nodes
            for pod in node.pods.values()
            for container in pod.containers
            if container.process is not None
        ]
        await asyncio.to_thread(_keep_logs, [container.log for container in containers])
        limited = [(container, limit) for container in containers if (limit := _limit(container))]
        for container in await asyncio.to_thread(_over_limit, limited) if limited else []:
            container.kill(out_of_memory=True)


def _keep_logs(logs: list[ContainerLog]) -> None:
    for log in logs:
        log.bound()
        log.mark()


def _limit(container: Container) -> int:
    limits = (container.spec.get("resources") or {}).get("limits") or {}
    return int(parse(limits.get("memory", "0")))


def _over_limit(limited: list[tuple[Container, int]]) -> list[Container]:
    """Without cgroups (they need root) nobody but us enforces memory limits."""
    found = procfs.by_pid_namespace()
    members = {pid: pids for pids in found.values() for pid in pids}
    over = []
    for container, limit in limited:
        process = container.process
        if process is None:
            continue
        in_volumes = container.pod.volumes.memory_bytes()
        if procfs.memory_above(members.get(process.pid, []), limit - in_volumes):
            over.append(container)
    return over
