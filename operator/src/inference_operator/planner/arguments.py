"""Checks of spec.engine.args against the flags of the engine's version."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from ..api.conditions import Reason
from ..api.v1alpha1 import InferenceClusterSpec
from ..core.model import Problem
from .catalogue import nearest, nearest_first
from .flags import Flag, FlagTable, Given, Minor, flag_table, split_args
from .reserved import flag_reason

FIELD = "spec.engine.args"
#: Unknown flags that get a suggestion: each costs the event loop some milliseconds, and a message holds few.
SUGGESTIONS = 3
#: Requests at once that one engine can be asked for: sixteen times vLLM's largest default.
MOST_SEQUENCES = 16_384

#: What a flag reads: the pattern and its name in a message.
_READS = {
    "int": (re.compile(r"^-?\d+$"), "a whole number"),
    "float": (re.compile(r"^-?(\d+\.?\d*|\.\d+)([eE]-?\d+)?$"), "a number"),
    "count": (re.compile(r"^\d+([KMGT]|(\.\d+)?[kmgt])?$"), "a number such as 8192 or 8k"),
    "countOrAuto": (
        re.compile(r"^(\d+([KMGT]|(\.\d+)?[kmgt])?|-1|auto)$"),
        "a number such as 8192 or 8k, or auto",
    ),
}
_HUMAN = re.compile(r"^(\d+)([kKmM]?)$")
_HUMAN_FACTOR = {"": 1, "k": 1000, "K": 1024, "m": 1_000_000, "M": 1_048_576}
_COMMIT = re.compile(r"^[0-9a-f]{40}$")


@dataclass(frozen=True)
class UserArguments:
    """What the user's arguments say, once they have no problem."""

    #: Items to append to the operator's own.
    rest: tuple[str, ...]
    #: Value of --max-num-seqs, which the operator renders itself.
    max_num_seqs: int | None = None
    sets_max_model_len: bool = False
    #: Value of --max-model-len in tokens; None = not given, or left to the engine (auto).
    max_model_len: int | None = None
    #: --hf-overrides can stretch the context beyond what the model's own config says.
    overrides_config: bool = False


NO_ARGUMENTS = UserArguments(())


def read_arguments(spec: InferenceClusterSpec, table: FlagTable) -> tuple[UserArguments, tuple[Problem, ...]]:
    """What spec.engine.args says and everything that is wrong with it."""
    given, stray = split_args(spec.engine.args, table)
    problems = [
        _problem(i, Reason.ARGUMENT_INVALID, f"{item!r} belongs to no flag: write --flag={item}")
        for i, item in stray
    ]
    seen: dict[str, Given] = {}
    for one in given:
        unknown = sum(problem.reason is Reason.ARGUMENT_UNKNOWN for problem in problems)
        problems.extend(_check(one, spec, table, suggest=unknown < SUGGESTIONS))
        first = seen.setdefault(one.identity, one)
        flag = table.flags.get(one.name)
        repeats = one.key.endswith("+") or (flag is not None and flag.repeats)
        if first is not one and not repeats:
            text = f"{one.spelled} was given before as {FIELD}[{first.index}]: remove one of the two"
            problems.append(_problem(one.index, Reason.ARGUMENT_INVALID, text))
    problems.sort(key=lambda problem: int(problem.field[len(FIELD) + 1 : -1]))
    return _summary(given), tuple(problems)


def _summary(given: Sequence[Given]) -> UserArguments:
    by_name = {one.name: one for one in given}

    def value(name: str) -> int | None:
        one = by_name.get(name)
        match = _HUMAN.match(one.values[0]) if one and one.values else None
        return int(match[1]) * _HUMAN_FACTOR[match[2]] if match else None

    return UserArguments(
        rest=tuple(item for one in given if one.name != "--max-num-seqs" for item in one.items),
        max_num_seqs=value("--max-num-seqs"),
        sets_max_model_len="--max-model-len" in by_name,
        max_model_len=value("--max-model-len"),
        overrides_config="--hf-overrides" in by_name,
    )


def _check(one: Given, spec: InferenceClusterSpec, table: FlagTable, *, suggest: bool) -> Iterator[Problem]:
    """Problems of one flag, the most useful one only."""
    why = flag_reason(one.name)
    if one.name == "--max-model-len" and spec.model.context_length is not None:
        why = "spec.model.contextLength sets it: remove one of the two"
    if why is not None:
        yield _problem(one.index, Reason.ARGUMENT_RESERVED, f"{one.spelled} can't be set here: {why}")
        return
    flag = table.flags.get(one.name)
    if flag is None:
        yield _unknown(one, table, suggest=suggest)
        return
    if one.name == "--trust-remote-code" and not one.negated and not _pinned(spec):
        yield _problem(
            one.index,
            Reason.ARGUMENT_INVALID,
            "--trust-remote-code runs Python from the model's repository, so what runs has to be fixed: set "
            "spec.model.revision to a full commit (40 hex digits) or use spec.model.source."
            "persistentVolumeClaim",
        )
    text = _value_fault(one, flag)
    if text is not None:
        yield _problem(one.index, Reason.ARGUMENT_INVALID, text)


def _pinned(spec: InferenceClusterSpec) -> bool:
    source = spec.model.source
    on_volume = source is not None and source.persistent_volume_claim is not None
    return on_volume or _COMMIT.match(spec.model.revision or "") is not None


def _unknown(one: Given, table: FlagTable, *, suggest: bool) -> Problem:
    version = ".".join(map(str, table.version))
    elsewhere = table.elsewhere.get(one.name)
    if elsewhere is not None:
        text = f"vLLM {version} has no {one.spelled}: the flag {elsewhere}"
    else:
        near = nearest(one.spelled.replace("_", "-"), _free_spellings(table.version)) if suggest else []
        text = f"vLLM {version} has no {one.spelled}" + (f"; nearest: {', '.join(near)}" if near else "")
    return _problem(one.index, Reason.ARGUMENT_UNKNOWN, text)


@cache
def _free_spellings(table_version: Minor) -> tuple[str, ...]:
    """Every way to write a flag that users may set."""
    table = flag_table(table_version)
    negated = ("--no-" + flag.name[2:] for flag in table.flags.values() if flag.negatable)
    spellings = (*table.flags, *table.short, *negated)
    return tuple(
        name
        for name in spellings
        if flag_reason(table.short.get(name, name)) is None
        and flag_reason("--" + name.removeprefix("--no-")) is None
    )


def _value_fault(one: Given, flag: Flag) -> str | None:
    """What is wrong with the value, if anything."""
    if one.key:
        return None if one.values else f"{one.spelled} needs a value: write {one.spelled}=VALUE"
    takes = "none" if one.negated else flag.takes
    if takes == "none":
        return f"{one.spelled} takes no value, but got {one.values[0]!r}" if one.values else None
    if not one.values and takes != "optional":
        return f"{one.spelled} needs a value: write {one.spelled}=VALUE"
    for value in one.values:
        if flag.choices and value not in flag.choices:
            legal = ", ".join(nearest_first(value, flag.choices))
            return f"{one.spelled} has no choice {value!r}; legal, nearest first: {legal}"
        if flag.reads == "json" and not _is_json(value):
            return f"{one.spelled} takes JSON, but got {value!r}"
        pattern, words = _READS.get(flag.reads, (None, ""))
        if pattern is not None and not pattern.match(value):
            return f"{one.spelled} takes {words}, but got {value!r}"
    if one.name == "--max-num-seqs" and not 1 <= int(one.values[0]) <= MOST_SEQUENCES:
        return f"{one.spelled} has to be at least 1 and at most {MOST_SEQUENCES}, but is {one.values[0]}"
    return None


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _problem(index: int, reason: Reason, message: str) -> Problem:
    return Problem(f"{FIELD}[{index}]", reason, message)
