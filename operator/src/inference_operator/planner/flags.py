"""Flags of `vllm serve` per engine version, and how its parser reads an argument list.

vLLM refuses to start on an unknown flag, and flags come and go with each minor version (an image bump is then
a crash loop, as in ai-dynamo/dynamo#8693), so arguments are checked before any pod exists.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from .catalogue import read_data

Minor = tuple[int, int]


@dataclass(frozen=True)
class Flag:
    """One option of the engine."""

    name: str
    #: Values it takes: none, one, optional (none or one) or many (one or more).
    takes: str
    #: `--no-<name>` exists.
    negatable: bool = False
    #: May be given several times.
    repeats: bool = False
    #: int, float, json, count (8k = 8000, 8K = 8192) or countOrAuto when only that is read, else text.
    reads: str = "text"
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class FlagTable:
    """All flags of one version."""

    version: Minor
    flags: Mapping[str, Flag]
    #: Short spellings, e.g. -tp, to the long name.
    short: Mapping[str, str]
    #: Flags that other versions have, with "exists since 0.29", "was removed after 0.26" or "is gone, …".
    elsewhere: Mapping[str, str]


@dataclass
class Given:
    """One flag as the user gave it."""

    #: Index in spec.engine.args.
    index: int
    #: As written, without the value.
    spelled: str
    #: Canonical long name, without `.key` of a JSON flag and without `no-`.
    name: str
    #: What stands behind the first dot: --compilation-config.mode=3 -> mode.
    key: str = ""
    negated: bool = False
    values: list[str] = field(default_factory=list)
    #: The items of the argument list that make it up.
    items: list[str] = field(default_factory=list)

    @property
    def identity(self) -> str:
        """Two arguments of one identity overwrite each other."""
        return f"{self.name}.{self.key}" if self.key else self.name


def _minor(text: str) -> Minor:
    major, minor = text.split(".")
    return int(major), int(minor)


@cache
def _data() -> dict[str, Any]:
    data: dict[str, Any] = read_data("vllm_flags.json")
    return data


def known_versions() -> tuple[Minor, Minor]:
    """Oldest and newest minor version whose flags are known."""
    return _minor(_data()["oldest"]), _minor(_data()["newest"])


@cache
def flag_table(version: Minor) -> FlagTable:
    """Flags of a minor version within `known_versions`."""
    flags: dict[str, Flag] = {}
    short: dict[str, str] = {}
    elsewhere: dict[str, str] = {name: f"is gone, {instead}" for name, instead in _data()["gone"].items()}
    # Choices were read from the parser of this version; others add backends that it doesn't know.
    choices_known = version == _minor(_data()["choicesOf"])
    for name, row in _data()["flags"].items():
        if "since" in row and version < _minor(row["since"]):
            elsewhere[name] = f"exists since {row['since']}"
            continue
        if "until" in row and version > _minor(row["until"]):
            elsewhere[name] = f"was removed after {row['until']}"
            continue
        flags[name] = Flag(
            name=name,
            takes=row["takes"],
            negatable=row.get("negatable", False),
            repeats=row.get("repeats", False),
            reads=row.get("reads", "text"),
            choices=tuple(row.get("choices", ())) if choices_known else (),
        )
        short.update(dict.fromkeys(row.get("short", ()), name))
    return FlagTable(version, flags, short, elsewhere)


_NUMBER_OR_WORD = re.compile(r"^([^-]|-\d|-$)")


def split_args(args: Sequence[str], table: FlagTable) -> tuple[list[Given], list[tuple[int, str]]]:
    """Group an argument list as the engine's parser does; also (index, item) of items that belong to no flag.

    `--flag=value` and `--flag`, `value` are the same; underscores in a long name count as dashes; `-O2` is
    `--optimization-level 2`. Unknown flags are returned too, with the name they have: `table.flags` decides.
    """
    given: list[Given] = []
    stray: list[tuple[int, str]] = []
    for index, item in enumerate(args):
        if item.startswith("-") and not _NUMBER_OR_WORD.match(item):
            given.append(_read_flag(index, item, table))
        elif given and _wants_more(given[-1], table):
            given[-1].values.append(item)
            given[-1].items.append(item)
        else:
            stray.append((index, item))
    return given, stray


def _read_flag(index: int, item: str, table: FlagTable) -> Given:
    spelled, has_value, value = item.partition("=")
    if item.startswith("-O"):
        level = item[2:].removeprefix("=")
        return Given(index, "-O", "--optimization-level", values=[level] if level else [], items=[item])
    name, _, key = spelled.partition(".")
    if name.startswith("--"):
        name = name.replace("_", "-")
    name = table.short.get(name, name)
    negated = False
    positive = "--" + name.removeprefix("--no-")
    if name.startswith("--no-") and name not in table.flags:
        flag = table.flags.get(positive)
        negated = flag is not None and flag.negatable
    return Given(
        index,
        spelled,
        positive if negated else name,
        key=key,
        negated=negated,
        values=[value] if has_value else [],
        items=[item],
    )


def _wants_more(given: Given, table: FlagTable) -> bool:
    """Does the next bare item belong to this flag?"""
    # A value behind "=" is the only one: the parser reads what follows as something else.
    if "=" in given.items[0]:
        return False
    flag = table.flags.get(given.name)
    if flag is None or given.key:
        return not given.values
    if flag.takes == "none" or given.negated:
        return False
    return flag.takes == "many" or not given.values
