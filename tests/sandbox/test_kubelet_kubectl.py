"""`kubectl logs` and `kubectl exec` by way of the nodes' own servers."""

import os
import pty
import subprocess
import time
from collections.abc import Iterator

import pytest

from sandbox.client import Sandbox
from tests.sandbox.kubelet_support import Cluster, container_status, is_ready, mount, pod, shell

COUNT = "i=0; while [ -e /state/go ]; do i=$((i+1)); echo run $RUN line $i; sleep 0.1; done"
RUNS = "RUN=$(cat /state/runs 2>/dev/null | wc -l); echo x >> /state/runs; touch /state/go;"


@pytest.fixture(scope="module")
def cluster(sandbox: Sandbox) -> Iterator[Cluster]:
    with Cluster.in_namespace(sandbox, "kubelet-kubectl") as cluster:
        cluster.apply(
            pod(
                "chatty",
                shell("main", f"{RUNS} {COUNT}", volumeMounts=[mount("state", "/state")]),
                shell("other", "echo other; exec sleep 3600", env=[{"name": "GREETING", "value": "hello"}]),
                volumes=[{"name": "state", "emptyDir": {}}],
                nodeSelector={"kubernetes.io/hostname": "cpu-0"},
                tolerations=[{"operator": "Exists"}],
                terminationGracePeriodSeconds=1,
            )
        )
        cluster.until("chatty", is_ready)
        yield cluster


def run(cluster: Cluster, *words: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    arguments = ["-n", cluster.namespace, *words]
    return cluster.sandbox.kubectl(arguments, input=text, check=False)


def shown(cluster: Cluster, *words: str) -> list[str]:
    done = run(cluster, "logs", "chatty", "-c", "main", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_logs_show_the_whole_run_or_its_end(cluster: Cluster) -> None:
    cluster.until_logged("chatty", "main", "line 5")
    assert shown(cluster)[0].endswith("line 1")
    assert len(shown(cluster, "--tail=2")) == 2
    assert len("\n".join(shown(cluster, "--limit-bytes=7"))) <= 7
    assert run(cluster, "logs", "chatty", "-c", "other").stdout == "other\n"
    assert run(cluster, "logs", "chatty", "-c", "main", "--timestamps").stderr == (
        "Error from server (BadRequest): the sandbox keeps no time per line: leave --timestamps out\n"
    )


def test_logs_can_begin_at_a_time(cluster: Cluster) -> None:
    time.sleep(4.5)  # lines are dated to three seconds
    lines = [int(line.split()[-1]) for line in shown(cluster, "--since=1s")]
    assert lines and lines[0] > 1
    assert lines == list(range(lines[0], lines[-1] + 1))


def test_logs_are_followed_to_the_end_of_the_run_and_the_previous_run_is_kept(cluster: Cluster) -> None:
    restarts = container_status(cluster.pod("chatty"), "main")["restartCount"]
    command = [cluster.sandbox.bin("kubectl"), "--kubeconfig", cluster.sandbox.kubeconfig]
    follow = ["-n", cluster.namespace, "logs", "-f", "chatty", "-c", "main", "--tail=1"]
    with subprocess.Popen([*command, *follow], stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        first, second = (int(following.stdout.readline().split()[-1]) for _ in range(2))
        assert second == first + 1
        cluster.sandbox.process_fault("kill", "kubelet-kubectl/chatty", "main")
        rest = following.stdout.read().splitlines()  # ends with the run
        assert following.wait(10) == 0
    cluster.until("chatty", lambda found: container_status(found, "main")["restartCount"] > restarts)
    before, now = shown(cluster, "--previous"), shown(cluster)
    assert before[-1] == (rest or [f"run {restarts} line {second}"])[-1]
    assert {line.split()[1] for line in before} == {str(restarts)}
    assert {line.split()[1] for line in now} == {str(restarts + 1)}


def test_a_container_without_a_previous_run_says_so(cluster: Cluster) -> None:
    refused = run(cluster, "logs", "chatty", "-c", "other", "--previous")
    assert 'previous terminated container "other" in pod "kubelet-kubectl/chatty" not found' in refused.stderr


def test_exec_carries_streams_and_exit_code(cluster: Cluster) -> None:
    done = run(
        cluster, "exec", "chatty", "-c", "other", "--", "sh", "-c", "echo $GREETING; echo bad >&2; exit 7"
    )
    assert (done.stdout, done.returncode) == ("hello\n", 7)
    assert done.stderr == "bad\ncommand terminated with exit code 7\n"
    large = "x" * 300_000
    assert run(cluster, "exec", "-i", "chatty", "-c", "other", "--", "cat", text=large).stdout == large
    missing = run(cluster, "exec", "chatty", "-c", "other", "--", "no-such-program")
    assert (missing.returncode, "no-such-program" in missing.stderr) == (127, True)


def test_exec_gives_a_terminal_of_the_callers_size(cluster: Cluster) -> None:
    ours, theirs = pty.openpty()
    command = [cluster.sandbox.bin("kubectl"), "--kubeconfig", cluster.sandbox.kubeconfig]
    words = ["exec", "-it", "chatty", "-c", "other", "-n", cluster.namespace, "--"]
    script = "test -t 0 && sleep 0.5 && stty size && stty cols 77 && stty size && read word && echo got $word"
    subprocess.run(["stty", "rows", "33", "cols", "99"], stdin=theirs, check=True)
    with subprocess.Popen([*command, *words, "sh", "-c", script], stdin=theirs, stdout=theirs) as typed:
        os.close(theirs)
        os.write(ours, b"word\n")
        assert typed.wait(20) == 0
    seen = os.read(ours, 10_000).decode()
    os.close(ours)
    assert "33 99" in seen and "33 77" in seen and "got word" in seen


def test_a_command_ends_with_its_exec(cluster: Cluster) -> None:
    command = [cluster.sandbox.bin("kubectl"), "--kubeconfig", cluster.sandbox.kubeconfig]
    script = "sleep 31415 & echo started; sleep 31415"
    words = ["exec", "chatty", "-c", "other", "-n", cluster.namespace, "--", "sh", "-c", script]
    with subprocess.Popen([*command, *words], stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None and running.stdout.readline() == "started\n"
        running.kill()
    deadline = time.monotonic() + 10
    while sleepers := _processes(cluster, "sleep 31415"):
        assert time.monotonic() < deadline, f"still there: {sleepers}"
        time.sleep(0.1)


def _processes(cluster: Cluster, words: str) -> list[str]:
    script = "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"
    seen = run(cluster, "exec", "chatty", "-c", "other", "--", "sh", "-c", script).stdout
    return [words] * seen.count(words)


def test_what_the_kubelet_cannot_do_says_what_to_use_instead(cluster: Cluster) -> None:
    for words, instead in [
        (
            ("port-forward", "chatty", "8000"),
            f"forward NAMESPACE/SERVICE[:PORT] --name {cluster.sandbox.name}",
        ),
        (("attach", "chatty", "-c", "other"), "use `kubectl logs -f`"),
    ]:
        refused = run(cluster, *words)
        assert refused.returncode != 0
        assert instead in refused.stderr


def test_a_node_that_is_cut_off_cannot_be_asked(cluster: Cluster) -> None:
    cluster.sandbox.node_fault("cut", "cpu-0")
    try:
        refusals = [
            run(cluster, "logs", "chatty", "-c", "other"),
            run(cluster, "exec", "chatty", "--", "true"),
        ]
        workload = cluster.sandbox.workload()
    finally:
        cluster.sandbox.node_fault("heal", "cpu-0")
    for refused in refusals:
        assert "node cpu-0 is cut, nothing on it can be reached: use `" in refused.stderr
        assert f"tools/sandbox node heal cpu-0 --name {cluster.sandbox.name}`" in refused.stderr
    assert (workload["nodes"], workload["pods"] >= 1) == ({"cpu-0": "cut"}, True)
    assert cluster.sandbox.workload()["nodes"] == {}


def test_frozen_containers_show_as_faults(cluster: Cluster) -> None:
    cluster.sandbox.process_fault("freeze", "kubelet-kubectl/chatty", "other")
    assert cluster.sandbox.workload()["frozen"] == ["kubelet-kubectl/chatty/other"]
    cluster.sandbox.process_fault("thaw", "kubelet-kubectl/chatty", "other")
    assert cluster.sandbox.workload()["frozen"] == []


def test_nobody_but_the_api_server_is_let_in(cluster: Cluster) -> None:
    host = cluster.get("node", "cpu-0")["status"]["addresses"][0]["address"]
    pki = cluster.sandbox.state.pki
    ask = f"""
import ssl, sys, urllib.error, urllib.request
context = ssl._create_unverified_context()
if sys.argv[1:]:
    context.load_cert_chain(*sys.argv[1:])
url = "https://{host}:10250/containerLogs/{cluster.namespace}/chatty/other"
try:
    print(urllib.request.urlopen(url, context=context).read())
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
except (OSError, ssl.SSLError) as error:
    print("no connection", error)
"""
    stranger, _ = cluster.sandbox.exec_python(["-c", ask]).communicate(timeout=20)
    assert stranger.startswith("no connection")
    other, _ = cluster.sandbox.exec_python(["-c", ask, pki / "admin.crt", pki / "admin.key"]).communicate(
        timeout=20
    )
    assert other.startswith("403 only the API server")
