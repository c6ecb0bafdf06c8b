"""What happens when servers fall silent, fail, or leave."""

from __future__ import annotations

import pytest

from inference_operator.agent.monitor import Actions, Monitor
from inference_operator.agent.stat import Admin, Server
from tests.unit.agent.builders import BACKEND, engine, gateway, pool, server

CLUSTER = ("team-a", "llama")
THREE = gateway(pool(engine("e0"), engine("e1"), engine("e2")))
KEY = (BACKEND, "e1")
UP = (server("e0"), server("e1", current=4), server("e2"))


def with_e1(**changes: object) -> tuple[Server, ...]:
    return (server("e0"), server("e1", **changes), server("e2"))


class Rig:
    """A monitor and its clock."""

    def __init__(self, wanted=THREE) -> None:
        self.monitor = Monitor()
        self.wanted = wanted

    def at(self, now: float, *servers: Server) -> Actions:
        return self.monitor.tick(self.wanted, servers, now, 1_000_000 + now)

    def events(self) -> list[tuple[str, str]]:
        return [(e.kind, e.pod) for e in self.monitor.events(CLUSTER)]


def test_a_dead_server_is_told_and_closed_at_once():
    rig = Rig()
    dead = with_e1(dead=True, check="L7TOUT", current=4)
    rig.at(10.0, *UP)
    rig.monitor.check_failed(KEY, 9.2)
    actions = rig.at(10.2, *dead)
    assert actions.close == (KEY,)
    assert actions.dead == {KEY}
    assert rig.events() == [("EngineDown", "e1")]
    # As long as there are streams to close the event isn't complete.
    assert rig.at(10.9, *dead).close == (KEY,)
    for _ in range(4):
        rig.monitor.stream_cut(KEY, 10.95)
    # What an old worker still has on it stays named, also when nothing is left here.
    gone = with_e1(dead=True, check="L7TOUT")
    assert rig.at(11.0, *gone) == Actions(dead=frozenset({KEY}))
    rig.at(11.4, *gone)
    (event,) = rig.monitor.events(CLUSTER)
    assert (event.detection_ms, event.streams_cut, event.revision) == (1000, 4, "v1")


def test_it_comes_back():
    rig = Rig()
    rig.at(0.0, *UP)
    rig.at(1.0, *with_e1(dead=True, check="L4CON"))
    rig.at(2.0, *UP)
    rig.at(3.0, *UP)
    assert rig.events() == [("EngineDown", "e1"), ("EngineUp", "e1")]


@pytest.mark.parametrize("check", ["HANA", "* HANA", "INI", "* INI", "L7OK"])
def test_down_without_a_failed_check_closes_nothing(check: str):
    rig = Rig()
    passive = with_e1(dead=True, check=check, current=4)
    rig.at(0.0, *UP)
    rig.at(0.1, *passive)
    assert rig.at(5.0, *passive) == Actions()
    confirmed = with_e1(dead=True, check="L4TOUT", current=4)
    assert rig.at(5.2, *confirmed).close == (KEY,)


def test_failed_connections_and_a_failed_check_together_are_beyond_doubt():
    rig = Rig()
    passive = with_e1(dead=True, check="* HANA", current=4)
    rig.at(0.0, *UP)
    rig.monitor.check_failed(KEY, 0.1)
    rig.at(0.5, *with_e1(check="L4TOUT", current=4))
    assert rig.at(0.9, *passive).close == (KEY,)
    all_out = (server("e0", dead=True, check="HANA"), passive[1], server("e2", dead=True, check="L4TOUT"))
    assert rig.at(1.0, *all_out).revive == ((BACKEND, "e0"),)


def test_a_failed_check_before_a_good_one_confirms_nothing():
    rig = Rig()
    rig.at(0.0, *UP)
    rig.monitor.check_failed(KEY, 0.1)
    rig.at(0.5, *with_e1(check="* L7OK", current=4))
    assert rig.at(0.9, *with_e1(dead=True, check="HANA", current=4)) == Actions()


def test_three_failures_in_a_row_take_a_server_out_and_a_success_in_between_does_not():
    rig = Rig()
    rig.at(0.0, *UP)
    assert not rig.monitor.request_ended(KEY, True, 0.1)
    assert not rig.monitor.request_ended(KEY, True, 0.1)
    assert not rig.monitor.request_ended(KEY, False, 0.1)
    assert not rig.monitor.request_ended(KEY, True, 0.1)
    assert not rig.monitor.request_ended(KEY, True, 0.2)
    assert rig.at(0.2, *UP).eject == ()
    assert rig.monitor.request_ended(KEY, True, 0.3)
    assert rig.at(0.3, *UP).eject == (KEY,)


def test_an_ejected_server_stays_out_for_longer_each_time_and_is_told_once():
    rig = Rig()
    out = with_e1(dead=True, check="L7OK", current=4)
    rig.at(0.0, *UP)
    fail(rig, KEY, 0.1)
    assert rig.at(0.1, *UP).eject == (KEY,)
    assert rig.at(0.2, *out) == Actions()
    # HAProxy's checks bring it back after a second; two seconds are not over.
    assert rig.at(1.2, *UP).eject == (KEY,)
    assert rig.at(1.3, *out) == Actions()
    assert rig.at(2.3, *UP).eject == ()
    assert rig.events() == [("EngineDown", "e1"), ("EngineUp", "e1")]
    fail(rig, KEY, 2.4)
    assert rig.at(2.4, *UP).eject == (KEY,)
    assert rig.at(6.0, *UP).eject == (KEY,)
    assert rig.at(6.5, *UP).eject == ()


def test_failures_never_take_out_more_than_half_of_a_pool():
    rig = Rig()
    rig.at(0.0, *UP)
    for name in ("e0", "e1", "e2"):
        fail(rig, (BACKEND, name), 0.1)
    assert len(rig.at(0.1, *UP).eject) == 1
    # A new engine may fail before its first check; one that is really dead leaves no room either.
    for check in ("L7OK", "INI", "* INI", "HANA", "L4TOUT"):
        one_out = (server("e0", dead=True, check=check), server("e1"), server("e2"))
        assert rig.at(0.2, *one_out).eject == ()
    single = Rig(gateway(pool(engine("e0"))))
    single.at(0.0, server("e0"))
    fail(single, (BACKEND, "e0"), 0.1)
    assert single.at(0.1, server("e0")).eject == ()


def test_when_nothing_is_left_those_down_by_connections_alone_are_put_back():
    rig = Rig()
    rig.at(0.0, *UP)
    two = (server("e0", dead=True, check="HANA"), server("e1", dead=True, check="HANA"), server("e2"))
    assert rig.at(0.1, *two).revive == ()
    all_out = (
        server("e0", dead=True, check="HANA"),
        server("e1", dead=True, check="* HANA"),
        server("e2", dead=True, check="L4TOUT"),
    )
    assert rig.at(0.2, *all_out).revive == ((BACKEND, "e0"), (BACKEND, "e1"))


def test_an_engine_that_drains_and_dies_is_nobodys_news_but_its_streams_are_closed():
    wanted = gateway(pool(engine("e0"), engine("e1", draining=True), engine("e2")))
    rig = Rig(wanted)
    drained = with_e1(dead=True, check="L7TOUT", current=2, admin=Admin.DRAIN)
    rig.at(0.0, *with_e1(current=2, admin=Admin.DRAIN))
    rig.at(1.0, *drained)
    assert rig.at(1.7, *drained).close == (KEY,)
    assert rig.events() == []


def test_an_engine_that_just_stops_being_ready_is_told_and_one_that_was_drained_is_not():
    rig = Rig()
    rig.at(0.0, *UP)
    rig.wanted = gateway(pool(engine("e0"), engine("e2")))
    rig.at(1.0, *UP)
    rig.at(2.0, server("e0"), server("e2"))
    assert rig.events() == [("EngineDown", "e1")]
    rig.wanted = THREE
    rig.at(3.0, *UP)
    assert rig.events() == [("EngineDown", "e1"), ("EngineUp", "e1")]
    drained = Rig()
    drained.at(0.0, *UP)
    drained.wanted = gateway(pool(engine("e0"), engine("e1", draining=True), engine("e2")))
    drained.at(1.0, *UP)
    drained.wanted = gateway(pool(engine("e0"), engine("e2")))
    drained.at(2.0, *UP)
    assert drained.events() == []


def test_a_track_that_is_removed_takes_no_news_with_it():
    rig = Rig()
    rig.at(0.0, *UP)
    rig.wanted = gateway(pool(revision="v2"))
    rig.at(1.0)
    assert rig.events() == []


def test_the_last_ten_events_are_kept():
    monitor = Monitor()
    for number in range(12):
        monitor.refused(CLUSTER, float(number), "x" * 1_000)
    events = monitor.events(CLUSTER)
    assert [e.time for e in events] == [float(n) for n in range(2, 12)]
    assert len(events[0].message) == 500


def fail(rig: Rig, key: tuple[str, str], at: float) -> None:
    for _ in range(3):
        rig.monitor.request_ended(key, True, at)
