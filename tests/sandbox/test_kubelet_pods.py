"""Pods on the sandbox's kubelet: how they start, fail, are probed and stop.

All pods of the file are created at once, so that their waiting times overlap.
"""

import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from sandbox.client import Sandbox
from tests.sandbox.kubelet_support import (
    JSON,
    Cluster,
    condition,
    container_pid,
    container_status,
    execute,
    is_ready,
    mount,
    plane_has,
    pod,
    shell,
    terminated,
    tools,
    waiting,
)

WEB = "exec python3 -m http.server 8000 --directory /state"
STATE_MOUNT = {"volumeMounts": [mount("state", "/state")]}
STATE = [{"name": "state", "emptyDir": {}}]


def http(path: str, **more: Any) -> JSON:
    return {"httpGet": {"path": path, "port": 8000}, "periodSeconds": 1, **more}


def failing_pods() -> list[JSON]:
    return [
        pod("unknown-image", {"name": "main", "image": "example.com/nothing:1"}),
        pod("broken-image", {"name": "main", "image": "vllm/vllm-openai:v0.20.0-broken"}),
        pod("crashing", shell("main", "echo bye > /dev/termination-log; exit 3")),
        pod("no-command", tools("main", ["does-not-exist"])),
        pod("completes", shell("main", "exit 0"), restartPolicy="OnFailure"),
        pod("fails", shell("main", "exit 5"), shell("other", "exit 0"), restartPolicy="Never"),
        pod(
            "bad-init",
            shell("main", "sleep 60"),
            initContainers=[shell("init", "exit 4")],
            restartPolicy="Never",
        ),
        pod(
            "hungry",
            tools(
                "main",
                ["python3", "-c", "x = bytearray(200 << 20); import time; time.sleep(60)"],
                resources={"limits": {"memory": "64Mi"}},
            ),
            restartPolicy="Never",
        ),
        pod("missing-config", shell("main", "sleep 60", envFrom=[{"configMapRef": {"name": "later"}}])),
        pod(
            "missing-volume",
            shell("main", "sleep 60", volumeMounts=[mount("later", "/later")]),
            volumes=[{"name": "later", "configMap": {"name": "later"}}],
        ),
        pod("as-root", shell("main", "sleep 60", securityContext={"runAsNonRoot": True})),
    ]


def probed_pods() -> list[JSON]:
    slow_start = f"touch /state/ready; (sleep 4; touch /state/up) & {WEB}"
    return [
        pod(
            "probed",
            shell(
                "main",
                slow_start,
                startupProbe={
                    "exec": {"command": ["test", "-e", "/state/up"]},
                    "periodSeconds": 1,
                    "failureThreshold": 30,
                },
                readinessProbe=http("/ready"),
                livenessProbe={"tcpSocket": {"port": 8000}, "periodSeconds": 1},
                **STATE_MOUNT,
            ),
            volumes=STATE,
        ),
        pod(
            "unlive",
            shell(
                "main",
                f"touch /state/live; {WEB}",
                livenessProbe=http("/live", initialDelaySeconds=2, failureThreshold=1),
                lifecycle={"preStop": {"exec": {"command": ["sh", "-c", "echo hook >> /state/hook"]}}},
                **STATE_MOUNT,
            ),
            volumes=STATE,
            terminationGracePeriodSeconds=1,
        ),
        pod(
            "never-up",
            shell(
                "main",
                "sleep 60",
                startupProbe={"tcpSocket": {"port": 8000}, "periodSeconds": 1, "failureThreshold": 2},
            ),
            terminationGracePeriodSeconds=1,
        ),
        pod("hanging-probe", shell("main", "sleep 60", readinessProbe={"exec": {"command": ["sleep", "9"]}})),
    ]


def stopping_pods() -> list[JSON]:
    drain = "trap 'echo draining; sleep 2; rm /state/ready; sleep 2; exit 0' TERM; touch /state/ready;"
    serve = "python3 -m http.server 8000 --directory /state & while :; do sleep 0.1; done"
    says = "trap 'date +%s.%N; exit 0' TERM; while :; do sleep 0.1; done"
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "draining"},
            "spec": {
                "selector": {"test": "draining"},
                "ports": [{"name": "http", "port": 80, "targetPort": 8000}],
            },
        },
        pod(
            "draining",
            shell(
                "main",
                drain + serve,
                readinessProbe=http("/ready", failureThreshold=1),
                lifecycle={"preStop": {"sleep": {"seconds": 1}}},
                **STATE_MOUNT,
            ),
            volumes=STATE,
            terminationGracePeriodSeconds=20,
        ),
        pod(
            "ordered",
            shell("main", says.replace("date", "sleep 1; date")),
            initContainers=[
                shell(
                    "proxy",
                    says,
                    restartPolicy="Always",
                    lifecycle={"preStop": {"exec": {"command": ["sh", "-c", "date +%s.%N >> /proc/1/fd/1"]}}},
                ),
                shell(
                    "warm",
                    f"sleep 1; touch /tmp/up; {says}",
                    restartPolicy="Always",
                    startupProbe={"exec": {"command": ["test", "-e", "/tmp/up"]}, "periodSeconds": 1},
                ),
                shell("check", "date +%s.%N"),
            ],
        ),
        pod(
            "stubborn",
            shell("main", "trap '' TERM; while :; do sleep 0.1; done"),
            terminationGracePeriodSeconds=2,
        ),
        pod("forced", shell("main", "sleep 3600 & sleep 3600"), terminationGracePeriodSeconds=60),
        pod(
            "job",
            shell("main", "sleep 2"),
            restartPolicy="Never",
            initContainers=[shell("helper", says, restartPolicy="Always")],
        ),
    ]


@pytest.fixture(scope="module")
def cluster(sandbox: Sandbox) -> Iterator[Cluster]:
    with Cluster.in_namespace(sandbox, "kubelet-pods") as cluster:
        cluster.apply(
            *failing_pods(),
            *probed_pods(),
            *stopping_pods(),
        )
        yield cluster


class TestFailures:
    """How a container that can't run or doesn't last shows in the pod's status."""

    @pytest.mark.parametrize("name", ["unknown-image", "broken-image"])
    def test_image_that_cannot_be_pulled(self, cluster: Cluster, name: str) -> None:
        for reason in ("ErrImagePull", "ImagePullBackOff"):
            found = cluster.until(name, lambda found, reason=reason: waiting(found, "main") == reason)
            assert found["status"]["phase"] == "Pending"

    def test_crash_loop(self, cluster: Cluster) -> None:
        found = cluster.until(
            "crashing",
            lambda found: (
                waiting(found, "main") == "CrashLoopBackOff"
                and container_status(found, "main")["restartCount"] >= 2
            ),
        )
        last = terminated(found, "main", "lastState")
        assert (last["exitCode"], last["reason"], last["message"]) == (3, "Error", "bye\n")
        assert found["status"]["phase"] == "Running" and not is_ready(found)

    def test_command_that_does_not_exist(self, cluster: Cluster) -> None:
        found = cluster.until("no-command", lambda found: terminated(found, "main", "lastState"))
        last = terminated(found, "main", "lastState")
        assert (last["exitCode"], last["reason"]) == (128, "StartError")
        assert "does-not-exist" in last["message"]

    @pytest.mark.parametrize(
        ("name", "phase", "code", "reason"),
        [("completes", "Succeeded", 0, "Completed"), ("fails", "Failed", 5, "Error")],
    )
    def test_pod_that_is_over(self, cluster: Cluster, name: str, phase: str, code: int, reason: str) -> None:
        found = cluster.until(name, lambda found: found["status"]["phase"] == phase)
        over = terminated(found, "main")
        assert (over["exitCode"], over["reason"]) == (code, reason)
        assert container_status(found, "main")["restartCount"] == 0

    def test_failing_init_container_stops_the_pod(self, cluster: Cluster) -> None:
        found = cluster.until("bad-init", lambda found: found["status"]["phase"] == "Failed")
        assert terminated(found, "init")["exitCode"] == 4
        assert waiting(found, "main") == "PodInitializing"
        assert condition(found, "Initialized") == "False"

    def test_memory_above_the_limit_is_out_of_memory(self, cluster: Cluster) -> None:
        found = cluster.until("hungry", lambda found: found["status"]["phase"] == "Failed")
        over = terminated(found, "main")
        assert (over["exitCode"], over["reason"]) == (137, "OOMKilled")

    def test_what_is_missing_is_waited_for(self, cluster: Cluster) -> None:
        cluster.until("missing-config", lambda found: waiting(found, "main") == "CreateContainerConfigError")
        assert waiting(cluster.pod("missing-volume"), "main") == "ContainerCreating"
        cluster.apply(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "later"},
                "data": {"key": "value"},
            }
        )
        cluster.until("missing-config", is_ready, 10)
        cluster.until("missing-volume", is_ready, 10)

    def test_root_is_refused_where_the_spec_forbids_it(self, cluster: Cluster) -> None:
        found = cluster.until("as-root", lambda found: waiting(found, "main"))
        assert waiting(found, "main") == "CreateContainerConfigError"


class TestProbes:
    """Startup, readiness and liveness probes by exec, HTTP and TCP."""

    def test_startup_holds_the_others_and_readiness_follows(self, cluster: Cluster) -> None:
        found = cluster.until("probed", is_ready)
        status = container_status(found, "main")
        assert status["started"] and status["restartCount"] == 0
        became = next(each for each in found["status"]["conditions"] if each["type"] == "Ready")
        running_since = datetime.fromisoformat(status["state"]["running"]["startedAt"])
        ready_since = datetime.fromisoformat(became["lastTransitionTime"])
        # It answers at once, but says that it's up after four seconds only (timestamps are whole seconds).
        assert (ready_since - running_since).total_seconds() >= 3
        execute(cluster, "probed", "rm /state/ready")
        found = cluster.until("probed", lambda found: not is_ready(found), 10)
        assert condition(found, "ContainersReady") == "False"
        assert container_status(found, "main")["restartCount"] == 0
        execute(cluster, "probed", "touch /state/ready")
        cluster.until("probed", is_ready, 5)

    def test_liveness_restarts_after_the_hook(self, cluster: Cluster) -> None:
        cluster.until("unlive", is_ready)
        execute(cluster, "unlive", "rm /state/live")
        found = cluster.until("unlive", lambda found: container_status(found, "main")["restartCount"] == 1)
        assert terminated(found, "main", "lastState")["exitCode"] == 137
        assert execute(cluster, "unlive", "cat /state/hook") == "hook\n"

    def test_startup_that_fails_restarts(self, cluster: Cluster) -> None:
        found = cluster.until("never-up", lambda found: container_status(found, "main")["restartCount"] >= 1)
        assert not container_status(found, "main")["started"] and not is_ready(found)

    def test_probe_that_hangs_fails_and_leaves_nothing_behind(self, cluster: Cluster) -> None:
        found = cluster.until("hanging-probe", lambda found: container_status(found, "main").get("started"))
        assert not is_ready(found)
        time.sleep(1.5)  # the probe's timeout is one second, its period ten
        processes = execute(cluster, "hanging-probe", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
        assert "sleep 9" not in processes


class TestStops:
    """Graceful ends."""

    def test_draining_pod_serves_while_it_terminates(self, cluster: Cluster) -> None:
        cluster.until("draining", is_ready)
        began = time.monotonic()
        cluster.kubectl("delete", "pod", "draining", "--wait=false")

        def endpoint() -> JSON:
            slices = cluster.get("endpointslices", "-l", "kubernetes.io/service-name=draining")["items"]
            conditions: JSON = next((e["conditions"] for s in slices for e in s.get("endpoints") or []), {})
            return conditions

        seen = []
        while cluster.pod("draining"):
            if (now := endpoint()) and now not in seen:
                seen.append(now)
            assert time.monotonic() < began + 15, f"still there: {seen}"
            time.sleep(0.1)
        # preStop 1 s, 2 s until it turns its readiness off, 2 s until it ends.
        assert time.monotonic() - began > 4.5
        assert {"ready": False, "serving": True, "terminating": True} in seen
        assert {"ready": False, "serving": False, "terminating": True} in seen
        assert "draining" in cluster.logs("draining", "main")

    def test_sidecars_start_first_and_stop_last(self, cluster: Cluster) -> None:
        found = cluster.until("ordered", is_ready)
        assert terminated(found, "check")["exitCode"] == 0

        def since(name: str) -> str:
            started: str = container_status(found, name)["state"]["running"]["startedAt"]
            return started

        assert since("proxy") <= since("warm") < since("main")
        cluster.kubectl("delete", "pod", "ordered")
        ends = [float(cluster.logs("ordered", name).split()[-1]) for name in ("main", "warm", "proxy")]
        assert ends == sorted(ends)
        hook, _ = cluster.logs("ordered", "proxy").split()
        assert float(hook) < ends[0]  # hooks don't wait for their turn

    def test_job_ends_with_its_main_container(self, cluster: Cluster) -> None:
        found = cluster.until("job", lambda found: found["status"]["phase"] == "Succeeded")
        assert terminated(found, "helper")["exitCode"] == 0

    def test_grace_period_ends_with_a_kill(self, cluster: Cluster) -> None:
        cluster.until("stubborn", is_ready)
        began = time.monotonic()
        cluster.kubectl("delete", "pod", "stubborn")
        assert 2 < time.monotonic() - began < 6

    def test_forced_deletion_leaves_no_process(self, cluster: Cluster) -> None:
        cluster.until("forced", is_ready)
        pid = container_pid(cluster, "forced", "main")
        cluster.kubectl("delete", "pod", "forced", "--grace-period=0", "--force")
        deadline = time.monotonic() + 5
        while plane_has(cluster, pid):
            assert time.monotonic() < deadline
            time.sleep(0.1)
