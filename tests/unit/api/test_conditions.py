"""The table of conditions and reasons is complete."""

from inference_operator.api.conditions import MESSAGE_LIMIT, REASONS, ConditionType, Reason, truncate


def test_every_condition_has_reasons_for_each_status() -> None:
    assert list(REASONS) == list(ConditionType)
    assert all(set(by_status) == {"True", "False", "Unknown"} for by_status in REASONS.values())
    assert all(reasons for by_status in REASONS.values() for reasons in by_status.values())


def test_every_reason_belongs_to_a_condition() -> None:
    used = {reason for by_status in REASONS.values() for reasons in by_status.values() for reason in reasons}
    assert used == set(Reason)


def test_a_cut_message_shows_that_it_was_cut() -> None:
    assert truncate("x" * MESSAGE_LIMIT) == "x" * MESSAGE_LIMIT
    assert truncate("x" * (MESSAGE_LIMIT + 1)) == "x" * (MESSAGE_LIMIT - 1) + "…"
