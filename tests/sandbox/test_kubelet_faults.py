"""Faults: a node without power or network, a process that is killed, frozen, or loses its kubelet."""

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandbox.client import Sandbox
from sandbox.errors import SandboxError
from tests.sandbox.kubelet_support import (
    JSON,
    Cluster,
    condition,
    container_pid,
    container_status,
    is_ready,
    mount,
    plane_has,
    pod,
    shell,
    terminated,
)

BEAT = "(i=0; while :; do i=$((i+1)); echo beat $i; sleep 0.2; done) &"
WEB = "exec python3 -m http.server 8000 --directory /state"
# kube-controller-manager evicts from an unreachable node after five seconds here; these pods stay bound.
STAYS = [{"key": f"node.kubernetes.io/{key}", "operator": "Exists"} for key in ("unreachable", "not-ready")]

# Connects once a second and says how it went: "ok", "refused" or "timeout".
CLIENT = """
import socket, time
while True:
    try:
        socket.create_connection(("{address}", 8000), timeout=1).close()
        print("ok", flush=True)
    except TimeoutError:
        print("timeout", flush=True)
    except OSError as error:
        print(type(error).__name__, flush=True)
    time.sleep(0.2)
"""


def web(name: str, node: str, **spec: object) -> JSON:
    probe = {"httpGet": {"path": "/", "port": 8000}, "periodSeconds": 1, "failureThreshold": 1}
    main = shell(
        "main",
        f"echo data > /state/file; {BEAT} {WEB}",
        readinessProbe=probe,
        volumeMounts=[mount("state", "/state")],
    )
    return pod(
        name,
        main,
        nodeSelector={"kubernetes.io/hostname": node},
        volumes=[{"name": "state", "emptyDir": {}}],
        **{"tolerations": STAYS, "terminationGracePeriodSeconds": 1} | spec,
    )


@pytest.fixture(scope="module")
def cluster(sandbox: Sandbox) -> Iterator[Cluster]:
    with Cluster.in_namespace(sandbox, "kubelet-faults") as cluster:
        cluster.apply(
            web("cut", "cpu-0"),
            web("killed", "cpu-1"),
            web("evicted", "cpu-1", tolerations=[]),
        )
        for name in ("cut", "killed", "evicted"):
            cluster.until(name, is_ready)
        yield cluster


class Client:
    """A pod's neighbour that keeps connecting; `seen` gives what it has met since the last call."""

    def __init__(self, cluster: Cluster, name: str, target: str, node: str) -> None:
        self._cluster, self._name, self._read = cluster, name, 0
        address = cluster.pod(target)["status"]["podIP"]
        script = CLIENT.format(address=address)
        cluster.apply(
            pod(
                name,
                {"name": "main", "image": "sandbox/tools:1", "command": ["python3", "-c", script]},
                nodeSelector={"kubernetes.io/hostname": node},
                terminationGracePeriodSeconds=1,
            )
        )
        cluster.until_logged(name, "main", "ok")

    def seen(self) -> set[str]:
        lines = self._cluster.logs(self._name, "main").splitlines()
        fresh, self._read = lines[self._read :], len(lines)
        return set(fresh)


def until(what: str, look: Callable[[], object], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.1)


def node_ready(cluster: Cluster, name: str) -> str:
    return condition(cluster.get("node", name), "Ready")


def beats(cluster: Cluster, name: str) -> int:
    return cluster.logs(name, "main").count("beat")


def test_cut_is_a_black_hole_and_heals(cluster: Cluster) -> None:
    client = Client(cluster, "cut-client", "cut", "cpu-1")
    restarts = container_status(cluster.pod("cut"), "main")["restartCount"]
    cluster.sandbox.node_fault("cut", "cpu-0")
    time.sleep(1.5)
    client.seen()
    before = beats(cluster, "cut")
    until("node is unreachable", lambda: node_ready(cluster, "cpu-0") == "Unknown")
    assert client.seen() == {"timeout"}
    assert beats(cluster, "cut") > before
    cluster.sandbox.node_fault("heal", "cpu-0")
    until("connects", lambda: "ok" in client.seen(), 5)
    until("node is back", lambda: node_ready(cluster, "cpu-0") == "True", 5)
    found = cluster.until("cut", is_ready)
    assert container_status(found, "main")["restartCount"] == restarts
    assert client.seen() <= {"ok"}


def test_deletion_reaches_a_cut_node_after_it_heals(cluster: Cluster) -> None:
    cluster.apply(web("unaware", "cpu-0"))
    cluster.until("unaware", is_ready)
    cluster.sandbox.node_fault("cut", "cpu-0")
    cluster.kubectl("delete", "pod", "unaware", "--wait=false")
    before = beats(cluster, "unaware")
    time.sleep(2.5)  # more than its grace period
    assert cluster.pod("unaware") and beats(cluster, "unaware") > before
    cluster.sandbox.node_fault("heal", "cpu-0")
    until("pod is gone", lambda: not cluster.pod("unaware"), 10)


def test_power_loss_and_reboot(cluster: Cluster) -> None:
    client = Client(cluster, "kill-client", "killed", "cpu-0")
    old = cluster.pod("killed")
    pid = container_pid(cluster, "killed", "main")
    cluster.sandbox.node_fault("kill", "cpu-1")
    assert not plane_has(cluster, pid)
    time.sleep(1.5)
    client.seen()
    until("node is unreachable", lambda: node_ready(cluster, "cpu-1") == "Unknown")
    assert client.seen() == {"timeout"}  # no RST: the machine is gone, not the process
    until("pod is evicted", lambda: "deletionTimestamp" in cluster.pod("evicted")["metadata"])
    cluster.sandbox.node_fault("start", "cpu-1")
    until("node is back", lambda: node_ready(cluster, "cpu-1") == "True", 5)
    until("evicted pod is gone", lambda: not cluster.pod("evicted"), 10)
    found = cluster.until(
        "killed", lambda found: is_ready(found) and container_status(found, "main")["restartCount"]
    )
    assert found["metadata"]["uid"] == old["metadata"]["uid"]
    assert container_status(found, "main")["restartCount"] == 1
    assert terminated(found, "main", "lastState")["exitCode"] == 255


def test_killed_process_is_restarted(cluster: Cluster) -> None:
    before = container_status(cluster.pod("cut"), "main")["restartCount"]
    cluster.sandbox.process_fault("kill", "kubelet-faults/cut", "main")
    found = cluster.until(
        "cut", lambda found: container_status(found, "main")["restartCount"] > before and is_ready(found)
    )
    assert terminated(found, "main", "lastState")["exitCode"] == 137


def test_frozen_process_answers_nothing_and_thaws(cluster: Cluster) -> None:
    cluster.until("cut", is_ready)
    assert cluster.sandbox.process_fault("freeze", "kubelet-faults/cut")["processes"] >= 3
    found = cluster.until("cut", lambda found: not is_ready(found), 10)
    assert "running" in container_status(found, "main")["state"]
    before = beats(cluster, "cut")
    time.sleep(1)
    assert beats(cluster, "cut") == before
    cluster.sandbox.process_fault("thaw", "kubelet-faults/cut")
    cluster.until("cut", is_ready, 10)
    assert beats(cluster, "cut") > before


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"op": "explode"}, "op 'explode' is unknown: use one of node-kill"),
        ({"op": "node-cut", "node": "gpu-99"}, "there is no node 'gpu-99'"),
        ({"op": "node-heal", "node": "gpu-0"}, "node gpu-0 is on, not cut: use `node cut gpu-0` first"),
        ({"op": "node-start", "node": "gpu-0"}, "node gpu-0 is on, not off: use `node kill gpu-0` first"),
        ({"op": "node-cut"}, "lacks the field 'node'"),
        (
            {"op": "process-kill", "pod": "kubelet-faults/nobody"},
            "could not kill the process of kubelet-faults/nobody\n  why: no pod 'kubelet-faults/nobody' "
            "on any node here: use one of kubelet-faults/",
        ),
        ({"op": "process-kill", "pod": "kubelet-faults/cut", "container": "x"}, "it has main"),
        ({"op": "process-kill", "pod": "kubelet-faults/cut", "signal": "NO"}, "use a name like KILL"),
    ],
)
def test_wrong_requests_say_what_to_do(cluster: Cluster, request_: JSON, words: str) -> None:
    with pytest.raises(SandboxError, match=words.replace("(", r"\(")):
        cluster.sandbox.control(request_)


def test_twenty_pods_start_within_seconds_and_idle_cheaply(cluster: Cluster) -> None:
    many = [
        pod(f"many-{index}", shell("main", "exec sleep 3600"), terminationGracePeriodSeconds=0)
        for index in range(20)
    ]
    cluster.apply(*many)

    def ready() -> bool:
        names = (
            each for each in cluster.get("pods")["items"] if each["metadata"]["name"].startswith("many-")
        )
        return sum(map(is_ready, names)) == 20

    until("20 pods are ready", ready, 30)
    pid = kubelet_pid(cluster)
    time.sleep(1)
    before, at = cpu_seconds(pid), time.monotonic()
    time.sleep(5)
    share = (cpu_seconds(pid) - before) / (time.monotonic() - at)
    assert share < 0.2, f"the idle kubelet uses {share:.0%} of a core"
    cluster.kubectl("delete", "pods", "--wait=false", *(each["metadata"]["name"] for each in many))


def test_killed_kubelet_leaves_no_process_and_its_successor_starts_the_pods_again(cluster: Cluster) -> None:
    cluster.until("cut", is_ready)
    container, kubelet = container_pid(cluster, "cut", "main"), kubelet_pid(cluster)
    restarts = container_status(cluster.pod("cut"), "main")["restartCount"]
    subprocess.run(["kill", "-KILL", str(kubelet)], check=True)
    until("container is gone", lambda: not plane_has(cluster, container), 5)
    found = cluster.until(
        "cut", lambda found: is_ready(found) and container_status(found, "main")["restartCount"] > restarts
    )
    assert found["metadata"]["namespace"] == cluster.namespace


def kubelet_pid(cluster: Cluster) -> int:
    """Of this sandbox's kubelet, as the host sees it."""
    state = str(cluster.sandbox.state.path / "kubelet").encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            words = (entry / "cmdline").read_bytes().split(b"\0") if (entry / "cmdline").exists() else []
            if b"sandbox.kubelet" in words and state in words:
                return int(entry.name)
    raise AssertionError("no kubelet runs")


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100
