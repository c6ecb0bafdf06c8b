"""A bench's figures: measured, judged against their limits, printed as a table and kept as JSON.

build/bench/NAME.json is a list of {figure, value, unit, limit, holds, runs, conditions}; docs/benchmarks.md
is made from these files. A figure that wasn't measured in this mode is left out, never guessed.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[2]
OUTPUT = ROOT / "build" / "bench"


@dataclass(frozen=True)
class Figure:
    """One measured number. `value` is judged by `value <= limit`; `runs` are the single results."""

    figure: str
    value: float
    unit: str
    limit: float
    runs: tuple[float, ...]
    conditions: str

    @property
    def holds(self) -> bool:
        """The limit is kept; a number that isn't one (no data) never holds."""
        return self.value <= self.limit


@dataclass
class Bench:
    """Collects figures; `finish` prints, writes and gives the exit status."""

    name: str
    mode: str
    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    #: Parts that were asked for alone: the file's other figures stay.
    only: tuple[str, ...] = ()
    #: Parts that ended with an error.
    broken: list[str] = field(default_factory=list)
    console: Console = field(default_factory=lambda: Console(width=140, highlight=False))
    began: float = field(default_factory=time.monotonic)

    def add(
        self,
        figure: str,
        runs: list[float],
        unit: str,
        limit: float,
        conditions: str,
        value: float | None = None,
    ) -> None:
        """Record a figure; `value` defaults to the worst run."""
        worst = max(runs) if runs else float("nan")
        self.figures.append(
            Figure(
                figure,
                round(worst if value is None else value, 3),
                unit,
                limit,
                tuple(round(r, 3) for r in runs),
                conditions,
            )
        )
        last = self.figures[-1]
        self.console.print(
            f"  {figure}: {last.value:g} {unit} (limit {limit:g}) {'ok' if last.holds else 'DOES NOT HOLD'}"
        )

    def say(self, text: str) -> None:
        """Progress for people, with the time since the start."""
        self.console.print(f"[{time.monotonic() - self.began:6.1f} s] {text}")

    def attempt(self, part: str, measure: Callable[[], None]) -> None:
        """Measure one part. An error ends this part only: hours of other figures must not be lost over it."""
        try:
            measure()
        except Exception as error:
            self.broken.append(part)
            self.console.print_exception()
            first, _, _ = str(error).partition("\n")
            self.notes.append(f"{part} ended with {type(error).__name__}: {first[:200]}")

    def finish(self) -> int:
        """Print the table, write the JSON, return 0 when every figure holds."""
        table = Table(
            "figure",
            "value",
            "limit",
            "holds",
            "runs (min / median / max)",
            "conditions",
            title=f"bench-{self.name} ({self.mode})",
        )
        for f in self.figures:
            ordered = sorted(f.runs)
            spread = (
                f"{len(ordered)}: {ordered[0]:g} / {ordered[len(ordered) // 2]:g} / {ordered[-1]:g}"
                if ordered
                else "-"
            )
            table.add_row(
                f.figure,
                f"{f.value:g} {f.unit}",
                f"{f.limit:g}",
                "yes" if f.holds else "NO",
                spread,
                f.conditions,
            )
        self.console.print(table)
        for note in self.notes:
            self.console.print(f"note: {note}")
        OUTPUT.mkdir(parents=True, exist_ok=True)
        rows: list[dict[str, Any]] = [
            {
                "figure": f.figure,
                "value": f.value,
                "unit": f.unit,
                "limit": f.limit,
                "holds": f.holds,
                "runs": list(f.runs),
                "conditions": f.conditions,
            }
            for f in self.figures
        ]
        path = OUTPUT / f"{self.name}.json"
        meta_path = OUTPUT / f"{self.name}.meta.json"
        meta = {
            "mode": self.mode,
            "date": f"{datetime.now(UTC):%Y-%m-%d}",
            "machine": machine(),
            "notes": self.notes,
        }
        if self.only and path.exists():
            before = json.loads(meta_path.read_text())
            measured = {row["figure"] for row in rows}
            rows = [row for row in json.loads(path.read_text()) if row["figure"] not in measured] + rows
            apart = (
                f"measured apart from the rest, on {meta['date']} ({self.mode} run): {', '.join(self.only)}"
            )
            failed = tuple(f"{part} ended with " for part in self.only)
            kept = [note for note in before["notes"] if not note.startswith(failed)]
            meta = {**before, "notes": [*kept, *self.notes, apart]}
        path.write_text(json.dumps(rows, indent=1) + "\n")
        meta_path.write_text(json.dumps(meta) + "\n")
        failed = [f.figure for f in self.figures if not f.holds]
        if not self.figures:
            self.console.print("no figure was measured")
            return 1
        if failed:
            self.console.print("does not hold: " + "; ".join(failed))
        if self.broken:
            self.console.print("ended with an error: " + "; ".join(self.broken))
        return 1 if failed or self.broken else 0


def machine() -> str:
    """Cores and kernel: timings only compare on the same kind of machine."""
    return f"{os.cpu_count()} cores, {platform.machine()}, Linux {platform.release().split('-')[0]}"
