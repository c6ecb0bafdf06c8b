"""What looks again and again, on a terminal of its own."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.unit.core.statuses import PROBLEM, SERVING, status

from .fake_api import GROUP, Answer, FakeApi, refusal
from .objects import cluster, gateway_pods
from .test_top import engine, path, state

SOURCES = Path(__file__).parents[3] / "operator" / "src"
#: Far above what it takes: a machine that is busy must not fail these tests.
PATIENCE = 60.0


class Terminal:
    """The plugin on a terminal of 120 columns, and all that it has shown."""

    def __init__(self, process: subprocess.Popen[bytes], screen: int) -> None:
        self.process = process
        self._screen = screen
        self.shown = ""

    def wait_for(self, text: str) -> None:
        """Read until `text` has been shown since the last call, without colours."""
        start = len(self.shown)
        deadline = time.monotonic() + PATIENCE
        while text not in self.shown[start:]:
            assert time.monotonic() < deadline, f"no {text!r} in {self.shown[start:]!r}"
            if select.select([self._screen], [], [], 0.5)[0]:
                self.shown += re.sub(
                    r"\x1b\[[0-9;?]*[A-Za-z]", "", os.read(self._screen, 65536).decode(errors="replace")
                )

    def interrupt(self) -> int:
        """Ctrl-C; the exit status."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(PATIENCE)


@contextmanager
def terminal(*arguments: str) -> Iterator[Terminal]:
    screen, inside = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(SOURCES), "COLUMNS": "120", "LINES": "60", "TERM": "xterm"}
    command = [sys.executable, "-m", "inference_operator.cli", *arguments]
    process = subprocess.Popen(
        command,
        stdin=inside,
        stdout=inside,
        stderr=inside,
        env=environment,
        # A shell starts what runs in the background with SIGINT ignored, and that is inherited.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    os.close(inside)
    try:
        yield Terminal(process, screen)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(screen)


def test_watch_follows_the_cluster_and_survives_an_api_server_that_fails(api: FakeApi) -> None:
    api.clusters = [cluster()]
    with terminal("status", "llama", "--watch") as shown:
        shown.wait_for("ml/llama SERVES: Revision a serves")
        api.clusters = [cluster(status(SERVING, problems=[PROBLEM]))]
        shown.wait_for("SERVES, SPEC INVALID")
        path = f"{GROUP}/namespaces/ml/inferenceclusters/llama"
        api.answers[path] = refusal(500, "InternalError", "etcd is gone")
        shown.wait_for("not seen: the API server of context here")
        api.answers = {}
        shown.wait_for("seen; Ctrl-C ends it")
        assert shown.interrupt() == 130


def test_a_new_token_of_a_credential_plugin_is_taken_over(
    api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tokens of cloud providers live for minutes."""
    credential = tmp_path / "credential.json"
    kubeconfig = json.loads((tmp_path / "kubeconfig").read_text())
    v1 = "client.authentication.k8s.io/v1"
    plugin = {"apiVersion": v1, "command": "cat", "args": [str(credential)], "interactiveMode": "Never"}
    kubeconfig["users"] = [{"name": "u", "user": {"exec": plugin}}]
    (tmp_path / "exec").write_text(json.dumps(kubeconfig))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "exec"))

    def issue(token: str) -> None:
        api.token = token
        made = {"apiVersion": v1, "kind": "ExecCredential", "status": {"token": token}}
        credential.write_text(json.dumps(made))

    issue("first")
    api.clusters = [cluster()]
    with terminal("status", "--watch") as shown:
        shown.wait_for("llama")
        issue("second")
        shown.wait_for("not seen: the API server of context here")
        shown.wait_for("seen; Ctrl-C ends it")
        assert shown.interrupt() == 130
    assert api.authorizations == {"Bearer first", "Bearer second"}


def test_top_goes_on_until_it_is_ended(api: FakeApi) -> None:
    api.clusters = [cluster()]
    api.pods = gateway_pods(1)
    api.answers[path("g-0")] = Answer(state(engine("a-0", in_flight=3)))
    with terminal("top") as shown:
        shown.wait_for("3 of 64")
        api.answers[path("g-0")] = Answer(state(engine("a-0", in_flight=41)))
        shown.wait_for("41 of 64")
        assert shown.interrupt() == 130


def test_a_wrong_name_ends_a_watch_at_once(api: FakeApi) -> None:
    with terminal("status", "llama", "--watch") as shown:
        shown.wait_for("error: InferenceCluster ml/llama doesn't exist")
        assert shown.process.wait(PATIENCE) == 1
