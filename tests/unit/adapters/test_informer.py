"""The informer against a scripted API server: what it holds, whatever happens to its watch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from inference_operator.adapters.informer import Informer
from tests.unit.adapters.scripted_api import ScriptedApi, bookmark, config_map, event, expired, serve

Json = dict[str, Any]


async def wait_for(what: Callable[[], bool], seconds: float = 3) -> None:
    async with asyncio.timeout(seconds):
        while not what():  # noqa: ASYNC110 - the informer has no event for each of these
            await asyncio.sleep(0.005)


class Rig:
    def __init__(self, api: ScriptedApi, informer: Informer, changes: list[tuple[str, str]]) -> None:
        self.api = api
        self.informer = informer
        self.changes = changes

    def names(self) -> list[str]:
        return sorted(obj["metadata"]["name"] for obj in self.informer.list())

    async def until(self, *want: tuple[str, str]) -> None:
        """Wait for the changes so far to be these, and forget them."""
        with suppress(TimeoutError):  # the assertion says what is missing
            await wait_for(lambda: len(self.changes) >= len(want))
        assert self.changes == list(want)
        self.changes.clear()


@asynccontextmanager
async def running(tmp_path: Path, api: ScriptedApi, **options: Any) -> AsyncIterator[Rig]:
    changes: list[tuple[str, str]] = []
    async with serve(api, tmp_path) as client:
        informer = Informer(
            client,
            "ConfigMap",
            on_change=lambda kind, obj: changes.append((kind, obj["metadata"]["name"])),
            jitter=lambda: 0.0,
            backoff_first=0.02,
            **options,
        )
        task = asyncio.create_task(informer.run())
        try:
            yield Rig(api, informer, changes)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def api() -> ScriptedApi:
    return ScriptedApi()


async def test_lists_in_pages_then_watches_from_the_lists_version(tmp_path: Path, api: ScriptedApi) -> None:
    api.objects = [config_map(f"c{i}", i + 1) for i in range(5)]
    api.version, api.page_size = 40, 2
    async with running(tmp_path, api, label_selector="a=b", namespace="ns") as rig:
        stream = await api.stream()
        assert stream.version == "40"
        assert rig.informer.synced.is_set()
        assert rig.names() == ["c0", "c1", "c2", "c3", "c4"]
        assert [query.get("continue") for query in api.lists] == [None, "2", "4"]
        assert {query["limit"] for query in api.lists} == {"500"}
        assert {query["labelSelector"] for query in api.lists} == {"a=b"}
        assert {request.path for request in api.requests} == {"/api/v1/namespaces/ns/configmaps"}


async def test_objects_say_what_they_are_though_list_items_do_not(tmp_path: Path, api: ScriptedApi) -> None:
    api.objects = [config_map("a", 1)]
    async with running(tmp_path, api) as rig:
        await api.stream()
        obj = rig.informer.get("ns", "a")
        assert obj is not None
        assert (obj["kind"], obj["apiVersion"]) == ("ConfigMap", "v1")


async def test_events_change_what_it_holds(tmp_path: Path, api: ScriptedApi) -> None:
    async with running(tmp_path, api) as rig:
        stream = await api.stream()
        stream.send(event("ADDED", config_map("a", 2)))
        stream.send(event("MODIFIED", config_map("a", 3, step="2")) + event("ADDED", config_map("b", 4)))
        stream.send(event("DELETED", config_map("a", 5)))
        await rig.until(("ADDED", "a"), ("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a"))
        assert rig.names() == ["b"]


async def test_an_event_may_arrive_in_pieces(tmp_path: Path, api: ScriptedApi) -> None:
    async with running(tmp_path, api) as rig:
        stream = await api.stream()
        data = event("ADDED", config_map("a", 2)) + event("ADDED", config_map("b", 3))
        for start in range(0, len(data), 37):
            stream.send(data[start : start + 37])
            await asyncio.sleep(0.001)
        await rig.until(("ADDED", "a"), ("ADDED", "b"))


async def test_goes_on_from_the_last_version_when_a_stream_ends(tmp_path: Path, api: ScriptedApi) -> None:
    async with running(tmp_path, api):
        stream = await api.stream()
        stream.send(event("ADDED", config_map("a", 2)))
        stream.end()
        stream = await api.stream()
        assert stream.version == "2"
        stream.send(bookmark(70))
        stream.end()
        assert (await api.stream()).version == "70"
        assert len(api.lists) == 1


async def test_goes_on_after_a_cut_in_the_middle_of_an_event(tmp_path: Path, api: ScriptedApi) -> None:
    async with running(tmp_path, api) as rig:
        stream = await api.stream()
        stream.send(event("ADDED", config_map("a", 2)) + event("ADDED", config_map("b", 3))[:40])
        await rig.until(("ADDED", "a"))
        stream.cut()
        stream = await api.stream()
        assert stream.version == "2"
        stream.send(event("ADDED", config_map("b", 3)))
        await rig.until(("ADDED", "b"))
        assert len(api.lists) == 1


async def test_a_silent_stream_is_opened_again(tmp_path: Path, api: ScriptedApi) -> None:
    async with running(tmp_path, api, inactivity_seconds=0.1):
        first = await api.stream()
        second = await api.stream()
        assert first is not second
        assert len(api.lists) == 1


@pytest.mark.parametrize("way", ["error event", "http status"])
async def test_lists_again_after_an_expired_version_and_sees_what_was_deleted_meanwhile(
    tmp_path: Path, api: ScriptedApi, way: str
) -> None:
    api.objects = [config_map("kept", 1), config_map("lost", 2)]
    api.version = 5
    async with running(tmp_path, api) as rig:
        stream = await api.stream()
        await rig.until(("ADDED", "kept"), ("ADDED", "lost"))
        api.objects, api.version = [config_map("kept", 1), config_map("new", 8)], 9
        if way == "error event":
            stream.send(expired())
        else:
            refused = iter([web.json_response({"kind": "Status", "reason": "Expired"}, status=410)])
            api.intercept = lambda request: next(refused, None) if request.query.get("watch") else None
            stream.end()
        await rig.until(("ADDED", "new"), ("DELETED", "lost"))
        assert rig.names() == ["kept", "new"]
        assert (await api.stream()).version == "9"


async def test_survives_an_outage_of_any_kind(tmp_path: Path, api: ScriptedApi) -> None:
    api.objects = [config_map("a", 1)]
    troubles = iter(
        [
            web.json_response({"kind": "Status", "message": "no"}, status=500),
            web.Response(status=503, headers={"Retry-After": "0"}),
            web.json_response({"kind": "Status", "message": "not allowed"}, status=403),
            web.Response(text='{"items": [', content_type="application/json"),
            web.Response(text="<html>a proxy</html>", status=502),
        ]
    )
    api.intercept = lambda request: next(troubles, None)
    async with running(tmp_path, api) as rig:
        await api.stream()
        assert rig.names() == ["a"]
        assert rig.informer.failures == 5


async def test_a_server_that_ends_streams_at_once_is_not_hammered(tmp_path: Path, api: ScriptedApi) -> None:
    async with running(tmp_path, api) as rig:
        for _ in range(4):
            (await api.stream()).end()
        await api.stream()
        assert rig.informer.failures == 4


async def test_own_writes_show_at_once_and_older_news_of_them_changes_nothing(
    tmp_path: Path, api: ScriptedApi
) -> None:
    async with running(tmp_path, api) as rig:
        stream = await api.stream()
        rig.informer.upsert(config_map("a", 12))
        assert rig.names() == ["a"]
        stream.send(event("ADDED", config_map("a", 10)))
        stream.send(event("MODIFIED", config_map("a", 12)))
        stream.send(event("MODIFIED", config_map("a", 13, changed="yes")))
        await rig.until(("MODIFIED", "a"))


async def test_a_change_of_which_nothing_is_kept_is_not_told_but_its_version_is_known(
    tmp_path: Path, api: ScriptedApi
) -> None:
    async with running(tmp_path, api) as rig:
        stream = await api.stream()
        stream.send(event("ADDED", config_map("a", 2)))
        stream.send(event("MODIFIED", config_map("a", 3)))
        stream.send(event("ADDED", config_map("b", 4)))
        await rig.until(("ADDED", "a"), ("ADDED", "b"))
        held = rig.informer.get("ns", "a")
        assert held is not None
        assert held["metadata"]["resourceVersion"] == "3"


async def test_an_own_write_that_was_deleted_meanwhile_does_not_come_back(
    tmp_path: Path, api: ScriptedApi
) -> None:
    async with running(tmp_path, api) as rig:
        stream = await api.stream()
        stream.send(event("ADDED", config_map("a", 10)))
        stream.send(event("DELETED", config_map("a", 11)))
        await rig.until(("ADDED", "a"), ("DELETED", "a"))
        rig.informer.upsert(config_map("a", 10))
        assert rig.names() == []


async def test_an_own_write_during_a_list_is_not_taken_for_deleted(tmp_path: Path, api: ScriptedApi) -> None:
    api.version = 5
    async with running(tmp_path, api) as rig:
        stream = await api.stream()
        rig.informer.upsert(config_map("mine", 9))
        api.version = 7
        stream.send(expired())
        assert (await api.stream()).version == "7"
        assert rig.names() == ["mine"]


async def test_trims_and_ignores_what_it_is_told_to(tmp_path: Path, api: ScriptedApi) -> None:
    def trim(obj: Json) -> Json | None:
        meta = obj["metadata"]
        return None if meta["labels"].get("skip") else {"metadata": meta}

    api.objects = [config_map("a", 1), config_map("b", 2, skip="yes")]
    async with running(tmp_path, api, trim=trim) as rig:
        stream = await api.stream()
        assert rig.names() == ["a"]
        stream.send(event("MODIFIED", config_map("a", 6, skip="yes")))
        await rig.until(("ADDED", "a"), ("DELETED", "a"))
        assert rig.names() == []


async def test_finds_objects_by_an_index_that_follows_every_change(tmp_path: Path, api: ScriptedApi) -> None:
    def cluster(obj: Json) -> tuple[str, str] | None:
        name = obj["metadata"]["labels"].get("cluster")
        return ("ns", name) if name else None

    def found(name: str) -> list[str]:
        return [obj["metadata"]["name"] for obj in rig.informer.indexed(("ns", name))]

    api.objects = [config_map("a", 1, cluster="x"), config_map("b", 2, cluster="x"), config_map("c", 3)]
    async with running(tmp_path, api, index_by=cluster) as rig:
        stream = await api.stream()
        assert (found("x"), found("y")) == (["a", "b"], [])
        stream.send(event("MODIFIED", config_map("a", 4, cluster="y")))
        stream.send(event("DELETED", config_map("b", 5, cluster="x")))
        await wait_for(lambda: not found("x"))
        assert found("y") == ["a"]


async def test_bookmarks_keep_it_visibly_alive(tmp_path: Path, api: ScriptedApi) -> None:
    async with running(tmp_path, api) as rig:
        stream = await api.stream()
        before = rig.informer.last_seen
        stream.send(bookmark(9))
        await wait_for(lambda: rig.informer.last_seen > before)
        assert rig.changes == []


async def test_events_are_decoded_fast_enough_for_a_large_cluster(tmp_path: Path, api: ScriptedApi) -> None:
    count = 5_000
    async with running(tmp_path, api) as rig:
        stream = await api.stream()
        started = asyncio.get_running_loop().time()
        stream.send(b"".join(event("ADDED", config_map(f"c{i}", i + 2)) for i in range(count)))
        await wait_for(lambda: len(rig.changes) == count, seconds=20)
        assert asyncio.get_running_loop().time() - started < 10
