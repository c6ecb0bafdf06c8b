"""Probes by exec: when they begin, what they say, and what they leave behind."""

import json
import time
from collections.abc import Iterator

import pytest

from sandbox.client import Sandbox
from tests.sandbox.kubelet_support import JSON, Cluster, execute, is_ready, mount, pod, shell

MANY = 8
STATE = {"volumes": [{"name": "state", "emptyDir": {}}]}


def probe(script: str, **more: object) -> JSON:
    return {"exec": {"command": ["sh", "-c", script]}, "periodSeconds": 1, **more}


def python_probe(code: str, **more: object) -> JSON:
    return {"exec": {"command": ["python3", "-c", code]}, "periodSeconds": 1, "timeoutSeconds": 10, **more}


@pytest.fixture(scope="module")
def cluster(sandbox: Sandbox) -> Iterator[Cluster]:
    with Cluster.in_namespace(sandbox, "kubelet-probes") as cluster:
        yield cluster


def warnings(cluster: Cluster, name: str) -> list[str]:
    events = cluster.get("events", "--field-selector", f"involvedObject.name={name},type=Warning")["items"]
    return [event["message"] for event in events]


def test_probes_begin_in_finished_mounts(cluster: Cluster) -> None:
    """All at once, so that making the mounts takes a while on any machine."""
    names = [f"early-{index}" for index in range(MANY)]
    main = shell("main", "exec sleep 3600", startupProbe=python_probe("import json", failureThreshold=60))
    cluster.apply(*(pod(name, main, terminationGracePeriodSeconds=0) for name in names))
    for name in names:
        cluster.until(name, is_ready, 60)
    assert {name: warnings(cluster, name) for name in names} == {name: [] for name in names}
    cluster.kubectl("delete", "pod", *names, "--wait=false")


def test_a_failing_probe_reports_its_last_line(cluster: Cluster) -> None:
    code = "import sys; print('y' * 2000, file=sys.stderr); sys.exit('the reason')"
    main = shell("main", "exec sleep 3600", readinessProbe=python_probe(code))
    cluster.apply(pod("last-line", main))
    deadline = time.monotonic() + 20
    while not (seen := warnings(cluster, "last-line")):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert seen == ["Readiness probe failed: exit code 1: the reason"]


def test_probes_of_one_kind_never_overlap(cluster: Cluster) -> None:
    slow = probe("echo begin >> /state/log; sleep 1.5; echo end >> /state/log", timeoutSeconds=10)
    main = shell("main", "exec sleep 3600", readinessProbe=slow, volumeMounts=[mount("state", "/state")])
    cluster.apply(pod("slow-probe", main, **STATE))
    cluster.until("slow-probe", is_ready)
    time.sleep(4)
    lines = execute(cluster, "slow-probe", "cat /state/log").split()
    assert len(lines) >= 4
    assert lines == (["begin", "end"] * len(lines))[: len(lines)]


def test_a_probe_that_hangs_leaves_no_process_not_even_a_grandchild(cluster: Cluster) -> None:
    hanging = probe("(sleep 27182 & sleep 27182); true")
    cluster.apply(pod("hangs", shell("main", "exec sleep 3600", readinessProbe=hanging)))
    deadline = time.monotonic() + 20
    while not warnings(cluster, "hangs"):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    script = "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"
    # A probe runs at any time; the ones of earlier rounds must be gone.
    counts = []
    for _ in range(8):
        counts.append(execute(cluster, "hangs", script).count("sleep 27182 "))
        time.sleep(0.4)
    assert max(counts) <= 3, json.dumps(counts)
