"""An operator of the next version: this package with one deliberate change in how it renders engines."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from sandbox.images import NEXT_SOURCE, REPOSITORY

IMAGE = "ghcr.io/inferencecluster/inference-operator-next"
_PACKAGE = "inference_operator"
_ENGINE = f"{_PACKAGE}/render/engine.py"
#: Every engine template of the changed operator has one more environment variable.
_BEFORE = '"DO_NOT_TRACK": "1",'
_AFTER = _BEFORE + ' "NEXT_OPERATOR": "1",'


@contextmanager
def changed_operator() -> Iterator[str]:
    """The image repository of an operator that renders engines differently; gone afterwards."""
    shutil.rmtree(NEXT_SOURCE, ignore_errors=True)
    shutil.copytree(REPOSITORY / "operator" / "src" / _PACKAGE, NEXT_SOURCE / _PACKAGE)
    path = NEXT_SOURCE / _ENGINE
    source = path.read_text()
    if source.count(_BEFORE) != 1:
        raise RuntimeError(f"{_ENGINE} has no single {_BEFORE}: adapt the change to today's rendering")
    path.write_text(source.replace(_BEFORE, _AFTER))
    try:
        yield IMAGE
    finally:
        shutil.rmtree(NEXT_SOURCE, ignore_errors=True)
