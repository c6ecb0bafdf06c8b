"""Log lines as JSON objects on standard error: time, level, logger, message, and the keys of `extra`."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Final

import orjson

_OWN: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


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


def configure(level: str) -> None:
    """Send everything from `level` up to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # One line per served probe helps nobody.
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
