"""How answers leave: documents for programs, or text for people. Foreign text is never read as markup."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from typing import Any, Final, TextIO

import orjson
import yaml
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from .text import one_line

#: A pipe has no width: nothing may be cut or wrapped there.
_PIPE_WIDTH: Final = 10_000


def console(file: TextIO | None = None, width: int | None = None) -> Console:
    """Of standard output, or another file; rich itself honours NO_COLOR and TERM."""
    return Console(file=file, width=width, highlight=False, markup=False, emoji=False)


def show(renderable: RenderableType) -> None:
    """Print it once: fitted to a terminal, or whole and without the blanks that fill a line."""
    if sys.stdout.isatty():
        console().print(renderable, crop=False)
        return
    text = io.StringIO()
    console(text, _PIPE_WIDTH).print(renderable)
    sys.stdout.writelines(f"{line.rstrip()}\n" for line in text.getvalue().splitlines())


def indented(renderable: RenderableType, by: int = 2) -> Padding:
    """Set in by so many columns."""
    return Padding(renderable, (0, 0, 0, by), expand=False)


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


class _Whole:
    """A table that is never squeezed: a line that is longer than the terminal goes on in the next, as in
    kubectl, since half a name is none. (A live view cuts it at the edge.)"""

    def __init__(self, table: Table) -> None:
        self._table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        natural = Measurement.get(console, options.update_width(_PIPE_WIDTH), self._table).maximum
        yield from console.render(self._table, options.update_width(natural))


def columns(
    headers: Sequence[str], rows: Sequence[Sequence[str | Text]], *, indent: int = 0
) -> RenderableType:
    """A plain table as kubectl prints it."""
    table = Table(box=None, pad_edge=False, show_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    margin = " " * indent
    for index, header in enumerate(headers):
        table.add_column(margin + header if index == 0 else header, no_wrap=True)
    for row in rows:
        first, *rest = (cell if isinstance(cell, Text) else Text(one_line(cell)) for cell in row)
        table.add_row(Text(margin).append_text(first), *rest)
    return _Whole(table)
