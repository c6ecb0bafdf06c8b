"""Leader election on one Lease in memory: two contenders, an API that hangs, fails or lies about the time."""

from __future__ import annotations

import asyncio
import copy
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from inference_operator.adapters.clock import SystemClock
from inference_operator.adapters.lease import Elector, LeadStuckError
from inference_operator.ports import Conflict, KubeError

Json = dict[str, Any]
# A hundredth of the real times: the rules are ratios of each other.
TIMES = {"lease_seconds": 0.6, "renew_seconds": 0.4, "retry_seconds": 0.08, "stop_seconds": 0.2}


class LeaseServer:
    """One Lease with optimistic locking, and switches to break the way to it."""

    def __init__(self) -> None:
        self.lease: Json | None = None
        self.hung: set[str] = set()
        self.failing: set[str] = set()
        self.writes: list[str] = []
        self._versions = itertools.count(1)

    def holder(self) -> str:
        return str(self.lease["spec"]["holderIdentity"]) if self.lease else ""

    def store(self, obj: Json) -> Json:
        self.lease = copy.deepcopy(obj)
        # leaseDurationSeconds is whole seconds on the wire; the tests count in hundredths.
        if self.lease["spec"]["holderIdentity"]:
            self.lease["spec"]["leaseDurationSeconds"] = TIMES["lease_seconds"]
        self.lease["metadata"]["resourceVersion"] = str(next(self._versions))
        return copy.deepcopy(self.lease)

    def api(self, name: str) -> LeaseApi:
        return LeaseApi(self, name)


class LeaseApi:
    def __init__(self, server: LeaseServer, name: str) -> None:
        self._server = server
        self._name = name

    async def _way(self) -> None:
        await asyncio.sleep(0)
        if self._name in self._server.hung:
            await asyncio.Event().wait()
        if self._name in self._server.failing:
            raise KubeError("503", status=503, transient=True)

    async def get(self, kind: str, namespace: str | None, name: str) -> Json | None:
        await self._way()
        return copy.deepcopy(self._server.lease)

    async def create(self, obj: Json) -> Json:
        await self._way()
        if self._server.lease is not None:
            raise Conflict("exists", status=409, transient=True)
        self._server.writes.append(self._name)
        return self._server.store(obj)

    async def replace(self, obj: Json) -> Json:
        await self._way()
        current = self._server.lease
        if current is None or current["metadata"]["resourceVersion"] != obj["metadata"]["resourceVersion"]:
            raise Conflict("changed", status=409, transient=True)
        self._server.writes.append(self._name)
        return self._server.store(obj)


class Contender:
    """A process: its work records when it ran."""

    def __init__(self, server: LeaseServer, name: str) -> None:
        self.name = name
        self.working = False
        self.changes: list[bool] = []
        self.elector = Elector(
            server.api(name),
            namespace="ns",
            name="inference-operator",
            identity=name,
            clock=SystemClock(),
            on_change=self.changes.append,
            **TIMES,
        )
        self.task: asyncio.Task[None] | None = None

    async def work(self) -> None:
        self.working = True
        try:
            await asyncio.Event().wait()
        finally:
            self.working = False

    def start(self) -> None:
        self.task = asyncio.create_task(self.elector.run(self.work))

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)


@asynccontextmanager
async def contenders(server: LeaseServer, *names: str) -> AsyncIterator[list[Contender]]:
    all_of_them = [Contender(server, name) for name in names]
    for contender in all_of_them:
        contender.start()
        await asyncio.sleep(0.02)
    try:
        yield all_of_them
    finally:
        for contender in all_of_them:
            server.hung.discard(contender.name)
            await contender.stop()


async def until(what: Callable[[], bool], seconds: float = 3) -> float:
    loop = asyncio.get_running_loop()
    begin = loop.time()
    async with asyncio.timeout(seconds):
        while not what():  # noqa: ASYNC110 - the tests watch plain attributes
            await asyncio.sleep(0.002)
    return loop.time() - begin


async def never_two(group: list[Contender], seconds: float) -> None:
    end = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < end:
        assert sum(contender.working for contender in group) <= 1
        await asyncio.sleep(0.002)


async def test_one_leads_and_keeps_leading_while_the_other_waits() -> None:
    server = LeaseServer()
    async with contenders(server, "a", "b") as (a, b):
        await until(lambda: a.working)
        await never_two([a, b], 4 * TIMES["lease_seconds"])
        assert (a.working, b.working) == (True, False)
        assert (a.elector.leading, b.elector.leading) == (True, False)
        assert set(server.writes) == {"a"}
        assert server.lease is not None
        assert server.lease["spec"]["leaseTransitions"] == 0


async def test_a_stopped_leader_releases_so_that_the_next_takes_over_at_once() -> None:
    server = LeaseServer()
    async with contenders(server, "a", "b") as (a, b):
        await until(lambda: a.working)
        await a.stop()
        assert not a.working
        assert await until(lambda: b.working) < TIMES["lease_seconds"] / 2
        assert server.lease is not None
        assert server.lease["spec"]["leaseTransitions"] == 1


@pytest.mark.parametrize("trouble", ["hung", "failing"])
async def test_a_leader_without_api_stops_before_the_other_starts_and_comes_back_as_standby(
    trouble: str,
) -> None:
    server = LeaseServer()
    async with contenders(server, "a", "b") as (a, b):
        await until(lambda: a.working)
        getattr(server, trouble).add("a")
        stopped = asyncio.create_task(until(lambda: not a.working))
        watching = asyncio.create_task(never_two([a, b], 1.5))
        took = await until(lambda: b.working)
        assert await stopped <= TIMES["renew_seconds"] + TIMES["retry_seconds"] + 0.15
        assert took <= TIMES["lease_seconds"] + 2 * TIMES["retry_seconds"] + 0.3
        getattr(server, trouble).discard("a")
        await watching
        assert (a.working, b.working) == (False, True)
        assert a.task is not None
        assert not a.task.done()
        assert a.changes == [True, False]

        await b.stop()  # and it leads again when it is its turn
        await until(lambda: a.working)


async def test_a_holder_that_is_gone_is_replaced_after_its_lease_by_our_own_clock() -> None:
    server = LeaseServer()
    # Its renewTime lies a day ahead: clocks of different machines are never compared.
    server.store(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "inference-operator", "namespace": "ns"},
            "spec": {
                "holderIdentity": "dead",
                "leaseDurationSeconds": 1,
                "acquireTime": "2099-01-01T00:00:00.000000Z",
                "renewTime": "2099-01-01T00:00:00.000000Z",
                "leaseTransitions": 4,
            },
        }
    )
    async with contenders(server, "a") as (a,):
        took = await until(lambda: a.working)
        assert TIMES["lease_seconds"] * 0.9 <= took <= TIMES["lease_seconds"] + 3 * TIMES["retry_seconds"]
        assert server.lease is not None
        assert server.lease["spec"]["leaseTransitions"] == 5


async def test_two_that_find_a_free_lease_at_the_same_time_do_not_both_lead() -> None:
    for _ in range(10):
        server = LeaseServer()
        group = [Contender(server, name) for name in ("a", "b", "c")]
        for contender in group:
            contender.start()
        await until(lambda group=group: any(contender.working for contender in group))  # type: ignore[misc]
        await never_two(group, 0.1)
        for contender in group:
            await contender.stop()


async def test_someone_who_edits_the_lease_does_not_end_the_leadership() -> None:
    server = LeaseServer()
    async with contenders(server, "a") as (a,):
        await until(lambda: a.working)
        for _ in range(10):
            assert server.lease is not None
            edited = copy.deepcopy(server.lease)
            edited["metadata"]["annotations"] = {"note": "x"}
            server.store(edited)
            await asyncio.sleep(0.05)
        assert a.working
        assert a.changes == [True]


async def test_work_that_does_not_stop_in_time_ends_the_process() -> None:
    server = LeaseServer()
    release = asyncio.Event()

    async def stubborn() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    contender = Contender(server, "a")
    task = asyncio.create_task(contender.elector.run(stubborn))
    await until(lambda: contender.elector.leading)
    server.failing.add("a")
    with pytest.raises(LeadStuckError, match="didn't stop within"):
        await asyncio.wait_for(task, 3)
    release.set()


async def test_an_error_of_the_work_ends_the_election_and_releases_the_lease() -> None:
    server = LeaseServer()

    async def broken() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(Contender(server, "a").elector.run(broken), 3)
    assert server.holder() == ""


async def test_two_processes_of_one_host_are_two_contenders() -> None:
    server = LeaseServer()
    assert Contender(server, "host").elector.identity != Contender(server, "host").elector.identity
