"""What the sandbox needs from the machine, checked before anything starts."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from sandbox.errors import SandboxError

# Program -> Debian package.
PROGRAMS = {
    "haproxy": "haproxy",
    "bwrap": "bubblewrap",
    "ip": "iproute2",
    "nft": "nftables",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "mount": "mount",
    "openssl": "openssl",
}
# Debian keeps haproxy, ip and nft where an ordinary user's PATH does not look.
SYSTEM_PATH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"

# A PID namespace of its own means that nothing survives the process that made it; the network namespace lets
# the plane use the real Service and pod ranges; both without root, because of the user namespace (-U, -r).
UNSHARE = ["unshare", "-Urnmpf", "--mount-proc", "--kill-child=KILL"]

_RESTRICTIONS = {
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": (
        "1",
        "kernel.apparmor_restrict_unprivileged_userns=0",
    ),
    "/proc/sys/kernel/unprivileged_userns_clone": ("0", "kernel.unprivileged_userns_clone=1"),
    "/proc/sys/user/max_user_namespaces": ("0", "user.max_user_namespaces=15000"),
}


def search_path() -> str:
    """PATH with the system directories added."""
    return f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}".lstrip(":")


def missing() -> list[str]:
    """The programs that are not installed."""
    return [program for program in PROGRAMS if not shutil.which(program, path=search_path())]


def check() -> None:
    """Install what is missing where that is possible, and prove that namespaces and nftables work.

    Raises SandboxError with the command that repairs it.
    """
    absent = missing()
    if absent:
        _install(absent)
    _probe_namespaces()


def _install(absent: list[str]) -> None:
    packages = sorted({PROGRAMS[program] for program in absent})
    command = f"apt-get install -y --no-install-recommends {' '.join(packages)}"
    apt = shutil.which("apt-get", path=search_path())
    why = "the sandbox runs pods as isolated local processes"
    if os.geteuid() != 0 or not apt:
        fix = (
            f"sudo {command}" if apt else f"install {', '.join(packages)} with this system's package manager"
        )
        raise SandboxError(f"missing programs: {', '.join(absent)}", where="PATH", why=why, fix=fix)
    done = subprocess.run(
        [apt, *command.split()[1:]],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"},
    )
    still = missing()
    if still:
        raise SandboxError(
            f"missing programs: {', '.join(still)}",
            where=command,
            why=(done.stderr or done.stdout).strip()[-600:],
            fix=f"apt-get update && {command}",
        )


def _probe_namespaces() -> None:
    nft = "nft add table inet sandbox_probe"
    done = subprocess.run(
        [*UNSHARE, "sh", "-c", f"{nft} 2>&1 || exit 3"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PATH": search_path()},
    )
    if done.returncode == 0:
        return
    if done.returncode == 3:
        raise SandboxError(
            "nftables does not work inside a namespace",
            where=nft,
            why=done.stdout.strip(),
            fix="load the kernel module: sudo modprobe nf_tables (kube-proxy and network cuts need it)",
        )
    raise SandboxError(
        "user namespaces are restricted here, the sandbox needs them",
        where=" ".join(UNSHARE),
        why=done.stderr.strip(),
        fix=_namespace_fix(),
    )


def _namespace_fix() -> str:
    if os.geteuid() == 0:
        return "run where CAP_SYS_ADMIN is allowed (a container needs --privileged)"
    for file, (bad, good) in _RESTRICTIONS.items():
        path = Path(file)
        if path.exists() and path.read_text().strip() == bad:
            return f"run as root, or allow them: sudo sysctl -w {good}"
    return "run as root"
