"""Every way to fail is one line that says what, where, why and what to do; none is a traceback."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from inference_operator.cli import status as status_module

from .conftest import Plugin, Result
from .fake_api import GROUP, FakeApi, forbidden, refusal
from .objects import cluster

HERE = f"{GROUP}/namespaces/ml/inferenceclusters"
COMMANDS = [["status", "lama"], ["explain", "lama"], ["top", "lama", "--once"], ["chat", "lama", "Hi"]]


def sentence(got: Result) -> str:
    """The one line of a failed command."""
    assert got.status == 1
    assert got.out == ""
    assert got.err.count("\n") == 1
    assert got.err.startswith("error: ")
    return got.err.removeprefix("error: ").rstrip()


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_an_unknown_name_gets_the_nearest_one(api: FakeApi, plugin: Plugin, command: list[str]) -> None:
    api.clusters = [cluster(), cluster(name="qwen")]
    want = "InferenceCluster ml/lama doesn't exist in context here: did you mean llama?"
    assert sentence(plugin(*command)) == want


def test_a_name_of_another_namespace_says_which(api: FakeApi, plugin: Plugin) -> None:
    api.clusters = [cluster(namespace="prod")]
    want = (
        "InferenceCluster ml/llama doesn't exist in context here: there is one in namespace prod: add -n prod"
    )
    assert sentence(plugin("status", "llama")) == want


def test_a_name_unlike_any_points_to_the_list(api: FakeApi, plugin: Plugin) -> None:
    assert "kubectl inference status -A lists those that do" in sentence(plugin("status", "llama"))


def test_the_nearest_name_is_found_without_the_right_to_see_all_namespaces(
    api: FakeApi, plugin: Plugin
) -> None:
    api.clusters = [cluster()]
    api.answers[f"{GROUP}/inferenceclusters"] = forbidden("list", "inferenceclusters")
    assert sentence(plugin("status", "lama")).endswith("did you mean llama?")


@pytest.mark.parametrize("command", [["status"], ["top"], *COMMANDS], ids=" ".join)
def test_a_missing_crd(api: FakeApi, plugin: Plugin, command: list[str]) -> None:
    gone = refusal(404, "NotFound", "the server could not find the requested resource")
    api.answers = {HERE: gone, f"{GROUP}/inferenceclusters": gone}
    got = sentence(plugin(*command))
    assert "doesn't know InferenceClusters: the operator's CRD isn't installed there" in got


def test_missing_rights_name_the_right(api: FakeApi, plugin: Plugin) -> None:
    api.answers[HERE] = forbidden("list", "inferenceclusters")
    got = sentence(plugin("status"))
    assert got.startswith("no right for this at the API server of context here (http://127.0.0.1:")
    assert 'User "jo" cannot list resource "inferenceclusters" in the namespace "ml"' in got
    assert "ask for it" in got


def test_refused_credentials(api: FakeApi, plugin: Plugin) -> None:
    api.answers[HERE] = refusal(401, "Unauthorized", "Unauthorized")
    assert "doesn't accept these credentials: log in again" in sentence(plugin("status"))


def test_an_api_server_that_fails(api: FakeApi, plugin: Plugin) -> None:
    api.answers[HERE] = refusal(500, "InternalError", "etcd is\ngone")
    assert "500 InternalError: etcd is gone: see kubectl get --raw /readyz" in sentence(plugin("status"))


def test_an_unreachable_api_server(plugin: Plugin, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        server = f"http://127.0.0.1:{free.getsockname()[1]}"
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(
            f"""{{"clusters": [{{"name": "c", "cluster": {{"server": "{server}"}}}}], "users": [],
            "contexts": [{{"name": "far", "context": {{"cluster": "c"}}}}], "current-context": "far"}}"""
        )
        got = sentence(plugin("status", "--kubeconfig", kubeconfig))
    assert got.startswith(f"no answer from the API server of context far ({server}): ")
    assert got.endswith("check the network or VPN, and that kubectl version answers")


@pytest.mark.parametrize(
    ("content", "options", "want"),
    [
        (None, [], "no kubeconfig at "),
        ("", [], "is no kubeconfig"),
        ("[1, 2]", [], "is no kubeconfig"),
        ("a: [", [], "is no kubeconfig"),
        ("clusters: []\ncontexts: []\nusers: []\n", [], "can't use "),
        ("clusters: []\ncontexts: []\nusers: []\n", ["--context", "x"], "can't use context x of "),
    ],
)
def test_an_unusable_kubeconfig(
    plugin: Plugin, tmp_path: Path, content: str | None, options: list[str], want: str
) -> None:
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content)
    assert want in sentence(plugin("status", "--kubeconfig", path, *options))


@pytest.mark.parametrize("bug", [KeyError("x"), RuntimeError("a\nb")])
def test_a_bug_is_one_line_too(plugin: Plugin, monkeypatch: pytest.MonkeyPatch, bug: Exception) -> None:
    monkeypatch.setattr(status_module, "run", _raise(bug))
    got = sentence(plugin("status"))
    assert got.startswith(f"a bug of this plugin: {type(bug).__name__}: ")


def test_an_interrupt_ends_quietly(plugin: Plugin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_module, "run", _raise(KeyboardInterrupt()))
    got = plugin("status")
    assert (got.status, got.out, got.err) == (130, "", "\n")


def _raise(error: BaseException) -> Callable[..., None]:
    def run(*_: object) -> None:
        raise error

    return run
