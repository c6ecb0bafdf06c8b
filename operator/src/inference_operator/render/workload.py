"""What one revision consists of: its record, its Deployment and the headless Service that lists its
engines."""

from __future__ import annotations

import json

from ..api import names
from ..api.v1alpha1 import InferenceClusterSpec
from ..core.model import ClusterRef
from ..core.record import Record, encode
from .common import Object, child
from .engine import load_seconds

#: A node may have to be started and an image of 10 GiB be pulled before the engine loads. Seconds.
PROVISIONING_SECONDS = 1800


def controller_revision(ref: ClusterRef, revision: str, record: Record) -> Object:
    """The frozen record. `revision` is a field that the API demands; ours are ordered by creation."""
    parts = {"data": encode(record), "revision": 1}
    return _child("apps/v1", "ControllerRevision", ref, revision, parts)


def deployment(
    ref: ClusterRef, revision: str, record: Record, replicas: int, spec: InferenceClusterSpec
) -> Object:
    """The engines. The template is the frozen one, so the Deployment itself never rolls anything."""
    body = {
        "replicas": replicas,
        "revisionHistoryLimit": 0,
        # Capacity that isn't there yet is no failure (acceptance A13).
        "progressDeadlineSeconds": load_seconds(spec) + PROVISIONING_SECONDS,
        "selector": {"matchLabels": names.engine_selector(ref.name, revision)},
        "template": record.template,
    }
    # People delete a ControllerRevision, which looks like history that nobody needs.
    copy = json.dumps(encode(record), separators=(",", ":"), sort_keys=True)
    return _child(
        "apps/v1",
        "Deployment",
        ref,
        revision,
        {"spec": body},
        annotations={names.ANNOTATION_RECORD: copy},
    )


def headless_service(ref: ClusterRef, revision: str) -> Object:
    """Its EndpointSlices tell the gateway which engines there are; nobody connects to it."""
    body = {
        "clusterIP": "None",
        "publishNotReadyAddresses": False,
        "selector": names.engine_selector(ref.name, revision),
        "ports": [{"name": "http", "port": names.ENGINE_PORT, "protocol": "TCP", "targetPort": "http"}],
    }
    return _child("v1", "Service", ref, revision, {"spec": body})


def _child(
    api_version: str,
    kind: str,
    ref: ClusterRef,
    revision: str,
    parts: Object,
    annotations: dict[str, str] | None = None,
) -> Object:
    name = names.workload_name(ref.name, revision)
    return child(
        api_version,
        kind,
        name,
        ref,
        names.COMPONENT_ENGINE,
        parts,
        revision=revision,
        annotations=annotations,
    )
