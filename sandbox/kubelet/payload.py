"""Files of ConfigMap, Secret, projected and downwardAPI volumes, and their update in one step."""

from __future__ import annotations

import base64
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

JSON = dict[str, Any]
Files = dict[str, tuple[bytes, int]]
"""relative path -> (content, mode)"""
DEFAULT_MODE = 0o644


class MissingKey(Exception):
    """An item names a key that the object doesn't hold."""


def object_files(kind: str, item: JSON, source: JSON, default_mode: int) -> Files:
    """The files that `source` (a configMap or secret volume source) makes of the object.

    kind: "configmaps" or "secrets". Raises MissingKey unless the source is optional.
    """
    contents = _contents(kind, item)
    if source.get("items") is None:
        return {key: (content, default_mode) for key, content in contents.items()}
    files: Files = {}
    for entry in source["items"]:
        if entry["key"] in contents:
            files[entry["path"]] = (contents[entry["key"]], entry.get("mode", default_mode))
        elif not source.get("optional"):
            raise MissingKey(f"{kind} {item['metadata']['name']!r} has no key {entry['key']!r}")
    return files


def _contents(kind: str, item: JSON) -> dict[str, bytes]:
    if kind == "secrets":
        return {key: base64.b64decode(value) for key, value in (item.get("data") or {}).items()}
    texts = {key: value.encode() for key, value in (item.get("data") or {}).items()}
    return texts | {key: base64.b64decode(value) for key, value in (item.get("binaryData") or {}).items()}


def mode_for(mode: int, *, root: bool, fs_group: bool) -> int:
    """The mode that lets the container do what it could do on a real node.

    There the files belong to root, and to fsGroup, which may always read them; here every file belongs to
    the container's user. So the owner's bits say what group or others may do: without fsGroup a file of mode
    0400 can't be read by a container that doesn't run as root.
    """
    if fs_group:
        mode |= 0o440
    if root:
        return mode
    return mode & 0o077 | (mode << 3 if fs_group else mode << 6) & 0o700


def write(directory: Path, files: Mapping[str, tuple[bytes, int]]) -> bool:
    """Make the volume show exactly `files`; returns whether anything changed.

    As the kubelet's AtomicWriter: the files lie in a directory of their own that the symlink `..data` points
    to, NAME -> ..data/NAME, and the rename of that symlink switches all files at once. A container sees it
    only when the directory is mounted, not one file (subPath).
    """
    directory.mkdir(parents=True, exist_ok=True)
    data = directory / "..data"
    old = directory / data.readlink() if data.is_symlink() else None
    if old is not None and _read(old) == dict(files):
        return False
    new = Path(tempfile.mkdtemp(prefix="..", dir=directory))
    new.chmod(0o755)
    for name, (content, mode) in files.items():
        path = new / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(mode)
    fresh = directory / "..data_tmp"
    fresh.symlink_to(new.name)
    fresh.rename(data)
    _link_names(directory, {Path(name).parts[0] for name in files})
    if old is not None:
        shutil.rmtree(old)
    return True


def _link_names(directory: Path, names: set[str]) -> None:
    for path in directory.iterdir():
        if path.is_symlink() and not path.name.startswith("..") and path.name not in names:
            path.unlink()
    for name in names:
        link = directory / name
        if not link.is_symlink():
            link.symlink_to(Path("..data", name))


def _read(directory: Path) -> Files:
    return {
        str(path.relative_to(directory)): (path.read_bytes(), path.stat().st_mode & 0o777)
        for path in directory.rglob("*")
        if path.is_file()
    }
