"""The demo shows what it measured, and says where to look when a step fails."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from sandbox.client import Sandbox
from sandbox.demo import Demo, failover_table
from sandbox.judge import Verdict
from sandbox.lab import Lab

FAULTY = Verdict(lost=1, switched_seconds=1.25, cut=7, cut_elsewhere=2, errors=())


@pytest.fixture
def demo() -> Demo:
    return Demo(Lab(Sandbox("unit")), Console(file=StringIO(), width=200), keep=False)


def printed(demo: Demo) -> str:
    assert isinstance(demo.console.file, StringIO)
    return demo.console.file.getvalue()


def test_figures_of_a_step_stand_below_its_line(demo: Demo) -> None:
    def kill() -> str:
        demo.pending = failover_table(200, FAULTY)
        return "and it came back"

    demo.step("Kill", kill)
    demo.step("Next", lambda: "")
    lines = [" ".join(line.split()) for line in printed(demo).splitlines()]
    assert lines[0].endswith("Kill and it came back")
    assert lines[1:6] == [
        "requests sent during the step 200",
        "lost, of those that arrived after the kill 1",
        "longest wait of a later request for another engine 1.2 s",
        "streams cut that ran on the killed engine 7",
        "streams cut on other engines 2",
    ]
    assert lines[6].endswith("Next")


def test_a_failed_step_ends_the_demo_and_names_the_logs(demo: Demo) -> None:
    def fail() -> str:
        raise RuntimeError("no engine came")

    with pytest.raises(SystemExit) as end:
        demo.step("Scale", fail)
    assert end.value.code == 1
    assert "failed Scale" in printed(demo)
    assert "RuntimeError: no engine came" in printed(demo)
    assert str(demo.lab.sandbox.logs_dir) in printed(demo)
