"""The CRD is deleted under a running operator, stays away for a while, and comes back.

Every InferenceCluster goes with it. No other module keeps one across modules, and the very CRD that was there
is put back, so the session's operator can be used here.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from sandbox.lab import OPERATOR_NAMESPACE, Lab, manifest
from tests.cluster.operator_lab import install, operator_pods

pytest_plugins = ["tests.plugins.sandbox", "tests.plugins.operator"]

Json = dict[str, Any]
NAME = "inferenceclusters.inferencecluster.io"
PATH = f"apis/apiextensions.k8s.io/v1/customresourcedefinitions/{NAME}"
LEASE = f"apis/coordination.k8s.io/v1/namespaces/{OPERATOR_NAMESPACE}/leases/inference-operator"
#: Longer than kopf needs to find out and to be started again.
AWAY_SECONDS = 25


@pytest.fixture
def pair(operator: Lab) -> Iterator[Lab]:
    """A leader and a standby."""
    install(operator, replicas=2)
    yield operator
    install(operator, replicas=1)


@pytest.fixture
def crd(pair: Lab) -> Iterator[Json]:
    """The CRD as it is installed, Helm's marks included; put back in any case."""
    found = pair.get(PATH)
    assert found is not None
    kept = {key: found["metadata"].get(key) or {} for key in ("labels", "annotations")}
    found = {**found, "metadata": {"name": NAME, **kept}}
    del found["status"]
    yield found
    put_back(pair, found)


def put_back(lab: Lab, crd: Json) -> None:
    lab.sandbox.kubectl(["apply", "--server-side", "--force-conflicts", "-f", "-"], input=json.dumps(crd))
    lab.sandbox.kubectl(["wait", "--for=condition=Established", "--timeout=30s", f"crd/{NAME}"])


def operators(lab: Lab) -> dict[str, tuple[bool, int]]:
    """Ready and restarts of each operator pod."""
    return {
        pod["metadata"]["name"]: (status["ready"], status["restartCount"])
        for pod in operator_pods(lab)
        for status in pod["status"].get("containerStatuses", [])
    }


def holder(lab: Lab) -> str:
    spec = (lab.get(LEASE) or {}).get("spec", {})
    return str(spec.get("holderIdentity", "")).partition("_")[0]


def test_a_crd_that_comes_back_is_served_by_the_leader_and_by_the_standby(
    pair: Lab, namespace: str, crd: Json
) -> None:
    pair.apply(manifest("before"), namespace)
    pair.until_ready("before", namespace, timeout=120)
    began = operators(pair)
    assert len(began) == 2

    pair.sandbox.kubectl(["delete", "crd", NAME, "--wait=true", "--timeout=60s"])
    gone = time.monotonic()
    pair.until(
        "operators that say that they can't work",
        lambda: not any(ready for ready, _ in operators(pair).values()),
        timeout=60,
    )
    time.sleep(max(0.0, AWAY_SECONDS - (time.monotonic() - gone)))
    put_back(pair, crd)

    pair.apply(manifest("after"), namespace)
    pair.until_ready("after", namespace, timeout=60)
    pair.until("ready operators", lambda: all(ok for ok, _ in operators(pair).values()), timeout=30)
    assert operators(pair) == began, "the processes themselves needn't start again"
    assert pair.cluster("before", namespace) is None
    pair.until("no child left", lambda: not pair.children("before", namespace), timeout=60)

    leader = holder(pair)
    pair.sandbox.kubectl(["delete", "pod", leader, "-n", OPERATOR_NAMESPACE, "--wait=true"])
    pair.until("the standby leads", lambda: holder(pair) not in ("", leader), timeout=30)
    if holder(pair) in began:  # else the pod that replaces the leader was faster
        pair.apply(manifest("later"), namespace)
        pair.until_ready("later", namespace, timeout=60)
