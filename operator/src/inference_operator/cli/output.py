"""How answers leave: documents for programs, or text for people. Foreign text is never read as markup."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final

import orjson
import yaml
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from .text import one_line

#: A pipe has no width: nothing may be cut or wrapped there.
_PIPE_WIDTH: Final = 10_000


def console() -> Console:
    """Of standard output; rich itself honours NO_COLOR and TERM."""
    return Console(
        highlight=False,
        markup=False,
        emoji=False,
        width=None if sys.stdout.isatty() else _PIPE_WIDTH,
    )


def write_document(document: dict[str, Any], form: str) -> None:
    """`form` is json or yaml."""
    if form == "json":
        sys.stdout.write(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n")
    else:
        sys.stdout.write(to_yaml(document))


class _Dumper(yaml.SafeDumper):
    """Repeats what occurs twice: nobody writes anchors into manifests."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def to_yaml(value: Any) -> str:
    """In the order of the keys, long lines whole."""
    return str(yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_PIPE_WIDTH))


def columns(headers: Sequence[str], rows: Sequence[Sequence[str | Text]], *, indent: int = 0) -> Padding:
    """A plain table as kubectl prints it; cells keep their width but the last, which wraps."""
    table = Table(box=None, pad_edge=False, show_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    for index, header in enumerate(headers):
        table.add_column(header, no_wrap=index < len(headers) - 1)
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(one_line(cell)) for cell in row))
    return Padding(table, (0, 0, 0, indent), expand=False)
