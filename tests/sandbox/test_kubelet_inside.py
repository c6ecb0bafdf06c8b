"""What a container finds inside its pod: environment, user, names, volumes, token, updates."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.client import Sandbox
from tests.sandbox.kubelet_support import JSON, Cluster, execute, mount, pod, shell, tools

NAMESPACE = "kubelet-inside"

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
    headers={
        "Authorization": "Bearer " + (account / "token").read_text(),
        "Content-Type": "application/json",
    },
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
    "downward": show("/etc/downward"), "items": show("/etc/items"),
    "sub": Path("/etc/one/file").read_text(),
    "shared": show("/shared"), "claim": show("/claim"), "host": show("/host"),
    "mounts": Path("/proc/mounts").read_text(),
    "mode": oct(os.stat("/etc/secret/key").st_mode & 0o777),
    "write": {
        path: write(path) for path in ("/host/new", "/usr/bin/new", "/root-new", "/tmp/new", "/etc/config/x")
    },
}), flush=True)
import time
time.sleep(3600)
"""


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
        nodeSelector={"kubernetes.io/hostname": "gpu-0"},  # all of gpu-2 is for `gpu_pods`
        subdomain="group",
        securityContext={"runAsUser": 1234, "runAsGroup": 2345, "fsGroup": 3456},
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
            "metadata": {"name": "kubelet-inside-models"},
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
            "metadata": {"name": "models"},
            "spec": claim_spec | {"volumeName": "kubelet-inside-models"},
        },
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "keys"},
            "stringData": {"key": "s3cret"},
        },
        spec,
    ]


@pytest.fixture(scope="module")
def cluster(sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster.in_namespace(sandbox, NAMESPACE) as cluster:
        settings = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "settings"},
            "data": {"greeting": "hello", "other": "value"},
        }
        # Before the pods: service links show the Services there are when a container starts.
        vllm = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "vllm"},
            "spec": {"selector": {"none": "none"}, "ports": [{"port": 8000}]},
        }
        cluster.apply(settings, vllm)
        cluster.apply(
            *inside_pod(tmp_path_factory.mktemp("host")),
            pod("no-links", shell("main", "env; sleep 3600"), enableServiceLinks=False),
            pod(
                "no-group",
                shell("main", "cat /keys/key; sleep 3600", volumeMounts=[mount("keys", "/keys")]),
                securityContext={"runAsUser": 1234},
                volumes=[{"name": "keys", "secret": {"secretName": "keys", "defaultMode": 0o400}}],
            ),
        )
        yield cluster
    sandbox.kubectl(["delete", "persistentvolume", "kubelet-inside-models", "--wait=false"])


@pytest.fixture(scope="module")
def report(cluster: Cluster) -> JSON:
    log = cluster.until_logged("inside", "main", "REPORT ")
    found: JSON = json.loads(log.split("REPORT ", 1)[1].splitlines()[0])
    return found


def test_environment_comes_from_every_source(cluster: Cluster, report: JSON) -> None:
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


def test_service_links_can_be_turned_off(cluster: Cluster, report: JSON) -> None:
    assert report["env"]["VLLM_PORT"].startswith("tcp://10.9")  # what vLLM stumbles over
    log = cluster.until_logged("no-links", "main", "KUBERNETES_SERVICE_HOST=10.96.0.1")
    assert "VLLM_PORT" not in log


def test_token_and_names_work_through_the_cluster_address(report: JSON) -> None:
    assert report["user"]["username"] == f"system:serviceaccount:{NAMESPACE}:default"
    assert report["user"]["extra"]["authentication.kubernetes.io/pod-name"] == ["inside"]
    assert report["by name"] == "ok"


def test_process_has_the_user_and_names_of_the_spec(report: JSON) -> None:
    assert (report["uid"], report["gid"], report["pid"]) == (1234, 2345, 1)
    assert (report["hostname"], report["cwd"]) == ("my-host", "/shared")
    ip = report["env"]["POD_IP"]
    assert f"{ip} my-host.group.{NAMESPACE}.svc.cluster.local my-host" in report["hosts"]
    assert "nameserver 10.96.0.10" in report["resolv"]
    assert f"search {NAMESPACE}.svc.cluster.local svc.cluster.local cluster.local" in report["resolv"]


def test_volumes_show_their_sources(report: JSON) -> None:
    assert report["config"] == {"greeting": "hello", "other": "value"}
    assert report["items"] == {"hello.txt": "hello"}
    assert report["sub"] == "hello"
    assert report["secret"] == {"key": "s3cret"}
    assert report["mode"] == "0o440"
    assert report["projected"].keys() == {"token", "key", "name"}
    assert report["projected"]["name"] == "inside"
    assert report["projected"]["token"].count(".") == 2
    assert 'team.io/name="serving"' in report["downward"]["labels"]
    assert report["shared"] == {"order": "first\nsecond\n"}
    assert report["claim"] == {"weights": "tensors"}
    assert report["host"] == {"file": "from the host"}
    assert "tmpfs /dev/shm tmpfs" in report["mounts"]


def test_private_file_needs_the_group(cluster: Cluster) -> None:
    cluster.until_logged("no-group", "main", "/keys/key: Permission denied")


def test_only_what_is_writable_can_be_written(report: JSON) -> None:
    refused = "Read-only file system"
    assert report["write"] == {
        "/host/new": refused,
        "/usr/bin/new": refused,
        "/etc/config/x": refused,
        "/root-new": "written",
        "/tmp/new": "written",
    }


def test_changed_objects_reach_the_running_container(cluster: Cluster, report: JSON) -> None:
    change = {"data": {"greeting": "goodbye", "third": "new"}}
    cluster.kubectl("patch", "configmap", "settings", "-p", json.dumps(change), "--type=merge")
    cluster.kubectl("label", "pod", "inside", "team.io/name=ops", "--overwrite")
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
