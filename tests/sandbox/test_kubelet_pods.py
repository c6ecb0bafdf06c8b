"""Pods on the sandbox's kubelet: what containers find inside, how they start, fail and stop.

All pods of the file are created at once (fixture `pods`), so that their waiting times overlap.
"""

import json
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox.client import Sandbox

JSON = dict[str, Any]
NAMESPACE = "kubelet-pods"
GIB = 1024**3

# Prints what a container sees of its pod as one line of JSON.
REPORT = """
import json, os, ssl, urllib.request
from pathlib import Path

def show(path):
    return {p.name: p.read_text() for p in Path(path).iterdir() if p.is_file()}

def write(path):
    try:
        Path(path).write_text("x")
        return "written"
    except OSError as error:
        return error.strerror

account = Path("/var/run/secrets/kubernetes.io/serviceaccount")
server = f"https://{os.environ['KUBERNETES_SERVICE_HOST']}:{os.environ['KUBERNETES_SERVICE_PORT']}"
request = urllib.request.Request(
    server + "/apis/authentication.k8s.io/v1/selfsubjectreviews",
    data=json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}).encode(),
    headers={"Authorization": "Bearer " + (account / "token").read_text(), "Content-Type": "application/json"},
)
context = ssl.create_default_context(cafile=account / "ca.crt")
user = json.load(urllib.request.urlopen(request, context=context))["status"]["userInfo"]
named = urllib.request.urlopen("https://kubernetes.default/healthz", context=context).read().decode()
print("REPORT " + json.dumps({
    "env": dict(os.environ), "user": user, "by name": named, "uid": os.getuid(), "gid": os.getgid(),
    "pid": os.getpid(), "cwd": os.getcwd(),
    "hosts": Path("/etc/hosts").read_text(), "hostname": os.uname().nodename,
    "resolv": Path("/etc/resolv.conf").read_text(),
    "config": show("/etc/config"), "secret": show("/etc/secret"), "projected": show("/etc/projected"),
    "downward": show("/etc/downward"), "items": show("/etc/items"), "sub": Path("/etc/one/file").read_text(),
    "shared": show("/shared"), "claim": show("/claim"), "host": show("/host"),
    "mounts": Path("/proc/mounts").read_text(),
    "mode": oct(os.stat("/etc/secret/key").st_mode & 0o777),
    "write": {path: write(path) for path in ("/host/new", "/usr/bin/new", "/root-new", "/tmp/new", "/etc/config/x")},
}), flush=True)
import time
time.sleep(3600)
"""


def tools(name: str, command: list[str], **more: Any) -> JSON:
    return {"name": name, "image": "sandbox/tools:1", "command": command, **more}


def shell(name: str, script: str, **more: Any) -> JSON:
    return tools(name, ["sh", "-c", textwrap.dedent(script)], **more)


def pod(name: str, *containers: JSON, labels: dict[str, str] | None = None, **spec: Any) -> JSON:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"test": name} | (labels or {})},
        "spec": {"terminationGracePeriodSeconds": 5, "containers": list(containers), **spec},
    }


class Cluster:
    """kubectl with JSON answers, and the logs that the kubelet writes."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox

    def apply(self, *objects: JSON) -> None:
        document = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        self.sandbox.kubectl(["apply", "-f", "-"], input=document)

    def get(self, *arguments: str) -> JSON:
        answer = self.sandbox.kubectl(["get", "-n", NAMESPACE, "-o", "json", *arguments], check=False)
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
            (self.sandbox.state.path / "kubelet" / "pods").glob(f"{NAMESPACE}_{name}_*"),
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


def mount(name: str, path: str, **more: Any) -> JSON:
    return {"name": name, "mountPath": path, **more}


def field(name: str, path: str) -> JSON:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def inside_pod(host: Path) -> list[JSON]:
    """A pod that uses every kind of environment source and volume, with its objects."""
    main = tools(
        "main",
        ["python3", "-c", REPORT, "--", "$(GREETING)", "$$(GREETING)"],
        workingDir="/shared",
        envFrom=[{"configMapRef": {"name": "settings"}, "prefix": "CM_"}, {"secretRef": {"name": "keys"}}],
        env=[
            {"name": "GREETING", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "greeting"}}},
            {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "key"}}},
            {
                "name": "NONE",
                "valueFrom": {"secretKeyRef": {"name": "absent", "key": "key", "optional": True}},
            },
            {"name": "COMPOSED", "value": "$(GREETING), $(POD_IP) $$(GREETING) $(UNKNOWN)"},
            field("POD_IP", "status.podIP"),
            {"name": "URL", "value": "http://$(POD_IP):8000"},
            field("HOST_IP", "status.hostIP"),
            field("POD_UID", "metadata.uid"),
            field("LABEL", "metadata.labels['team.io/name']"),
            field("NOTE", "metadata.annotations['note']"),
            field("NODE", "spec.nodeName"),
            field("ACCOUNT", "spec.serviceAccountName"),
            {
                "name": "MEMORY",
                "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}},
            },
            {"name": "CPUS", "valueFrom": {"resourceFieldRef": {"resource": "requests.cpu"}}},
        ],
        resources={"limits": {"memory": "1Gi", "nvidia.com/gpu": "2"}, "requests": {"cpu": "1500m"}},
        volumeMounts=[
            mount("config", "/etc/config"),
            mount("config", "/etc/one/file", subPath="greeting"),
            mount("secret", "/etc/secret"),
            mount("projected", "/etc/projected"),
            mount("downward", "/etc/downward"),
            mount("items", "/etc/items"),
            mount("shared", "/shared", subPath="below"),
            mount("memory", "/dev/shm"),
            mount("claim", "/claim"),
            mount("host", "/host", readOnly=True),
        ],
    )
    spec = pod(
        "inside",
        main,
        labels={"team.io/name": "serving"},
        initContainers=[
            shell(
                "first",
                "echo first > /shared/order",
                volumeMounts=[mount("shared", "/shared", subPath="below")],
            ),
            shell(
                "second",
                "echo second >> /shared/order",
                volumeMounts=[mount("shared", "/shared", subPath="below")],
            ),
        ],
        hostname="my-host",
        tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}],
        subdomain="group",
        securityContext={"runAsUser": 1234, "runAsGroup": 2345},
        volumes=[
            {"name": "config", "configMap": {"name": "settings"}},
            {"name": "secret", "secret": {"secretName": "keys", "defaultMode": 0o400}},
            {
                "name": "items",
                "configMap": {"name": "settings", "items": [{"key": "greeting", "path": "hello.txt"}]},
            },
            {
                "name": "projected",
                "projected": {
                    "sources": [
                        {
                            "serviceAccountToken": {
                                "path": "token",
                                "audience": "vault",
                                "expirationSeconds": 600,
                            }
                        },
                        {"secret": {"name": "keys"}},
                        {
                            "downwardAPI": {
                                "items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]
                            }
                        },
                    ]
                },
            },
            {
                "name": "downward",
                "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]},
            },
            {"name": "shared", "emptyDir": {}},
            {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
            {"name": "claim", "persistentVolumeClaim": {"claimName": "models"}},
            {"name": "host", "hostPath": {"path": str(host / "data"), "type": "Directory"}},
        ],
    )
    spec["metadata"]["annotations"] = {"note": "hello there"}
    (host / "data").mkdir()
    (host / "data" / "file").write_text("from the host")
    (host / "models").mkdir()
    (host / "models" / "weights").write_text("tensors")
    claim_spec = {
        "accessModes": ["ReadOnlyMany"],
        "storageClassName": "",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "kubelet-pods-models"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadOnlyMany"],
                "storageClassName": "",
                "hostPath": {"path": str(host / "models")},
                "claimRef": {"namespace": NAMESPACE, "name": "models"},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "models", "namespace": NAMESPACE},
            "spec": claim_spec | {"volumeName": "kubelet-pods-models"},
        },
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "keys", "namespace": NAMESPACE},
            "stringData": {"key": "s3cret"},
        },
        spec,
    ]


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
    slow_start = f"touch /state/ready; sleep 3; (sleep 1; touch /state/up) & {WEB}"
    return [
        pod(
            "probed",
            shell(
                "main",
                slow_start,
                startupProbe={"exec": {"command": ["test", "-e", "/state/up"]}, "periodSeconds": 1},
                readinessProbe=http("/ready"),
                livenessProbe={"tcpSocket": {"port": 8000}, "periodSeconds": 1, "failureThreshold": 1},
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
            "metadata": {"name": "draining", "namespace": NAMESPACE},
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
            shell("main", says),
            initContainers=[
                shell("proxy", says, restartPolicy="Always"),
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
        pod(
            "job",
            shell("main", "sleep 2"),
            restartPolicy="Never",
            initContainers=[shell("helper", says, restartPolicy="Always")],
        ),
    ]


HAPROXY = """
defaults
  mode http
  timeout connect 1s
  timeout client 60s
  timeout server 60s
frontend main
  bind :80
  http-request return status 200 content-type text/plain string "%[env(HOSTNAME)]"
"""


def image_pods() -> list[JSON]:
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "haproxy", "namespace": NAMESPACE},
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
def cluster(sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(sandbox)
    sandbox.kubectl(["create", "namespace", NAMESPACE])
    sandbox.kubectl(["wait", "-n", NAMESPACE, "--for=create", "serviceaccount/default", "--timeout=20s"])
    settings = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": NAMESPACE},
        "data": {"greeting": "hello", "other": "value"},
    }
    # Before the pods: service links show the Services there are when a container starts.
    vllm = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "vllm", "namespace": NAMESPACE},
        "spec": {"selector": {"none": "none"}, "ports": [{"port": 8000}]},
    }
    cluster.apply(settings, vllm)
    cluster.apply(
        *inside_pod(tmp_path_factory.mktemp("host")),
        *failing_pods(),
        *probed_pods(),
        *stopping_pods(),
        *image_pods(),
        *gpu_pods("gpu-2"),
        pod("no-links", shell("main", "env; sleep 3600"), enableServiceLinks=False),
    )
    yield cluster
    sandbox.kubectl(["delete", "namespace", NAMESPACE, "--wait=false"])
    sandbox.kubectl(["delete", "persistentvolume", "kubelet-pods-models", "--wait=false"])


@pytest.fixture(scope="module")
def report(cluster: Cluster) -> JSON:
    log = cluster.until_logged("inside", "main", "REPORT ")
    found: JSON = json.loads(log.split("REPORT ", 1)[1].splitlines()[0])
    return found


class TestInside:
    """What a container finds inside."""

    def test_environment_comes_from_every_source(self, cluster: Cluster, report: JSON) -> None:
        env, found = report["env"], cluster.pod("inside")
        ip, host_ip = found["status"]["podIP"], found["status"]["hostIP"]
        assert env["CM_greeting"] == "hello" and env["CM_other"] == "value"
        assert env["key"] == env["KEY"] == "s3cret"
        assert env["GREETING"] == "hello"
        assert "NONE" not in env
        # $(POD_IP) is defined after COMPOSED, so it stays as written, like a name that doesn't exist.
        assert env["COMPOSED"] == "hello, $(POD_IP) $(GREETING) $(UNKNOWN)"
        assert env["URL"] == f"http://{ip}:8000"
        assert (env["POD_IP"], env["HOST_IP"]) == (ip, host_ip)
        assert env["POD_UID"] == found["metadata"]["uid"]
        assert (env["LABEL"], env["NOTE"]) == ("serving", "hello there")
        assert (env["NODE"], env["ACCOUNT"]) == (found["spec"]["nodeName"], "default")
        assert (env["MEMORY"], env["CPUS"]) == ("1024", "2")
        assert len(env["NVIDIA_VISIBLE_DEVICES"].split(",")) == 2

    def test_service_links_can_be_turned_off(self, cluster: Cluster, report: JSON) -> None:
        assert report["env"]["VLLM_PORT"].startswith("tcp://10.9")  # what vLLM stumbles over
        log = cluster.until_logged("no-links", "main", "KUBERNETES_SERVICE_HOST=10.96.0.1")
        assert "VLLM_PORT" not in log

    def test_token_and_names_work_through_the_cluster_address(self, report: JSON) -> None:
        assert report["user"]["username"] == f"system:serviceaccount:{NAMESPACE}:default"
        assert report["user"]["extra"]["authentication.kubernetes.io/pod-name"] == ["inside"]
        assert report["by name"] == "ok"

    def test_process_has_the_user_and_names_of_the_spec(self, report: JSON) -> None:
        assert (report["uid"], report["gid"], report["pid"]) == (1234, 2345, 1)
        assert (report["hostname"], report["cwd"]) == ("my-host", "/shared")
        ip = report["env"]["POD_IP"]
        assert f"{ip} my-host.group.{NAMESPACE}.svc.cluster.local my-host" in report["hosts"]
        assert "nameserver 10.96.0.10" in report["resolv"]
        assert f"search {NAMESPACE}.svc.cluster.local svc.cluster.local cluster.local" in report["resolv"]

    def test_volumes_show_their_sources(self, report: JSON) -> None:
        assert report["config"] == {"greeting": "hello", "other": "value"}
        assert report["items"] == {"hello.txt": "hello"}
        assert report["sub"] == "hello"
        assert report["secret"] == {"key": "s3cret"}
        assert report["mode"] == "0o400"
        assert report["projected"].keys() == {"token", "key", "name"}
        assert report["projected"]["name"] == "inside"
        assert report["projected"]["token"].count(".") == 2
        assert 'team.io/name="serving"' in report["downward"]["labels"]
        assert report["shared"] == {"order": "first\nsecond\n"}
        assert report["claim"] == {"weights": "tensors"}
        assert report["host"] == {"file": "from the host"}
        assert "tmpfs /dev/shm tmpfs" in report["mounts"]

    def test_only_what_is_writable_can_be_written(self, report: JSON) -> None:
        refused = "Read-only file system"
        assert report["write"] == {
            "/host/new": refused,
            "/usr/bin/new": refused,
            "/etc/config/x": refused,
            "/root-new": "written",
            "/tmp/new": "written",
        }

    def test_changed_objects_reach_the_running_container(self, cluster: Cluster, report: JSON) -> None:
        change = {"data": {"greeting": "goodbye", "third": "new"}}
        cluster.sandbox.kubectl(
            ["patch", "configmap", "settings", "-n", NAMESPACE, "-p", json.dumps(change), "--type=merge"]
        )
        cluster.sandbox.kubectl(
            ["label", "pod", "inside", "-n", NAMESPACE, "team.io/name=ops", "--overwrite"]
        )
        wanted = "goodbye value new ops"
        script = "cat config/greeting config/other config/third downward/labels | tr '\\n' ' '"
        deadline = time.monotonic() + 10
        while True:
            seen = execute(cluster, "inside", script)
            if seen.startswith("goodbyevaluenew") and 'team.io/name="ops"' in seen:
                break
            assert time.monotonic() < deadline, f"{wanted}: {seen}"
            time.sleep(0.2)
        # A file that is mounted by subPath never changes, here as in real life.
        assert execute(cluster, "inside", "cat one/file") == "hello"


def execute(cluster: Cluster, name: str, script: str) -> str:
    """Run a script in the /etc of a pod's main container, by way of its PID in the plane."""
    pid = container_pid(cluster, name, "main")
    enter = ["nsenter", "-t", str(pid), "-m", "-p", "-U", "--preserve-credentials", "--"]
    process = cluster.sandbox.exec_in_plane([*enter, "sh", "-c", f"cd /etc; {script}"], stdout=-1, text=True)
    output, _ = process.communicate(timeout=10)
    return str(output)


def container_pid(cluster: Cluster, name: str, container: str) -> int:
    pods = cluster.sandbox.control({"op": "pods"})["pods"]
    found = next(each for each in pods if each["pod"] == f"{NAMESPACE}/{name}")
    return int(next(each["pid"] for each in found["containers"] if each["name"] == container))


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
                "metadata": {"name": "later", "namespace": NAMESPACE},
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
        cluster.sandbox.kubectl(["delete", "pod", "draining", "-n", NAMESPACE, "--wait=false"])

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
        cluster.sandbox.kubectl(["delete", "pod", "ordered", "-n", NAMESPACE])
        ends = [float(cluster.logs("ordered", name)) for name in ("main", "warm", "proxy")]
        assert ends == sorted(ends)

    def test_job_ends_with_its_main_container(self, cluster: Cluster) -> None:
        found = cluster.until("job", lambda found: found["status"]["phase"] == "Succeeded")
        assert terminated(found, "helper")["exitCode"] == 0

    def test_grace_period_ends_with_a_kill(self, cluster: Cluster) -> None:
        cluster.until("stubborn", is_ready)
        began = time.monotonic()
        cluster.sandbox.kubectl(["delete", "pod", "stubborn", "-n", NAMESPACE])
        assert 1.5 < time.monotonic() - began < 5

    def test_forced_deletion_leaves_no_process(self, cluster: Cluster) -> None:
        cluster.until("no-links", is_ready)
        pid = container_pid(cluster, "no-links", "main")
        arguments = ["delete", "pod", "no-links", "-n", NAMESPACE, "--grace-period=0", "--force"]
        cluster.sandbox.kubectl(arguments)
        deadline = time.monotonic() + 5
        while plane_has(cluster, pid):
            assert time.monotonic() < deadline
            time.sleep(0.1)


class TestImages:
    """Table entries: command, user, stop signal."""

    def test_haproxy_runs_by_default_and_stops_softly(self, cluster: Cluster) -> None:
        found = cluster.until("haproxy", is_ready)
        address = found["status"]["podIP"]
        script = (
            "import http.client, sys, time\n"
            f"c = http.client.HTTPConnection('{address}', 80)\n"
            "c.request('GET', '/'); print(c.getresponse().read().decode(), flush=True)\n"
            "sys.stdin.readline(); time.sleep(1)\n"
            "c.request('GET', '/'); print(c.getresponse().read().decode(), flush=True)\n"
        )
        client = cluster.sandbox.exec_in_plane(["python3", "-c", script], stdin=-1, stdout=-1, text=True)
        assert client.stdout and client.stdin
        assert client.stdout.readline() == "haproxy\n"
        cluster.sandbox.kubectl(["delete", "pod", "haproxy", "-n", NAMESPACE, "--wait=false"])
        # SIGUSR1 lets the idle connection live for a last request; SIGTERM would have cut it.
        assert client.communicate("go\n", timeout=10)[0] == "haproxy\n"

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
        cluster.sandbox.kubectl(["delete", "pod", "gpus-2", "gpus-refused", "-n", NAMESPACE])
        cluster.apply(pod("gpus-again", shell("main", "sleep 60", resources=limits), nodeName="gpu-2"))
        cluster.until("gpus-again", is_ready)


def plane_has(cluster: Cluster, pid: int) -> bool:
    process = cluster.sandbox.exec_in_plane(["test", "-d", f"/proc/{pid}"])
    return process.wait(10) == 0
