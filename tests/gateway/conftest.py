from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.gateway.rig import HAPROXY, Rig


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    if shutil.which(HAPROXY) is None:
        pytest.skip(f"needs the program {HAPROXY!r} (Debian: apt-get install haproxy)")
    rig = Rig(tmp_path)
    await rig.start()
    try:
        yield rig
    finally:
        await rig.stop()
