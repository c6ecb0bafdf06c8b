"""Fixtures: `api`, a fake API server behind $KUBECONFIG; `plugin`, which runs the command line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from inference_operator.cli.__main__ import main

from .fake_api import FakeApi, serve


@dataclass(frozen=True)
class Result:
    """What one run did."""

    status: int
    out: str
    err: str


Plugin = Callable[..., Result]


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    made = FakeApi()
    kubeconfig = tmp_path / "kubeconfig"
    with serve(made, kubeconfig):
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        yield made


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Plugin:
    """Runs `kubectl-inference ARGUMENTS` in this process, as its entry point does."""

    def run(*arguments: Any) -> Result:
        monkeypatch.setattr(sys, "argv", ["kubectl-inference", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return Result(int(ended.value.code or 0), captured.out, captured.err)

    return run
