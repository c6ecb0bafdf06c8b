"""One spelling for equal data, and digests of it."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def canonical(value: Any) -> str:
    """JSON with sorted keys and no spaces: equal data, equal text, in every release of this operator."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def digest(value: Any) -> str:
    """First 16 hex digits of sha256 over the canonical JSON."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:16]
