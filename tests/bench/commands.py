"""The project's commands with a clock: how long somebody waits for them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from .figures import ROOT


def timed_make(target: str, *, cold: bool) -> float:
    """Seconds that `make TARGET` takes; cold = in a fresh clone with empty HOME and caches."""
    with tempfile.TemporaryDirectory(prefix="bench-core-") as scratch:
        place, environment = ROOT, dict(os.environ)
        if cold:
            place = Path(scratch) / "clone"
            subprocess.run(["git", "clone", "--quiet", str(ROOT), str(place)], check=True)
            home = Path(scratch) / "home"
            home.mkdir()
            go = str(Path(shutil.which("go") or "/usr/local/go/bin/go").parent)
            environment = {
                "HOME": str(home),
                "XDG_CACHE_HOME": str(home / "cache"),
                "XDG_STATE_HOME": str(home / "state"),
                "GOCACHE": str(home / "gocache"),
                "GOMODCACHE": str(home / "gomod"),
                "GOFLAGS": "-modcacherw",
                "PATH": f"/usr/sbin:/usr/bin:/sbin:/bin:{go}",
                "LANG": "C.UTF-8",
            }
        begin = time.monotonic()
        done = subprocess.run(
            ["make", target], cwd=place, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(
                f"make {target} failed with {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
            )
        return time.monotonic() - begin
