"""The operator configuration's file: read at start, and again when its content changes.

The kubelet exchanges a ConfigMap's files behind a symbolic link, which file watches lose sight of, so the
file is looked at every 15 s. A content that doesn't hold never takes the place of one that does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import BaseModel, ValidationError

from ..api.operator_config import ANY_GPU, OperatorConfig
from ..planner.catalogue import gpus, nearest_first

log = logging.getLogger(__name__)

_PERIOD_SECONDS: Final = 15.0
#: A ConfigMap holds 1 MiB; this is far more than prices need.
_LONGEST: Final = 64 << 10
_SHOWN: Final = 80


class ConfigError(Exception):
    """The file can't be read or doesn't hold: says which field, its value, and what is legal."""


class ConfigFile:
    """What is in force. `current` changes only in `load` and `look`."""

    def __init__(self, path: Path | None) -> None:
        """No path: the defaults, for ever."""
        self._path = path
        #: Content, or the words of what is wrong with the file itself.
        self._seen = ""
        self.current = OperatorConfig()

    def load(self) -> None:
        """Read it once. Raises ConfigError."""
        if self._path is not None:
            self._seen = _content(self._path)
            self.current = parse(self._seen)

    async def run(self, on_change: Callable[[], None], on_read: Callable[[bool], None]) -> None:
        """Look for changes until cancelled. `on_read` is told of each new content whether it holds."""
        while True:
            await asyncio.sleep(_PERIOD_SECONDS)
            await self.look(on_change, on_read)

    async def look(self, on_change: Callable[[], None], on_read: Callable[[bool], None]) -> None:
        """Take over a new content, if it holds."""
        if self._path is None:
            return
        try:
            content = await asyncio.to_thread(_content, self._path)
        except ConfigError as error:
            self._refuse(str(error), error, on_read)
            return
        if content == self._seen:
            return
        try:
            config = parse(content)
        except ConfigError as error:
            self._refuse(content, error, on_read)
            return
        self._seen = content
        on_read(True)
        if config != self.current:
            self.current = config
            log.info("taking over a changed operator configuration", extra={"file": str(self._path)})
            on_change()

    def _refuse(self, seen: str, error: ConfigError, on_read: Callable[[bool], None]) -> None:
        """Say it once per content."""
        if seen == self._seen:
            return
        self._seen = seen
        on_read(False)
        log.error(
            "keeping the last operator configuration: the new one doesn't hold",
            extra={"file": str(self._path), "reason": str(error)},
        )


def parse(text: str) -> OperatorConfig:
    """YAML -> the configuration. Raises ConfigError that names every field that doesn't hold."""
    try:
        # Every scalar as it is written: a price never becomes a binary fraction.
        document = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 - makes lists, maps, strings only
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigError(f"no YAML: {' '.join(str(error).split())}") from error
    try:
        config = OperatorConfig.model_validate(document or {})
    except ValidationError as error:
        raise ConfigError("; ".join(_problem(item) for item in error.errors(include_url=False))) from error
    unknown = "; ".join(_unknown_types(config))
    if unknown:
        raise ConfigError(unknown)
    return config


def _content(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            content = file.read(_LONGEST + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"can't read {path}: {error}; name a readable file with --config") from error
    if len(content) > _LONGEST:
        raise ConfigError(f"{path}: more than {_LONGEST} characters")
    return content


def _problem(item: Any) -> str:
    location = [part for part in item["loc"] if part != "[key]"]
    field = ".".join(str(part) for part in location)
    if item["type"] == "extra_forbidden":
        return f"{field}: unknown field; legal: {', '.join(_legal_fields(location[:-1]))}"
    value = str(item["input"])[:_SHOWN]
    message = "has to be a map" if item["type"] in ("model_type", "dict_type") else item["msg"]
    return f'{field or "the document"}: "{value}": {message}'


def _legal_fields(path: Sequence[str | int]) -> list[str]:
    """Names in the section at this path."""
    model: type[BaseModel] = OperatorConfig
    for part in path:
        inner = next(f.annotation for f in model.model_fields.values() if f.alias == part)
        assert isinstance(inner, type)  # noqa: S101 - only sections forbid fields
        model = inner
    return [field.alias or name for name, field in model.model_fields.items()]


def _unknown_types(config: OperatorConfig) -> Iterator[str]:
    for name in config.prices.gpu_hour:
        if name != ANY_GPU and name not in gpus():
            legal = ", ".join([*nearest_first(name, gpus()), ANY_GPU])
            yield f"prices.gpuHour.{name}: no GPU type of the catalogue; legal: {legal}"
