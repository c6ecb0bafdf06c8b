"""Faults under steady load: what comes after the fault is never lost, nor waits for more than 3 s."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Sequence

import pytest

from tests.gateway.client import Load, request
from tests.gateway.rig import Rig, routing, track, until

ADDRESSES = {"engine-0": "127.0.0.11", "engine-1": "127.0.0.12", "engine-2": "127.0.0.13"}
VICTIM = "engine-1"
#: The promise of the gateway.
LIMIT_SECONDS = 3.0


def kill(rig: Rig) -> None:
    rig.processes[VICTIM].signal(signal.SIGKILL)


def freeze(rig: Rig) -> None:
    rig.processes[VICTIM].signal(signal.SIGSTOP)


@pytest.mark.parametrize(
    ("early", "body"),
    [(False, 2_000), (True, 2_000), (False, 200_000)],
    ids=["headers-with-first-token", "headers-at-once", "large-bodies"],
)
@pytest.mark.parametrize("fault", [kill, freeze])
async def test_no_request_after_the_fault_is_lost(
    rig: Rig, fault: Callable[[Rig], None], early: bool, body: int
):
    rig.route(routing(track("v1", 10_000, rig.engine_port, concurrency=64)))
    for pod, address in ADDRESSES.items():
        await rig.add_engine(pod, address, modes=("early",) if early else ())
    await rig.serving(*ADDRESSES)
    load = Load("127.0.0.1", rig.port, body=body)
    running = asyncio.create_task(load.run(7.0))
    await asyncio.sleep(2.0)
    at = time.monotonic()
    fault(rig)
    await running
    check_failover(rig, load, at)


def check_failover(rig: Rig, load: Load, at: float) -> None:
    after = load.after(at)
    assert len(after) >= 80
    assert load.lost(at) == []
    waits = [r.first_byte - r.began for r in after if r.first_byte is not None]
    assert max(waits) <= LIMIT_SECONDS
    before = [r for r in load.lost() if r.began < at]
    # Only streams of the faulty engine may be cut, and those were running when it happened.
    assert all(r.engine == ADDRESSES[VICTIM] for r in before)
    # They end, too: nobody stares at a dead stream.
    assert all(r.ended - at <= LIMIT_SECONDS for r in before)
    (event,) = rig.events("EngineDown")
    assert (event.pod, event.revision) == (VICTIM, "v1")
    assert event.streams_cut == len([r for r in before if r.status == 200])
    if event.detection_ms is not None:
        assert event.detection_ms < LIMIT_SECONDS * 1000
    print(f"max wait {max(waits):.2f} s, cut {len(before)}, event {event}")


async def test_an_engine_that_thaws_takes_requests_again(rig: Rig):
    rig.route(routing(track("v1", 10_000, rig.engine_port)))
    for pod, address in ADDRESSES.items():
        await rig.add_engine(pod, address)
    await rig.serving(*ADDRESSES)
    freeze(rig)
    await until(lambda: rig.states()[VICTIM] == "DOWN", 4)
    assert rig.agent.report(("team-a", "llama")).engines[1].state == "DOWN"
    rig.processes[VICTIM].signal(signal.SIGCONT)
    await rig.serving(*ADDRESSES)
    assert [e.pod for e in rig.events("EngineUp")] == [VICTIM]


async def test_an_engine_whose_requests_fail_is_taken_out_although_its_checks_are_fine(rig: Rig):
    await three_engines(rig, failing=("engine-1",))
    for _ in range(50):
        await failing_requests(rig, 4)
        if rig.states()[VICTIM] == "DOWN":
            break
    assert rig.states()[VICTIM] == "DOWN"
    answers = [await request("127.0.0.1", rig.port, tokens=0) for _ in range(20)]
    assert all(a.done for a in answers)
    await rig.serving(*ADDRESSES)
    assert [e.pod for e in rig.events("EngineDown")] == [VICTIM]


async def test_errors_that_all_engines_answer_never_take_out_more_than_half_of_them(rig: Rig):
    await three_engines(rig, failing=tuple(ADDRESSES))
    most = 0
    for _ in range(40):
        await failing_requests(rig, 4)
        # The others' requests go on as if nothing had happened.
        assert (await request("127.0.0.1", rig.port, tokens=0)).done
        most = max(most, list(rig.states().values()).count("DOWN"))
    assert most == 1
    assert len(rig.agent.monitor.events(("team-a", "llama"))) <= 6


async def three_engines(rig: Rig, *, failing: Sequence[str] = ()) -> None:
    rig.route(routing(track("v1", 10_000, rig.engine_port, concurrency=64)))
    for pod, address in ADDRESSES.items():
        await rig.add_engine(pod, address, modes=("failing",) if pod in failing else ())
    await rig.serving(*ADDRESSES)


async def failing_requests(rig: Rig, count: int) -> None:
    answers = await asyncio.gather(*(request("127.0.0.1", rig.port, path="/fail") for _ in range(count)))
    assert {a.status for a in answers} <= {200, 500}
