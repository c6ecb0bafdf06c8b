"""Ownership and paths of a sandbox, without starting one."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.errors import SandboxError
from sandbox.state import StateDir, Status, known, running

HOLD = """
import sys, time
from sandbox.state import StateDir
lock = StateDir(sys.argv[1]).acquire()
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def test_a_second_start_names_the_first(home: Path) -> None:
    with StateDir("one").acquire():
        with pytest.raises(SandboxError, match=rf"already running\n  where: process {os.getpid()}"):
            StateDir("one").acquire()
        StateDir("two").acquire().close()


def test_a_lock_on_a_deleted_file_keeps_nobody_out(home: Path) -> None:
    """What `down` leaves to an `up` that was waiting for it."""
    state = StateDir("one")
    with state.acquire():
        state.lock_file.unlink()
        with state.acquire():
            assert StateDir("one").owner() == os.getpid()


def test_a_killed_owner_owns_nothing(home: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(Path.cwd())}
    command = [sys.executable, "-c", HOLD, "one"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        owner.stdout.readline()
        assert StateDir("one").owner() == owner.pid
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        assert StateDir("one").owner() == 0


@pytest.mark.parametrize("name", ["", "../x", "A", "a/b", "-a", "a-", "x" * 41])
def test_names_that_are_no_directory_names_are_refused(name: str) -> None:
    with pytest.raises(SandboxError, match=r"is not a sandbox name"):
        StateDir(name)


def test_the_state_is_private(home: Path) -> None:
    state = StateDir("one")
    state.create()
    assert state.path.stat().st_mode & 0o777 == 0o700


def test_a_socket_path_too_long_for_the_kernel_moves_to_tmp(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/short")
    assert StateDir("one").socket("kubelet.sock") == StateDir("one").path / "kubelet.sock"
    monkeypatch.setenv("XDG_STATE_HOME", str(home / ("x" * 60) / ("y" * 60)))
    state = StateDir("one")
    state.create()
    path = state.socket("kubelet.sock")
    assert len(os.fsencode(path)) <= 107
    assert path.parent.stat().st_mode & 0o777 == 0o700
    state.remove()
    assert not path.parent.exists()


def test_removal_keeps_logs_when_asked(home: Path) -> None:
    state = StateDir("one")
    state.create()
    (state.log / "etcd").write_text("log")
    state.audit_log.write_text("{}")
    locked = state.path / "volume"
    (locked / "inner").mkdir(parents=True)
    locked.chmod(0o500)
    state.remove(keep_logs=True)
    assert {path.name for path in state.path.iterdir()} == {"log", "audit.log"}
    state.remove()
    assert not state.path.exists()


def test_known_are_those_that_run_or_have_left_logs(home: Path) -> None:
    StateDir("left").create()
    StateDir("gone").acquire().close()
    with StateDir("runs").acquire():
        assert known() == ["left", "runs"]
        assert running() == ["runs"]
        assert 0 <= StateDir("runs").age() < 60
    assert running() == []


def test_what_needs_a_running_sandbox_says_how_to_start_it(home: Path) -> None:
    state = StateDir("one")
    with pytest.raises(SandboxError, match=r"not running") as failure:
        state.require_ready()
    launcher = Path.cwd() / "tools" / "sandbox"
    assert failure.value.fix == f"start it with `{launcher} up --detach --name one`"
    with StateDir("other").acquire(), pytest.raises(SandboxError, match="one that runs: --name other"):
        state.require_ready()
    with state.acquire():
        state.create()
        state.write_status(Status(phase="starting"))
        with pytest.raises(SandboxError, match=r"'one' is starting"):
            state.require_ready()
        state.write_status(Status(phase="ready", port=1))
        assert state.require_ready().port == 1
