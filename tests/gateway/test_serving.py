"""The main path: no engine, first engine, tracks, metrics, state."""

from __future__ import annotations

import asyncio
from collections import Counter

import aiohttp
import orjson

from inference_operator.agent.run import Agent
from tests.gateway.client import request
from tests.gateway.rig import CLUSTER, Rig, endpoint_slice, routing, track, until


async def test_without_engines_the_answer_is_503_and_the_pod_is_not_ready_before_its_first_sync(rig: Rig):
    await until(lambda: _status(rig, "/-/haproxy", 200))
    answer = await request("127.0.0.1", rig.port)
    assert answer.status == 503
    assert (await rig.get("/readyz"))[0] == 503
    rig.route(routing(track("v1", 10_000, rig.engine_port)))
    assert (await rig.get("/readyz"))[0] == 503
    rig.publish()
    await until(lambda: _ready(rig))
    assert (await request("127.0.0.1", rig.port)).status == 503


async def test_an_engine_serves_as_soon_as_it_is_an_endpoint(rig: Rig):
    rig.route(routing(track("v1", 10_000, rig.engine_port)))
    await rig.add_engine("engine-0", "127.0.0.11")
    await rig.serving("engine-0")
    answer = await request("127.0.0.1", rig.port, tokens=3)
    assert (answer.status, answer.done, answer.engine) == (200, True, "127.0.0.11")
    await rig.add_engine("engine-1", "127.0.0.12")
    await rig.serving("engine-0", "engine-1")
    answers = await asyncio.gather(*(request("127.0.0.1", rig.port, tokens=3) for _ in range(20)))
    assert all(a.done for a in answers)
    assert {a.engine for a in answers} == {"127.0.0.11", "127.0.0.12"}
    # Only the first document needs a reload; engines come and go through the runtime API.
    assert rig.agent.metrics.reloads._value.get() == 1


async def test_requests_follow_the_shares_and_a_track_without_engines_is_skipped(rig: Rig):
    document = routing(track("v1", 8_000, rig.engine_port), track("v2", 2_000, rig.engine_port))
    rig.route(document)
    await rig.add_engine("stable-0", "127.0.0.11", "llama-v1")
    await rig.serving("stable-0")
    assert await _draw(rig, 40) == {"127.0.0.11": 40}
    await rig.add_engine("canary-0", "127.0.0.12", "llama-v2")
    await rig.serving("stable-0", "canary-0")
    drawn = await _draw(rig, 400)
    # 400 draws at 20 %: 80 expected, standard deviation 8; five of them.
    assert 40 <= drawn["127.0.0.12"] <= 120
    rig.route(routing(track("v1", 10_000, rig.engine_port), track("v2", 0, rig.engine_port)))
    await until(lambda: [t.share for t in rig.agent.control.status.tracks] == [10_000, 0])
    await asyncio.sleep(0.3)
    assert await _draw(rig, 100) == {"127.0.0.11": 100}
    rig.remove("stable-0")
    await rig.gone("stable-0")
    # Share 0 means nothing new, even when nobody else is there.
    assert (await request("127.0.0.1", rig.port)).status == 503


async def test_state_demand_and_metrics_say_what_runs(rig: Rig):
    rig.route(routing(track("v1", 10_000, rig.engine_port)))
    await rig.add_engine("engine-0", "127.0.0.11")
    await rig.serving("engine-0")
    running = [asyncio.create_task(request("127.0.0.1", rig.port, tokens=100)) for _ in range(3)]
    await until(lambda: rig.agent.control.status.tracks[0].in_flight == 3)
    demand = orjson.loads((await rig.get("/demand"))[1])
    assert demand == {
        "gateway": "gateway-0",
        "clusters": {
            "team-a/llama": {"held": 0, "queued": 0, "in_flight": 3, "demand": 3, "concurrency": 16}
        },
    }
    state = orjson.loads((await rig.get("/state"))[1])["clusters"]["team-a/llama"]
    assert set(state["tokens"]) == {"seconds", "prompt", "cached", "generation"}
    assert state["tokens"]["seconds"] > 0
    assert state["tracks"][0]["engines"] == [
        {"pod": "engine-0", "state": "UP", "in_flight": 3, "queued": 0, "maxconn": 16}
    ]
    await asyncio.gather(*running)
    await until(lambda: _metric(rig, 'requests_total{cluster="llama",code="2xx"'))
    text = (await rig.get("/metrics"))[1].decode()
    assert (
        'inference_gateway_requests_total{cluster="llama",code="2xx",namespace="team-a",revision="v1"} 3.0'
        in text
    )
    assert (
        'inference_gateway_engine_up{cluster="llama",namespace="team-a",pod="engine-0",revision="v1"} 1.0'
        in text
    )
    assert (await rig.get("/healthz"))[0] == 200


async def test_the_report_names_engines_and_the_document_in_force(rig: Rig):
    document = routing(track("v1", 10_000, rig.engine_port))
    rig.route(document)
    await rig.add_engine("engine-0", "127.0.0.11")
    await rig.serving("engine-0")
    report = rig.agent.report(CLUSTER)
    assert report.ready
    assert [(e.pod, e.revision, e.state, e.idle) for e in report.engines] == [("engine-0", "v1", "UP", False)]
    assert report.routing_digest == rig.agent.inputs.digest(CLUSTER) != ""


async def test_requests_beyond_the_engines_concurrency_wait_and_beyond_the_queue_are_refused(rig: Rig):
    rig.route(
        routing(track("v1", 10_000, rig.engine_port, concurrency=2), queue_length=3, queue_timeout_seconds=30)
    )
    await rig.add_engine("engine-0", "127.0.0.11")
    await rig.serving("engine-0")
    answers = await asyncio.gather(*(request("127.0.0.1", rig.port, tokens=25) for _ in range(12)))
    assert Counter(a.status for a in answers) == {200: 5, 503: 7}
    refused = next(a for a in answers if a.status == 503)
    assert refused.ended - refused.began < 0.5


async def test_a_connection_is_closed_after_100_requests_so_that_clients_spread(rig: Rig):
    rig.route(routing(track("v1", 10_000, rig.engine_port)))
    await rig.add_engine("engine-0", "127.0.0.11")
    await rig.serving("engine-0")
    closing = []
    connector = aiohttp.TCPConnector(limit=1)
    async with aiohttp.ClientSession(connector=connector) as session:
        for number in range(1, 101):
            async with session.post(f"{rig.url}/v1/chat/completions?tokens=0", data=b"{}") as answer:
                assert b"[DONE]" in await answer.read()
                if answer.headers.get("Connection", "").lower() == "close":
                    closing.append(number)
    assert closing == [100]


async def test_clients_that_go_away_leave_queue_and_engine(rig: Rig):
    rig.route(routing(track("v1", 10_000, rig.engine_port, concurrency=1), queue_timeout_seconds=60))
    await rig.add_engine("engine-0", "127.0.0.11")
    await rig.serving("engine-0")

    def load() -> tuple[int, int]:
        (view,) = rig.agent.control.status.tracks
        return view.in_flight, view.queued

    running = [asyncio.create_task(request("127.0.0.1", rig.port, tokens=2_000)) for _ in range(5)]
    await until(lambda: load() == (1, 4))
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    await until(lambda: load() == (0, 0), 3)
    assert (await request("127.0.0.1", rig.port, tokens=0)).done


async def test_a_body_too_large_to_be_sent_again_gets_through_and_is_counted(rig: Rig):
    rig.route(routing(track("v1", 10_000, rig.engine_port)))
    await rig.add_engine("engine-0", "127.0.0.11")
    await rig.serving("engine-0")
    assert (await request("127.0.0.1", rig.port, tokens=0, body=900_000)).done
    await until(
        lambda: _metric(
            rig,
            'unretryable_requests_total{cluster="llama",namespace="team-a",revision="v1"} 1.0',
        )
    )


async def test_an_engine_may_have_an_ipv6_address(rig: Rig):
    rig.route(routing(track("v1", 10_000, rig.engine_port)))
    await rig.add_engine("engine-0", "::1")
    await rig.serving("engine-0")
    await asyncio.sleep(1.2)
    assert (await request("127.0.0.1", rig.port, tokens=0)).engine == "::1"
    assert rig.agent.metrics.command_errors._value.get() == 0


async def test_two_clusters_are_told_apart_by_path_or_header(rig: Rig):
    await rig.stop_agent()
    other = ("team-b", "qwen")
    rig.agent = Agent(rig.settings, (CLUSTER, other))
    rig.start_agent()
    rig.route(routing(track("v1", 10_000, rig.engine_port)))
    document = routing(
        track("v1", 10_000, rig.engine_port, service="qwen-v1"), namespace="team-b", cluster="qwen"
    )
    rig.agent.inputs.routing_text(other, document.model_dump_json())
    await rig.add_engine("engine-0", "127.0.0.11")
    await rig.add_engine("qwen-0", "127.0.0.12", "qwen-v1")
    rig.members.pop("qwen-v1")
    rig.publish()
    rig.agent.inputs.slices(other, [endpoint_slice("qwen-v1", [rig.engines["qwen-0"]])])
    await rig.serving("engine-0", "qwen-0")
    path = "/v1/chat/completions"
    first = await request("127.0.0.1", rig.port, tokens=0, path=f"/team-a/llama{path}")
    second = await request("127.0.0.1", rig.port, tokens=0, path=f"/team-b/qwen{path}")
    assert (first.engine, second.engine) == ("127.0.0.11", "127.0.0.12")
    async with aiohttp.ClientSession() as session:
        headers = {"X-Inference-Cluster": "team-b/qwen"}
        async with session.post(f"{rig.url}{path}?tokens=0", data=b"{}", headers=headers) as answer:
            assert answer.headers["X-Engine"] == "127.0.0.12"
        async with session.post(f"{rig.url}{path}?tokens=0", data=b"{}") as answer:
            assert answer.status == 404


async def _status(rig: Rig, path: str, want: int) -> bool:
    answer = await request("127.0.0.1", rig.port, path=path)
    return answer.status == want


async def _ready(rig: Rig) -> bool:
    return (await rig.get("/readyz"))[0] == 200


async def _metric(rig: Rig, text: str) -> bool:
    return text in (await rig.get("/metrics"))[1].decode()


async def _draw(rig: Rig, requests: int) -> Counter[str]:
    drawn: Counter[str] = Counter()
    for _ in range(requests // 20):
        answers = await asyncio.gather(*(request("127.0.0.1", rig.port, tokens=0) for _ in range(20)))
        assert all(a.done for a in answers)
        drawn.update(a.engine for a in answers)
    return drawn
