"""Two operators: one works, the other takes over, never both."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from sandbox.lab import OPERATOR_NAMESPACE, Lab, manifest
from tests.cluster.operator_lab import install, operator_events

pytest_plugins = ["tests.plugins.sandbox", "tests.plugins.operator"]

Json = dict[str, Any]
LEASE = f"apis/coordination.k8s.io/v1/namespaces/{OPERATOR_NAMESPACE}/leases/inference-operator"


@pytest.fixture
def pair(operator: Lab) -> Iterator[Lab]:
    install(operator, replicas=2)
    yield operator
    install(operator, replicas=1)


def holder(lab: Lab) -> str:
    """Name of the leading pod."""
    spec = (lab.get(LEASE) or {}).get("spec", {})
    return str(spec.get("holderIdentity", "")).partition("_")[0]


def taken_over(lab: Lab, old: str, timeout: float) -> float:
    started = time.monotonic()
    lab.until("another pod leads", lambda: holder(lab) not in ("", old), timeout, interval=0.1)
    return time.monotonic() - started


def test_a_frozen_leader_is_replaced_within_20_seconds_and_never_writes_again(
    pair: Lab, namespace: str
) -> None:
    pair.apply(manifest("llama"), namespace)
    pair.until_ready("llama", namespace, timeout=120)
    old = holder(pair)
    pods = {p["metadata"]["name"]: p["status"]["podIP"] for p in pair.pods(OPERATOR_NAMESPACE)}
    # Frozen, not killed: a process that comes back to life later is the harder case.
    pair.sandbox.process_fault("freeze", f"{OPERATOR_NAMESPACE}/{old}")
    pair.scale("llama", 2, namespace)
    assert taken_over(pair, old, timeout=25) <= 20
    pair.sandbox.process_fault("thaw", f"{OPERATOR_NAMESPACE}/{old}")
    pair.until_ready("llama", namespace, replicas=2, timeout=60)
    since = datetime.fromisoformat((pair.get(LEASE) or {})["spec"]["acquireTime"])
    late = [
        event
        for event in operator_events(pair.sandbox)
        if pods[old] in event["sourceIPs"]
        and event.get("objectRef", {}).get("resource") != "leases"
        and datetime.fromisoformat(event["requestReceivedTimestamp"]) > since
    ]
    assert late == []


def test_a_leader_that_is_told_to_stop_hands_over_at_once(pair: Lab) -> None:
    old = holder(pair)
    started = time.monotonic()
    pair.sandbox.kubectl(["delete", "pod", old, "-n", OPERATOR_NAMESPACE, "--wait=true"])
    assert time.monotonic() - started < 8, "SIGTERM takes too long"
    assert taken_over(pair, old, timeout=10) < 6
