"""One pass of the real reconciler on a strict API server in memory."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from inference_operator.api import names
from inference_operator.api.conditions import ConditionType
from inference_operator.engine import reconciler as reconciler_module
from inference_operator.engine.reconciler import AFTER_WRITE_SECONDS, RESYNC_SECONDS
from inference_operator.ports import KubeError, NotFound
from inference_operator.render import children as children_module
from tests.unit.engine.fake_kube import Died, FakeKube, Object
from tests.unit.engine.rig import KEY, Rig, cluster

FORBIDDEN = KubeError("apply: 403 Forbidden: not allowed", status=403, transient=False)
UNAVAILABLE = KubeError("apply: 503", status=503, transient=True)


@pytest.fixture
def rig() -> Rig:
    made = Rig()
    made.kube.create(cluster())
    return made


def revision_name(rig: Rig) -> str:
    return str(rig.child("ControllerRevision")[0]["metadata"]["name"])


async def test_the_first_pass_makes_everything_and_the_second_nothing(rig: Rig) -> None:
    assert await rig.run() == AFTER_WRITE_SECONDS
    kinds = {kind for kind in rig.kube.kinds() if kind != names.KIND}
    assert kinds == {
        "ConfigMap",
        "ControllerRevision",
        "Deployment",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "Service",
        "ServiceAccount",
    }
    before = len(rig.kube.writes)
    assert await rig.run() == RESYNC_SECONDS * 1.5
    assert rig.kube.writes[before:] == []


async def test_nothing_is_written_after_a_restart_either(rig: Rig) -> None:
    await rig.run_until_quiet()
    restarted = Rig(rig.kube)
    before = len(rig.kube.writes)
    await restarted.run()
    assert rig.kube.writes[before:] == []
    assert rig.kube.reads[-1] == "get InferenceCluster llama"


async def test_the_record_comes_before_what_is_made_from_it(rig: Rig) -> None:
    await rig.run()
    name = revision_name(rig)
    order = [write for write in rig.kube.writes if write.endswith(name)]
    assert order == [f"apply ControllerRevision {name}", f"apply Service {name}", f"apply Deployment {name}"]


async def test_a_new_cluster_says_at_once_that_it_is_not_ready(rig: Rig) -> None:
    await rig.run()
    assert rig.kube.writes[0] == "status InferenceCluster llama"
    assert rig.condition("Ready")["status"] != "True"
    assert rig.condition("Reconciling")["status"] == "True"
    assert rig.status()["selector"]


def comparable(kube: FakeKube) -> dict[Any, Object]:
    """All objects without what the server counts up."""
    result = copy.deepcopy(kube.objects)
    for obj in result.values():
        for key in ("uid", "resourceVersion", "ownerReferences", "managedFields"):
            obj["metadata"].pop(key, None)
    return result


async def test_a_process_that_dies_at_any_write_is_followed_by_one_that_ends_at_the_same_place() -> None:
    whole = Rig()
    whole.kube.create(cluster())
    await whole.run_until_quiet()
    total = len(whole.kube.writes)
    assert total > 12
    for survived in range(total):
        first = Rig()
        first.kube.create(cluster())
        first.kube.die_after = survived
        with pytest.raises((Died, BaseExceptionGroup)) as caught:
            await first.run()
            await first.run()
        if isinstance(caught.value, BaseExceptionGroup):
            assert caught.group_contains(Died)
        first.kube.die_after = None
        second = Rig(first.kube)
        await second.run_until_quiet()
        assert comparable(second.kube) == comparable(whole.kube), f"died after {survived} writes"


async def test_the_watches_may_lag_behind_our_own_writes(rig: Rig) -> None:
    for _ in range(4):  # no sync in between: the store knows only the answers
        await rig.run()
    assert len(rig.kube.writes) == len(set(rig.kube.writes)) + 1  # the status, twice


async def test_a_foreign_edit_is_undone_with_one_write(rig: Rig) -> None:
    await rig.run_until_quiet()
    rig.kube.edit("Deployment", "llama-gateway", lambda obj: obj["spec"].update(replicas=9))
    rig.store.sync()
    before = len(rig.kube.writes)
    await rig.run()
    assert rig.kube.writes[before:] == ["apply Deployment llama-gateway"]
    assert rig.kube.named("Deployment", "llama-gateway")["spec"]["replicas"] == 2


async def test_an_object_of_someone_else_is_never_touched_and_named_in_the_status(rig: Rig) -> None:
    foreign = rig.kube.create(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "llama-gateway", "namespace": "ns", "labels": {"app": "mine"}},
            "spec": {"selector": {"app": "mine"}},
        }
    )
    kept = copy.deepcopy(foreign)
    await rig.run_until_quiet()
    assert rig.kube.named("Service", "llama-gateway") == kept
    assert rig.condition("SpecValid")["reason"] == "NameTaken"
    assert "Service/llama-gateway" in rig.condition("SpecValid")["message"]
    assert "apply Deployment llama-gateway" in rig.kube.writes


async def test_children_of_a_deleted_cluster_of_the_same_name_are_waited_for(rig: Rig) -> None:
    await rig.run_until_quiet()
    del rig.kube.objects[names.KIND, "ns", "llama"]
    rig.kube.create(cluster())
    rig.store.sync()
    before = len(rig.kube.writes)
    with pytest.raises(KubeError, match="isn't garbage-collected yet") as caught:
        await rig.run()
    assert caught.value.transient
    assert {write.split()[0] for write in rig.kube.writes[before:]} == {"status"}
    assert rig.condition("SpecValid")["status"] == "True"

    for key in [key for key in rig.kube.objects if key[0] != names.KIND]:
        del rig.kube.objects[key]
    await rig.run_until_quiet()
    assert len(rig.child("Deployment")) == 2


async def test_what_is_refused_for_good_is_told_and_holds_up_nothing_else(rig: Rig) -> None:
    rig.kube.refuse = lambda what: FORBIDDEN if what == "apply NetworkPolicy llama-engine" else None
    with pytest.raises(KubeError) as caught:
        await rig.run()
    assert not caught.value.transient
    assert caught.value.retry_after == AFTER_WRITE_SECONDS
    assert (rig.condition("Stalled")["status"], rig.condition("Stalled")["reason"]) == ("True", "ApplyFailed")
    assert "403" in rig.condition("Stalled")["message"]
    assert len(rig.child("Deployment")) == 2

    with pytest.raises(KubeError) as caught:
        await rig.run()
    assert caught.value.retry_after is None  # nothing more to do: retried slowly

    rig.kube.refuse = lambda what: None
    await rig.run_until_quiet()
    assert rig.condition("Stalled")["status"] == "False"


async def test_without_its_record_no_deployment_is_made(rig: Rig) -> None:
    rig.kube.refuse = lambda what: UNAVAILABLE if what.startswith("apply ControllerRevision") else None
    with pytest.raises(KubeError) as caught:
        await rig.run()
    assert caught.value.transient
    assert [obj["metadata"]["name"] for obj in rig.child("Deployment")] == ["llama-gateway"]
    assert [obj["metadata"]["name"] for obj in rig.child("Service")] == ["llama-gateway"]


async def test_the_status_is_written_although_a_child_was_not(rig: Rig) -> None:
    await rig.run()
    rig.kube.update_spec("llama", replicas=3)
    rig.kube.refuse = lambda what: UNAVAILABLE if what.startswith("apply Deployment") else None
    with pytest.raises(KubeError):
        await rig.run()
    assert rig.status()["observedGeneration"] == 2


async def test_all_errors_are_one_error_with_the_longest_wait(rig: Rig) -> None:
    slow = KubeError("apply: 429", status=429, transient=True, retry_after=9)
    rig.kube.refuse = lambda what: slow if "Service " in what else FORBIDDEN if "Policy" in what else None
    with pytest.raises(KubeError, match=r"429 \(and 3 more\)") as caught:
        await rig.run()
    assert (caught.value.transient, caught.value.retry_after) == (True, 9)


async def test_a_cluster_that_is_gone_is_forgotten(rig: Rig) -> None:
    await rig.run_until_quiet()
    del rig.kube.objects[names.KIND, "ns", "llama"]
    before = len(rig.kube.writes)
    assert await rig.run() is None
    assert rig.kube.writes[before:] == []
    assert rig.directory.clusters("ns") == []


def delete(rig: Rig, *finalizers: str) -> None:
    """As a user, while finalizers hold the cluster."""
    meta = rig.kube.named(names.KIND, "llama")["metadata"]
    meta |= {"deletionTimestamp": "2026-11-30T12:00:00Z", "finalizers": list(finalizers)}


async def test_a_cluster_that_is_being_deleted_says_so_once_and_its_children_are_left_alone(
    rig: Rig,
) -> None:
    await rig.run_until_quiet()
    delete(rig, "b.example/backup", "a.example/audit")
    for kind in ("Deployment", "Service"):
        del rig.kube.objects[kind, "ns", "llama-gateway"]
    rig.store.sync()
    before = len(rig.kube.writes)
    assert await rig.run() is None
    assert rig.kube.writes[before:] == ["status InferenceCluster llama"]
    ready = rig.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("False", "Deleting")
    assert ready["message"].endswith("Finalizers that hold it: a.example/audit, b.example/backup")
    found = {c["type"]: c["status"] for c in rig.status()["conditions"]}
    assert found == {
        kind.value: "False" if kind is ConditionType.READY else "Unknown" for kind in ConditionType
    }

    rig.clock.time += 60
    assert await rig.run() is None
    assert len(rig.kube.writes) == before + 1, "written again though nothing has changed"

    delete(rig, "a.example/audit")
    await rig.run()
    assert rig.condition("Ready")["message"].endswith("hold it: a.example/audit")
    assert rig.condition("Ready")["lastTransitionTime"] == ready["lastTransitionTime"]
    assert rig.kube.events[-1][1] == "Created", "nothing of this is an Event"


async def test_a_cluster_that_goes_before_its_last_status_is_no_failure(rig: Rig) -> None:
    delete(rig)
    gone = NotFound("status: 404", status=404, transient=False)
    rig.kube.refuse = lambda what: gone
    assert await rig.run() is None


async def test_a_suspended_cluster_gets_its_status_and_no_other_write(rig: Rig) -> None:
    await rig.run_until_quiet()
    rig.kube.update_spec("llama", suspend=True, replicas=5)
    del rig.kube.objects["PodDisruptionBudget", "ns", "llama-gateway"]
    rig.store.sync()
    before = len(rig.kube.writes)
    await rig.run()
    assert rig.kube.writes[before:] == ["status InferenceCluster llama"]
    assert rig.condition("Ready")["reason"] == "Suspended"


@pytest.mark.parametrize(
    ("spec", "want_reason"),
    [
        ({"model": {"id": "nobody/unknown"}}, "UnknownModel"),
        ({"replicas": "three"}, "SchemaViolation"),
        ({"colour": "blue"}, "SchemaViolation"),
    ],
)
async def test_a_spec_that_does_not_hold_makes_no_child_and_is_told_once(
    spec: Object, want_reason: str
) -> None:
    rig = Rig()
    rig.kube.create(cluster(**spec))
    await rig.run_until_quiet()
    assert rig.kube.kinds() == [names.KIND]
    assert (rig.condition("SpecValid")["status"], rig.condition("SpecValid")["reason"]) == (
        "False",
        want_reason,
    )
    assert [(type_, reason) for type_, reason, _ in rig.kube.events] == [("Warning", want_reason)]


async def test_a_running_cluster_keeps_what_runs_when_its_spec_turns_bad(rig: Rig) -> None:
    await rig.run_until_quiet()
    before = [obj["metadata"]["name"] for obj in rig.child("Deployment")]
    rig.kube.update_spec("llama", model={"id": "nobody/unknown"})
    await rig.run_until_quiet()
    assert [obj["metadata"]["name"] for obj in rig.child("Deployment")] == before
    assert rig.condition("SpecValid")["status"] == "False"


async def test_a_plan_is_made_once_for_the_same_inputs(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await rig.run_until_quiet()

    def refuse(spec: object) -> None:
        raise AssertionError("planned again")

    monkeypatch.setattr(reconciler_module, "make_plan", refuse)
    rig.kube.update_spec("llama", replicas=3)
    await rig.run_until_quiet()
    assert rig.kube.named("Deployment", revision_name(rig))["spec"]["replicas"] == 3


async def test_an_upgrade_renders_nothing_that_runs_anew(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await rig.run_until_quiet()
    old = copy.deepcopy(rig.kube.named("Deployment", revision_name(rig)))
    real = children_module.pod_template

    def newer(*args: Any) -> Object:
        template = copy.deepcopy(real(*args))
        template["spec"]["terminationGracePeriodSeconds"] = 77
        return template

    monkeypatch.setattr(children_module, "pod_template", newer)
    upgraded = Rig(rig.kube)
    before = len(rig.kube.writes)
    await upgraded.run_until_quiet()
    assert rig.kube.writes[before:] == ["status InferenceCluster llama"]
    assert rig.kube.named("Deployment", revision_name(rig)) == old
    assert upgraded.condition("UpdateAvailable")["status"] == "True"


async def test_moves_become_events_and_an_event_that_fails_stops_nothing(rig: Rig) -> None:
    await rig.run()
    assert [reason for _, reason, _ in rig.kube.events] == ["Created"]

    async def broken(*_: object) -> None:
        raise FORBIDDEN

    rig.kube.event = broken  # type: ignore[method-assign]
    rig.kube.update_spec("llama", replicas=3)
    await rig.run_until_quiet()
    assert rig.status()["observedGeneration"] == 2


def gateway_pod(name: str) -> Object:
    labels = {
        names.LABEL_MANAGED_BY: names.MANAGED_BY,
        names.LABEL_CLUSTER: "llama",
        names.LABEL_COMPONENT: names.COMPONENT_GATEWAY,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ns", "labels": labels},
        "spec": {},
        "status": {"phase": "Running"},
    }


async def test_reports_of_gateway_pods_that_are_gone_are_removed_and_no_other(rig: Rig) -> None:
    await rig.run_until_quiet()
    rig.kube.create(gateway_pod("gw-known"))
    report = rig.kube.named("ConfigMap", "llama-gateway-report")
    report["data"] = {"gateway.gw-known": "{}", "gateway.gw-dead": "{}", "gateway.gw-new": "{}", "note": "x"}
    rig.store.sync()
    rig.kube.create(gateway_pod("gw-new"))  # its watch event is still on its way
    before = len(rig.kube.writes)
    await rig.run()
    merges = [write for write in rig.kube.writes[before:] if not write.startswith("status")]
    assert merges == ["merge ConfigMap llama-gateway-report"]
    assert set(report["data"]) == {"gateway.gw-known", "gateway.gw-new", "note"}


async def test_a_pass_over_a_settled_cluster_is_one_read(rig: Rig) -> None:
    await rig.run_until_quiet()
    rig.kube.reads.clear()
    await rig.run()
    assert rig.kube.reads == ["get InferenceCluster llama"]


async def test_the_time_of_the_next_pass_is_spread(rig: Rig) -> None:
    await rig.run_until_quiet()
    assert await rig.run() == RESYNC_SECONDS * 1.5
    assert KEY not in rig.queued
