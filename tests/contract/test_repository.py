"""Rules of the repository that no tool knows by itself."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: Longer modules need a reason: add the file with it here.
LONG_FILES: dict[str, str] = {}


def tracked() -> list[Path]:
    """Files that git tracks or would add, as absolute paths."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [ROOT / line for line in listing.splitlines() if (ROOT / line).is_file()]


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_the_folder_named_operator_hides_no_standard_module() -> None:
    """With operator/__init__.py and the root on sys.path, `import collections` dies on Debian's Python."""
    assert not (ROOT / "operator" / "__init__.py").exists()
    done = subprocess.run(
        [sys.executable, "-S", "-c", "import operator, collections; print(operator.__file__)"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(ROOT) not in done.stdout


def test_only_the_package_lies_in_the_source_folder() -> None:
    """operator/src lands on sys.path: anything else there would be importable."""
    names = {
        path.name for path in (ROOT / "operator" / "src").iterdir() if not path.name.endswith(".egg-info")
    }
    assert names - {"__pycache__"} == {"inference_operator"}


def test_no_file_is_binary() -> None:
    assert [str(path) for path in tracked() if b"\0" in path.read_bytes()[:8192]] == []


def test_no_file_is_large() -> None:
    assert [str(path) for path in tracked() if path.stat().st_size > 1_500_000] == []


@pytest.mark.parametrize(
    ("what", "pattern"),
    [
        # Assembled from parts so that this file doesn't find itself.
        (
            "a package registry's host",
            "|".join(
                [
                    "pypi" + r"\.org",
                    "pythonhosted" + r"\.org",
                    "registry" + r"\.npmjs",
                    "proxy" + r"\.golang\.org",
                    "sum" + r"\.golang\.org",
                    "crates" + r"\.io",
                    "deb" + r"\.debian\.org",
                ]
            ),
        ),
        ("an absolute path of one machine", r"(?<![\w.])/(?:wo" + r"rk|ro" + r"ot|home/\w+)/"),
    ],
)
def test_no_file_names(what: str, pattern: str) -> None:
    expression = re.compile(pattern)
    found = [
        f"{path.relative_to(ROOT)}: {match.group(0)}"
        for path in tracked()
        for match in expression.finditer(text_of(path))
    ]
    assert found == [], what


def test_modules_stay_short() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in tracked()
        if path.suffix == ".py" and (lines := text_of(path).count("\n")) > 400
    }
    assert {name: lines for name, lines in long.items() if name not in LONG_FILES} == {}


def test_the_lock_has_a_hash_for_every_package() -> None:
    lock = text_of(ROOT / "requirements.lock")
    packages = re.findall(r"^[a-z0-9][\w.\[\]-]*==\S+.*\\$", lock, flags=re.MULTILINE)
    assert len(packages) > 40
    assert lock.count("--hash=sha256:") >= len(packages)
    assert "--index-url" not in lock


def test_the_two_commands_stand_in_the_readme_and_ci_runs_the_tests() -> None:
    readme = text_of(ROOT / "README.md")
    assert "make demo" in readme and "make test" in readme
    assert "make test" in text_of(ROOT / ".ci" / "run")


def test_every_relative_link_of_a_page_leads_somewhere() -> None:
    """Link targets as Markdown writes them, outside code: `](path)` and `](path#part)`."""
    dead = []
    for page in (path for path in tracked() if path.suffix == ".md"):
        text = re.sub(r"```.*?```|`[^`\n]*`", "", text_of(page), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)", text):
            if not re.match(r"[a-z]+:", target) and not (page.parent / target).exists():
                dead.append(f"{page.relative_to(ROOT)}: {target}")
    assert dead == []
