"""Small makers of the agent's data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from inference_operator.agent.model import Engine, Gateway, Pool
from inference_operator.agent.settings import Settings
from inference_operator.agent.stat import Admin, Server
from inference_operator.api.routing import Routing, Track

BACKEND = "team-a.llama.v1"


def settings(folder: Path = Path("/run/gateway"), **changes: Any) -> Settings:
    values: dict[str, Any] = {
        "pod": "gateway-0",
        "namespace": "team-a",
        "pod_ip": "10.0.0.1",
        "directory": folder,
        **changes,
    }
    return Settings(**values)


def track(revision: str = "v1", **changes: Any) -> Track:
    values = {
        "revision": revision,
        "service": f"llama-{revision}",
        "share": 10_000,
        "port": 8000,
        "health_path": "/health",
        "metrics_path": "/metrics",
        "concurrency": 16,
        **changes,
    }
    return Track.model_validate(values)


def routing(*tracks: Track, **changes: Any) -> Routing:
    values = {
        "cluster": "llama",
        "namespace": "team-a",
        "served_name": "llama",
        "tracks": tracks,
        "queue_length": 100,
        "queue_timeout_seconds": 5.0,
        "drain_timeout_seconds": 60.0,
        **changes,
    }
    return Routing.model_validate(values)


def engine(pod: str = "e0", address: str = "10.0.1.1", *, node: str = "n0", draining: bool = False) -> Engine:
    return Engine(pod, address, node, draining)


def pool(*engines: Engine, revision: str = "v1", **changes: Any) -> Pool:
    return Pool("team-a", "llama", track(revision, **changes), engines, 1, 100, 5.0)


def gateway(*pools: Pool) -> Gateway:
    return Gateway(pools, 60.0, (("team-a", "llama"),))


def server(name: str = "e0", **changes: Any) -> Server:
    values: dict[str, Any] = {
        "backend": BACKEND,
        "name": name,
        "address": "10.0.1.1",
        "port": 8000,
        "admin": Admin.READY,
        "dead": False,
        "current": 0,
        "queued": 0,
        "maxconn": 16,
        "check": "L7OK",
        **changes,
    }
    return Server(**values)
