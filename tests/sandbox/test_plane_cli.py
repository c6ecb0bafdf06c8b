"""The command line: what people type and read."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from sandbox.cli import main
from sandbox.client import Sandbox
from sandbox.nodes import load_nodes
from sandbox.state import StateDir, Status

STUB = "tests.sandbox.kubelet_stub"
LAUNCHER = Path.cwd() / "tools" / "sandbox"


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
    assert f"{LAUNCHER} up --detach --name default" in result.stderr


def test_status_of_nothing_is_stopped_and_down_is_content(home: Path) -> None:
    status = CliRunner().invoke(main, ["status", "--json"])
    assert status.exit_code == 1
    assert json.loads(status.output)["phase"] == "stopped"
    down = CliRunner().invoke(main, ["down"])
    assert (down.exit_code, down.output) == (0, "Sandbox default was not running.\n")


def launch(*words: str, cwd: Path, launcher: Path = LAUNCHER) -> subprocess.CompletedProcess[str]:
    return subprocess.run([launcher, *words], cwd=cwd, capture_output=True, text=True, check=False)


@pytest.mark.skipif(not (LAUNCHER.parents[1] / ".venv").exists(), reason="the launcher runs .venv's Python")
def test_the_launcher_works_from_any_folder_and_prints_commands_that_do(home: Path) -> None:
    (home / "sandbox").mkdir()
    (home / "sandbox" / "__init__.py").write_text("raise SystemExit('the wrong one')")
    link = home / "link"
    link.symlink_to(LAUNCHER)
    shown = launch("--help", cwd=home, launcher=link)
    assert shown.stdout.startswith(f"Usage: {LAUNCHER} "), shown.stderr
    assert f"  {LAUNCHER} up --detach\n" in shown.stdout
    assert "python -m sandbox" not in shown.stdout
    hint = launch("kubeconfig", cwd=home).stderr
    assert launch(*hint.split("`")[1].split()[1:], "--help", cwd=home).returncode == 0


def test_the_launcher_says_how_to_make_the_virtual_environment(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    copy = tmp_path / "tools" / "sandbox"
    shutil.copy2(LAUNCHER, copy)
    refused = launch("list", cwd=tmp_path, launcher=copy)
    assert refused.returncode == 1
    assert refused.stderr.endswith(f"Run: make -C {tmp_path} setup\n")


def test_all_sandboxes_are_listed_and_stopped_together(home: Path) -> None:
    assert "no sandboxes; start one with" in CliRunner().invoke(main, ["list"]).output
    for name in ("first", "second"):
        StateDir(name).create()
        StateDir(name).write_status(Status(phase="failed"))
    hold = "import sys; from sandbox.state import *; s = StateDir('third'); lock = s.acquire(); s.create(); "
    hold += "s.write_status(Status(phase='ready', port=4321)); print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as third:
        assert third.stdout is not None
        third.stdout.readline()
        rows = [row.split() for row in CliRunner().invoke(main, ["list"]).output.splitlines()]
        assert [row[:2] for row in rows[1:]] == [
            ["first", "failed"],
            ["second", "failed"],
            ["third", "ready"],
        ]
        assert rows[3][2][-1] == "s" and rows[3][3] == "https://127.0.0.1:4321"
        missed = CliRunner().invoke(main, ["down", "--name", "first-one"]).output
        assert "Sandbox first-one was not running.\nRunning: third (stop one" in missed
        every = CliRunner().invoke(main, ["down", "--all"]).output.splitlines()
        assert every[-1] == "Stopped sandbox third."
        assert third.wait(5) == -signal.SIGTERM
    assert list((home / "inference-operator" / "sandbox").iterdir()) == []


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
    (state / "kubelet/pods/ns_web_uid-2" / "app.log.previous").write_text("crash")
    assert logs("ns/web", "--previous") == "crash\n"
    assert (
        "ns/web/side has no previous run"
        in CliRunner().invoke(main, ["logs", "--name", "named", "ns/web/side", "--previous"]).stderr
    )
    several = CliRunner().invoke(main, ["logs", "--name", "named", "ns/web", "-f"])
    assert "choose one of ns/web/app, ns/web/side" in several.stderr
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
