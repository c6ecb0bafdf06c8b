"""Degraded and FailoverActive: what was lost, and what is merely new."""

from __future__ import annotations

import pytest

from inference_operator.api.conditions import ConditionType
from inference_operator.api.v1alpha1 import (
    InferenceClusterStatus,
)
from inference_operator.core.model import GatewayObserved, Revision
from inference_operator.core.status import rfc3339

from .builders import (
    NOW,
    engine,
    gateway,
    loading,
    report,
    revision,
    seen_by_both,
)
from .statuses import (
    HALF,
    LOST,
    ONE,
    SERVED,
    SERVING,
    down,
    message,
    says,
    status,
    up,
)

# --- Degraded, FailoverActive ---


def test_degraded() -> None:
    assert says(status(SERVING), ConditionType.DEGRADED) == "False AllReady"
    assert says(status(n=0), ConditionType.DEGRADED) == "False AllReady"
    lost = status(HALF, before=SERVED)
    assert says(lost, ConditionType.DEGRADED) == "True EnginesMissing"
    assert message(lost, ConditionType.DEGRADED) == "1 of 2 engines ready (1 loading)"


@pytest.mark.parametrize(
    ("got", "want"),
    [
        (status(HALF, before=SERVED), "True EnginesMissing"),
        (status(HALF, before=status(HALF, before=SERVED)), "True EnginesMissing"),
        (status(revision("a", [engine("a-0"), loading("a-1", restarts=1)])), "True EnginesMissing"),
        (status(revision("a", [engine("a-0"), engine("a-1", node_lost=True)])), "True EnginesMissing"),
        (status(SERVING, gates=gateway(report("g-0", a_0="UP", a_1="DOWN"))), "True EnginesMissing"),
        (status(HALF), "False Scaling"),
        (status(SERVING, n=3, before=SERVED), "False Scaling"),
        (status(HALF, n=1, before=SERVED), "False AllReady"),
        (status(ONE, revision("b", [loading("b-0")], age=10), target="b", before=SERVED), "False RollingOut"),
        (status(SERVING, before=LOST), "False AllReady"),
    ],
    ids=[
        "fewer than before",
        "and a pass later",
        "restarted",
        "node lost",
        "down",
        "new",
        "scale-up",
        "scale-down",
        "exchanged",
        "all back",
    ],
)
def test_an_engine_that_is_merely_new_is_no_loss(got: InferenceClusterStatus, want: str) -> None:
    assert says(got, ConditionType.DEGRADED) == want


@pytest.mark.parametrize(
    ("revision_", "gates", "want"),
    [
        (SERVING, seen_by_both([SERVING]), "False NoFailover"),
        (SERVING, gateway(report("g-0", a_0="UP", a_1="DOWN")), "True EngineDown"),
        (HALF, gateway(report("g-0", events=[down("a-1", 100)], a_0="UP")), "True EngineDown"),
        (HALF, gateway(report("g-0", events=[down("a-1", 301)], a_0="UP")), "False NoFailover"),
        (HALF, gateway(report("g-0", events=[down("a-9", 100)], a_0="UP")), "False NoFailover"),
        (HALF, gateway(report("g-0", events=[down("a-1", 100), up("a-1", 90)])), "False NoFailover"),
        (HALF, gateway(report("g-0", events=[down("a-0", 100)], a_0="UP")), "False NoFailover"),
        (SERVING, gateway(report("g-0", events=[down("a-9", 5)], a_0="UP", a_1="UP")), "False NoFailover"),
        (SERVING, gateway(), "Unknown NotObserved"),
    ],
    ids=[
        "nothing lost",
        "down, still ready",
        "lost, not back",
        "long ago",
        "gone, its successor is a new engine",
        "was back since",
        "is back, another one is new",
        "replaced",
        "no report",
    ],
)
def test_failover_active(revision_: Revision, gates: GatewayObserved, want: str) -> None:
    assert says(status(revision_, gates=gates), ConditionType.FAILOVER_ACTIVE) == want


def test_an_engine_that_one_gateway_still_reaches_is_not_down() -> None:
    gates = gateway(report("g-0", a_0="UP", a_1="DOWN"), report("g-1", a_0="UP", a_1="UP"))
    got = status(SERVING, gates=gates)
    assert got.ready_replicas == 2
    assert says(got, ConditionType.FAILOVER_ACTIVE) == "False NoFailover"


def test_the_last_loss_is_told_with_what_became_of_it() -> None:
    def told(*revisions: Revision, pod: str = "a-1") -> str:
        gates = gateway(report("g-0", events=[down(pod, 400)], a_0="UP", a_1="UP"))
        return message(status(*revisions, gates=gates), ConditionType.FAILOVER_ACTIVE)

    at = rfc3339(NOW - 400)
    assert told(SERVING) == f"The last loss was a-1 at {at}: it is back"
    assert told(SERVING, pod="a-9") == f"The last loss was a-9 at {at}: it is gone, and replaced"
    assert told(HALF, pod="a-9") == f"The last loss was a-9 at {at}: it is gone"
    assert told(HALF) == f"The last loss was a-1 at {at}"
    assert "No gateway" in message(status(SERVING), ConditionType.FAILOVER_ACTIVE)
