"""Faults to switch on: at start by INFERENCE_SIM_FAULTS or --revision, later by the control port."""

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any, Final

REVISION_PREFIX: Final = "fault-"

# `"crash": true` is short for `"crash_after_seconds": 0`.
TIMED: Final = ("crash", "exit0", "freeze_core", "core_dead")
LOAD_ONLY: Final = ("oom_at_load", "load_seconds", "hang_at_load")


class FaultError(ValueError):
    """A fault setting that makes no sense; the message names the fault and what it takes."""


@dataclass(frozen=True, slots=True)
class Faults:
    """The faults in force. Seconds count from the moment the setting was made (process start or POST)."""

    crash_after_seconds: float | None = None
    exit0_after_seconds: float | None = None
    freeze_core_after_seconds: float | None = None
    core_dead_after_seconds: float | None = None
    slow: float = field(default=1.0, metadata={"range": (0.01, 10_000)})
    error_rate: float = field(default=0.0, metadata={"range": (0, 1)})
    truncate_rate: float = field(default=0.0, metadata={"range": (0, 1)})
    truncate_after_tokens: int = field(default=3, metadata={"range": (0, 1_000_000)})
    wrong_model: str | None = None
    wrong_answers: bool = False
    oom_at_load: bool = False
    hang_at_load: bool = False
    load_seconds: float | None = None

    def merged(self, changes: dict[str, Any]) -> "Faults":
        """These faults with the changes on top; raises FaultError on an unknown name or a bad value."""
        values = dict(changes)
        for name in TIMED:
            if name in values:
                switch = _checked(name, "bool", values.pop(name), (0, 1))
                values.setdefault(f"{name}_after_seconds", 0.0 if switch else None)
        known = {entry.name: entry for entry in dataclasses.fields(self)}
        for name, value in values.items():
            if name not in known:
                raise FaultError(f"unknown fault {name!r}; known are {', '.join([*TIMED, *known])}")
            values[name] = _checked(name, _kind(known[name]), value, known[name].metadata.get("range"))
        return dataclasses.replace(self, **values)

    def active(self) -> dict[str, Any]:
        """Only what differs from a healthy engine, as JSON-ready values."""
        healthy = Faults()
        return {
            entry.name: getattr(self, entry.name)
            for entry in dataclasses.fields(self)
            if getattr(self, entry.name) != getattr(healthy, entry.name)
        }


def _kind(entry: "dataclasses.Field[Any]") -> str:
    return entry.type.__name__ if isinstance(entry.type, type) else str(entry.type)


def _checked(name: str, kind: str, value: Any, limits: tuple[float, float] | None) -> Any:
    if value is None and "None" in kind:
        return None
    if kind == "bool" and isinstance(value, bool):
        return value
    if kind.startswith("str") and isinstance(value, str) and value:
        return value
    low, high = limits or (0, float("inf"))
    if kind.startswith(("float", "int")) and isinstance(value, int | float) and not isinstance(value, bool):
        if low <= value <= high:
            return int(value) if kind.startswith("int") else float(value)
        raise FaultError(f"fault {name} must be between {low} and {high}, got {value}")
    raise FaultError(f"fault {name} takes a {kind.split(' ')[0]}, got {value!r}")


def from_environment(text: str, revision: str | None) -> Faults:
    """The faults wanted at start; `text` is JSON, `revision` acts only with the form below.

    `--revision fault-error_rate-0.5-slow-3` carries pairs of name and JSON value. It lets a rollout to a bad
    model revision be played through with nothing but the custom resource, and holds only characters that
    are legal in a git reference and in a label value.
    """
    faults = Faults()
    if text:
        try:
            changes = json.loads(text)
        except ValueError as error:
            raise FaultError(f"INFERENCE_SIM_FAULTS is not JSON ({error}): {text}") from None
        if not isinstance(changes, dict):
            raise FaultError(f"INFERENCE_SIM_FAULTS must be a JSON object, got {text}")
        faults = faults.merged(changes)
    if revision and revision.startswith(REVISION_PREFIX):
        faults = faults.merged(_revision_pairs(revision))
    return faults


def _revision_pairs(revision: str) -> dict[str, Any]:
    words = revision.removeprefix(REVISION_PREFIX).split("-")
    if len(words) % 2:
        raise FaultError(f"--revision {revision} must be fault-NAME-VALUE, with further -NAME-VALUE pairs")
    pairs: dict[str, Any] = {}
    for name, value in zip(words[::2], words[1::2], strict=True):
        try:
            pairs[name] = json.loads(value)
        except ValueError:
            pairs[name] = value
    return pairs


class Share:
    """Picks a given share of events, evenly spread and the same on every run: no dice in a fault."""

    def __init__(self) -> None:
        self._owed = 0.0

    def take(self, rate: float) -> bool:
        """True for `rate` of the calls, 0..1."""
        self._owed = self._owed + rate if rate else 0.0
        # 0.999: ten times 0.1 is a hair under 1 in binary.
        if self._owed >= 0.999:
            self._owed -= 1.0
            return True
        return False
