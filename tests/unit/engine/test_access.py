"""The Role and RoleBinding that the agents of a namespace share."""

from __future__ import annotations

import asyncio

import pytest

from inference_operator.api import names
from inference_operator.engine.directory import access_key
from inference_operator.ports import KubeError
from tests.unit.engine.rig import Rig, cluster

ACCESS = access_key("ns")


@pytest.fixture
def rig() -> Rig:
    made = Rig()
    for name in ("a", "b"):
        made.kube.create(cluster(name))
    return made


def named_in_role(rig: Rig) -> set[str]:
    role = rig.kube.named("Role", names.AGENT_ROLE)
    return {name for rule in role["rules"] for name in rule.get("resourceNames", ())}


async def test_two_clusters_share_one_pair_that_names_and_is_owned_by_both(rig: Rig) -> None:
    await asyncio.gather(rig.run(("ns", "a")), rig.run(("ns", "b")))
    assert rig.queued.count(ACCESS) == 2  # the work queue makes one of them
    await rig.run_until_quiet(ACCESS)
    assert named_in_role(rig) == {"a-routing", "b-routing", "a-gateway-report", "b-gateway-report"}
    owners = rig.kube.named("RoleBinding", names.AGENT_ROLE)["metadata"]["ownerReferences"]
    assert {owner["name"] for owner in owners} == {"a", "b"}
    assert not any(owner.get("controller") for owner in owners)


async def test_a_deleted_cluster_leaves_the_role(rig: Rig) -> None:
    await rig.run(("ns", "a"))
    await rig.run(("ns", "b"))
    await rig.run_until_quiet(ACCESS)
    del rig.kube.objects[names.KIND, "ns", "a"]
    rig.queued.clear()
    await rig.run(("ns", "a"))
    assert rig.queued == [ACCESS]
    await rig.run_until_quiet(ACCESS)
    assert named_in_role(rig) == {"b-routing", "b-gateway-report"}


async def test_without_a_cluster_nothing_is_written(rig: Rig) -> None:
    await rig.run(access_key("empty"))
    assert rig.kube.writes == []


async def test_a_role_of_someone_else_is_left_alone(rig: Rig) -> None:
    rig.kube.create(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": names.AGENT_ROLE, "namespace": "ns"},
            "rules": [],
        }
    )
    await rig.run(("ns", "a"))
    with pytest.raises(KubeError, match="exists and isn't ours") as caught:
        await rig.run(ACCESS)
    assert not caught.value.transient
    assert rig.kube.named("Role", names.AGENT_ROLE)["rules"] == []


async def test_a_cluster_of_the_same_name_with_a_new_uid_is_another_one(rig: Rig) -> None:
    await rig.run(("ns", "a"))
    rig.queued.clear()
    rig.directory.seen("ns", "a", "other-uid")
    assert rig.queued == [ACCESS]
    rig.directory.seen("ns", "a", "other-uid")
    assert rig.queued == [ACCESS]
