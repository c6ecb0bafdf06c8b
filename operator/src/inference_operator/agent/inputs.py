"""What is known of the clusters: the last good routing document and the endpoints, kept on disk too."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError

from ..api import names
from ..api.routing import Routing
from . import endpoints, words
from .files import replace_later
from .model import ClusterInput, Engine, Gateway, check_routing, gateway
from .topology import Retries

log = logging.getLogger(__name__)

Cluster = tuple[str, str]
#: (cluster, message): a routing document was refused.
OnRefused = Callable[[Cluster, str], None]


@dataclass
class _Known:
    """One cluster."""

    text: str | None = None
    routing: Routing | None = None
    refused: str = ""
    endpoints: endpoints.LastKnown = field(default_factory=endpoints.LastKnown)


@dataclass
class Inputs:
    """Fed by the watches, read by the control loop."""

    clusters: tuple[Cluster, ...]
    on_refused: OnRefused
    on_change: Callable[[], None]
    _known: dict[Cluster, _Known] = field(default_factory=dict)
    _retries: Retries = field(default_factory=Retries)
    _saved: bytes = b""

    def __post_init__(self) -> None:
        self._known = {cluster: _Known() for cluster in self.clusters}

    @property
    def complete(self) -> bool:
        """Is there a routing document and a list of endpoints for every cluster?"""
        return all(known.routing is not None and known.endpoints.heard for known in self._known.values())

    def routing_text(self, cluster: Cluster, text: str) -> None:
        """Take a routing document, or refuse it and keep the one in force."""
        known = self._known[cluster]
        if text in (known.text, known.refused):
            return
        try:
            known.routing = _routing(cluster, text)
        except (ValidationError, words.RefusedError) as error:
            known.refused = text
            reason = _first_problem(error)
            log.error("keeping the old routing", extra={"cluster": "/".join(cluster), "reason": reason})
            self.on_refused(cluster, f"{names.ROUTING_KEY} refused, the old one stays in force: {reason}")
            return
        known.text, known.refused = text, ""
        self.on_change()

    def slices(self, cluster: Cluster, slices: Iterable[dict[str, Any]]) -> None:
        """Take all trimmed EndpointSlices of a cluster."""
        if self._known[cluster].endpoints.update(endpoints.engines(slices)):
            self.on_change()

    def digest(self, cluster: Cluster) -> str:
        """SHA-256 of the routing document in force, "" before the first one."""
        text = self._known[cluster].text
        return hashlib.sha256(text.encode()).hexdigest() if text is not None else ""

    def peers(self, own_pod: str) -> dict[str, str]:
        """Other gateway pods, those on their way out included: pod name -> address."""
        result = {}
        for (_, name), known in self._known.items():
            for engine in known.endpoints.engines.get(names.gateway_service_name(name), ()):
                if engine.pod != own_pod:
                    result[engine.pod] = engine.address
        return result

    def gateway(self, now: float) -> Gateway:
        """What is wanted at monotonic time `now`."""
        inputs = {}
        for cluster, known in self._known.items():
            known.endpoints.forget(now)
            if known.routing is None:
                continue
            engines = known.endpoints.engines
            retries = {
                track.revision: self._retries.update(
                    "/".join((*cluster, track.revision)), engines.get(track.service, ()), now
                )
                for track in known.routing.tracks
            }
            inputs[cluster] = ClusterInput(known.routing, engines, retries)
        wanted = gateway(inputs)
        return Gateway(wanted.pools, wanted.drain_timeout_seconds, tuple(sorted(self.clusters)))

    async def save(self, path: Path) -> None:
        """Keep what is known on disk; does nothing when it is there already."""
        data = {
            "/".join(cluster): {
                "routing": known.text,
                "engines": {
                    service: [asdict(engine) for engine in found]
                    for service, found in sorted(known.endpoints.engines.items())
                }
                if known.endpoints.heard
                else None,
            }
            for cluster, known in self._known.items()
        }
        encoded = orjson.dumps(data)
        if encoded != self._saved:
            await replace_later(path, encoded.decode())
            self._saved = encoded

    def restore(self, path: Path) -> None:
        """Start from what `save` kept. A missing file is fine, an unreadable one is logged and ignored."""
        try:
            data = orjson.loads(path.read_bytes())
            for cluster in self.clusters:
                kept = data.get("/".join(cluster)) or {}
                if kept.get("routing") is not None:
                    self.routing_text(cluster, kept["routing"])
                if kept.get("engines") is not None:
                    self._known[cluster].endpoints.update(
                        {
                            service: tuple(Engine(**engine) for engine in found)
                            for service, found in kept["engines"].items()
                        }
                    )
        except FileNotFoundError:
            return
        except (OSError, orjson.JSONDecodeError, AttributeError, TypeError) as error:
            log.error("ignoring the kept state", extra={"file": str(path), "reason": str(error)})


def _routing(cluster: Cluster, text: str) -> Routing:
    routing = Routing.model_validate_json(text)
    if (routing.namespace, routing.cluster) != cluster:
        raise words.RefusedError(
            f"the document is for {routing.namespace}/{routing.cluster}, not for {'/'.join(cluster)}"
        )
    check_routing(routing)
    return routing


def _first_problem(error: ValidationError | words.RefusedError) -> str:
    if isinstance(error, words.RefusedError):
        return str(error)
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where or 'the document'}: {first['msg']}"
