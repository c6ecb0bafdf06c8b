"""Files replaced as a whole: a reader sees the old one or the new one, also after a crash in between.

They are not flushed to a disk: they die with the node as the pod does.
"""

from __future__ import annotations

import asyncio
from pathlib import Path


def replace(path: Path, text: str) -> None:
    """Write beside the target, then rename over it. The folder is the pod's own: nobody else writes there."""
    beside = path.with_name(path.name + ".new")
    with beside.open("w", encoding="utf-8") as stream:
        stream.write(text)
    beside.replace(path)


async def replace_later(path: Path, text: str) -> None:
    """The same off the event loop."""
    await asyncio.to_thread(replace, path, text)
