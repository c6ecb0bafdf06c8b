"""Reports are written when something changed, and again after a failure."""

from __future__ import annotations

from typing import Any

import pytest

from inference_operator.agent.report import Reporter
from inference_operator.api.routing import EngineReport, GatewayReport
from inference_operator.ports import KubeError

CLUSTER = ("team-a", "llama")


def report(*engines: EngineReport) -> GatewayReport:
    return GatewayReport(gateway="gateway-0", ready=True, routing_digest="d", engines=engines)


class Api:
    def __init__(self) -> None:
        self.written: list[dict[str, Any]] = []
        self.fails = False

    async def apply(self, obj: dict[str, Any]) -> dict[str, Any]:
        if self.fails:
            raise KubeError("away", status=None, transient=True)
        self.written.append(obj)
        return obj


async def test_a_change_is_one_write_and_no_change_is_none():
    api, current = Api(), [report()]
    reporter = Reporter(api, CLUSTER, lambda: current[0], lambda: None)
    await reporter.write()
    await reporter.write()
    assert len(api.written) == 1
    current[0] = report(EngineReport(pod="e0", revision="v1", state="UP"))
    await reporter.write()
    assert api.written[-1] == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": "team-a", "name": "llama-gateway-report"},
        "data": {"gateway.gateway-0": current[0].model_dump_json()},
    }


async def test_a_failed_write_is_repeated_with_what_is_true_then():
    api, current = Api(), [report()]
    reporter = Reporter(api, CLUSTER, lambda: current[0], lambda: None)
    api.fails = True
    with pytest.raises(KubeError):
        await reporter.write()
    api.fails = False
    current[0] = report(EngineReport(pod="e0", revision="v1", state="DOWN"))
    await reporter.write()
    assert '"DOWN"' in api.written[0]["data"]["gateway.gateway-0"]
