"""Tokens and updates of volumes, with a scripted API server."""

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sandbox.kubelet.volumes import PodFacts, VolumeError, Volumes

JSON = dict[str, Any]


class ScriptedApi:
    """Gives token-1, token-2 ... and the objects in `objects` by path."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, JSON]] = []
        self.objects: dict[str, JSON] = {}

    async def create(self, path: str, body: JSON) -> JSON:
        self.requests.append((path, body))
        return {"status": {"token": f"token-{len(self.requests)}"}}

    async def get(self, path: str) -> JSON:
        return self.objects[path]


class ScriptedStore:
    """A store whose objects the test changes."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], JSON] = {}
        self.listeners: set[Any] = set()

    async def fetch(self, kind: str, namespace: str, name: str) -> JSON | None:
        return self.objects.get((kind, namespace, name))

    def change(self, kind: str, name: str, data: dict[str, str]) -> None:
        self.objects[kind, "prod", name] = {"metadata": {"name": name}, "data": data}
        for listener in self.listeners:
            listener(kind, "prod", name)


class Rig:
    """Volumes of a pod that the test can relabel."""

    def __init__(self, directory: Path, *volumes: JSON) -> None:
        self.api, self.store = ScriptedApi(), ScriptedStore()
        self.pod: JSON = {
            "metadata": {"name": "web", "namespace": "prod", "uid": "u-1", "labels": {"a": "1"}},
            "spec": {"serviceAccountName": "robot", "volumes": list(volumes), "containers": []},
        }
        facts = PodFacts(lambda: self.pod, "10.244.0.2", "10.244.255.1", {}, as_root=True)
        self.volumes = Volumes(directory, facts, self.api, self.store)  # type: ignore[arg-type]


async def until_reads(path: Path, text: str) -> None:
    deadline = time.monotonic() + 5
    while await asyncio.to_thread(path.read_text) != text:
        assert time.monotonic() < deadline, f"{path} doesn't say {text!r}"
        await asyncio.sleep(0.01)


def token_volume(**more: Any) -> JSON:
    return {"name": "account", "projected": {"sources": [{"serviceAccountToken": {"path": "token", **more}}]}}


async def test_token_is_bound_to_the_pod_and_renewed_before_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path, token_volume(expirationSeconds=600, audience="vault"))
    await rig.volumes.mount()
    path, body = rig.api.requests[0]
    assert path == "/api/v1/namespaces/prod/serviceaccounts/robot/token"
    assert body["spec"]["boundObjectRef"] == {"kind": "Pod", "apiVersion": "v1", "name": "web", "uid": "u-1"}
    assert (body["spec"]["audiences"], body["spec"]["expirationSeconds"]) == (["vault"], 600)
    await rig.volumes.mount()
    assert len(rig.api.requests) == 1
    start = time.monotonic()
    late = SimpleNamespace(monotonic=lambda: start + 481)  # 80 % of 600 s
    monkeypatch.setattr("sandbox.kubelet.volumes.time", late)
    fresh = asyncio.create_task(rig.volumes.keep_fresh())
    await until_reads(tmp_path / "account" / "token", "token-2")
    fresh.cancel()


async def test_changed_objects_and_labels_are_written(tmp_path: Path) -> None:
    labels = {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}
    rig = Rig(
        tmp_path,
        {"name": "config", "configMap": {"name": "cm"}},
        {"name": "downward", "downwardAPI": labels},
    )
    rig.store.change("configmaps", "cm", {"key": "old"})
    await rig.volumes.mount()
    fresh = asyncio.create_task(rig.volumes.keep_fresh())
    await asyncio.sleep(0)
    rig.store.change("configmaps", "cm", {"key": "new"})
    await until_reads(tmp_path / "config" / "key", "new")
    rig.pod["metadata"]["labels"] = {"a": "2"}
    rig.volumes.pod_changed()
    await until_reads(tmp_path / "downward" / "labels", 'a="2"')
    fresh.cancel()
    await asyncio.wait({fresh})
    assert not rig.store.listeners


@pytest.mark.parametrize(
    ("volume", "words"),
    [
        ({"configMap": {"name": "none"}}, 'configmap "none" not found'),
        ({"secret": {"secretName": "none"}}, 'secret "none" not found'),
        ({"hostPath": {"path": "/does/not/exist"}}, "hostPath /does/not/exist doesn't exist"),
        ({"image": {"reference": "models/qwen:1-broken"}}, "ErrImagePull"),
        ({"nfs": {"server": "x"}}, "of a kind that the sandbox lacks"),
        ({"persistentVolumeClaim": {"claimName": "unbound"}}, "'unbound' is not bound"),
        ({"persistentVolumeClaim": {"claimName": "block"}}, "hostPath volumes only"),
    ],
)
async def test_volume_that_cannot_be_made_says_why(tmp_path: Path, volume: JSON, words: str) -> None:
    rig = Rig(tmp_path, {"name": "v", **volume})
    claims = "/api/v1/namespaces/prod/persistentvolumeclaims"
    rig.api.objects = {
        f"{claims}/unbound": {"spec": {}},
        f"{claims}/block": {"spec": {"volumeName": "pv"}},
        "/api/v1/persistentvolumes/pv": {"spec": {"csi": {}}},
    }
    with pytest.raises(VolumeError) as error:
        await rig.volumes.mount()
    assert words in str(error.value)


async def test_optional_sources_may_be_missing(tmp_path: Path) -> None:
    rig = Rig(tmp_path, {"name": "v", "secret": {"secretName": "none", "optional": True}})
    await rig.volumes.mount()
    assert [path.name for path in (tmp_path / "v").iterdir() if not path.name.startswith("..")] == []
