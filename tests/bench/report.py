"""Writes docs/benchmarks.md from build/bench/*.json."""

from __future__ import annotations

import json

from .figures import OUTPUT, ROOT

HEAD = """# Measured figures

Made by `make benchmarks` from `build/bench/*.json`; each table is repeated by the `make bench-NAME` above it.
"As of" is the day of the run. Timings hold for the machine named and are noisy on a small one.
"""


def main() -> None:
    parts = [HEAD]
    for path in sorted(OUTPUT.glob("*.json")):
        if path.name.endswith(".meta.json"):
            continue
        meta = json.loads(path.with_suffix(".meta.json").read_text())
        parts.append(
            f"## `make bench-{path.stem}`\n\nAs of {meta['date']}, {meta['mode']} run, {meta['machine']}.\n"
        )
        rows = ["| figure | value | limit | holds | runs | conditions |", "|---|---|---|---|---|---|"]
        for row in json.loads(path.read_text()):
            runs = " ".join(f"{value:g}" for value in row["runs"])
            rows.append(
                f"| {row['figure']} | {row['value']:g} {row['unit']} | {row['limit']:g} | "
                f"{'yes' if row['holds'] else '**no**'} | {runs} | {row['conditions']} |"
            )
        parts.append("\n".join(rows) + "\n")
        parts += [f"- {note}" for note in meta["notes"]]
    (ROOT / "docs" / "benchmarks.md").write_text("\n".join(parts))


if __name__ == "__main__":
    main()
