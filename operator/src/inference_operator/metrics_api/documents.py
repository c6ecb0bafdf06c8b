"""What custom.metrics.k8s.io answers, as dicts: discovery, values, errors. Pure.

Two versions with the same content; in v1beta2 the metric's name is an object (k/metrics: types_v1beta2.go).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from ..api import names

Object = dict[str, Any]

GROUP: Final = "custom.metrics.k8s.io"
#: The first is preferred.
VERSIONS: Final = ("v1beta2", "v1beta1")
RESOURCE: Final = f"{names.PLURAL}.{names.GROUP}"
METRICS: Final = (names.METRIC_LOAD, names.METRIC_DEMAND)


@dataclass(frozen=True)
class Value:
    """One metric of one InferenceCluster."""

    namespace: str
    cluster: str
    metric: str
    #: In thousandths.
    milli: int
    #: RFC 3339: when the oldest part of it was measured.
    time: str


def group() -> Object:
    """APIGroup."""
    versions = [{"groupVersion": f"{GROUP}/{version}", "version": version} for version in VERSIONS]
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": GROUP,
        "versions": versions,
        "preferredVersion": versions[0],
    }


def groups() -> Object:
    """APIGroupList of one group."""
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [group()]}


def resources(version: str) -> Object:
    """APIResourceList."""
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{GROUP}/{version}",
        "resources": [
            {
                "name": f"{RESOURCE}/{metric}",
                "singularName": "",
                "namespaced": True,
                "kind": "MetricValueList",
                "verbs": ["get"],
            }
            for metric in METRICS
        ],
    }


def values(version: str, found: Iterable[Value]) -> Object:
    """MetricValueList."""
    return {
        "kind": "MetricValueList",
        "apiVersion": f"{GROUP}/{version}",
        "metadata": {},
        "items": [_item(version, value) for value in found],
    }


def _item(version: str, value: Value) -> Object:
    named = {"metricName": value.metric} if version == "v1beta1" else {"metric": {"name": value.metric}}
    return {
        "describedObject": {
            "kind": names.KIND,
            "apiVersion": names.API_VERSION,
            "namespace": value.namespace,
            "name": value.cluster,
        },
        **named,
        "timestamp": value.time,
        "value": f"{value.milli}m",
    }


def failure(code: int, reason: str, message: str) -> Object:
    """metav1.Status, as the Kubernetes API reports errors."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "reason": reason,
        "message": message,
        "code": code,
    }
