"""What people read when their machine lacks something."""

import os
import stat
from pathlib import Path

import pytest

from sandbox import prereqs
from sandbox.errors import SandboxError


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH of its own that holds everything but haproxy and nft."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setattr(prereqs, "search_path", lambda: f"{folder}")
    for name in set(prereqs.PROGRAMS) - {"haproxy", "nft"}:
        put(folder / name, "exit 0")
    return folder


def put(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(stat.S_IRWXU)


def test_an_ordinary_user_gets_one_command_to_copy(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(programs / "apt-get", "exit 99")
    monkeypatch.setattr(os, "geteuid", lambda: 1500)
    with pytest.raises(SandboxError) as failure:
        prereqs.check()
    assert failure.value.what == "missing programs: haproxy, nft"
    assert failure.value.fix == "sudo apt-get install -y --no-install-recommends haproxy nftables"


def test_without_apt_the_packages_are_named(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(SandboxError) as failure:
        prereqs.check()
    assert failure.value.fix == "install haproxy, nftables with this system's package manager"


def test_root_installs_what_is_missing(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = programs / "asked"
    make = f"for p in haproxy nft; do printf '#!/bin/sh\\n' > {programs}/$p; chmod +x {programs}/$p; done"
    put(programs / "apt-get", f'echo "$@" > {asked}; PATH=/usr/bin:/bin; {make}')
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    prereqs.check()
    assert asked.read_text() == "install -y --no-install-recommends haproxy nftables\n"


def test_a_failed_installation_shows_what_apt_said(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(programs / "apt-get", "echo 'E: Unable to locate package haproxy' >&2; exit 100")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(SandboxError, match=r"Unable to locate package haproxy") as failure:
        prereqs.check()
    assert failure.value.fix.startswith("apt-get update && apt-get install")


def test_system_programs_are_found_although_an_ordinary_path_hides_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert prereqs.missing() == []


def test_restricted_user_namespaces_are_told_in_one_line(
    programs: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("haproxy", "nft"):
        put(programs / name, "exit 0")
    put(programs / "unshare", "echo 'unshare: unshare failed: Operation not permitted' >&2; exit 1")
    switch = tmp_path / "apparmor_restrict_unprivileged_userns"
    switch.write_text("1\n")
    good = "kernel.apparmor_restrict_unprivileged_userns=0"
    monkeypatch.setattr(prereqs, "_RESTRICTIONS", {str(switch): ("1", good)})
    monkeypatch.setattr(prereqs, "UNSHARE", [str(programs / "unshare")])
    monkeypatch.setattr(os, "geteuid", lambda: 1500)
    with pytest.raises(SandboxError, match=r"user namespaces are restricted") as failure:
        prereqs.check()
    assert failure.value.fix == f"run as root, or allow them: sudo sysctl -w {good}"


def test_a_kernel_without_nftables_is_told(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("haproxy", "nft"):
        put(programs / name, "exit 0")
    put(programs / "unshare", "echo 'Error: Could not process rule: Not supported'; exit 3")
    monkeypatch.setattr(prereqs, "UNSHARE", [str(programs / "unshare")])
    with pytest.raises(SandboxError, match=r"Not supported") as failure:
        prereqs.check()
    assert "modprobe nf_tables" in failure.value.fix


def test_this_machine_can_run_a_sandbox() -> None:
    prereqs.check()
