"""What the aggregator gets: discovery, values, errors. The real API server asks in tests/cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio
from aiohttp.test_utils import TestClient, TestServer

from inference_operator.metrics_api import frontproxy
from inference_operator.metrics_api.demand import Demand, Unknown
from inference_operator.metrics_api.server import MetricsServer

ROOT = "/apis/custom.metrics.k8s.io"
LOAD = "inferenceclusters.inferencecluster.io/chat/inference_load_percent"


class FakeCollector:
    def __init__(self) -> None:
        self.known: dict[tuple[str, str], Demand | Exception] = {("ml", "chat"): Demand(12, 8, 2.0)}
        self.synced = True
        self.last_seen = float("inf")

    def clusters(self, namespace: str) -> list[str]:
        return [name for ns, name in self.known if ns == namespace]

    async def demand(self, namespace: str, cluster: str) -> Demand:
        found = self.known[namespace, cluster]
        if isinstance(found, Exception):
            raise found
        return found


@pytest.fixture
def collector() -> FakeCollector:
    return FakeCollector()


@pytest_asyncio.fixture
async def client(
    collector: FakeCollector, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[TestClient[Any, Any]]:
    monkeypatch.setattr(frontproxy, "user", lambda *_: "somebody")
    front = SimpleNamespace(trust=object())
    server = MetricsServer(collector, front)  # type: ignore[arg-type]
    async with TestClient(TestServer(server.api())) as made:
        yield made


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
async def test_discovery_names_both_metrics(client: TestClient[Any, Any], version: str) -> None:
    group = await (await client.get(ROOT)).json()
    assert f"custom.metrics.k8s.io/{version}" in [v["groupVersion"] for v in group["versions"]]
    found = await (await client.get(f"{ROOT}/{version}")).json()
    assert found["groupVersion"] == f"custom.metrics.k8s.io/{version}"
    assert [(r["name"], r["kind"], r["verbs"]) for r in found["resources"]] == [
        (f"inferenceclusters.inferencecluster.io/{metric}", "MetricValueList", ["get"])
        for metric in ("inference_load_percent", "inference_demand_requests")
    ]


async def test_a_value_in_both_versions(client: TestClient[Any, Any]) -> None:
    new = await (await client.get(f"{ROOT}/v1beta2/namespaces/ml/{LOAD}")).json()
    old = await (await client.get(f"{ROOT}/v1beta1/namespaces/ml/{LOAD}")).json()
    assert new["kind"] == old["kind"] == "MetricValueList"
    assert new["items"][0]["metric"] == {"name": "inference_load_percent"}
    assert old["items"][0]["metricName"] == "inference_load_percent"
    for item in (new["items"][0], old["items"][0]):
        assert item["describedObject"]["name"] == "chat"
        # 12 requests at 8 a replica need 3: above 200 per cent of a well-filled one.
        assert 200_000 < int(item["value"].removesuffix("m")) <= 300_000


async def test_the_demand_itself_can_be_read(client: TestClient[Any, Any]) -> None:
    path = f"{ROOT}/v1beta2/namespaces/ml/inferenceclusters.inferencecluster.io/*/inference_demand_requests"
    found = await (await client.get(path)).json()
    assert [item["value"] for item in found["items"]] == ["12000m"]


@pytest.mark.parametrize(
    ("path", "code"),
    [
        (f"v1beta2/namespaces/ml/{LOAD}?metricLabelSelector=a%3Db", 400),
        ("v1beta2/namespaces/ml/inferenceclusters.inferencecluster.io/chat/other", 404),
        ("v1beta2/namespaces/ml/inferenceclusters.inferencecluster.io/nobody/inference_load_percent", 404),
        ("v1beta2/namespaces/ml/pods/x/inference_load_percent", 404),
        ("v1", 404),
    ],
)
async def test_errors_are_those_of_the_kubernetes_api(
    client: TestClient[Any, Any], path: str, code: int
) -> None:
    answer = await client.get(f"{ROOT}/{path}")
    body = await answer.json()
    assert (answer.status, body["kind"], body["code"], body["status"]) == (code, "Status", code, "Failure")
    assert body["message"]


async def test_an_unknown_demand_is_an_error_and_never_a_number(
    client: TestClient[Any, Any], collector: FakeCollector
) -> None:
    collector.known["ml", "chat"] = Unknown("no answer from gateway g-1 for 60 s")
    for name in ("chat", "*"):
        answer = await client.get(f"{ROOT}/v1beta2/namespaces/ml/{LOAD.replace('chat', name)}")
        assert answer.status == 503
        assert "g-1" in (await answer.json())["message"]


async def test_whoever_is_not_the_api_server_is_told_nothing(
    client: TestClient[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frontproxy, "user", lambda *_: None)
    for path in (ROOT, f"{ROOT}/v1beta2", f"{ROOT}/v1beta2/namespaces/ml/{LOAD}", "/anything"):
        assert (await client.get(path)).status == 401


async def test_only_reading_is_possible(client: TestClient[Any, Any]) -> None:
    assert (await client.post(f"{ROOT}/v1beta2/namespaces/ml/{LOAD}")).status == 405
