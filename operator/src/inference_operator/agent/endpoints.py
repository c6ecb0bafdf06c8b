"""EndpointSlices to engines: pure.

ready (and not terminating)     takes requests
serving and terminating         drains: running requests go on
anything else                   is not an engine
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, Final

from . import words
from .model import Engine

log = logging.getLogger(__name__)

SERVICE_LABEL: Final = "kubernetes.io/service-name"


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
