"""What a condition says: status, reason, message."""

from __future__ import annotations

from typing import NamedTuple

from ..api.conditions import Reason
from ..api.v1alpha1 import ConditionStatus


class Verdict(NamedTuple):
    """What a condition says now."""

    status: ConditionStatus
    reason: Reason
    message: str


def true(reason: Reason, message: str) -> Verdict:
    """It holds."""
    return Verdict(ConditionStatus.TRUE, reason, message)


def false(reason: Reason, message: str) -> Verdict:
    """It doesn't."""
    return Verdict(ConditionStatus.FALSE, reason, message)


def unknown(message: str) -> Verdict:
    """It wasn't looked at, or can't be told yet."""
    return Verdict(ConditionStatus.UNKNOWN, Reason.NOT_OBSERVED, message)
