"""haproxy.cfg and the map of shares as text: pure, the same input gives the same bytes.

Two texts are rendered from one template. The structure (no servers) decides whether HAProxy must be reloaded;
the file (with servers) is what HAProxy starts from after a crash, and follows every change that is otherwise
made through the runtime API.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from . import words
from .model import Engine, Gateway, Pool
from .settings import Settings

#: Worst case for a silent host: inter + fall x check + (fall - 1) x fastinter = 1.5 s.
#: HAProxy itself counts failed connections only. With `observe layer4` three answers of 500 in a row take a
#: server out, whoever is to blame: a few bad requests emptied a pool of three within milliseconds (tried).
#: Answers are judged by the agent, which stops at half of a pool.
#: The same words go into the file and into `add server`, which inherits nothing.
SERVER_OPTIONS: Final = (
    "check inter 500ms fastinter 200ms downinter 500ms fall 2 rise 2"
    " observe layer4 error-limit 3 on-error mark-down weight 100 slowstart 5s"
)
#: A server state file without servers: HAProxy warns of a missing or empty one.
NO_STATES: Final = "1\n"
_MIN_HARD_STOP_SECONDS: Final = 3600
_MIN_SILENCE_SECONDS: Final = 600

_environment = Environment(
    loader=PackageLoader("inference_operator.agent"),
    # HTML escaping would corrupt the file; `words` refuses what could be special in it.
    autoescape=False,  # noqa: S701
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


def structure(gateway: Gateway, settings: Settings) -> str:
    """The configuration without its servers: a change of it needs a reload."""
    return _render(gateway, settings, {}, with_servers=False)


def file(gateway: Gateway, settings: Settings, maxconn: Mapping[str, int]) -> str:
    """The whole configuration. `maxconn`: backend -> connections that each of its servers gets from here."""
    return _render(gateway, settings, maxconn, with_servers=True)


def shares(gateway: Gateway) -> str:
    """The map file `backend share`, one line per track."""
    return "".join(f"{pool.backend} {pool.track.share}\n" for pool in gateway.pools)


def endpoint(engine: Engine, port: int) -> str:
    """`address:port` as HAProxy reads it; an IPv6 address in brackets."""
    address = words.address(engine.address, "endpoint address")
    host = f"[{address}]" if ipaddress.ip_address(address).version == 6 else address
    return f"{host}:{words.port(port, 'port')}"


def _render(gateway: Gateway, settings: Settings, maxconn: Mapping[str, int], *, with_servers: bool) -> str:
    return _environment.get_template("haproxy.cfg.j2").render(
        max_connections=settings.max_connections,
        hard_stop_seconds=max(_MIN_HARD_STOP_SECONDS, round(gateway.drain_timeout_seconds)),
        stream_silence_seconds=max(_MIN_SILENCE_SECONDS, round(gateway.drain_timeout_seconds)),
        stats_socket=settings.stats_socket,
        server_state_file=settings.server_state_file,
        shares_file=settings.shares_file,
        # A request that freezes engines must not reach more of them this way than by failing.
        relay_retries=max((pool.retries for pool in gateway.pools), default=1),
        relay_socket=settings.relay_socket,
        log_port=settings.log_port,
        bind=settings.bind,
        server_options=SERVER_OPTIONS,
        clusters=[_cluster(*key) for key in gateway.clusters],
        pools=[_pool(pool, settings, maxconn, with_servers) for pool in gateway.pools],
    )


def _cluster(namespace: str, name: str) -> dict[str, str]:
    words.label(namespace, "namespace")
    words.label(name, "cluster")
    return {
        "name": f"{namespace}.{name}",
        "header": f"{namespace}/{name}",
        "prefix": f"/{namespace}/{name}",
    }


def _pool(pool: Pool, settings: Settings, maxconn: Mapping[str, int], with_servers: bool) -> dict[str, Any]:
    share = maxconn.get(pool.backend, pool.track.concurrency)
    return {
        "backend": pool.backend,
        "cluster": f"{pool.namespace}.{pool.cluster}",
        "health_path": words.path(pool.track.health_path, "tracks[].health_path"),
        "retries": pool.retries,
        "queue_timeout_ms": round(pool.queue_timeout_seconds * 1000),
        "queue_length": min(pool.queue_length, settings.max_connections),
        "servers": [_server(pool, engine, share) for engine in pool.engines] if with_servers else [],
    }


def _server(pool: Pool, engine: Engine, maxconn: int) -> dict[str, Any]:
    address, _, port = endpoint(engine, pool.track.port).rpartition(":")
    return {
        "name": words.pod_name(engine.pod, "engine pod"),
        "address": address,
        "port": port,
        "maxconn": maxconn,
        # `disabled` until the agent is there: after a restart of HAProxy there is nothing left to drain.
        "draining": engine.draining,
    }
