"""The difference between what is wanted and what HAProxy has, as commands."""

from __future__ import annotations

from inference_operator.agent import config, sync
from inference_operator.agent.stat import Admin, Server, Snapshot
from tests.unit.agent.builders import BACKEND, engine, gateway, pool, server

NAME = f"{BACKEND}/e0"


def commands(wanted, *servers: Server, limit: int = 16) -> list[str]:
    found = sync.commands(gateway(wanted), Snapshot(servers, {}), {BACKEND: limit})
    return [command.text for command in found]


def test_in_step_means_no_command():
    assert commands(pool(engine()), server()) == []


def test_a_new_engine_is_added_in_maintenance_then_checked_then_used():
    assert commands(pool(engine())) == [
        f"add server {NAME} 10.0.1.1:8000 {config.SERVER_OPTIONS} maxconn 16",
        f"enable health {NAME}",
        f"set server {NAME} state ready",
    ]


def test_an_engine_on_its_way_out_is_not_added():
    assert commands(pool(engine(draining=True))) == []


def test_an_engine_drains_and_comes_back():
    assert commands(pool(engine(draining=True)), server()) == [f"set server {NAME} state drain"]
    assert commands(pool(engine()), server(admin=Admin.DRAIN)) == [f"set server {NAME} state ready"]
    # After a restart of HAProxy a draining one is `disabled` in the file.
    assert commands(pool(engine(draining=True)), server(admin=Admin.MAINT)) == [
        f"set server {NAME} state drain"
    ]


def test_the_limit_follows():
    assert commands(pool(engine()), server(), limit=9) == [f"set maxconn server {NAME} 9"]


def test_an_engine_that_is_gone_keeps_its_streams_and_is_then_deleted():
    assert commands(pool(), server(current=2)) == [f"set server {NAME} state drain"]
    assert commands(pool(), server(queued=1)) == [f"set server {NAME} state drain"]
    assert commands(pool(), server(current=2, admin=Admin.DRAIN)) == []
    # A request slipped in between two looks: back to drain, where its engine is checked.
    assert commands(pool(), server(current=1, admin=Admin.MAINT)) == [f"set server {NAME} state drain"]
    assert commands(pool(), server(admin=Admin.DRAIN)) == [
        f"set server {NAME} state maint",
        f"del server {NAME}",
    ]
    assert commands(pool(), server(admin=Admin.MAINT)) == [f"del server {NAME}"]


def test_a_new_pod_under_an_old_name_replaces_it():
    assert commands(pool(engine(address="10.0.1.9")), server(current=3)) == [
        f"set server {NAME} state maint",
        f"shutdown sessions server {NAME}",
        f"del server {NAME}",
    ]
    assert commands(pool(engine(), port=9000), server())[0] == f"set server {NAME} state maint"


def test_two_spellings_of_an_address_are_the_same_address():
    assert commands(pool(engine(address="::ffff:10.0.1.1")), server(address="::ffff:a00:101")) == []


def test_only_shares_that_differ_are_set():
    wanted = gateway(pool(share=9_000), pool(revision="v2", share=1_000))
    actual = sync.parse_map(f"0x55 {BACKEND} 10000\n0x56 team-a.llama.v2 1000\n\n")
    found = sync.shares(wanted, actual, "/run/gateway/shares.map")
    assert [c.text for c in found] == [f"set map /run/gateway/shares.map {BACKEND} 9000"]


def test_sessions_of_dead_engines_are_found_in_an_old_worker():
    sessions = (
        f"0x55c74bff92f0: proto=tcpv4 src=127.0.0.1:1 fe=clients be={BACKEND} srv=e0 ts=00 epoch=0 age=2s\n"
        f"0x55c74bff92f1: proto=tcpv4 src=127.0.0.1:2 fe=clients be={BACKEND} srv=e1 ts=00 epoch=0 age=2s\n"
        "0x7fe7cc156840: proto=sockpair src=unix:2 fe=GLOBAL be=<NONE> srv=<none> ts=00 epoch=0 age=0s\n"
    )
    found = sync.close_old(sessions, [(BACKEND, "e0"), (BACKEND, "e7")])
    assert [c.text for c in found] == ["shutdown session 0x55c74bff92f0"]
