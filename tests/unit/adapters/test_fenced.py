"""Writes of a former leader don't reach the API server."""

from __future__ import annotations

import pytest

from inference_operator.adapters.fenced import FencedKube
from inference_operator.ports import KubeError
from tests.unit.engine.fake_kube import FakeKube

CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ns"}}


async def test_only_a_leader_writes_and_everyone_reads() -> None:
    kube = FakeKube()
    leading = True
    fenced = FencedKube(kube, lambda: leading)
    await fenced.apply(CONFIG_MAP)
    leading = False
    for write in (
        fenced.apply(CONFIG_MAP),
        fenced.apply_status(CONFIG_MAP),
        fenced.annotate("ConfigMap", "ns", "a", {"x": "y"}),
        fenced.merge("ConfigMap", "ns", "a", {}),
        fenced.delete("ConfigMap", "ns", "a", uid="u", resource_version="1"),
        fenced.event(CONFIG_MAP, "Normal", "A", "b"),
    ):
        with pytest.raises(KubeError, match="leads no longer") as caught:
            await write
        assert caught.value.transient
    assert kube.writes == ["apply ConfigMap a"]
    assert kube.events == []
    assert await fenced.get("ConfigMap", "ns", "a") is not None
    assert await fenced.find("ConfigMap", "ns", "a") is not None
