"""A cluster that somebody's finalizer holds while it is being deleted says what it is."""

from __future__ import annotations

from typing import Any

from sandbox.lab import Lab, WaitTimeout, condition, manifest

pytest_plugins = ["tests.plugins.sandbox", "tests.plugins.operator"]

Json = dict[str, Any]


def test_a_deleted_cluster_that_is_held_is_not_ready_and_goes_when_it_is_let_go(
    operator: Lab, namespace: str
) -> None:
    operator.apply(manifest("held"), namespace)
    operator.until_ready("held", namespace, replicas=1, timeout=120)
    kubectl = operator.sandbox.kubectl

    def finalizers(value: str) -> None:
        patch = f'{{"metadata": {{"finalizers": {value}}}}}'
        kubectl(["patch", "ic", "held", "-n", namespace, "--type=merge", "-p", patch])

    finalizers('["example.com/hold"]')
    try:
        # In the foreground, so that the children go while the cluster is still there.
        kubectl(["delete", "ic", "held", "-n", namespace, "--cascade=foreground", "--wait=false"])

        def told() -> Json | None:
            cluster = operator.cluster("held", namespace) or {}
            last = condition(cluster, "Ready").get("message", "").endswith("hold it: example.com/hold")
            none_left = cluster.get("status", {}).get("readyReplicas") == 0
            return cluster if last and none_left else None

        cluster = operator.until("a status of a deleted cluster", told, timeout=60)
        ready = condition(cluster, "Ready")
        assert (ready["status"], ready["reason"]) == ("False", "Deleting")
        assert condition(cluster, "GatewayReady")["status"] == "Unknown"
        left: list[str] = []

        def gone() -> bool:
            left[:] = operator.children("held", namespace)
            return not left

        try:
            operator.until("no child left", gone, timeout=60)
        except WaitTimeout as error:
            raise WaitTimeout(f"{error}; left: {left}") from None
    finally:
        finalizers("null")  # else the namespace's fixture would wait for ever
    operator.until("the end", lambda: operator.cluster("held", namespace) is None, timeout=30)
