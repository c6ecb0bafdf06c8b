"""Helpers of the kubelet's tests: manifests in short, and a cluster to ask."""

import contextlib
import json
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox.client import Sandbox

JSON = dict[str, Any]


def tools(name: str, command: list[str], **more: Any) -> JSON:
    return {"name": name, "image": "sandbox/tools:1", "command": command, **more}


def shell(name: str, script: str, **more: Any) -> JSON:
    return tools(name, ["sh", "-c", textwrap.dedent(script)], **more)


def pod(name: str, *containers: JSON, labels: dict[str, str] | None = None, **spec: Any) -> JSON:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"test": name} | (labels or {})},
        "spec": {"terminationGracePeriodSeconds": 5, "containers": list(containers), **spec},
    }


class Cluster:
    """kubectl with JSON answers, and the logs that the kubelet writes."""

    def __init__(self, sandbox: Sandbox, namespace: str) -> None:
        self.sandbox, self.namespace = sandbox, namespace

    @classmethod
    @contextlib.contextmanager
    def in_namespace(cls, sandbox: Sandbox, namespace: str) -> Iterator["Cluster"]:
        """A fresh namespace whose service account exists, deleted at the end."""
        cluster = cls(sandbox, namespace)
        sandbox.kubectl(["create", "namespace", namespace])
        cluster.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=20s")
        yield cluster
        sandbox.kubectl(["delete", "namespace", namespace, "--wait=false"])

    def kubectl(self, *arguments: str, input: str | None = None) -> None:  # noqa: A002
        self.sandbox.kubectl(["-n", self.namespace, *arguments], input=input)

    def apply(self, *objects: JSON) -> None:
        document = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        self.kubectl("apply", "-f", "-", input=document)

    def get(self, *arguments: str) -> JSON:
        command = ["get", "-n", self.namespace, "-o", "json", *arguments]
        answer = self.sandbox.kubectl(command, check=False)
        return json.loads(answer.stdout) if answer.returncode == 0 else {}

    def pod(self, name: str) -> JSON:
        return self.get("pod", name)

    def until(self, name: str, holds: Callable[[JSON], Any], seconds: float = 30) -> JSON:
        """Wait until `holds(pod)`; fails with the pod's status."""
        deadline = time.monotonic() + seconds
        while True:
            found = self.pod(name)
            if found and holds(found):
                return found
            if time.monotonic() > deadline:
                pytest.fail(
                    f"pod {name}: not within {seconds} s: {json.dumps(found.get('status'), indent=1)}"
                )
            time.sleep(0.1)

    def logs(self, name: str, container: str) -> str:
        folders = sorted(
            (self.sandbox.state.path / "kubelet" / "pods").glob(f"{self.namespace}_{name}_*"),
            key=lambda path: path.stat().st_mtime,
        )
        path = folders[-1] / f"{container}.log" if folders else Path("/nonexistent")
        return path.read_text() if path.exists() else ""

    def until_logged(self, name: str, container: str, text: str, seconds: float = 20) -> str:
        deadline = time.monotonic() + seconds
        while text not in (log := self.logs(name, container)):
            if time.monotonic() > deadline:
                pytest.fail(
                    f"pod {name}: {text!r} not logged within {seconds} s by {container}: {log[-2000:]}"
                )
            time.sleep(0.1)
        return log


def mount(name: str, path: str, **more: Any) -> JSON:
    return {"name": name, "mountPath": path, **more}


def container_status(found: JSON, name: str) -> JSON:
    status = found["status"]
    both = status.get("containerStatuses", []) + status.get("initContainerStatuses", [])
    return next((each for each in both if each["name"] == name), {})


def condition(found: JSON, kind: str) -> str:
    conditions = found["status"].get("conditions", [])
    return str(next((each["status"] for each in conditions if each["type"] == kind), ""))


def is_ready(found: JSON) -> bool:
    return condition(found, "Ready") == "True"


def terminated(found: JSON, name: str, state: str = "state") -> JSON:
    answer: JSON = container_status(found, name).get(state, {}).get("terminated", {})
    return answer


def waiting(found: JSON, name: str) -> str:
    return str(container_status(found, name).get("state", {}).get("waiting", {}).get("reason", ""))


def execute(cluster: Cluster, name: str, script: str) -> str:
    """Run a script in the /etc of a pod's main container, by way of its PID in the plane."""
    pid = container_pid(cluster, name, "main")
    enter = ["nsenter", "-t", str(pid), "-m", "-p", "-U", "--preserve-credentials", "--"]
    process = cluster.sandbox.exec_in_plane([*enter, "sh", "-c", f"cd /etc; {script}"], stdout=-1, text=True)
    output, _ = process.communicate(timeout=10)
    return str(output)


def container_pid(cluster: Cluster, name: str, container: str) -> int:
    pods = cluster.sandbox.control({"op": "pods"})["pods"]
    found = next(each for each in pods if each["pod"] == f"{cluster.namespace}/{name}")
    return int(next(each["pid"] for each in found["containers"] if each["name"] == container))


def plane_has(cluster: Cluster, pid: int) -> bool:
    process = cluster.sandbox.exec_in_plane(["test", "-d", f"/proc/{pid}"])
    return process.wait(10) == 0
