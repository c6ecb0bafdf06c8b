"""Help, completion, and that both start fast."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from inference_operator.cli.commands import cli

from .conftest import Plugin
from .fake_api import FakeApi, forbidden
from .objects import cluster

SOURCES = Path(__file__).parents[3] / "operator" / "src"
SLOW = ("rich", "pydantic", "kubernetes", "aiohttp", "yaml", "orjson")


@pytest.mark.parametrize("command", sorted(cli.commands))
def test_each_help_is_a_manual_page(plugin: Plugin, command: str) -> None:
    got = plugin(command, "--help")
    assert got.status == 0
    assert f"Usage: kubectl inference {command}" in got.out
    assert "Examples:\n" in got.out
    assert "Exit status: 0" in got.out
    options = [p for p in cli.commands[command].params if isinstance(p, click.Option)]
    assert all(option.help for option in options)


def test_help_imports_nothing_slow() -> None:
    script = (
        "import sys, click; from inference_operator.cli.commands import cli\n"
        "import inference_operator.cli.__main__\n"
        "cli.main(['status', '--help'], standalone_mode=False)\n"
        f"print('slow:', [name for name in {SLOW!r} if name in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": str(SOURCES)}
    got = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True
    )
    assert got.stdout.startswith("Usage:")
    assert got.stdout.endswith("slow: []\n")


Complete = Callable[..., list[str]]


@pytest.fixture
def complete(plugin: Plugin, monkeypatch: pytest.MonkeyPatch) -> Complete:
    """The candidates for the last of some words, as bash gets them."""

    def run(*words: str) -> list[str]:
        monkeypatch.setenv("_KUBECTL_INFERENCE_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", " ".join(["kubectl-inference", *words]))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        return [line.removeprefix("plain,") for line in plugin().out.splitlines() if line]

    return run


def test_commands_and_names_of_clusters_complete(api: FakeApi, complete: Complete) -> None:
    api.clusters = [
        cluster(),
        cluster(name="lima"),
        cluster(name="qwen"),
        cluster(name="b", namespace="prod"),
    ]
    assert complete("st") == ["status"]
    assert complete("status", "l") == ["lima", "llama"]
    assert complete("status", "-n", "prod", "") == ["b"]
    assert complete("chat", "--context", "other", "") == []
    assert complete("status", "-o", "") == ["table", "json", "yaml"]


def test_completion_never_complains(api: FakeApi, complete: Complete) -> None:
    api.answers["/apis/inferencecluster.io/v1alpha1/namespaces/ml/inferenceclusters"] = forbidden(
        "list", "inferenceclusters"
    )
    assert complete("status", "") == []


@pytest.mark.parametrize(
    ("shell", "want"),
    [
        ("bash", "complete -o nosort -F"),
        ("zsh", "#compdef kubectl-inference"),
        ("fish", "complete --no-files --command kubectl-inference"),
        ("kubectl", "echo :4"),
    ],
)
def test_the_scripts_of_the_shells(plugin: Plugin, shell: str, want: str) -> None:
    got = plugin("completion", shell)
    assert got.status == 0
    assert want in got.out
    assert "_KUBECTL_INFERENCE_COMPLETE" in got.out


def test_what_kubectl_asks_gives_its_words(api: FakeApi, plugin: Plugin, tmp_path: Path) -> None:
    api.clusters = [cluster(), cluster(name="qwen")]
    asked = tmp_path / "kubectl_complete-inference"
    asked.write_text(plugin("completion", "kubectl").out)
    program = tmp_path / "kubectl-inference"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m inference_operator.cli "$@"\n')
    for file in (asked, program):
        file.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": str(SOURCES),
    }
    for words, want in ((["sta"], ["status", ":4"]), (["chat", "it's", "-n", "ml", ""], [":4"])):
        got = subprocess.run([asked, *words], capture_output=True, text=True, env=environment, check=True)
        assert got.stdout.split() == want
    got = subprocess.run([asked, "status", ""], capture_output=True, text=True, env=environment, check=True)
    assert got.stdout.split() == ["llama", "qwen", ":4"]
