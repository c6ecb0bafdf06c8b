"""What a load says about a fault: which requests were lost, which streams were cut, how long it took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .load import Outcome

#: A request that waits longer than this for its headers waits for something that is gone.
NORMAL_WAIT_SECONDS = 0.5


@dataclass(frozen=True)
class Verdict:
    """Effects of one fault at one moment."""

    #: Requests that arrived after the fault and got no complete answer.
    lost: int
    #: Streams on the faulty engine that were running when it failed and didn't finish.
    cut: int
    #: Streams on other engines that were running and didn't finish.
    cut_elsewhere: int
    #: From the fault until the last moment at which a request that arrived after it waited for an engine.
    switched_seconds: float
    errors: tuple[str, ...] = ()


def judge(outcomes: Sequence[Outcome], fault: float, engine: str) -> Verdict:
    """Sort outcomes around a fault of `engine` at time `fault` (seconds since the epoch).

    A request is "after" when its connection was begun after the fault. "No new request waits on it" is read
    from the outside: a later request that had to wait longer than usual for its first byte was waiting on the
    dead engine until that byte came.
    """
    after = [o for o in outcomes if o.started >= fault]
    before = [o for o in outcomes if o.started < fault and (o.ended or 0) > fault]
    lost = [o for o in after if o.error]
    broken = [o for o in before if o.error]
    slow = [o for o in after if not o.error and (o.headers or 0) - o.started > NORMAL_WAIT_SECONDS]
    waited = [(o.headers or o.ended or fault) - fault for o in slow] + [
        (o.ended or fault) - fault for o in lost
    ]
    # A request that never got headers has no engine name: it was with the faulty one or waiting for any.
    elsewhere = [o for o in broken if o.engine and o.engine != engine]
    return Verdict(
        lost=len(lost),
        cut=len(broken) - len(elsewhere),
        cut_elsewhere=len(elsewhere),
        switched_seconds=max(waited, default=0.0),
        errors=tuple(sorted({o.error for o in lost + elsewhere})),
    )
