"""Compare with a golden file, or rewrite it when UPDATE_GOLDENS=1 is set (`make golden`)."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parent


def check_golden(name: str, text: str) -> None:
    """Fail with a diff unless `text` is the content of tests/goldens/<name>."""
    path = ROOT / name
    if os.environ.get("UPDATE_GOLDENS") == "1":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return
    assert path.exists(), f"{path} is missing: run `make golden` and review it"
    want = path.read_text(encoding="utf-8")
    assert text == want, f"{path.name} differs: run `make golden` and review the diff"
