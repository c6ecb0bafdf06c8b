"""Building the programs, with a `go` that writes a script instead of compiling for ten minutes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox import binaries
from sandbox.errors import SandboxError

FAKE_GO = """#!/bin/sh
if [ "$1" = version ]; then echo "go version go${FAKE_GO_VERSION:-1.26.8} linux/amd64"; exit 0; fi
while [ "$1" != -o ]; do shift; done
echo "$3" >> "$FAKE_GO_CALLS"
sleep "${FAKE_GO_SECONDS:-0}"
[ "$3" = "$FAKE_GO_FAILS" ] && { echo "undefined: log.KeyValue"; exit 1; }
echo "#!/bin/sh" > "$2"; chmod +x "$2"
"""


class Build:
    def __init__(self, folder: Path) -> None:
        self.cache = folder / "cache" / "inference-operator" / "sandbox"
        self._calls = folder / "calls"

    @property
    def target(self) -> Path:
        return self.cache / f"bin-{binaries.fingerprint()}"

    def calls(self) -> list[str]:
        return self._calls.read_text().split() if self._calls.exists() else []


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Build:
    go = tmp_path / "go" / "go"
    go.parent.mkdir()
    go.write_text(FAKE_GO)
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{go.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("FAKE_GO_CALLS", str(tmp_path / "calls"))
    monkeypatch.delenv("INFERENCE_SANDBOX_BIN", raising=False)
    return Build(tmp_path)


def test_builds_every_program_once(build: Build) -> None:
    assert binaries.ensure() == build.target
    assert {path.name for path in build.target.iterdir()} == set(binaries.PACKAGES)
    binaries.ensure()
    assert build.calls() == list(binaries.PACKAGES.values())


def test_a_failed_build_leaves_no_set_and_shows_the_end_of_its_log(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_GO_FAILS", binaries.PACKAGES["coredns"])
    with pytest.raises(SandboxError, match=r"building coredns failed") as failure:
        binaries.ensure()
    assert "undefined: log.KeyValue" in str(failure.value)
    assert "build.log" in failure.value.where
    assert not build.target.exists()
    monkeypatch.delenv("FAKE_GO_FAILS")
    assert binaries.ensure() == build.target


def test_an_interrupted_build_is_never_taken_for_a_whole_one(build: Build) -> None:
    partial = build.target.with_suffix(".partial")
    partial.mkdir(parents=True)
    (partial / "etcd").write_text("half a program")
    binaries.ensure()
    assert (build.target / "etcd").read_text() != "half a program"
    assert not partial.exists()


def test_two_starts_at_once_build_once(build: Build) -> None:
    command = [sys.executable, "-c", "from sandbox import binaries; binaries.ensure(print)"]
    environment = os.environ | {"PYTHONPATH": str(Path.cwd()), "FAKE_GO_SECONDS": "0.2"}
    both = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = "".join(process.communicate()[0] for process in both)
    assert [process.returncode for process in both] == [0, 0]
    assert sorted(build.calls()) == sorted(binaries.PACKAGES.values())
    assert "waiting for another build" in said


def test_without_go_the_error_names_the_version_and_the_way_around(
    build: Build, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(binaries, "GO_FALLBACK", str(tmp_path))
    with pytest.raises(SandboxError, match=r"no Go toolchain") as failure:
        binaries.ensure()
    assert "Go 1.26" in failure.value.fix
    assert "INFERENCE_SANDBOX_BIN" in failure.value.fix


def test_an_old_go_is_refused_before_it_compiles_anything(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_GO_VERSION", "1.25.9")
    with pytest.raises(SandboxError, match=r"too old") as failure:
        binaries.ensure()
    assert "go1.25.9" in failure.value.why
    assert build.calls() == []


def test_a_prebuilt_set_is_used_as_it_is(
    build: Build, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("INFERENCE_SANDBOX_BIN", str(tmp_path))
    for name in binaries.PACKAGES:
        (tmp_path / name).touch(mode=0o755)
    assert binaries.ensure() == tmp_path
    (tmp_path / "helm").unlink()
    with pytest.raises(SandboxError, match=r"the prebuilt set lacks helm"):
        binaries.ensure()
    assert build.calls() == []


def test_other_module_versions_are_another_set(tmp_path: Path) -> None:
    for name in ("go.mod", "go.sum"):
        (tmp_path / name).write_bytes((binaries.TOOLS / name).read_bytes())
    assert binaries.fingerprint(tmp_path) == binaries.fingerprint()
    (tmp_path / "go.sum").write_bytes(b"")
    assert binaries.fingerprint(tmp_path) != binaries.fingerprint()
