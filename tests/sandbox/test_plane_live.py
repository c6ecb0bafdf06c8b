"""One plane with a stub kubelet, looked at from outside and from inside."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandbox.client import Sandbox
from sandbox.errors import SandboxError

STUB = "tests.sandbox.kubelet_stub"
REPOSITORY = Path(__file__).resolve().parents[2]
DNS = "kubernetes.default.svc.cluster.local"


def until(what: str, look: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.05)


def in_namespace(namespace: str, states: str = "RSDTtI") -> list[int]:
    """Host PIDs of the processes in a PID namespace (`pid:[4026...]`), by default without zombies."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and str((entry / "ns/pid").readlink()) == namespace:
                state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
                found += [int(entry.name)] if state in states else []
        except OSError:
            continue
    return found


def mentioning(text: str) -> list[int]:
    """PIDs of the processes with `text` in their command line (zombies have none)."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and text.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def namespace_of(sandbox: Sandbox) -> str:
    return str(Path(f"/proc/{sandbox.state.require_ready().plane_pid}/ns/pid").readlink())


@pytest.fixture(scope="module")
def plane() -> Iterator[Sandbox]:
    box = Sandbox(f"plane-{os.getpid()}")
    box.up(gpu_nodes=2, cpu_nodes=1, kubelet_module=STUB, die_with_parent=True)
    yield box
    box.down()


def test_comes_up_in_seconds(plane: Sandbox, capsys: pytest.CaptureFixture[str]) -> None:
    seconds = plane.status()["ready_seconds"]
    with capsys.disabled():
        print(f"[ready after {seconds} s]", end="")
    # The aim is 15 s on two idle cores; the bound leaves room for whatever else the machine does.
    assert seconds <= 60


def test_kubectl_reaches_the_api_server_from_an_ordinary_shell(plane: Sandbox) -> None:
    version = json.loads(plane.kubectl(["version", "-o", "json"]).stdout)
    assert version["serverVersion"]["gitVersion"] == version["clientVersion"]["gitVersion"] == "v1.37.2"
    names = plane.kubectl(["get", "nodes", "-o", "name"]).stdout.split()
    assert names == ["node/control-plane", "node/cpu-0", "node/gpu-0", "node/gpu-1"]


def test_nodes_are_what_gpu_discovery_and_the_scheduler_expect(plane: Sandbox) -> None:
    node = json.loads(plane.kubectl(["get", "node", "gpu-1", "-o", "json"]).stdout)
    assert node["metadata"]["labels"]["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
    assert node["metadata"]["labels"]["topology.kubernetes.io/zone"] == "sandbox-b"
    assert node["status"]["capacity"]["nvidia.com/gpu"] == "8"
    assert node["spec"]["taints"] == [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]


def test_names_and_cluster_ips_work_inside(plane: Sandbox) -> None:
    lookup = plane.exec_in_plane(["getent", "hosts", DNS], stdout=subprocess.PIPE, text=True)
    assert lookup.communicate()[0].split() == ["10.96.0.1", DNS]
    elsewhere = plane.exec_in_plane(["getent", "hosts", "example.com"])
    assert elsewhere.wait() == 2
    through_service = plane.exec_in_plane(
        ["kubectl", "--server", f"https://{DNS}", "get", "--raw", "/readyz"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert through_service.communicate()[0] == "ok"


def test_a_service_without_endpoints_refuses_at_once(plane: Sandbox) -> None:
    """Clients fail over on a refusal; a time-out would be the sandbox's own invention."""
    plane.kubectl(["create", "service", "clusterip", "empty", "--tcp=80"])
    code = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 3)"
    errors = {
        port: plane.exec_python(["-c", code, host, str(port)]).communicate()[1]
        for host, port in (("empty.default", 80), ("kubernetes.default", 81))
    }
    assert "ConnectionRefusedError" in errors[80]
    assert "ConnectionRefusedError" in errors[81]


def test_exec_keeps_the_working_directory_and_the_exit_code(plane: Sandbox, tmp_path: Path) -> None:
    command = plane.exec_in_plane(
        ["sh", "-c", "pwd; exit 7"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    assert command.communicate()[0].strip() == str(tmp_path)
    assert command.returncode == 7


def test_terminating_an_exec_ends_the_command_inside(plane: Sandbox) -> None:
    command = plane.exec_in_plane(["sleep", "12345"])

    def sleeping() -> bool:
        return bool(set(mentioning("sleep\x0012345")) & set(in_namespace(namespace_of(plane))))

    until("start of sleep", sleeping, 5)
    command.terminate()
    command.wait()
    until("end of sleep", lambda: not sleeping(), 5)


def test_a_service_is_reachable_through_a_forward(plane: Sandbox) -> None:
    with plane.forward("default/kubernetes:https") as port:
        address = f"https://127.0.0.1:{port}"
        assert plane.kubectl(["--server", address, "get", "--raw", "/readyz"]).stdout == "ok"
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), 1):
        pass


def test_a_forward_ends_when_its_service_is_deleted(plane: Sandbox) -> None:
    plane.kubectl(["create", "service", "clusterip", "deleted", "--tcp=80"])
    forward = plane.start_forward("default/deleted")
    timer = threading.Timer(0.5, plane.kubectl, [["delete", "service", "deleted"]])
    timer.start()
    with pytest.raises(SandboxError, match="Service default/deleted is gone"):
        forward.wait()
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", forward.port), 1):
        pass
    timer.join()


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("kubernetes", "is not NAMESPACE/SERVICE"),
        ("default/nothing", 'services "nothing" not found'),
        ("default/kubernetes:80", "has no port 80\n  where: ports: 443 .https."),
        ("kube-system/kube-dns", "has several ports"),
    ],
)
def test_a_forward_to_nowhere_says_why(plane: Sandbox, target: str, words: str) -> None:
    with pytest.raises(SandboxError, match=words):
        plane.start_forward(target)


def test_the_audit_log_tells_who_wrote_what(plane: Sandbox) -> None:
    plane.kubectl(["create", "configmap", "audited"])
    plane.kubectl(["get", "secrets"])
    writes = [
        (event["user"]["username"], event["verb"])
        for event in plane.audit_events()
        if event["objectRef"].get("name") == "audited"
    ]
    assert writes == [("admin", "create")]
    reads = [event for event in plane.audit_events(reads=True) if event["verb"] == "list"]
    assert "secrets" in {
        event["objectRef"]["resource"] for event in reads if event["user"]["username"] == "admin"
    }


def test_admission_is_the_real_one(plane: Sandbox) -> None:
    plane.kubectl(["create", "namespace", "strict"])
    plane.kubectl(["label", "namespace", "strict", "pod-security.kubernetes.io/enforce=restricted"])
    refused = plane.kubectl(["run", "root", "--image=x", "-n", "strict"], check=False)
    assert 'violates PodSecurity "restricted' in refused.stderr
    # Needs the ServiceAccount controller and shows the shortened tolerations.
    plane.kubectl(["run", "plain", "--image=x"])
    pod = json.loads(plane.kubectl(["get", "pod", "plain", "-o", "json"]).stdout)
    assert {t["tolerationSeconds"] for t in pod["spec"]["tolerations"]} == {5}
    plane.kubectl(["delete", "pod", "plain", "--force"])


def test_helm_is_there(plane: Sandbox) -> None:
    assert plane.helm(["version", "--short"]).stdout.startswith("v4.3.1")
    assert plane.helm(["list", "-A", "-o", "json"]).stdout.strip() == "[]"


def test_faults_reach_the_kubelet_and_its_refusals_come_back(plane: Sandbox) -> None:
    assert plane.node_fault("cut", "gpu-0")["request"] == {"op": "node-cut", "node": "gpu-0"}
    wanted = {"op": "process-kill", "pod": "a/b", "container": "c", "signal": "TERM"}
    assert plane.process_fault("kill", "a/b", "c", "TERM")["request"] == wanted
    with pytest.raises(SandboxError, match=r"could not kill node cpu-9\n  why: no such node"):
        plane.node_fault("kill", "cpu-9")


def test_a_process_that_dies_is_started_again(plane: Sandbox) -> None:
    def dns() -> dict[str, object]:
        return next(p for p in plane.status()["processes"] if p["name"] == "coredns")

    plane.exec_in_plane(["kill", "-KILL", str(dns()["pid"])]).wait()
    until("restart of coredns", lambda: dns()["restarts"] == 1 and bool(dns()["running"]), 10)
    until(
        "DNS",
        lambda: plane.exec_in_plane(["getent", "hosts", DNS], stdout=subprocess.DEVNULL).wait() == 0,
        10,
    )


def test_orphans_are_reaped(plane: Sandbox) -> None:
    plane.exec_in_plane(["sh", "-c", "sleep 0.2 & exit 0"]).wait()
    time.sleep(0.4)
    until("end of all zombies", lambda: not in_namespace(namespace_of(plane), "Z"), 5)


def test_a_second_start_under_the_same_name_is_refused(plane: Sandbox) -> None:
    with pytest.raises(SandboxError, match=r"is already running"):
        plane.up(kubelet_module=STUB)


def test_two_sandboxes_live_side_by_side_and_a_killed_one_leaves_nothing(plane: Sandbox) -> None:
    other = Sandbox(f"other-{os.getpid()}")
    try:
        other.up(gpu_nodes=1, cpu_nodes=0, kubelet_module=STUB, die_with_parent=True)
        assert "gpu-1" in plane.kubectl(["get", "nodes", "-o", "name"]).stdout
        assert "gpu-1" not in other.kubectl(["get", "nodes", "-o", "name"]).stdout
        started_inside = other.exec_in_plane(["sleep", "300"])
        namespace = namespace_of(other)
        assert len(in_namespace(namespace)) > 8
        assert mentioning(str(other.state.path))

        os.kill(other.state.require_ready().up_pid, signal.SIGKILL)
        until("end of all inside", lambda: not in_namespace(namespace), 1.0)
        until("end of all outside", lambda: not mentioning(str(other.state.path)), 1.0)

        started_inside.wait(5)
        assert other.status()["phase"] == "stopped"
        assert plane.kubectl(["get", "--raw", "/readyz"]).stdout == "ok"
    finally:
        other.down()
    assert not other.state.path.exists()


def test_down_stops_everything_and_can_be_repeated() -> None:
    box = Sandbox(f"down-{os.getpid()}")
    # A kubelet that cannot start: the cheapest way to a plane that is half up, and its error is worth a look.
    with pytest.raises(SandboxError) as failure:
        box.up(kubelet_module="tests.sandbox.no_such_kubelet", die_with_parent=True)
    assert "kubelet did not start" in str(failure.value)
    assert "No module named tests.sandbox.no_such_kubelet" in str(failure.value)
    assert str(box.logs_dir / "kubelet") in str(failure.value)
    assert box.status()["phase"] == "failed"
    assert (box.logs_dir / "kube-apiserver").exists()
    assert box.down() is False
    assert list(box.state.parent.glob(f"{box.name}*")) == []
    assert box.down() is False


def test_stopping_keeps_the_logs_on_request() -> None:
    box = Sandbox(f"logs-{os.getpid()}")
    box.up(gpu_nodes=0, cpu_nodes=0, kubelet_module=STUB, die_with_parent=True)
    namespace = namespace_of(box)
    assert box.down(keep_logs=True) is True
    assert in_namespace(namespace) == []
    assert {path.name for path in box.state.path.iterdir()} == {"log", "audit.log"}
    box.down()


ORDINARY = 1500


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_works_without_root(plane: Sandbox) -> None:
    """As a user without any privilege, whose home is a folder of its own."""
    become = ["setpriv", f"--reuid={ORDINARY}", f"--regid={ORDINARY}", "--clear-groups"]
    # By way of sh, because setpriv keeps root's rights for the first program it starts.
    readable = subprocess.run(
        [*become, "sh", "-c", '"$0" -c ""', sys.executable], check=False, stderr=subprocess.DEVNULL
    )
    python = sys.executable if readable.returncode == 0 else "/usr/bin/python3"
    packages = sysconfig.get_paths()["purelib"]
    home = Path(tempfile.mkdtemp(prefix="sandbox-home-", dir="/tmp"))
    try:
        programs = home / "bin"
        shutil.copytree(plane.bin("kubectl").parent, programs, copy_function=_link)
        home.chmod(0o755)
        os.chown(home, ORDINARY, ORDINARY)
        environment = {
            "HOME": str(home),
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": f"{REPOSITORY}:{packages}",
            "INFERENCE_SANDBOX_BIN": str(programs),
        }

        def run(*command: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [*become, python, "-m", "sandbox", *command],
                env=environment, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=150,
            )  # fmt: skip

        started = run("up", "--detach", "--gpu-nodes=1", "--cpu-nodes=0", "--kubelet", STUB)
        try:
            assert started.returncode == 0, started.stderr
            inside = run("exec", "--", "kubectl", "get", "nodes", "-o", "name")
            assert inside.stdout.split() == ["node/control-plane", "node/gpu-0"], inside.stderr
            assert run("exec", "--", "getent", "hosts", DNS).stdout.startswith("10.96.0.1")
            status = json.loads(run("status", "--json").stdout)
            with pytest.raises(urllib.error.URLError, match=r"CERTIFICATE_VERIFY_FAILED"):
                urllib.request.urlopen(status["server"])  # a TLS server answers on the host's side
        finally:
            stopped = run("down")
        assert "Stopped sandbox default" in stopped.stdout
        assert list((home / ".local/state/inference-operator/sandbox").glob("default/*")) == []
    finally:
        shutil.rmtree(home)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)
