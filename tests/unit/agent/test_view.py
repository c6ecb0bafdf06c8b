"""What a gateway says of the whole cluster."""

from __future__ import annotations

import pytest

from inference_operator.agent.view import TrackView, concurrency


def track(share: int, slots: int) -> TrackView:
    return TrackView("ml", "chat", f"r{slots}", share, 1, slots, 0, 0, ())


@pytest.mark.parametrize(
    ("tracks", "slots"),
    [
        ([], 0),
        ([track(10_000, 64)], 64),
        ([track(7_500, 64), track(2_500, 32)], 56),
        ([track(9_999, 1), track(1, 1)], 1),
        # No engine takes requests yet: rather a replica too many.
        ([track(0, 64), track(0, 32)], 32),
        ([track(0, 8), track(10_000, 64)], 64),
    ],
)
def test_concurrency_follows_the_traffic(tracks: list[TrackView], slots: int) -> None:
    assert concurrency(tracks) == slots
