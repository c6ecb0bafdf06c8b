"""Installing the operator, looking at objects, and what the operator has done, from the audit log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sandbox.client import Sandbox
from sandbox.lab import OPERATOR_NAMESPACE, RELEASE, Lab

Json = dict[str, Any]
USER = f"system:serviceaccount:{OPERATOR_NAMESPACE}:{RELEASE}"
_CRD_PATH = "apis/apiextensions.k8s.io/v1/customresourcedefinitions/inferenceclusters.inferencecluster.io"


def install(lab: Lab, *, replicas: int, values: Mapping[str, str] | None = None) -> None:
    """Install, or change the number of replicas and other values of the chart. A CRD that another test has
    applied stays as it is."""
    crd = lab.get(_CRD_PATH)
    ours = crd is None or "meta.helm.sh/release-name" in (crd["metadata"].get("annotations") or {})
    lab.install_operator(replicas=replicas, values={"crds.install": str(ours).lower(), **(values or {})})
    # Helm waits for those that are wanted, not for the end of those that aren't any more.
    lab.until("no operator too many", lambda: len(operator_pods(lab)) == replicas, timeout=60)


def operator_pods(lab: Lab) -> list[Json]:
    """Those on their way out included."""
    return lab.pods(OPERATOR_NAMESPACE, "app.kubernetes.io/component=controller")


def operator_events(sandbox: Sandbox, *, reads: bool = False) -> list[Json]:
    """All audited requests of the operator's ServiceAccount."""
    return [e for e in sandbox.audit_events(reads=reads) if e["user"].get("username") == USER]


def operator_writes(sandbox: Sandbox) -> list[str]:
    """`verb resource[/subresource] namespace/name` of every write, the leader's Lease left out."""
    return [
        describe(e) for e in operator_events(sandbox) if e.get("objectRef", {}).get("resource") != "leases"
    ]


def describe(event: Json) -> str:
    """One line."""
    ref = event.get("objectRef", {})
    resource = ref.get("resource", "") + (f"/{ref['subresource']}" if ref.get("subresource") else "")
    return f"{event['verb']} {resource} {ref.get('namespace', '')}/{ref.get('name', '')}"
