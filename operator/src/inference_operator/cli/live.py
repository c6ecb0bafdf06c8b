"""A view on a terminal that looks again and again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from .errors import PluginError
from .output import console


async def keep_showing(look: Callable[[], Awaitable[RenderableType]], seconds: float) -> None:
    """Show what `look` gives, again every `seconds`, until the task is cancelled (Ctrl-C).

    The first look may fail: a wrong name or missing rights end the command. A later one leaves what was seen
    last, and says so.
    """
    seen = await look()
    remark = _seen_now()
    with Live(console=console(), auto_refresh=False) as live:
        while True:
            live.update(Group(seen, Text(), remark), refresh=True)
            await asyncio.sleep(seconds)
            try:
                seen = await look()
                remark = _seen_now()
            except PluginError as error:
                remark = Text(f"{time.strftime('%H:%M:%S')} not seen: {error}", style="red")


def _seen_now() -> Text:
    return Text(f"{time.strftime('%H:%M:%S')} seen; Ctrl-C ends it", style="dim")
