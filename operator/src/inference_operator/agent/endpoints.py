"""EndpointSlices to engines: pure, times come from the caller.

ready (and not terminating)     takes requests
serving and terminating         drains: running requests go on
anything else                   is not an engine

a slice without endpoints       the Service has no engine
no slice at all                 missing data: the engines known last stay for 30 s
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from . import words
from .model import Engine

log = logging.getLogger(__name__)

SERVICE_LABEL: Final = "kubernetes.io/service-name"
#: The endpoint controller makes deleted slices anew within a second or two, and a Service that the operator
#: makes anew takes a few more.
KEEP_SECONDS: Final = 30.0


def trim(obj: dict[str, Any]) -> dict[str, Any] | None:
    """Keep of a slice what is read here."""
    meta = obj["metadata"]
    return {
        "metadata": {key: meta[key] for key in ("namespace", "name", "resourceVersion")},
        "service": (meta.get("labels") or {}).get(SERVICE_LABEL, ""),
        "endpoints": [
            {
                "address": (endpoint.get("addresses") or [""])[0],
                "conditions": endpoint.get("conditions") or {},
                "node": endpoint.get("nodeName") or "",
                "pod": (endpoint.get("targetRef") or {}).get("name", ""),
            }
            for endpoint in obj.get("endpoints") or ()
        ],
    }


def engines(slices: Iterable[dict[str, Any]]) -> dict[str, tuple[Engine, ...]]:
    """Service name -> its engines by pod name, from trimmed slices.

    An endpoint without a legal pod name or address is left out and logged: one bad object must not stop
    the rest.
    During a move between slices an endpoint stands in both; the one that takes requests counts.
    """
    found: dict[str, dict[str, Engine]] = {}
    for item in slices:
        pods = found.setdefault(item["service"], {})
        for endpoint in item["endpoints"]:
            engine = _engine(endpoint)
            if engine is not None and (engine.pod not in pods or pods[engine.pod].draining):
                pods[engine.pod] = engine
    return {service: tuple(pods[pod] for pod in sorted(pods)) for service, pods in found.items()}


@dataclass
class LastKnown:
    """Engines per Service, those of a Service whose slices are missing included.

    Kubernetes keeps at least one slice, possibly an empty one, for every Service with a selector. So none at
    all means that somebody deleted slices or Service, while the engines may be as well as before: removing
    them would be an outage of our own making. Health checks take out those that are not.
    """

    engines: dict[str, tuple[Engine, ...]] = field(default_factory=dict)
    #: Was there ever a list of slices, be it an empty one?
    heard: bool = False
    #: Service without slices -> monotonic time of the first look at it since then; None = not yet looked at.
    _missing: dict[str, float | None] = field(default_factory=dict)

    def update(self, found: dict[str, tuple[Engine, ...]]) -> bool:
        """Take what all present slices say, see `engines`. True: something is new."""
        missing = sorted(self.engines.keys() - found)
        for service in missing:
            if self.engines[service] and service not in self._missing:
                log.warning(
                    "no EndpointSlice is left of a Service: keeping its engines for a while",
                    extra={"service": service, "seconds": KEEP_SECONDS},
                )
        self._missing = {service: self._missing.get(service) for service in missing}
        known = {**{service: self.engines[service] for service in missing}, **found}
        changed = known != self.engines or not self.heard
        self.engines, self.heard = known, True
        return changed

    def forget(self, now: float) -> None:
        """Believe, at monotonic time `now`, what has been missing for long enough."""
        for service, since in list(self._missing.items()):
            if since is None:
                self._missing[service] = now
            elif now - since >= KEEP_SECONDS:
                del self._missing[service]
                if self.engines.pop(service):
                    log.warning("still no EndpointSlice: removing the engines", extra={"service": service})


def _engine(endpoint: dict[str, Any]) -> Engine | None:
    conditions = endpoint["conditions"]
    # An absent `ready` means unknown and is to be read as ready; an absent `serving` follows `ready`.
    ready = conditions.get("ready") is not False
    serving = conditions.get("serving", ready) is not False
    terminating = bool(conditions.get("terminating"))
    if not (serving if terminating else ready):
        return None
    try:
        return Engine(
            pod=words.pod_name(endpoint["pod"], "targetRef.name"),
            address=words.address(endpoint["address"], "addresses[0]"),
            node=endpoint["node"],
            draining=terminating,
        )
    except words.RefusedError as error:
        log.warning("leaving out an endpoint", extra={"reason": str(error)})
        return None
