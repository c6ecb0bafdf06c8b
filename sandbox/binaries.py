"""The Kubernetes programs: built once from `sandbox/tools/go.mod`, kept in the user's cache directory.

No package index holds a kube-apiserver, and upstream's download hosts are not reachable from every machine,
so the sandbox compiles the released modules (their checksums stand in go.sum). A set of binaries lives in a
folder named by a hash of everything that decides its content; it is built in a temporary folder and renamed
when whole, so an interrupted build is never taken for a finished one.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from sandbox.errors import SandboxError
from sandbox.state import tail

TOOLS = Path(__file__).parent / "tools"
KUBERNETES = "v1.37.2"
HELM = "v4.3.1"
GO_MINIMUM = (1, 26)
# Where Go's own installation instructions put it, on PATH or not.
GO_FALLBACK = "/usr/local/go/bin"

# Without -X the programs call themselves v0.0.0-master+$Format and fail version skew checks.
LDFLAGS = " ".join(
    [
        "-s",
        "-w",
        f"-X k8s.io/component-base/version.gitVersion={KUBERNETES}",
        "-X k8s.io/component-base/version.gitMajor=1",
        "-X k8s.io/component-base/version.gitMinor=37",
        "-X k8s.io/component-base/version.gitTreeState=clean",
        f"-X k8s.io/client-go/pkg/version.gitVersion={KUBERNETES}",
        f"-X helm.sh/helm/v4/internal/version.version={HELM}",
    ]
)
BUILD_ENVIRONMENT = {"CGO_ENABLED": "0"}
BUILD_FLAGS = ["-trimpath", "-ldflags", LDFLAGS]
PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kube-proxy": "k8s.io/kubernetes/cmd/kube-proxy",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "coredns": "github.com/coredns/coredns",
    "helm": "helm.sh/helm/v4/cmd/helm",
}
PREBUILT_VARIABLE = "INFERENCE_SANDBOX_BIN"

Progress = Callable[[str], None]


def cache_dir() -> Path:
    """`$XDG_CACHE_HOME/inference-operator/sandbox`, default below `~/.cache`."""
    configured = os.environ.get("XDG_CACHE_HOME")
    home = Path(configured) if configured and Path(configured).is_absolute() else Path.home() / ".cache"
    return home / "inference-operator" / "sandbox"


def fingerprint(tools: Path = TOOLS) -> str:
    """Twelve hex digits that change with anything that changes the binaries."""
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum"):
        digest.update((tools / name).read_bytes())
    digest.update(repr((sorted(BUILD_ENVIRONMENT.items()), BUILD_FLAGS, sorted(PACKAGES.items()))).encode())
    return digest.hexdigest()[:12]


def ensure(progress: Progress = lambda _: None) -> Path:
    """The folder with all the programs; builds them when they are not there yet (about ten minutes, once).

    Raises SandboxError when a prebuilt set is incomplete, Go is missing or too old, or a build fails.
    """
    prebuilt = os.environ.get(PREBUILT_VARIABLE)
    if prebuilt:
        return _checked(Path(prebuilt))
    target = cache_dir() / f"bin-{fingerprint()}"
    if target.is_dir():
        return target
    cache_dir().mkdir(parents=True, exist_ok=True)
    with _build_lock(progress):
        # Another `up` may have finished the build while this one waited for the lock.
        if not target.is_dir():
            _build(target, progress)
    return target


def find_go() -> Path:
    """The Go toolchain; raises SandboxError when there is none or it is older than the modules ask for."""
    found = shutil.which("go") or shutil.which("go", path=GO_FALLBACK)
    fix = (
        f"install Go {GO_MINIMUM[0]}.{GO_MINIMUM[1]} or newer and put it on PATH, "
        f"or set {PREBUILT_VARIABLE} to a folder that holds {', '.join(PACKAGES)}"
    )
    if not found:
        raise SandboxError(
            "no Go toolchain to build the Kubernetes programs with",
            where=f"PATH and {GO_FALLBACK}",
            why="the sandbox compiles them once from released modules",
            fix=fix,
        )
    # GOTOOLCHAIN=local: the question is what is installed, not what go could download for this folder.
    output = subprocess.run(
        [found, "version"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"GOTOOLCHAIN": "local"},
    ).stdout
    match = re.search(r"go(\d+)\.(\d+)", output)
    if not match or (int(match[1]), int(match[2])) < GO_MINIMUM:
        raise SandboxError(
            "the Go toolchain is too old", where=found, why=output.strip() or "no version", fix=fix
        )
    return Path(found)


def _checked(folder: Path) -> Path:
    missing = [name for name in PACKAGES if not os.access(folder / name, os.X_OK)]
    if missing:
        raise SandboxError(
            f"the prebuilt set lacks {', '.join(missing)}",
            where=str(folder),
            why=f"{PREBUILT_VARIABLE} points there",
            fix=f"complete the folder, or unset {PREBUILT_VARIABLE} to build the set",
        )
    return folder.resolve()


@contextlib.contextmanager
def _build_lock(progress: Progress) -> Iterator[None]:
    with (cache_dir() / "build.lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("waiting for another build of the Kubernetes programs to finish")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(target: Path, progress: Progress) -> None:
    go = find_go()
    for stale in cache_dir().glob(
        "*.partial"
    ):  # only the holder of the lock builds, so nobody is using these
        shutil.rmtree(stale)
    partial = target.with_suffix(".partial")
    partial.mkdir()
    log = cache_dir() / "build.log"
    with log.open("w") as output:
        for number, (name, package) in enumerate(PACKAGES.items(), 1):
            progress(f"building {name} ({number} of {len(PACKAGES)}; about ten minutes for all, once)")
            done = subprocess.run(
                [go, "build", *BUILD_FLAGS, "-o", partial / name, package],
                cwd=TOOLS,
                env=os.environ | BUILD_ENVIRONMENT,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            )
            if done.returncode != 0:
                raise SandboxError(
                    f"building {name} failed with exit code {done.returncode}",
                    where=f"{package} in {TOOLS}, log in {log}",
                    why=tail(log),
                    fix="the Go modules come from GOPROXY: check that it is reachable, then run `up` again; "
                    "finished parts are in Go's build cache",
                )
    partial.rename(target)
