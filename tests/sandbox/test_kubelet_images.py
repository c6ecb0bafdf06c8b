"""Images of the table, and GPU devices."""

from collections.abc import Iterator

import pytest

from sandbox.client import Sandbox
from tests.sandbox.kubelet_support import JSON, Cluster, is_ready, mount, pod, shell

HAPROXY = """
defaults
  mode http
  timeout connect 1s
  timeout client 60s
  timeout server 60s
frontend main
  bind :80
  http-request return status 200 content-type text/plain lf-string "%[env(HOSTNAME)]"
"""


def image_pods() -> list[JSON]:
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "haproxy"},
            "data": {"haproxy.cfg": HAPROXY},
        },
        pod(
            "haproxy",
            {
                "name": "main",
                "image": "docker.io/library/haproxy:3.2",
                "volumeMounts": [mount("config", "/usr/local/etc/haproxy")],
                "readinessProbe": {"httpGet": {"path": "/", "port": 80}, "periodSeconds": 1},
                "securityContext": {"runAsNonRoot": True, "readOnlyRootFilesystem": True},
            },
            volumes=[{"name": "config", "configMap": {"name": "haproxy"}}],
        ),
        pod(
            "operator",
            {
                "name": "main",
                "image": "ghcr.io/inferencecluster/inference-operator:dev",
                "command": ["python3", "-c", "import inference_operator; print('imported')"],
            },
            restartPolicy="Never",
        ),
        pod(
            "engine",
            {
                "name": "main",
                "image": "vllm/vllm-openai:v0.20.0",
                "command": ["sh", "-c", "id; vllm --version"],
            },
            restartPolicy="Never",
        ),
    ]


def gpu_pods(node: str) -> list[JSON]:
    def wanting(name: str, count: str) -> JSON:
        script = "echo devices=$NVIDIA_VISIBLE_DEVICES.; sleep 3600"
        return pod(
            name, shell("main", script, resources={"limits": {"nvidia.com/gpu": count}}), nodeName=node
        )

    return [wanting("gpus-6", "6"), wanting("gpus-2", "2")]


@pytest.fixture(scope="module")
def cluster(sandbox: Sandbox) -> Iterator[Cluster]:
    with Cluster.in_namespace(sandbox, "kubelet-images") as cluster:
        cluster.apply(*image_pods(), *gpu_pods("gpu-2"))
        yield cluster


class TestImages:
    """Table entries: command, user, stop signal."""

    def test_haproxy_runs_by_default_and_stops_softly(self, cluster: Cluster) -> None:
        found = cluster.until("haproxy", is_ready)
        address = found["status"]["podIP"]
        # Half a request before the pod is deleted, the other half afterwards.
        script = (
            "import socket, sys, time\n"
            f"c = socket.create_connection(('{address}', 80)); c.settimeout(5)\n"
            "c.sendall(b'GET / HTTP/1.1\\r\\nHost: x\\r\\n'); print('sent', flush=True)\n"
            "sys.stdin.readline(); time.sleep(1)\n"
            "c.sendall(b'\\r\\n'); print(c.recv(4096).decode(), flush=True)\n"
        )
        client = cluster.sandbox.exec_in_plane(["python3", "-c", script], stdin=-1, stdout=-1, text=True)
        assert client.stdout and client.stdin
        assert client.stdout.readline() == "sent\n"
        cluster.kubectl("delete", "pod", "haproxy", "--wait=false")
        # SIGUSR1 waits for it; SIGTERM would have cut the connection.
        assert client.communicate("go\n", timeout=10)[0].splitlines()[-1] == "haproxy"

    def test_project_images_run_this_code(self, cluster: Cluster) -> None:
        cluster.until("operator", lambda found: found["status"]["phase"] == "Succeeded")
        assert "imported" in cluster.logs("operator", "main")
        cluster.until("engine", lambda found: found["status"]["phase"] == "Succeeded")
        log = cluster.logs("engine", "main")
        assert "uid=2000(vllm)" in log and "0." in log


class TestGpus:
    """Devices are exclusive, and the kubelet refuses what the scheduler shouldn't have sent."""

    def test_devices_are_given_once_and_again(self, cluster: Cluster) -> None:
        logs = [cluster.until_logged(name, "main", ".\n") for name in ("gpus-6", "gpus-2")]
        devices = [log.strip().removeprefix("devices=").removesuffix(".").split(",") for log in logs]
        assert [len(each) for each in devices] == [6, 2]
        assert len(set(devices[0]) | set(devices[1])) == 8
        limits = {"limits": {"nvidia.com/gpu": "1"}}
        cluster.apply(pod("gpus-refused", shell("main", "sleep 60", resources=limits), nodeName="gpu-2"))
        found = cluster.until("gpus-refused", lambda found: found["status"].get("phase") == "Failed")
        assert found["status"]["reason"] == "UnexpectedAdmissionError"
        assert "Requested: 1, Available: 0" in found["status"]["message"]
        cluster.kubectl("delete", "pod", "gpus-2", "gpus-refused")
        cluster.apply(pod("gpus-again", shell("main", "sleep 60", resources=limits), nodeName="gpu-2"))
        cluster.until("gpus-again", is_ready)
