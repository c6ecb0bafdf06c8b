"""Log lines as JSON objects on standard error: time, level, logger, message, and the keys of `extra`."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import orjson

_OWN: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}

#: Modules that try again for ever, and say so each time.
_PATIENT: Final = ("inference_operator.adapters.informer", "inference_operator.agent.report")
_PERIOD_SECONDS: Final = 60.0


class JsonFormatter(logging.Formatter):
    """One line per record."""

    def format(self, record: logging.LogRecord) -> str:
        """Keys of `extra` stand beside the fixed ones."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **{key: value for key, value in record.__dict__.items() if key not in _OWN},
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str).decode()


class Repeats(logging.Filter):
    """Lets the same line, with the same kind and reason, through once a minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._told: dict[tuple[object, ...], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """False: it was told less than a minute ago."""
        line = (record.msg, getattr(record, "kind", ""), getattr(record, "reason", ""))
        now = self._clock()
        self._told = {old: at for old, at in self._told.items() if now - at < _PERIOD_SECONDS}
        if line in self._told:
            return False
        self._told[line] = now
        return True


def configure(level: str) -> None:
    """Send everything from `level` up to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # While the API server is away or refuses us, several watches would say so every 15 to 30 s.
    for name in _PATIENT:
        logging.getLogger(name).addFilter(Repeats())
    # One line per served probe helps nobody.
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
