"""Memory quantities as Kubernetes writes them."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

_UNITS: Final = {
    "": Decimal(1),
    "m": Decimal(1) / 1000,
    "k": Decimal(10) ** 3,
    "M": Decimal(10) ** 6,
    "G": Decimal(10) ** 9,
    "T": Decimal(10) ** 12,
    "Ki": Decimal(2) ** 10,
    "Mi": Decimal(2) ** 20,
    "Gi": Decimal(2) ** 30,
    "Ti": Decimal(2) ** 40,
}


def mebibytes(quantity: str) -> int:
    """Whole MiB of a `Quantity` of the API, rounded up.

    >>> mebibytes("64Gi"), mebibytes("1G"), mebibytes("1.5Mi")
    (65536, 954, 2)
    """
    number = quantity.rstrip("mkMGTKi")
    size = Decimal(number) * _UNITS[quantity[len(number) :]] / _UNITS["Mi"]
    return int(size.to_integral_value(rounding="ROUND_CEILING"))
