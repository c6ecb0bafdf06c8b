from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.gateway.rig import HAPROXY, Rig


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    if shutil.which(HAPROXY) is None:
        pytest.fail(f"the program {HAPROXY!r} is missing: `make prepare` installs it")
    rig = Rig(tmp_path)
    await rig.start()
    try:
        yield rig
    finally:
        await rig.stop()
