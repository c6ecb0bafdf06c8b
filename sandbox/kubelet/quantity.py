"""Kubernetes quantities ("500m", "2Gi") as exact numbers."""

from __future__ import annotations

import math
import re
from decimal import Decimal

_UNITS = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    **{unit: Decimal(1000) ** power for power, unit in enumerate("kMGTPE", 1)},
    **{f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMGTPE", 1)},
}
_QUANTITY = re.compile(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([a-zA-Z]*)")


def parse(text: str) -> Decimal:
    """Base units (cores, bytes, pieces). Raises ValueError for what is no quantity."""
    match = _QUANTITY.fullmatch(str(text).strip())
    if match is None or match[2] not in _UNITS:
        raise ValueError(f"{text!r} is not a Kubernetes quantity")
    return Decimal(match[1]) * _UNITS[match[2]]


def in_units(text: str, divisor: str) -> str:
    """What resourceFieldRef shows: the quantity in units of `divisor`, rounded up."""
    unit = parse(divisor)
    return str(math.ceil(parse(text) / (unit or 1)))
