"""Phase and conditions of a pod out of its containers' states, by the kubelet's rules (pure functions)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

JSON = dict[str, Any]


def timestamp(seconds: float) -> str:
    """RFC 3339 in whole seconds, as metav1.Time."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def is_sidecar(container: JSON) -> bool:
    return bool(container.get("restartPolicy") == "Always")


def initialized(spec: JSON, init_statuses: Sequence[JSON]) -> bool:
    """Every init container has succeeded and every sidecar has started."""
    pairs = zip(spec.get("initContainers") or [], init_statuses, strict=True)
    return all(
        status["started"] if is_sidecar(container) else _succeeded(status) for container, status in pairs
    )


def phase(spec: JSON, init_statuses: Sequence[JSON], statuses: Sequence[JSON], *, over: bool) -> str:
    """The pod's phase. `over`: nothing of it will start again."""
    policy = spec.get("restartPolicy", "Always")
    if over:
        return "Succeeded" if all(map(_succeeded, statuses)) else "Failed"
    plain = [
        status
        for container, status in zip(spec.get("initContainers") or [], init_statuses, strict=True)
        if not is_sidecar(container)
    ]
    if policy == "Never" and any(_failed(status) for status in plain):
        return "Failed"
    if any("waiting" in status["state"] and not status["lastState"] for status in statuses):
        return "Pending"
    if any("running" in status["state"] for status in statuses) or policy == "Always":
        return "Running"
    if all(map(_succeeded, statuses)):
        return "Succeeded"
    return "Failed" if policy == "Never" else "Running"


def conditions(
    pod: JSON,
    phase: str,
    init_statuses: Sequence[JSON],
    statuses: Sequence[JSON],
    previous: Sequence[JSON],
    at: str,
) -> list[JSON]:
    """PodScheduled, Initialized, ContainersReady and Ready. The last transition time moves with status only.

    previous: the conditions sent last; a readiness gate looks for its condition in `pod`.
    """
    spec = pod["spec"]
    sidecars = [
        status
        for container, status in zip(spec.get("initContainers") or [], init_statuses, strict=True)
        if is_sidecar(container)
    ]
    unready = [status["name"] for status in (*sidecars, *statuses) if not status["ready"]]
    complete = initialized(spec, init_statuses) or phase == "Succeeded"
    if phase == "Succeeded":
        containers_ready = _condition("ContainersReady", reason="PodCompleted")
    elif phase == "Failed":
        containers_ready = _condition("ContainersReady", reason="PodFailed")
    elif unready:
        message = f"containers with unready status: [{' '.join(unready)}]"
        containers_ready = _condition("ContainersReady", reason="ContainersNotReady", message=message)
    else:
        containers_ready = _condition("ContainersReady")
    fresh = [
        _condition("PodScheduled"),
        _condition("Initialized", reason="" if complete else "ContainersNotInitialized"),
        containers_ready,
        _ready(pod, containers_ready),
    ]
    known = {condition["type"]: condition for condition in previous}
    for condition in fresh:
        before = known.get(condition["type"])
        unchanged = before is not None and before["status"] == condition["status"]
        condition["lastTransitionTime"] = before["lastTransitionTime"] if before and unchanged else at
    return fresh


def _ready(pod: JSON, containers_ready: JSON) -> JSON:
    if containers_ready["status"] == "False":
        return containers_ready | {"type": "Ready"}
    held = {
        condition["type"]: condition["status"]
        for condition in (pod.get("status") or {}).get("conditions") or []
    }
    for gate in pod["spec"].get("readinessGates") or []:
        kind = gate["conditionType"]
        if held.get(kind) != "True":
            message = f'corresponding condition of pod readiness gate "{kind}" is not "True"'
            return _condition("Ready", reason="ReadinessGatesNotReady", message=message)
    return _condition("Ready")


def _condition(kind: str, *, reason: str = "", message: str = "") -> JSON:
    """True without a reason, False with one."""
    # Empty strings and not missing keys: a strategic merge patch would leave the old words standing.
    return {"type": kind, "status": "False" if reason else "True", "reason": reason, "message": message}


def _succeeded(status: JSON) -> bool:
    return bool(status["state"].get("terminated", {}).get("exitCode") == 0)


def _failed(status: JSON) -> bool:
    return bool(status["state"].get("terminated", {}).get("exitCode"))
