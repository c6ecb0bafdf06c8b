"""One mapping from what the API server and the network can do wrong to the errors of `ports`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import aiohttp
import orjson

from ..ports import Conflict, KubeError, NotFound

#: A request that the server refused for what is in it, or for our rights: the same request fails again.
_PERMANENT = frozenset({400, 403, 405, 406, 413, 415, 422})
_BODY_LIMIT = 512


def from_response(status: int, body: bytes, headers: Mapping[str, str], what: str) -> KubeError:
    """The error for an answer of 400 or above. `what` names the request: "apply Deployment ns/name"."""
    details = _status_object(body)
    message = f"{what}: {status} {details.get('reason') or ''}: {details.get('message') or ''}".strip(": ")
    if status == 404:
        return NotFound(message, status=status, transient=False)
    if status == 409:
        # Another manager's field stays taken until someone acts; we force, so only a bug gets here.
        # Anything else is a race that the next pass sees resolved.
        causes = (details.get("details") or {}).get("causes") or ()
        owned = any(cause.get("reason") == "FieldManagerConflict" for cause in causes)
        return Conflict(message, status=status, transient=not owned)
    return KubeError(
        message,
        status=status,
        transient=status not in _PERMANENT,
        retry_after=_retry_after(headers) if status in (429, 503) else None,
    )


@contextmanager
def network_errors(what: str) -> Iterator[None]:
    """Turn the exceptions of aiohttp into a transient KubeError.

    A time-out is the built-in TimeoutError and a refused connection an aiohttp.ClientError: neither is an
    ApiException of the client library. A body cut in the middle shows as a JSON error.
    """
    try:
        yield
    except (aiohttp.ClientError, OSError, TimeoutError, orjson.JSONDecodeError) as error:
        reason = str(error) or type(error).__name__
        raise KubeError(
            f"{what}: no answer from the API server: {reason}", status=None, transient=True
        ) from error


def _status_object(body: bytes) -> dict[str, Any]:
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        parsed = None
    if isinstance(parsed, dict) and parsed.get("kind") == "Status":
        return parsed
    return {"message": body[:_BODY_LIMIT].decode(errors="replace").strip()}


def _retry_after(headers: Mapping[str, str]) -> float | None:
    value = headers.get("Retry-After", "")
    return float(value) if value.isdigit() else None
