"""The client against a scripted API server: what it sends, and what it makes of each answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from inference_operator.adapters import kube as kube_module
from inference_operator.adapters.kube import KubeClient
from inference_operator.ports import Conflict, KubeError, NotFound
from tests.unit.adapters.scripted_api import ScriptedApi, config_map, serve

Json = dict[str, Any]


@pytest.fixture
def api() -> ScriptedApi:
    return ScriptedApi()


@pytest.fixture
async def client(api: ScriptedApi, tmp_path: Path) -> AsyncIterator[KubeClient]:
    async with serve(api, tmp_path) as connected:
        yield connected


def answer(api: ScriptedApi, status: int, body: Any = None, **headers: str) -> None:
    text = body if isinstance(body, str) else json.dumps(body or {})
    api.intercept = lambda request: web.Response(
        text=text, status=status, headers=headers, content_type="application/json"
    )


def status_object(code: int, reason: str, message: str, causes: list[Json] | None = None) -> Json:
    return {
        "kind": "Status",
        "code": code,
        "reason": reason,
        "message": message,
        "details": {"causes": causes or []},
    }


async def test_an_absent_object_is_none(api: ScriptedApi, client: KubeClient) -> None:
    answer(api, 404, status_object(404, "NotFound", "not found"))
    assert await client.get("ConfigMap", "ns", "a") is None


async def test_apply_is_forced_and_ours(api: ScriptedApi, client: KubeClient) -> None:
    answer(api, 200, config_map("a", 7))
    result = await client.apply(config_map("a", 1))
    request = api.requests[-1]
    assert result["metadata"]["resourceVersion"] == "7"
    assert (request.method, request.path) == ("PATCH", "/api/v1/namespaces/ns/configmaps/a")
    assert dict(request.query) == {"fieldManager": "inference-operator", "force": "true"}
    assert request.headers["Content-Type"] == "application/apply-patch+yaml"
    assert request.headers["Authorization"] == "Bearer secret-1"


async def test_apply_status_goes_to_the_subresource(api: ScriptedApi, client: KubeClient) -> None:
    answer(api, 200, {})
    await client.apply_status(
        {
            "apiVersion": "inferencecluster.io/v1alpha1",
            "kind": "InferenceCluster",
            "metadata": {"name": "a", "namespace": "ns"},
        }
    )
    want = "/apis/inferencecluster.io/v1alpha1/namespaces/ns/inferenceclusters/a/status"
    assert api.requests[-1].path == want


async def test_delete_is_bound_to_what_was_seen_and_an_absent_object_is_fine(
    api: ScriptedApi, client: KubeClient
) -> None:
    bodies: list[Json] = []

    async def keep(request: web.Request) -> web.StreamResponse:
        bodies.append(await request.json())
        return web.json_response(status_object(404, "NotFound", "gone"), status=404)

    api.handle = keep  # type: ignore[method-assign]
    await client.delete("Deployment", "ns", "d", uid="u1", resource_version="12")
    assert bodies[0]["preconditions"] == {"uid": "u1", "resourceVersion": "12"}
    assert bodies[0]["propagationPolicy"] == "Background"


@pytest.mark.parametrize(
    ("status", "body", "want_type", "want_transient"),
    [
        (404, status_object(404, "NotFound", 'namespaces "ns" not found'), NotFound, False),
        (409, status_object(409, "Conflict", "the object has been modified"), Conflict, True),
        (409, status_object(409, "AlreadyExists", "it exists"), Conflict, True),
        (
            409,
            status_object(409, "Conflict", "conflict", [{"reason": "FieldManagerConflict"}]),
            Conflict,
            False,
        ),
        (422, status_object(422, "Invalid", "spec.replicas: Invalid value"), KubeError, False),
        (403, status_object(403, "Forbidden", "exceeded quota"), KubeError, False),
        (400, status_object(400, "BadRequest", "no"), KubeError, False),
        (410, status_object(410, "Expired", "too old"), KubeError, True),
        (429, "slow down", KubeError, True),
        (500, "", KubeError, True),
        (503, "<html>", KubeError, True),
        (504, status_object(504, "Timeout", "etcd"), KubeError, True),
    ],
)
async def test_each_refusal_has_its_class(
    api: ScriptedApi,
    client: KubeClient,
    status: int,
    body: Any,
    want_type: type[KubeError],
    want_transient: bool,
) -> None:
    answer(api, status, body)
    with pytest.raises(KubeError) as caught:
        await client.apply(config_map("a", 1))
    assert type(caught.value) is want_type
    assert caught.value.transient is want_transient
    assert caught.value.status == status
    assert str(caught.value).startswith(f"apply ConfigMap ns/a: {status}")
    if isinstance(body, dict):
        assert body["message"] in str(caught.value)


async def test_the_servers_wish_to_wait_is_kept(api: ScriptedApi, client: KubeClient) -> None:
    answer(api, 429, "later", **{"Retry-After": "7"})
    with pytest.raises(KubeError) as caught:
        await client.apply(config_map("a", 1))
    assert caught.value.retry_after == 7


async def test_a_server_that_never_answers_is_transient_after_the_time_out(
    api: ScriptedApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kube_module, "REQUEST_TIMEOUT", aiohttp.ClientTimeout(total=0.1))

    async def hang(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(5)
        return web.Response()

    api.handle = hang  # type: ignore[method-assign]
    async with serve(api, tmp_path) as slow:
        with pytest.raises(KubeError) as caught:
            await slow.get("ConfigMap", "ns", "a")
    assert (caught.value.transient, caught.value.status) == (True, None)


async def test_a_refused_connection_is_transient(api: ScriptedApi, tmp_path: Path) -> None:
    async with serve(api, tmp_path) as client:
        client._configuration.host = "http://127.0.0.1:1"
        with pytest.raises(KubeError) as caught:
            await client.get("ConfigMap", "ns", "a")
    assert caught.value.transient
    assert "get ConfigMap ns/a: no answer from the API server" in str(caught.value)


async def test_credentials_are_read_again_after_a_401(
    api: ScriptedApi, client: KubeClient, tmp_path: Path
) -> None:
    answer(api, 401, status_object(401, "Unauthorized", "token expired"))
    path = tmp_path / "kubeconfig"
    path.write_text(path.read_text().replace("secret-1", "secret-2"))
    with pytest.raises(KubeError) as caught:
        await client.get("ConfigMap", "ns", "a")
    assert caught.value.transient
    answer(api, 200, config_map("a", 1))
    await client.get("ConfigMap", "ns", "a")
    assert api.requests[-1].headers["Authorization"] == "Bearer secret-2"


async def test_the_same_note_is_one_event_and_a_repeated_one_is_fine(
    api: ScriptedApi, client: KubeClient
) -> None:
    bodies: list[Json] = []
    told: set[str] = set()

    async def create(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        bodies.append(body)
        if body["metadata"]["name"] in told:
            return web.json_response(status_object(409, "AlreadyExists", "told"), status=409)
        told.add(body["metadata"]["name"])
        return web.json_response(body, status=201)

    api.handle = create  # type: ignore[method-assign]
    for message in ("Scaling from 1 to 3", "Scaling from 1 to 3", "Scaling from 3 to 1"):
        await client.event(config_map("a", 1), "Normal", "ScaledUp", message)
    assert bodies[0]["note"] == "Scaling from 1 to 3"
    assert len(told) == 2
    assert bodies[0]["regarding"]["uid"] == "uid-a"
    assert bodies[0]["reportingInstance"] == "test-host"


async def test_lists_every_page(api: ScriptedApi, client: KubeClient) -> None:
    api.objects = [config_map(f"c{i}", i + 1) for i in range(5)]
    api.page_size = 2
    assert len(await client.list("ConfigMap")) == 5
    assert api.requests[0].path == "/api/v1/configmaps"


async def test_find_uses_the_right_to_list(api: ScriptedApi, client: KubeClient) -> None:
    api.objects = [config_map("a", 3)]
    found = await client.find("ConfigMap", "ns", "a")
    assert found is not None
    assert api.requests[-1].query["fieldSelector"] == "metadata.name=a"
    api.objects = []
    assert await client.find("ConfigMap", "ns", "a") is None


async def test_names_the_file_when_there_are_no_credentials(tmp_path: Path) -> None:
    with pytest.raises(KubeError, match=r"can't load credentials from .*missing"):
        await KubeClient.connect(kubeconfig=str(tmp_path / "missing"))
