"""The only way for a string from outside into haproxy.cfg or a command: it matches a strict pattern.

HAProxy's grammar is lines of words, with quotes, backslashes, `#`, `;`, `$`, `%[` and `<<` as specials. No
pattern lets one of them, a space, a control character or a letter outside ASCII through.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_POD: Final = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?", re.ASCII)
_PATH: Final = re.compile(r"/[A-Za-z0-9._~/-]{0,255}", re.ASCII)


class RefusedError(ValueError):
    """A value from outside that may not reach HAProxy. The message names the field and what is legal."""


def label(value: str, field: str) -> str:
    """A DNS label: namespace, cluster, revision, Service."""
    return _checked(_LABEL, value, field, "a DNS label (a-z, 0-9, -, at most 63 characters)")


def pod_name(value: str, field: str) -> str:
    """A DNS subdomain: the name of a pod."""
    return _checked(_POD, value, field, "a pod name (a-z, 0-9, -, ., at most 253 characters)")


def path(value: str, field: str) -> str:
    """An absolute URL path without query or escapes."""
    return _checked(_PATH, value, field, "a path like /health (letters, digits, . _ ~ - /)")


def address(value: str, field: str) -> str:
    """An IP address in its usual form. Zones (`fe80::1%eth0`) are refused: `%` is special to HAProxy."""
    try:
        parsed = ipaddress.ip_address(value)
    except ValueError:
        parsed = None
    if parsed is None or "%" in value:
        raise RefusedError(f"{field}: {_shown(value)} is not an IP address")
    return str(parsed)


def port(value: int, field: str) -> int:
    """A TCP port."""
    if not 1 <= value <= 65535:
        raise RefusedError(f"{field}: {value} is not a port (1 to 65535)")
    return value


def backend_name(namespace: str, cluster: str, revision: str) -> str:
    """`<namespace>.<cluster>.<revision>`: unambiguous, since none of the three may hold a dot."""
    return ".".join(
        (label(namespace, "namespace"), label(cluster, "cluster"), label(revision, "tracks[].revision"))
    )


def _checked(pattern: re.Pattern[str], value: str, field: str, legal: str) -> str:
    if not pattern.fullmatch(value):
        raise RefusedError(f"{field}: {_shown(value)} is not {legal}")
    return value


def _shown(value: str) -> str:
    return repr(value if len(value) <= 60 else value[:57] + "...")
