"""The rows of tests/data/bad_input.yaml without an API server: what parsing and the planner say."""

import pytest

from inference_operator.api.parse import parse_spec
from inference_operator.core.model import Plan, Problem
from inference_operator.planner.plan import make_plan
from tests.data.bad_input import Json, Row, rows, strange_rows

ROWS = rows()


def judge(spec: Json) -> Plan | tuple[Problem, ...]:
    parsed = parse_spec(spec)
    assert not isinstance(parsed, tuple), parsed
    return make_plan(parsed)


@pytest.mark.parametrize("row", [r for r in ROWS if r.invalid], ids=lambda r: r.case)
def test_an_invalid_spec_names_the_field_and_the_legal_values(row: Row) -> None:
    problems = judge(row.spec)
    assert isinstance(problems, tuple), f"planned: {problems}"
    assert row.invalid is not None
    told = [(problem.field, problem.reason.value) for problem in problems]
    assert told == [(row.invalid.field, row.invalid.reason)]
    missing = [word for word in row.invalid.says if word not in problems[0].message]
    assert not missing, problems[0].message


@pytest.mark.parametrize("row", [r for r in ROWS if r.healed is not None], ids=lambda r: r.case)
def test_the_healed_spec_is_planned(row: Row) -> None:
    assert row.healed is not None
    plan = judge(row.healed)
    assert isinstance(plan, Plan), plan


@pytest.mark.parametrize("row", [r for r in ROWS if r.accepted], ids=lambda r: r.case)
def test_an_accepted_spec_is_planned(row: Row) -> None:
    assert isinstance(judge(row.spec), Plan)


@pytest.mark.parametrize(
    "row",
    [r for r in [*ROWS, *strange_rows()] if r.refused and "metadata" not in r.refused],
    ids=lambda r: r.case,
)
def test_what_the_api_server_refuses_the_operator_refuses_too(row: Row) -> None:
    if row.case in SERVER_ONLY:
        assert not isinstance(parse_spec(row.spec), tuple)
    else:
        assert isinstance(parse_spec(row.spec), tuple)


#: Uniqueness of list items is the API server's part: the merge of two appliers depends on it.
SERVER_ONLY = {"the same variable twice"}


def test_all_problems_are_told_at_once() -> None:
    problems = judge(
        {
            "model": {"id": "meta-llama/Llama-3.1-8B-Instruct", "contextLength": 1_000_000},
            "engine": {"args": ["--port=1", "--nonsense"], "env": [{"name": "LD_PRELOAD", "value": "x"}]},
            "accelerator": {"type": "H300"},
            "parallelism": {"tensor": 12},
            "podMetadata": {"labels": {"pod-template-hash": "x"}},
        }
    )
    assert isinstance(problems, tuple)
    assert [problem.field for problem in problems] == [
        "spec.model.contextLength",
        "spec.engine.args[0]",
        "spec.engine.args[1]",
        "spec.engine.env[0].name",
        "spec.accelerator.type",
        "spec.parallelism.tensor",
        "spec.parallelism.tensor",
        "spec.podMetadata.labels[pod-template-hash]",
    ]
