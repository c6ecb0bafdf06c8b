"""The command line: what people type and read."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from sandbox.cli import main
from sandbox.client import Sandbox
from sandbox.nodes import load_nodes

STUB = "tests.sandbox.kubelet_stub"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def test_every_command_explains_itself() -> None:
    text = CliRunner().invoke(main, ["--help"]).output
    assert "FIRST STEPS" in text
    for name, command in main.commands.items():
        assert name in text
        assert command.help, name
        assert CliRunner().invoke(main, [name, "--help"]).exit_code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["kubeconfig"],
        ["node", "cut", "gpu-0"],
        ["process", "kill", "default/pod"],
        ["exec", "--", "true"],
        ["forward", "default/x:80"],
    ],
)
def test_without_a_sandbox_commands_say_how_to_start_one(home: Path, arguments: list[str]) -> None:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 1
    assert "sandbox 'default' is not running" in result.stderr
    assert "python -m sandbox up --detach --name default" in result.stderr


def test_status_of_nothing_is_stopped_and_down_is_content(home: Path) -> None:
    status = CliRunner().invoke(main, ["status", "--json"])
    assert status.exit_code == 1
    assert json.loads(status.output)["phase"] == "stopped"
    down = CliRunner().invoke(main, ["down"])
    assert (down.exit_code, down.output) == (0, "Sandbox default was not running.\n")


def test_a_wrong_node_file_is_refused_before_anything_starts(home: Path) -> None:
    file = home / "nodes.json"
    for content, words in [
        ("{}", "is not a list"),
        ('[{"name": "a"}]', "entry 0 lacks a name or a capacity"),
        ('[{"name": "a", "capacity": {}}, {"name": "a", "capacity": {}}]', "used twice: a"),
        ('[{"name": "control-plane", "capacity": {}}]', "used twice: control-plane"),
        ("[", "cannot be read"),
    ]:
        file.write_text(content)
        result = CliRunner().invoke(main, ["up", "--nodes", str(file)])
        assert result.exit_code == 1
        assert words in result.stderr
    assert not (home / "inference-operator").exists()


def test_a_node_file_may_be_yaml_and_leave_out_labels_and_taints(tmp_path: Path) -> None:
    file = tmp_path / "nodes.yaml"
    file.write_text('- name: big\n  capacity: {cpu: "8"}\n')
    assert load_nodes(file) == [{"name": "big", "labels": {}, "taints": [], "capacity": {"cpu": "8"}}]


def test_logs_of_processes_and_containers_have_names_that_people_know(home: Path) -> None:
    state = home / "inference-operator" / "sandbox" / "named"
    for folder, log, text in [
        ("log", "kubelet", "node"),
        ("kubelet/pods/ns_web_uid-1", "app.log", "old"),
        ("kubelet/pods/ns_web_uid-2", "app.log", "one\ntwo"),
        ("kubelet/pods/ns_web_uid-2", "side.log", "aside"),
    ]:
        (state / folder).mkdir(parents=True, exist_ok=True)
        (state / folder / log).write_text(text)
    os.utime(state / "kubelet/pods/ns_web_uid-1/app.log", (1, 1))

    def logs(*words: str) -> str:
        return CliRunner().invoke(main, ["logs", "--name", "named", *words]).output

    assert logs().split() == ["kubelet", "ns/web/app", "ns/web/side"]
    assert logs("kubelet") == "node\n"
    assert logs("ns/web/app", "-n", "1") == "two\n"
    assert logs("ns/web") == "==> ns/web/app <==\none\ntwo\n==> ns/web/side <==\naside\n"


def test_in_the_foreground_ctrl_c_stops_it_in_order(tmp_path: Path) -> None:
    box = Sandbox(f"foreground-{os.getpid()}")
    nodes = tmp_path / "nodes.json"
    nodes.write_text('[{"name": "only", "capacity": {"cpu": "8"}}]')
    options = ["--name", box.name, "--nodes", str(nodes), "--hpa-sync-period", "2s", "--kubelet", STUB]
    # A session of its own: the interrupt must not reach pytest.
    process = subprocess.Popen(
        [sys.executable, "-m", "sandbox", "up", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        assert f"Sandbox {box.name} is ready" in process.stdout.readline()
        named = ["--name", box.name]
        status = CliRunner().invoke(main, ["status", *named])
        assert (status.exit_code, "kube-scheduler" in status.output) == (0, True)
        kubeconfig = CliRunner().invoke(main, ["kubeconfig", "--path", *named]).output.strip()
        kubectl = [str(box.bin("kubectl")), "--kubeconfig", kubeconfig, "get", "nodes", "-o", "name"]
        listed = subprocess.run(kubectl, capture_output=True, text=True, check=True).stdout
        assert listed.split() == ["node/control-plane", "node/only"]
        first_line = (
            CliRunner().invoke(main, ["logs", "kube-controller-manager", *named]).output.splitlines()[0]
        )
        assert "--horizontal-pod-autoscaler-sync-period=2s" in first_line
        wrong = CliRunner().invoke(main, ["logs", "nothing", *named])
        assert "no log called 'nothing'" in wrong.stderr

        process.send_signal(signal.SIGINT)
        output, progress = process.communicate(timeout=20)

        assert process.returncode == 0
        assert f"Logs are in {box.logs_dir}" in output
        assert "starting kube-apiserver" in progress
        assert {path.name for path in box.state.path.iterdir()} == {"log", "audit.log"}
    finally:
        process.kill()
        box.down()
