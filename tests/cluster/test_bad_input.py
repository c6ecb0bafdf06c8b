"""The `refused` and `accepted` rows of tests/data/bad_input.yaml on a real API server with our CRD."""

import re

import pytest

from tests.data.bad_input import Row, rows, strange_rows
from tests.plugins.crd import Server

pytest_plugins = ["tests.plugins.sandbox", "tests.plugins.crd"]

ROWS = [*rows(), *strange_rows()]


@pytest.mark.parametrize("row", [r for r in ROWS if r.refused], ids=lambda r: r.case)
def test_bad_input_is_refused_with_the_rule_s_own_words(server: Server, row: Row) -> None:
    assert row.refused is not None
    message = server.refusal(row.manifest())
    assert re.search(row.refused, message, re.DOTALL), message or "it was accepted"
    if row.healed is not None:
        assert server.refusal(row.manifest(row.healed)) == ""


@pytest.mark.parametrize("row", [r for r in ROWS if r.accepted], ids=lambda r: r.case)
def test_strange_but_legal_input_is_accepted(server: Server, row: Row) -> None:
    assert server.refusal(row.manifest()) == ""


@pytest.mark.parametrize("row", [r for r in ROWS if r.invalid], ids=lambda r: r.case)
def test_what_the_operator_judges_gets_past_the_schema(server: Server, row: Row) -> None:
    assert server.refusal(row.manifest()) == ""
    assert server.refusal(row.manifest(row.healed)) == ""
