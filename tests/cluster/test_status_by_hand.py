"""Somebody writes into the status and into a gateway's report: the API server or the operator copes."""

from __future__ import annotations

import json

from sandbox.lab import Lab, manifest

pytest_plugins = ["tests.plugins.sandbox", "tests.plugins.operator"]


def test_a_spoiled_status_and_a_spoiled_report_keep_no_child_from_coming_back(
    operator: Lab, namespace: str
) -> None:
    operator.apply(manifest("st"), namespace)
    operator.until_ready("st", namespace, timeout=120)

    def patch(kind: str, name: str, body: object, *options: str) -> str:
        command = ["patch", kind, name, "-n", namespace, "--type=merge", "-p", json.dumps(body), *options]
        done = operator.sandbox.kubectl(command, check=False)
        return "" if done.returncode == 0 else done.stderr

    event = {"time": "yesterday", "kind": "EngineDown", "pod": "x", "gateway": "g", "streamsCut": 1}
    odd = {"status": {"failover": {"lastEvents": [event]}}}
    assert "status.failover.lastEvents[0].time" in patch("ic", "st", odd, "--subresource=status")

    gateway = operator.gateways("st", namespace)[0]["metadata"]["name"]
    report = {
        "gateway": gateway,
        "ready": True,
        "routing_digest": "",
        "events": [{"kind": "EngineDown", "pod": "x", "time": 1e300, "streams_cut": 1}],
    }
    # Of a gateway that doesn't exist, so that no agent writes over it.
    key = {"data": {"gateway.nobody": json.dumps(report)}}
    assert not patch("configmap", "st-gateway-report", key)
    assert not patch("ic", "st", {"status": {"conditions": None}}, "--subresource=status")
    operator.sandbox.kubectl(["delete", "service", "st-gateway", "-n", namespace])
    service = f"api/v1/namespaces/{namespace}/services/st-gateway"
    operator.until("the Service made again", lambda: operator.get(service), timeout=15)
    operator.until_ready("st", namespace, timeout=60)
