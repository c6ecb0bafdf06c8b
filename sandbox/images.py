"""What an image reference means in the sandbox: which local program stands in for the container image.

There is no container runtime and no registry. An image is a table entry: launcher scripts (put first on the
PATH of the container), user, stop signal, default command, environment and host paths to bind read-only.
"""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
LAUNCHERS = "/opt/image/bin"
PATH = f"{LAUNCHERS}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_BROKEN = "-broken"
_REFERENCE = re.compile(
    r"(?P<repository>[a-z0-9][a-z0-9._/:-]*?)(?::(?P<tag>[\w][\w.-]{0,127}))?(?:@sha256:[0-9a-f]{64})?"
)


class ImageError(Exception):
    """The image can't be used; `reason` is the container's waiting reason, as the real kubelet words it."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class Image:
    """One table entry. `entrypoint` and `arguments` are the image's ENTRYPOINT and CMD.

    launchers: file name -> shell script; binds: host paths that show read-only at the same path inside.
    """

    name: str
    entrypoint: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    user: int = 0
    home: str = "/root"
    stop_signal: signal.Signals = signal.SIGTERM
    environment: Mapping[str, str] = field(default_factory=dict)
    launchers: Mapping[str, str] = field(default_factory=dict)
    binds: tuple[str, ...] = ()


def _python_binds() -> tuple[str, ...]:
    """The interpreter that runs the sandbox: its virtual environment and the installation behind that."""
    prefixes = dict.fromkeys((sys.prefix, sys.base_prefix))
    return tuple(prefix for prefix in prefixes if not Path(prefix).is_relative_to("/usr"))


def _script(command: str) -> str:
    return f'#!/bin/sh\nexec {command} "$@"\n'


_PYTHON = _script(f"'{sys.executable}'")
_VENV_BIN = Path(sys.prefix) / "bin"
_OPERATOR_SOURCE = str(REPOSITORY / "operator" / "src")

# docker-entrypoint.sh of the official haproxy image: options alone mean haproxy, and haproxy gets -W -db.
_HAPROXY_ENTRYPOINT = """#!/bin/sh
case "$1" in -*) set -- haproxy "$@" ;; esac
if [ "$1" = haproxy ]; then shift; set -- haproxy -W -db "$@"; fi
exec "$@"
"""

_TOOLS = Image("tools", arguments=("sh",), launchers={"python3": _PYTHON}, binds=_python_binds())
_HAPROXY = Image(
    "haproxy",
    entrypoint=("docker-entrypoint.sh",),
    arguments=("haproxy", "-f", "/usr/local/etc/haproxy/haproxy.cfg"),
    user=99,
    home="/var/lib/haproxy",
    # SIGTERM is HAProxy's hard stop; the official image declares STOPSIGNAL SIGUSR1, the soft one.
    stop_signal=signal.SIGUSR1,
    launchers={"docker-entrypoint.sh": _HAPROXY_ENTRYPOINT},
)
_OPERATOR = Image(
    "operator",
    entrypoint=("inference-operator",),
    user=65532,
    home="/home/nonroot",
    environment={"PYTHONSAFEPATH": "1", "PYTHONUNBUFFERED": "1"},
    launchers={
        "inference-operator": _script(f"'{_VENV_BIN / 'inference-operator'}'"),
        "inference-agent": _script(f"'{_VENV_BIN / 'inference-agent'}'"),
        "inference-metrics": _script(f"'{_VENV_BIN / 'inference-metrics'}'"),
        "python3": _PYTHON,
    },
    binds=(*_python_binds(), _OPERATOR_SOURCE),
)
#: A copy of the package that someone changed, to try an operator upgrade: see tests/bench/upgrade.py.
NEXT_SOURCE = REPOSITORY / "build" / "next"
_OPERATOR_NEXT = replace(
    _OPERATOR,
    name="operator-next",
    environment={**_OPERATOR.environment, "PYTHONPATH": str(NEXT_SOURCE)},
    binds=(*_OPERATOR.binds, str(NEXT_SOURCE)),
)
_VLLM = Image(
    "vllm",
    # ENTRYPOINT is `vllm serve` since vLLM 0.11.1; the simulator takes the same words.
    entrypoint=("vllm", "serve"),
    user=2000,
    home="/home/vllm",
    environment={"PYTHONPATH": str(REPOSITORY), "PYTHONUNBUFFERED": "1"},
    launchers={"vllm": _script(f"'{sys.executable}' -m sandbox.engine"), "python3": _PYTHON},
    binds=(*_python_binds(), _OPERATOR_SOURCE, str(REPOSITORY / "sandbox")),
)

IMAGES: Mapping[str, Image] = {
    "vllm/vllm-openai": _VLLM,
    "haproxy": _HAPROXY,
    "ghcr.io/inferencecluster/inference-operator-next": _OPERATOR_NEXT,
    "ghcr.io/inferencecluster/inference-operator": _OPERATOR,
    "sandbox/tools": _TOOLS,
    "busybox": _TOOLS,
    "debian": _TOOLS,
}

USERS: Mapping[str, tuple[int, str]] = {
    "root": (0, "/root"),
    "haproxy": (99, "/var/lib/haproxy"),
    "vllm": (2000, "/home/vllm"),
    "nonroot": (65532, "/home/nonroot"),
    "nobody": (65534, "/"),
}
"""name -> (uid = gid, home): the /etc/passwd of every container."""


def find_image(reference: str) -> Image:
    """The entry for `reference`, whatever its tag or digest.

    Raises ImageError: InvalidImageName for what is no reference, ErrImagePull for an image that isn't in the
    table or whose tag ends in `-broken`.
    """
    repository = check_pullable(reference).removeprefix("docker.io/").removeprefix("library/")
    for name, image in IMAGES.items():
        if repository == name or repository.startswith((f"{name}-", f"{name}/")):
            return image
    raise ImageError("ErrImagePull", f"{reference}: not found (the sandbox knows {', '.join(IMAGES)})")


def check_pullable(reference: str) -> str:
    """The repository of a reference that is well formed and not made to fail. Raises ImageError."""
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        message = f"couldn't parse image name {reference!r}: invalid reference format"
        raise ImageError("InvalidImageName", message)
    if (match["tag"] or "").endswith(_BROKEN):
        raise ImageError("ErrImagePull", f"{reference}: not found (tags ending in {_BROKEN} never pull)")
    return match["repository"]


def write_launchers(directory: Path) -> None:
    """Generate DIRECTORY/NAME/bin/* for every entry."""
    for image in IMAGES.values():
        folder = directory / image.name / "bin"
        folder.mkdir(parents=True, exist_ok=True)
        for name, script in image.launchers.items():
            path = folder / name
            path.write_text(script)
            path.chmod(0o755)
