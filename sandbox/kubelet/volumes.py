"""Volumes of one pod: made before its containers start, kept up to date while they run."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sandbox import images
from sandbox.kubelet import environment, payload
from sandbox.kubelet.api import JSON, Api, ApiError
from sandbox.kubelet.quantity import parse
from sandbox.kubelet.runtime import Mount
from sandbox.kubelet.store import Store

_LOG = logging.getLogger(__name__)
_TOKEN_SECONDS = 3607
# The kubelet refreshes a token at 80 % of its life or after 24 h, whatever comes first.
_TOKEN_REFRESH = 0.8
_WRITTEN = ("configMap", "secret", "projected", "downwardAPI")


class VolumeError(Exception):
    """The volume can't be made, now or ever: which, and what is missing."""


@dataclass(frozen=True)
class PodFacts:
    """What volumes show of the pod. `pod` is called for its newest object: labels may change.

    as_root: whether a container runs as root and can read every file.
    """

    pod: Callable[[], JSON]
    pod_ip: str
    host_ip: str
    allocatable: dict[str, str]
    as_root: bool


class Volumes:
    """The volumes of one pod below `directory`."""

    def __init__(self, directory: Path, facts: PodFacts, api: Api, store: Store) -> None:
        self._directory, self._facts, self._api, self._store = directory, facts, api, store
        self._namespace = facts.pod()["metadata"]["namespace"]
        self._paths: dict[str, Path] = {}
        self._memory: set[Path] = set()
        self._tokens: dict[tuple[str, str], tuple[str, float]] = {}
        self._changed = asyncio.Event()

    async def mount(self) -> None:
        """Make every volume. Raises VolumeError; may be called again then."""
        for volume in self._specs():
            self._paths[volume["name"]] = await self._make(volume)

    async def unmount(self) -> None:
        """Take the volumes away, except for host paths."""
        for path in self._memory:
            await _command("umount", "-l", str(path))
        self._memory.clear()
        await asyncio.to_thread(shutil.rmtree, self._directory, ignore_errors=True)

    def mounts(self, container: JSON, variables: dict[str, str]) -> list[Mount]:
        """Binds for the container's volumeMounts. `variables` are for subPathExpr."""
        mounts = []
        for mount in container.get("volumeMounts") or []:
            source = self._paths[mount["name"]]
            below = mount.get("subPath") or environment.expand(mount.get("subPathExpr") or "", variables)
            if below:
                source = source / below
                if not source.exists():
                    source.mkdir(parents=True)
            kind = next(volume for volume in self._specs() if volume["name"] == mount["name"])
            read_only = bool(mount.get("readOnly")) or any(key in kind for key in (*_WRITTEN, "image"))
            mounts.append(Mount(source, mount["mountPath"], read_only))
        return mounts

    def memory_bytes(self) -> int:
        """Bytes in `medium: Memory` volumes, which count against the memory limit."""
        total = 0
        for path in tuple(self._memory):
            with contextlib.suppress(OSError):  # unmounted meanwhile
                usage = os.statvfs(path)
                total += (usage.f_blocks - usage.f_bfree) * usage.f_frsize
        return total

    async def keep_fresh(self) -> None:
        """Rewrite what changes: ConfigMaps and Secrets, labels, tokens near their end. Never returns."""
        wanted = self._object_names()

        def heard(kind: str, namespace: str, name: str) -> None:
            if namespace == self._namespace and (kind, name) in wanted:
                self._changed.set()

        self._store.listeners.add(heard)
        try:
            while True:
                # Not wait_for: in Python 3.11 it can swallow a cancellation.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._seconds_to_refresh()):
                        await self._changed.wait()
                self._changed.clear()
                try:
                    await self._rewrite()
                except (VolumeError, ApiError, OSError) as error:
                    _LOG.warning("volumes of %s: %s", self._directory, error)
        finally:
            self._store.listeners.discard(heard)

    def pod_changed(self) -> None:
        """The pod's labels or annotations have changed."""
        if any("downwardAPI" in source for volume in self._specs() for source in (volume, *_sources(volume))):
            self._changed.set()

    def _specs(self) -> list[JSON]:
        return self._facts.pod()["spec"].get("volumes") or []

    async def _make(self, volume: JSON) -> Path:
        path = self._directory / str(volume["name"])
        if "emptyDir" in volume:
            await self._make_empty(path, volume["emptyDir"] or {})
            return path
        if "hostPath" in volume:
            host = volume["hostPath"]
            return await asyncio.to_thread(_host_path, host["path"], host.get("type") == "DirectoryOrCreate")
        if "image" in volume:
            # Model images hold no files here: the engine simulator reads no weights.
            try:
                images.check_pullable(volume["image"]["reference"])
            except images.ImageError as error:
                raise VolumeError(f"volume {volume['name']!r}: {error.reason}: {error}") from None
            await asyncio.to_thread(_open_directory, path)
            return path
        if "persistentVolumeClaim" in volume:
            return await self._claimed(volume["persistentVolumeClaim"]["claimName"])
        if any(kind in volume for kind in _WRITTEN):
            await self._write(path, volume)
            return path
        raise VolumeError(
            f"volume {volume['name']!r} is of a kind that the sandbox lacks ({', '.join(volume)})"
        )

    async def _make_empty(self, path: Path, source: JSON) -> None:
        await asyncio.to_thread(_open_directory, path)
        if source.get("medium") == "Memory" and path not in self._memory:
            size = f",size={int(parse(source['sizeLimit']))}" if source.get("sizeLimit") else ""
            await _command("mount", "-t", "tmpfs", "-o", f"mode=0777{size}", "tmpfs", str(path))
            self._memory.add(path)

    async def _claimed(self, name: str) -> Path:
        claim = await self._api.get(f"/api/v1/namespaces/{self._namespace}/persistentvolumeclaims/{name}")
        volume_name = claim["spec"].get("volumeName")
        if not volume_name:
            raise VolumeError(f"persistentvolumeclaim {name!r} is not bound to a volume")
        volume = await self._api.get(f"/api/v1/persistentvolumes/{volume_name}")
        if "hostPath" not in volume["spec"]:
            raise VolumeError(f"persistentvolume {volume_name!r}: the sandbox mounts hostPath volumes only")
        return await asyncio.to_thread(_host_path, volume["spec"]["hostPath"]["path"], True)

    async def _rewrite(self) -> None:
        for volume in self._specs():
            if any(kind in volume for kind in _WRITTEN):
                await self._write(self._paths[volume["name"]], volume)

    async def _write(self, path: Path, volume: JSON) -> None:
        source = next(volume[kind] for kind in _WRITTEN if kind in volume)
        mode = source.get("defaultMode", payload.DEFAULT_MODE)
        files: payload.Files = {}
        try:
            for each in _sources(volume):
                files |= await self._files(each, mode)
        except payload.MissingKey as error:
            raise VolumeError(f"volume {volume['name']!r}: {error}") from None
        context = self._facts.pod()["spec"].get("securityContext") or {}
        kind = {"root": self._facts.as_root, "fs_group": "fsGroup" in context}
        seen = {name: (content, payload.mode_for(mode, **kind)) for name, (content, mode) in files.items()}
        await asyncio.to_thread(payload.write, path, seen)

    async def _files(self, source: JSON, mode: int) -> payload.Files:
        if token := source.get("serviceAccountToken"):
            # The kubelet gives the token's file to the user of the containers, whatever the mode says.
            return {token["path"]: ((await self._token(token)).encode(), 0o644)}
        if downward := source.get("downwardAPI"):
            items = downward["items"]
            return {item["path"]: (self._downward(item).encode(), item.get("mode", mode)) for item in items}
        kind, reference, name = _reference(source)
        found = await self._store.fetch(kind, self._namespace, name)
        if found is not None:
            return payload.object_files(kind, found, reference, mode)
        if reference.get("optional"):
            return {}
        raise VolumeError(f'MountVolume.SetUp failed: {kind[:-1]} "{name}" not found')

    def _downward(self, item: JSON) -> str:
        pod = self._facts.pod()
        if reference := item.get("resourceFieldRef"):
            container = next(c for c in pod["spec"]["containers"] if c["name"] == reference["containerName"])
            return environment.resource(reference, container, self._facts.allocatable)
        return environment.field(item["fieldRef"]["fieldPath"], pod, self._facts.pod_ip, self._facts.host_ip)

    async def _token(self, source: JSON) -> str:
        key = (source.get("audience", ""), source["path"])
        token, refresh_at = self._tokens.get(key, ("", 0.0))
        if time.monotonic() < refresh_at:
            return token
        pod = self._facts.pod()
        seconds = source.get("expirationSeconds", _TOKEN_SECONDS)
        account = pod["spec"].get("serviceAccountName", "default")
        answer = await self._api.create(
            f"/api/v1/namespaces/{self._namespace}/serviceaccounts/{account}/token",
            {
                "spec": {
                    "audiences": [key[0]] if key[0] else [],
                    "expirationSeconds": seconds,
                    "boundObjectRef": {
                        "kind": "Pod",
                        "apiVersion": "v1",
                        "name": pod["metadata"]["name"],
                        "uid": pod["metadata"]["uid"],
                    },
                }
            },
        )
        token = answer["status"]["token"]
        self._tokens[key] = token, time.monotonic() + seconds * _TOKEN_REFRESH
        return str(token)

    def _seconds_to_refresh(self) -> float | None:
        due = [refresh_at for _, refresh_at in self._tokens.values()]
        return max(min(due) - time.monotonic(), 1.0) if due else None

    def _object_names(self) -> set[tuple[str, str]]:
        names = set()
        for volume in self._specs():
            for source in _sources(volume):
                if "configMap" in source or "secret" in source:
                    kind, _, name = _reference(source)
                    names.add((kind, name))
        return names


def _open_directory(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o777)


def _sources(volume: JSON) -> list[JSON]:
    """The sources of a written volume; a plain one is its own only source."""
    if "projected" in volume:
        return volume["projected"].get("sources") or []
    return [volume] if any(kind in volume for kind in _WRITTEN) else []


def _reference(source: JSON) -> tuple[str, JSON, str]:
    # A secret volume says secretName, a projected secret source says name.
    if "secret" in source:
        reference = source["secret"]
        return "secrets", reference, reference.get("secretName") or reference["name"]
    if "configMap" in source:
        return "configmaps", source["configMap"], source["configMap"]["name"]
    raise VolumeError(f"the sandbox doesn't know this projected source: {', '.join(source)}")


def _host_path(text: str, create: bool) -> Path:
    path = Path(text)
    if create:
        path.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        raise VolumeError(f"hostPath {text} doesn't exist: create it or use type DirectoryOrCreate")
    return path


async def _command(*command: str) -> None:
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    _, errors = await process.communicate()
    if process.returncode:
        raise VolumeError(f"`{' '.join(command)}`: {errors.decode(errors='replace').strip()}")
