"""Fewer engines of one revision: who goes, when, and what is written on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from inference_operator.api.routing import Drain
from inference_operator.core.model import Decision, EnginePod, GatewayObserved
from inference_operator.core.scaledown import FIRST_TO_GO, Scaled, marks, scale

from .builders import (
    NOW,
    both,
    engine,
    engines_of,
    gateway,
    loading,
    observed,
    report,
    revision,
    unschedulable,
)

TIMEOUT = 300.0
SINCE = NOW - 10


def shrink(
    pods: Sequence[EnginePod],
    want: int,
    gates: GatewayObserved | None = None,
    *,
    replicas: int = -1,
    loads: Mapping[str, int] | None = None,
) -> Scaled:
    return scale(revision("a", pods, replicas), want, gates or both(), TIMEOUT, NOW, loads or {})


def drained(pod: str, *, since: float = SINCE, **states: str) -> GatewayObserved:
    base = both(**states)
    return gateway(*base.reports, drains=[Drain(pod=pod, since=since)])


def test_up_is_at_once_and_drops_drains_and_marks() -> None:
    pods = engines_of("a", 2, deletion_cost=FIRST_TO_GO)
    assert shrink(pods, 4, drained("a-1", a_1="IDLE")) == Scaled(4)


def test_the_newest_ready_engine_drains_and_the_replicas_stay() -> None:
    got = shrink(engines_of("a", 3), 2)
    assert got.replicas == 3
    assert got.drains == (Drain(pod="a-2", since=NOW),)
    assert got.cheapest == ()


def test_of_engines_that_serve_the_least_busy_drains() -> None:
    loads = {"a-0": 3, "a-1": 1, "a-2": 2}
    got = shrink(engines_of("a", 3), 1, loads=loads)
    assert [drain.pod for drain in got.drains] == ["a-1", "a-2"]


def test_an_idle_engine_goes_after_one_that_does_not_serve() -> None:
    got = shrink([*engines_of("a", 2), loading("slow")], 2, loads={"a-0": 0, "a-1": 0, "slow": 9})
    assert [drain.pod for drain in got.drains] == ["slow"]


def test_a_drain_that_began_is_not_moved_to_an_engine_that_got_idle() -> None:
    got = shrink(engines_of("a", 2), 1, drained("a-1", a_1="DRAIN"), loads={"a-0": 0, "a-1": 7})
    assert got.drains == (Drain(pod="a-1", since=SINCE),)


def test_an_engine_that_is_not_ready_goes_before_any_that_is() -> None:
    got = shrink([*engines_of("a", 2), loading("slow", created=NOW - 5000)], 2)
    assert [drain.pod for drain in got.drains] == ["slow"]
    assert got.cheapest == ("slow",), "it serves nobody, so there is nothing to wait for"


def test_of_engines_that_are_not_ready_one_without_a_node_goes_first() -> None:
    got = shrink([loading("loads"), unschedulable("waits"), engine("serves")], 2)
    assert got.cheapest == ("waits",)


def test_an_engine_on_a_lost_node_counts_as_not_ready() -> None:
    got = shrink([engine("lost", node_lost=True, created=NOW - 9000), *engines_of("a", 2)], 2)
    assert got.cheapest == ("lost",)


def test_a_drain_goes_on_with_the_engine_it_began_with() -> None:
    got = shrink(engines_of("a", 3), 2, drained("a-0", a_0="DRAIN"))
    assert got.drains == (Drain(pod="a-0", since=SINCE),)
    assert got.wake == SINCE + TIMEOUT - NOW


def test_idle_at_one_gateway_only_is_not_idle() -> None:
    gates = gateway(
        report("g-0", a_1="IDLE"), report("g-1", a_1="DRAIN"), drains=[Drain(pod="a-1", since=SINCE)]
    )
    assert shrink(engines_of("a", 2), 1, gates).cheapest == ()


def test_a_gateway_that_says_nothing_is_waited_for() -> None:
    gates = gateway(report("g-0", a_1="IDLE"), drains=[Drain(pod="a-1", since=SINCE)])
    assert shrink(engines_of("a", 2), 1, gates).cheapest == ()


def test_a_gateway_on_its_way_out_that_still_streams_is_waited_for() -> None:
    gates = gateway(
        report("g-0", a_1="IDLE"),
        report("g-1", a_1="UP"),
        ready=["g-0"],
        drains=[Drain(pod="a-1", since=SINCE)],
    )
    assert shrink(engines_of("a", 2), 1, gates).cheapest == ()


def test_idle_is_believed_only_after_the_gateways_had_time_to_report() -> None:
    gates = drained("a-1", a_1="IDLE", since=NOW - 1)
    got = shrink(engines_of("a", 2), 1, gates)
    assert got.cheapest == ()
    assert got.wake == 1.0


def test_idle_everywhere_marks_and_waits_for_the_mark() -> None:
    got = shrink(engines_of("a", 2), 1, drained("a-1", a_1="IDLE"))
    assert got.cheapest == ("a-1",)
    assert got.replicas == 2


def test_the_drain_timeout_ends_the_wait_for_streams() -> None:
    got = shrink(engines_of("a", 2), 1, drained("a-1", a_1="DRAIN", since=NOW - TIMEOUT))
    assert got.cheapest == ("a-1",)


def test_without_any_gateway_that_ever_worked_nobody_is_waited_for() -> None:
    gates = gateway(ready=[], drains=[Drain(pod="a-1", since=SINCE)])
    assert shrink(engines_of("a", 2), 1, gates).cheapest == ("a-1",)


def test_with_all_gateways_lost_streams_may_still_run() -> None:
    gates = gateway(report("g-0", a_1="IDLE"), ready=[], drains=[Drain(pod="a-1", since=SINCE)])
    assert shrink(engines_of("a", 2), 1, gates).cheapest == ()


def test_the_mark_seen_lowers_the_replicas() -> None:
    pods = [engine("a-0"), engine("a-1", deletion_cost=FIRST_TO_GO)]
    got = shrink(pods, 1, drained("a-1", a_1="IDLE"))
    assert got.replicas == 1
    assert [drain.pod for drain in got.drains] == ["a-1"], "it drains until it is gone"


def test_several_victims_go_one_by_one_as_they_get_idle() -> None:
    pods = [engine("a-0"), engine("a-1", deletion_cost=FIRST_TO_GO), engine("a-2")]
    base = both(a_1="IDLE", a_2="DRAIN")
    drains = [Drain(pod="a-1", since=SINCE), Drain(pod="a-2", since=SINCE)]
    got = shrink(pods, 1, gateway(*base.reports, drains=drains))
    assert got.replicas == 2
    assert got.cheapest == ("a-1",)


def test_a_restarting_engine_takes_the_place_of_the_drained_one() -> None:
    """Kubernetes would delete the restarting one whatever the marks say, and the drained one would stay."""
    pods = [loading("a-0"), engine("a-1", deletion_cost=FIRST_TO_GO), engine("a-2")]
    got = shrink(pods, 2, drained("a-1", a_1="IDLE", a_2="UP"))
    assert [drain.pod for drain in got.drains] == ["a-0"]
    assert got.cheapest == ("a-0",)
    assert got.replicas == 3


def test_replicas_beyond_the_pods_that_exist_are_dropped_at_once() -> None:
    got = shrink(engines_of("a", 2), 1, replicas=5)
    assert got.replicas == 2, "three exist on paper only"
    assert len(got.drains) == 1


def test_a_lowering_on_its_way_is_not_taken_back() -> None:
    """The replicas are 2 already, the pods still 3, and the one that was drained is no longer the choice."""
    pods = [loading("a-0"), engine("a-1", deletion_cost=FIRST_TO_GO), engine("a-2")]
    assert shrink(pods, 2, drained("a-1", a_1="IDLE"), replicas=2).replicas == 2


def test_terminating_pods_are_nobodys_victims() -> None:
    pods = [*engines_of("a", 2), engine("leaving", terminating=True)]
    assert shrink(pods, 2) == Scaled(2)


def test_marks_are_set_once_and_reset_when_they_no_longer_apply() -> None:
    pods = [
        engine("new"),
        engine("marked", deletion_cost=FIRST_TO_GO),
        engine("stale", deletion_cost=FIRST_TO_GO),
        engine("users", deletion_cost=7),
        engine("users-to-go", deletion_cost=7),
    ]
    decision = Decision(stable="a", target="a", cheapest=("new", "marked", "users-to-go"))
    want = {"new": "-1000", "users-to-go": "-1000", "stale": None}
    assert marks(observed(revision("a", pods)), decision) == want
