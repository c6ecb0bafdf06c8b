"""A figure holds when its value is within its limit; no data never holds; the exit status says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench import figures
from tests.bench.figures import Bench


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(figures, "OUTPUT", tmp_path)
    return Bench("example", "quick")


def test_figures_within_their_limits_exit_with_0_and_are_written(bench: Bench, tmp_path: Path) -> None:
    bench.add("time", [1.0, 2.5], "s", 3, "here")
    assert bench.finish() == 0
    assert json.loads((tmp_path / "example.json").read_text()) == [
        {
            "figure": "time",
            "value": 2.5,
            "unit": "s",
            "limit": 3,
            "holds": True,
            "runs": [1.0, 2.5],
            "conditions": "here",
        }
    ]


def test_a_figure_above_its_limit_exits_with_1(bench: Bench) -> None:
    bench.add("lost", [0, 1], "", 0, "here")
    assert bench.finish() == 1


def test_no_data_never_holds(bench: Bench) -> None:
    bench.add("time", [], "s", 3, "here")
    assert not bench.figures[0].holds
    assert bench.finish() == 1


def test_a_bench_without_any_figure_fails(bench: Bench) -> None:
    assert bench.finish() == 1


def test_a_part_that_ends_with_an_error_loses_no_other_figure_and_exits_with_1(
    bench: Bench, tmp_path: Path
) -> None:
    def fails() -> None:
        raise RuntimeError("make test failed\nlong output")

    bench.attempt("test", fails)
    bench.attempt("time", lambda: bench.add("time", [1.0], "s", 3, "here"))
    assert bench.finish() == 1
    assert [row["figure"] for row in json.loads((tmp_path / "example.json").read_text())] == ["time"]
    assert bench.notes == ["test ended with RuntimeError: make test failed"]


def test_a_part_that_is_measured_alone_keeps_the_others_and_says_so(bench: Bench, tmp_path: Path) -> None:
    bench.add("time", [1.0], "s", 3, "here")
    bench.add("lost", [0], "", 0, "here")
    bench.finish()
    again = Bench("example", "full", only=("loss",))
    again.add("lost", [0, 0], "", 0, "here")
    again.finish()
    rows = json.loads((tmp_path / "example.json").read_text())
    assert [(row["figure"], row["runs"]) for row in rows] == [("time", [1.0]), ("lost", [0, 0])]
    meta = json.loads((tmp_path / "example.meta.json").read_text())
    assert meta["mode"] == "quick"
    assert "apart from the rest" in meta["notes"][-1]
    assert "loss" in meta["notes"][-1]
