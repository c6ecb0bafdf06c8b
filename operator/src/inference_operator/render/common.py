"""What all children have in common: names, labels, the owner and the digest by which drift is seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..api import names
from ..core.canonical import digest
from ..core.model import ClusterRef

Object = dict[str, Any]


def owner_reference(name: str, uid: str, *, controller: bool = True) -> Object:
    """A reference to an InferenceCluster: its deletion removes the child.

    Without blockOwnerDeletion: OwnerReferencesPermissionEnforcement (on in OpenShift) allows that only to who
    may update the owner's finalizers, a right that the operator has no other use for.
    """
    reference: Object = {"apiVersion": names.API_VERSION, "kind": names.KIND, "name": name, "uid": uid}
    return {**reference, "controller": True} if controller else reference


def child(
    api_version: str,
    kind: str,
    name: str,
    ref: ClusterRef,
    component: str,
    parts: Object,
    *,
    revision: str | None = None,
    annotations: dict[str, str] | None = None,
) -> Object:
    """An object that belongs to one cluster; `parts` are its other top-level fields.

    Labels never hold app.kubernetes.io/instance: Argo CD may track applications by it and would prune what it
    didn't make.
    """
    labels = {**names.cluster_selector(ref.name), names.LABEL_COMPONENT: component}
    if revision is not None:
        labels[names.LABEL_REVISION] = revision
    return stamped(
        {
            "apiVersion": api_version,
            "kind": kind,
            "metadata": {
                "name": name,
                "namespace": ref.namespace,
                "labels": labels,
                "ownerReferences": [owner_reference(ref.name, ref.uid)],
                **({"annotations": annotations} if annotations else {}),
            },
            **parts,
        }
    )


def stamped(obj: Object) -> Object:
    """The object with its own digest as annotation, taken before the annotation is there."""
    metadata = obj["metadata"]
    annotations = {**metadata.get("annotations", {}), names.ANNOTATION_HASH: digest(obj)}
    return {**obj, "metadata": {**metadata, "annotations": annotations}}


def pod_labels(selector: Mapping[str, str], name: str) -> dict[str, str]:
    """Labels of a pod template: what selects it, and who made it."""
    return {**selector, names.LABEL_MANAGED_BY: names.MANAGED_BY, names.LABEL_NAME: name}


def spread(selector: Mapping[str, str]) -> list[Object]:
    """One pod a node as far as possible; a cluster with one node still runs all of them."""
    return [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": dict(selector)},
        }
    ]


def restricted() -> Object:
    """Container part of the Pod Security Standard "restricted"."""
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def http_probe(path: str, port: str, *, period: int, timeout: int, failures: int) -> Object:
    """A probe without initial delay: waiting for the start is the startup probe's work (acceptance A1)."""
    return {
        "httpGet": {"path": path, "port": port, "scheme": "HTTP"},
        "periodSeconds": period,
        "timeoutSeconds": timeout,
        "failureThreshold": failures,
    }
