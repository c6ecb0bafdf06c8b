"""Pods that somebody took out of their ReplicaSet."""

from __future__ import annotations

from inference_operator.api import names
from tests.unit.engine.fake_kube import Object
from tests.unit.engine.rig import Rig, cluster


async def test_a_pod_that_left_its_replica_set_goes_with_the_cluster_until_it_has_one_again() -> None:
    rig = Rig()
    rig.kube.create(cluster())
    await rig.run_until_quiet()
    labels = names.cluster_selector("llama")
    name = f"{rig.child('ControllerRevision')[0]['metadata']['name']}-5f8c9-x2k4v"
    rig.kube.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "ns", "labels": labels},
            "spec": {},
            "status": {"phase": "Running"},
        }
    )
    replica_set = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "rs",
        "uid": "u",
        "controller": True,
    }

    def owners() -> list[Object]:
        found: list[Object] = rig.kube.named("Pod", name)["metadata"]["ownerReferences"]
        return found

    await rig.run_until_quiet()
    assert [(owner["kind"], "controller" in owner) for owner in owners()] == [(names.KIND, False)]
    rig.kube.named("Pod", name)["metadata"]["ownerReferences"].append(replica_set)
    await rig.run_until_quiet()
    assert owners() == [replica_set]
    assert [write for write in rig.kube.writes if write.endswith(name)] == [f"merge Pod {name}"] * 2
