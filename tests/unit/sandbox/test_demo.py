"""The demo shows what it measured, and says where to look when a step fails."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO

import pytest
from rich.console import Console
from rich.table import Table

from sandbox.client import Sandbox
from sandbox.demo import Demo, failover_table
from sandbox.demo_scale import Timeline
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


def test_a_live_table_stays_below_its_line(demo: Demo) -> None:
    timeline = Timeline()

    def burst(show: Callable[[Table], None]) -> str:
        for demand, wanted, ready in ((0, 1, 1), (30, 1, 1), (30, 5, 1), (30, 5, 5)):
            timeline.see(demand, wanted, ready)
            show(timeline.table())
        return "1 -> 5"

    demo.live_step("Burst", burst)
    rows = [" ".join(line.split()[2:5]) for line in printed(demo).splitlines() if " s  " in line]
    assert "1 -> 5" in printed(demo)
    assert [row for row in rows if row[0].isdigit()] == ["0 1 1", "30 1 1", "30 5 1", "30 5 5"]


def test_a_timeline_has_a_row_for_each_change_only() -> None:
    timeline = Timeline()
    for _ in range(5):
        timeline.see(30, 5, 5)
    timeline.see(28, 5, 5)
    timeline.see(0, 5, 5)
    assert [row[1:] for row in timeline.rows] == [(30, 5, 5), (0, 5, 5)]
