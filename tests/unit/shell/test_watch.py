"""kopf in its thread: its life, its login, its settings. Its watch itself is tried on a real API server."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import aiohttp
import kopf
import pytest

from inference_operator.adapters.clock import SystemClock
from inference_operator.ports import Credentials
from inference_operator.shell import watch as watch_module
from inference_operator.shell.settings import BACKOFF_MAX, EndlessBackoffs, make_settings
from inference_operator.shell.watch import ClusterWatch

CREDENTIALS = Credentials(
    server="http://127.0.0.1:1",
    ca_path=None,
    insecure=True,
    authorization="Bearer secret",
    certificate_path=None,
    private_key_path=None,
)


async def installed() -> None:
    """The CRD can be worked with."""


def make_watch(
    events: list[tuple[str, str, str, bool]],
    namespaces: tuple[str, ...] = (),
    crd: Callable[[], Awaitable[None]] = installed,
) -> ClusterWatch:
    async def credentials() -> Credentials:
        assert threading.current_thread() is threading.main_thread()
        return CREDENTIALS

    return ClusterWatch(
        credentials=credentials,
        on_event=lambda *event: events.append(event),
        crd=crd,
        namespaces=namespaces,
        clock=SystemClock(),
    )


async def until(what: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not what():  # noqa: ASYNC110 - the other side is a thread
            await asyncio.sleep(0.005)


async def test_events_come_from_kopfs_thread_to_our_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    async def operator(*, registry: Any, stop_flag: asyncio.Event, **scope: Any) -> None:
        seen["thread"] = threading.current_thread().name
        seen["scope"] = {key: value for key, value in scope.items() if key != "settings"}
        handlers = {h.id: h.fn for h in registry._watching.get_all_handlers()}
        login = next(iter(registry._activities.get_all_handlers())).fn
        session = await login()
        seen["authorization"] = session.aiohttp_session.headers["Authorization"]
        await session.aiohttp_session.close()
        tell = next(iter(handlers.values()))
        await tell(event={"type": None}, namespace="ns", name="a", uid="u1")
        await tell(event={"type": "DELETED"}, namespace="ns", name="a", uid="u1")
        await stop_flag.wait()
        seen["stopped"] = True

    monkeypatch.setattr(kopf, "operator", operator)
    events: list[tuple[str, str, str, bool]] = []
    watch = make_watch(events, ("ns",))
    before = watch.last_seen
    task = asyncio.create_task(watch.run())
    await until(lambda: len(events) == 2)
    assert events == [("ns", "a", "u1", False), ("ns", "a", "u1", True)]
    assert seen["thread"] == "kopf"
    assert seen["scope"] == {"namespaces": ["ns"]}
    assert seen["authorization"] == "Bearer secret"
    assert watch.last_seen >= before
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert seen["stopped"]


async def test_a_kopf_that_ends_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    lives: list[int] = []

    async def operator(**_: Any) -> None:
        lives.append(1)
        if len(lives) == 1:
            raise RuntimeError("WatchingError")

    monkeypatch.setattr(kopf, "operator", operator)
    monkeypatch.setattr(watch_module, "_RESTART_FIRST", 0.01)
    monkeypatch.setattr(watch_module, "_RESTART_MAX", 0.02)
    task = asyncio.create_task(make_watch([]).run())
    await until(lambda: len(lives) >= 3)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_new_life_waits_for_the_crd_and_that_is_no_dead_watch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lives: list[int] = []
    asked = asyncio.Event()
    installed_again = asyncio.Event()

    async def operator(*, stop_flag: asyncio.Event, **_: Any) -> None:
        lives.append(1)
        if len(lives) == 1:
            raise RuntimeError("404 Not Found")
        await stop_flag.wait()

    async def crd() -> None:
        asked.set()
        await installed_again.wait()

    monkeypatch.setattr(kopf, "operator", operator)
    monkeypatch.setattr(watch_module, "_RESTART_FIRST", 0.01)
    watch = make_watch([], crd=crd)
    task = asyncio.create_task(watch.run())
    await asyncio.wait_for(asked.wait(), 5)
    watch.last_seen = silent = -1000.0
    await asyncio.sleep(0.2)
    assert len(lives) == 1, "started without the CRD: kopf would never look again"
    assert watch.last_seen == silent
    installed_again.set()
    await until(lambda: len(lives) == 2)
    assert watch.last_seen > silent
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_kopf_that_finds_no_crd_is_ended_and_one_that_does_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lives: list[bool] = []

    async def operator(*, registry: Any, stop_flag: asyncio.Event, **_: Any) -> None:
        session = await next(iter(registry._activities.get_all_handlers())).fn()
        lives.append(False)
        paths = ["/apis", "/apis/inferencecluster.io/v1alpha1"]
        if len(lives) == 2:
            paths.append("/apis/inferencecluster.io/v1alpha1/inferenceclusters")
        for path in paths:
            with suppress(aiohttp.ClientError):  # nothing listens there
                await session.aiohttp_session.get(f"{CREDENTIALS.server}{path}")
        await session.aiohttp_session.close()
        await stop_flag.wait()
        lives[-1] = True

    monkeypatch.setattr(kopf, "operator", operator)
    monkeypatch.setattr(watch_module, "_RESTART_FIRST", 0.01)
    monkeypatch.setattr(watch_module, "_DEAF_SECONDS", 0.5)
    task = asyncio.create_task(make_watch([]).run())
    await until(lambda: len(lives) == 2)
    await asyncio.sleep(1.2)
    assert lives == [True, False]
    reasons = [record.reason for record in caplog.records if hasattr(record, "reason")]
    assert reasons == ["it never asked for the clusters, since it didn't find their CRD"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_kopf_that_hangs_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    started = threading.Event()

    async def operator(**_: Any) -> None:
        started.set()
        release.wait(10)  # blocks its own loop

    monkeypatch.setattr(kopf, "operator", operator)
    monkeypatch.setattr(watch_module, "_STOP_SECONDS", 0.1)
    task = asyncio.create_task(make_watch([]).run())
    await until(started.is_set)
    begin = asyncio.get_running_loop().time()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert asyncio.get_running_loop().time() - begin < 2
    release.set()


def test_all_namespaces_are_watched_by_default() -> None:
    assert make_watch([]).scope == {"clusterwide": True}


def test_back_off_never_ends_and_starts_again_each_time() -> None:
    backoffs = EndlessBackoffs()
    for _ in range(2):
        delays = list(itertools.islice(backoffs, 100))
        assert 0.75 <= delays[0] <= 1.25
        assert max(delays) <= BACKOFF_MAX * 1.25
        assert min(delays[10:]) >= BACKOFF_MAX * 0.75
    assert not hasattr(backoffs, "__len__"), "kopf counts the tries of anything that has a length"


def test_kopf_never_writes() -> None:
    settings = make_settings()
    patch = kopf.Patch()
    settings.persistence.diffbase_storage.store(body=None, patch=patch, essence=None)  # type: ignore[arg-type]
    settings.persistence.progress_storage.store(key="k", record=None, body=None, patch=patch)  # type: ignore[arg-type]
    assert not patch
    assert settings.scanning.disabled
    assert not settings.posting.enabled
    assert settings.peering.standalone
