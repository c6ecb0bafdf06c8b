"""Rolling from one revision to another: what each situation makes of the sizes and shares.

`old` is stable, `new` is what the spec asks for; numbers are (old, new).
"""

from __future__ import annotations

import pytest

from inference_operator.core.decide import decide
from inference_operator.core.model import Decision, EnginePod, Revision
from inference_operator.core.rollout import shares

from .builders import (
    NOW,
    engine,
    engines_of,
    gateway,
    loading,
    make_plan,
    make_spec,
    observed,
    report,
    revision,
    unschedulable,
)


def rolling(
    n: int,
    old: list[EnginePod],
    new: list[EnginePod] | None = None,
    *,
    strategy: str = "RollingUpdate",
    **changes: object,
) -> Decision:
    made = [revision("old", old, age=5000)]
    if new is not None:
        made.append(revision("new", new, age=100))
    spec = make_spec(replicas=n, rollout={"strategy": strategy})
    return decide(spec, "new", observed(*made, stable="old", **changes), NOW)  # type: ignore[arg-type]


def sizes(decision: Decision) -> tuple[int, int]:
    """Replicas that are wanted in the end of this step: those that drain are taken off."""
    drained = [drain.pod for drain in decision.drains]
    going = sum(pod.startswith("old") for pod in drained), sum(pod.startswith("new") for pod in drained)
    return decision.replicas.get("old", 0) - going[0], decision.replicas["new"] - going[1]


def test_first_creation_is_stable_at_once_with_all_replicas_and_all_requests() -> None:
    got = decide(make_spec(replicas=3), "new", observed(), NOW)
    assert (got.stable, got.target) == ("new", "new")
    assert got.replicas == {"new": 3}
    assert got.shares == {"new": 10_000}


def test_a_new_revision_starts_with_the_one_engine_of_the_surge() -> None:
    got = rolling(3, engines_of("old", 3))
    assert got.replicas == {"old": 3, "new": 1}
    assert got.shares == {"old": 10_000, "new": 0}
    assert got.stable == "old"


def test_a_loading_target_moves_nothing() -> None:
    got = rolling(3, engines_of("old", 3), [loading("new-0")])
    assert sizes(got) == (3, 1)
    assert got.shares == {"old": 10_000, "new": 0}


def test_a_ready_target_takes_its_share_and_one_old_engine_drains() -> None:
    got = rolling(3, engines_of("old", 3), engines_of("new", 1))
    assert sizes(got) == (2, 1)
    assert got.replicas == {"old": 3, "new": 1}, "lowered only after the drain"
    assert got.shares == {"old": 6667, "new": 3333}


def test_a_target_that_one_gateway_does_not_route_to_yet_replaces_nobody() -> None:
    old = {"old_0": "UP", "old_1": "UP"}
    gates = gateway(report("g-0", **old, new_0="UP"), report("g-1", **old))
    assert sizes(rolling(2, engines_of("old", 2), engines_of("new", 1), gateway=gates)) == (2, 1)


def test_before_any_report_readiness_has_to_do() -> None:
    assert sizes(rolling(2, engines_of("old", 2), engines_of("new", 1), gateway=gateway())) == (1, 1)


def test_the_next_engine_starts_when_an_old_one_is_gone() -> None:
    got = rolling(3, engines_of("old", 2), engines_of("new", 1))
    assert got.replicas == {"old": 2, "new": 2}


def test_a_pod_that_still_ends_does_not_hold_up_the_next() -> None:
    old = [*engines_of("old", 2), engine("old-9", terminating=True)]
    assert rolling(3, old, engines_of("new", 1)).replicas == {"old": 2, "new": 2}


def test_a_target_that_fails_again_stops_the_steps_and_keeps_what_drains() -> None:
    got = rolling(3, engines_of("old", 2), [loading("new-0", waiting="CrashLoopBackOff"), loading("new-1")])
    assert sizes(got) == (2, 2)
    assert got.drains == ()


def test_the_last_old_engine_goes_when_all_new_ones_serve() -> None:
    assert sizes(rolling(3, engines_of("old", 1), engines_of("new", 3))) == (0, 3)


@pytest.mark.parametrize(("ready", "done"), [(3, True), (2, True), (1, False)])
def test_done_when_nothing_old_is_left_and_at_most_one_engine_is_missing(ready: int, done: bool) -> None:
    new = [*engines_of("new", ready), *[loading(f"new-{i}") for i in range(5, 8 - ready)]]
    got = rolling(3, [], new)
    assert (got.stable == "new") is done
    assert (got.retire == ("old",)) is done


def test_a_revision_is_retired_only_when_its_last_pod_has_ended() -> None:
    got = rolling(1, [engine("old-0", terminating=True)], engines_of("new", 1))
    assert got.stable == "new"
    assert got.retire == ()
    assert got.shares == {"old": 0, "new": 10_000}


def test_a_pod_that_ends_for_ever_on_a_lost_node_does_not_keep_its_revision() -> None:
    got = rolling(1, [engine("old-0", terminating=True, node_lost=True)], engines_of("new", 1))
    assert got.retire == ("old",)


# --- a full pool ---


def test_an_unschedulable_surge_waits_a_moment_before_it_counts() -> None:
    got = rolling(3, engines_of("old", 3), [unschedulable("new-0", age=9)])
    assert sizes(got) == (3, 1)
    assert got.wake == 1.0


def test_on_a_full_pool_one_old_engine_goes_first() -> None:
    assert sizes(rolling(3, engines_of("old", 3), [unschedulable("new-0")])) == (2, 1)


def test_on_a_full_pool_never_more_than_one_is_missing() -> None:
    got = rolling(3, engines_of("old", 2), [loading("new-0"), unschedulable("new-1")])
    assert sizes(got)[0] == 2


def test_a_gpu_that_is_just_being_freed_is_waited_for() -> None:
    old = [*engines_of("old", 3), engine("old-9", terminating=True)]
    assert sizes(rolling(3, old, [unschedulable("new-0")])) == (3, 1)


def test_quota_counts_as_a_full_pool() -> None:
    made = revision("new", [], 1, age=100, create_error='pods "x" is forbidden: exceeded quota: gpus')
    old = revision("old", engines_of("old", 3), age=5000)
    got = decide(make_spec(replicas=3), "new", observed(old, made, stable="old"), NOW)
    assert sizes(got) == (2, 1)


@pytest.mark.parametrize(
    "why",
    ["0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.", "no nodes available"],
)
def test_a_pod_that_fits_no_node_gains_nothing_by_an_old_engines_end(why: str) -> None:
    got = rolling(3, engines_of("old", 3), [unschedulable("new-0", unschedulable=why)])
    assert sizes(got) == (3, 1)


def test_gpus_of_another_type_are_not_freed_for_it() -> None:
    old = revision("old", engines_of("old", 3), age=5000, plan=make_plan(gpu_products=("NVIDIA-L40S",)))
    new = revision("new", [unschedulable("new-0")], age=100)
    got = decide(make_spec(replicas=3), "new", observed(old, new, stable="old"), NOW)
    assert sizes(got) == (3, 1)


def test_the_only_replica_on_a_full_pool_is_held_and_says_what_to_do() -> None:
    got = rolling(1, engines_of("old", 1), [unschedulable("new-0")])
    assert sizes(got) == (1, 1)
    for part in ("1 x nvidia.com/gpu", "Recreate", "Insufficient nvidia.com/gpu"):
        assert part in got.held


def test_an_only_replica_that_does_not_serve_makes_room() -> None:
    got = rolling(1, [loading("old-0")], [unschedulable("new-0")])
    assert sizes(got) == (0, 1)
    assert got.held == ""


# --- Recreate ---


def test_recreate_drains_all_old_engines_before_the_first_new_one() -> None:
    got = rolling(3, engines_of("old", 3), strategy="Recreate")
    assert sizes(got) == (0, 0)


def test_recreate_waits_for_pods_that_still_hold_their_gpus() -> None:
    got = rolling(2, [engine("old-0", terminating=True)], strategy="Recreate")
    assert got.replicas["new"] == 0


def test_recreate_starts_all_new_engines_at_once() -> None:
    got = rolling(2, [], strategy="Recreate")
    assert got.replicas["new"] == 2
    assert got.shares == {"old": 0, "new": 10_000}, "requests wait for it in the gateway"


# --- other changes in the middle ---


def three(
    n: int, old: list[EnginePod], between: list[EnginePod], new: list[EnginePod] | None = None
) -> Decision:
    made = [revision("old", old, age=5000), revision("between", between, age=500)]
    if new is not None:
        made.append(revision("new", new, age=50))
    return decide(make_spec(replicas=n), "new", observed(*made, stable="old", target="between"), NOW)


def test_what_came_between_shrinks_before_the_stable_revision() -> None:
    got = three(3, engines_of("old", 2), engines_of("between", 1), engines_of("new", 1))
    assert [drain.pod for drain in got.drains] == ["between-0"]


def test_engines_between_that_do_not_serve_go_at_once() -> None:
    got = three(3, engines_of("old", 3), [loading("between-0")])
    assert got.cheapest == ("between-0",)
    assert got.replicas["old"] == 3


def test_what_came_between_and_serves_is_kept_while_it_is_needed() -> None:
    got = three(3, engines_of("old", 1), engines_of("between", 2))
    assert got.drains == ()
    assert got.replicas == {"old": 1, "between": 2, "new": 1}


def test_an_empty_revision_between_is_retired_and_the_stable_one_kept() -> None:
    old = revision("old", [], 0, age=5000)
    between = revision("between", [], 0, age=500)
    new = revision("new", [loading("new-0")], age=50)
    got = decide(make_spec(replicas=1), "new", observed(old, between, new, stable="old"), NOW)
    assert got.retire == ("between",)
    assert got.stable == "old"


def test_going_back_grows_the_stable_revision_again() -> None:
    made = [revision("old", engines_of("old", 2), age=5000), revision("new", engines_of("new", 1), age=100)]
    got = decide(make_spec(replicas=3), "old", observed(*made, stable="old", target="new"), NOW)
    assert got.replicas == {"old": 3, "new": 1}
    assert got.drains == ()


def test_a_scale_up_beside_a_target_that_never_got_ready_goes_to_the_stable_revision() -> None:
    got = rolling(6, engines_of("old", 3), [loading("new-0", waiting="CrashLoopBackOff")])
    assert got.replicas == {"old": 5, "new": 2}


def test_a_scale_down_in_the_middle_takes_the_surplus_from_the_old() -> None:
    assert sizes(rolling(2, engines_of("old", 3), engines_of("new", 2))) == (0, 2)


def test_stopping_in_the_middle_stops_everything() -> None:
    got = rolling(0, engines_of("old", 2), engines_of("new", 1))
    assert sizes(got) == (0, 0)
    assert set(got.shares.values()) == {0}


# --- what is known ---


def test_a_spec_without_a_plan_keeps_and_scales_what_is_stable() -> None:
    made = revision("old", engines_of("old", 2))
    got = decide(make_spec(replicas=3), None, observed(made, stable="old"), NOW)
    assert (got.stable, got.target, got.replicas) == ("old", "old", {"old": 3})


def test_without_a_plan_and_without_anything_stable_nothing_is_decided() -> None:
    assert decide(make_spec(), None, observed(), NOW) == Decision(stable=None, target=None)


def test_a_lost_status_is_replaced_by_what_serves_most() -> None:
    made = [revision("old", engines_of("old", 3), age=5000), revision("new", engines_of("new", 1), age=100)]
    assert decide(make_spec(replicas=3), "new", observed(*made), NOW).stable == "old"


def test_a_stable_revision_that_is_gone_is_not_believed() -> None:
    made = revision("new", engines_of("new", 1))
    assert decide(make_spec(), "new", observed(made, stable="gone"), NOW).stable == "new"


def test_a_record_without_a_deployment_gets_its_deployment() -> None:
    """The operator died between the two writes."""
    made = [revision("old", engines_of("old", 1), age=5000), revision("new", [], None, age=100)]
    got = decide(make_spec(), "new", observed(*made, stable="old"), NOW)
    assert got.replicas == {"old": 1, "new": 1}


def test_a_deployment_without_a_record_goes_when_the_target_serves_alone() -> None:
    made = revision("new", engines_of("new", 1))
    assert decide(make_spec(), "new", observed(made, stable="new", unrecorded=("x",)), NOW).retire == ("x",)
    waits = observed(revision("new", [loading("new-0")]), stable="old", unrecorded=("x",))
    assert decide(make_spec(), "new", waits, NOW).retire == ()


# --- shares ---


def weights(**ready: int) -> list[Revision]:
    return [revision(name, engines_of(name, count)) for name, count in ready.items()]


@pytest.mark.parametrize(
    ("revisions", "drained", "want"),
    [
        ({"a": 2, "b": 1}, [], {"a": 6667, "b": 3333}),
        ({"a": 1, "b": 1, "c": 1}, [], {"a": 3334, "b": 3333, "c": 3333}),
        ({"a": 3, "b": 0}, [], {"a": 10_000, "b": 0}),
        ({"a": 2, "b": 1}, ["a-0", "a-1"], {"a": 0, "b": 10_000}),
        ({"a": 1, "b": 0}, ["a-0"], {"a": 0, "b": 10_000}),
        ({}, [], {"b": 10_000}),
    ],
)
def test_shares_follow_the_engines_that_take_requests(
    revisions: dict[str, int], drained: list[str], want: dict[str, int]
) -> None:
    assert shares(3, "b", weights(**revisions), drained) == want


def test_a_stopped_cluster_has_no_shares() -> None:
    assert shares(0, "a", weights(a=2), []) == {"a": 0}


def test_every_wait_has_its_moment() -> None:
    made = revision("new", [loading("new-0")])
    got = decide(make_spec(engine={"loadTimeout": "1m"}), "new", observed(made, stable="new"), NOW)
    assert got.wake == 40.0, "20 s of 60 are over"
