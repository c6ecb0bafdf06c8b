"""Argo CD's health check: every state of the operator's own statuses, and every reason that the API has."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from lupa.lua51 import LuaError

from inference_operator.api.conditions import REASONS, ConditionType
from tests.goldens import check_golden
from tools.gen_gitops import HEALTH, Health

from .argocd import FOLDER, execute, health
from .scenarios import EVERY_REASON, GENERATION, SCENARIOS, cluster, with_conditions

#: Where Argo CD's repository would have them, below tests/goldens.
_GOLDENS = "../../manifests/argocd"
READY, STALLED, RECONCILING = ConditionType.READY, ConditionType.STALLED, ConditionType.RECONCILING


@pytest.mark.parametrize("name", SCENARIOS)
def test_each_state_has_its_word(name: str) -> None:
    scenario = SCENARIOS[name]
    word, message = health(scenario.made())
    assert word == scenario.want, message
    assert message


# --- the files for Argo CD's own tests ---


@pytest.mark.parametrize("name", SCENARIOS)
def test_testdata_is_what_the_operator_writes(name: str) -> None:
    text = yaml.safe_dump(SCENARIOS[name].made(), sort_keys=False, width=110, allow_unicode=True)
    check_golden(f"{_GOLDENS}/testdata/{name}.yaml", text)


def test_the_list_of_tests_names_all_of_testdata() -> None:
    tests = [
        {
            "healthStatus": dict(zip(("status", "message"), health(scenario.made()), strict=True)),
            "inputPath": f"testdata/{name}.yaml",
        }
        for name, scenario in SCENARIOS.items()
    ]
    text = yaml.safe_dump({"tests": tests}, sort_keys=False, width=110, allow_unicode=True)
    check_golden(f"{_GOLDENS}/health_test.yaml", text)
    if os.environ.get("UPDATE_GOLDENS") != "1":
        assert {f"{name}.yaml" for name in SCENARIOS} == {path.name for path in _testdata()}


def _testdata() -> list[Path]:
    return sorted((FOLDER / "testdata").glob("*.yaml"))


@pytest.mark.parametrize("path", _testdata(), ids=lambda path: path.stem)
def test_argo_cd_s_own_test_of_the_file_would_pass(path: Path) -> None:
    listed = yaml.safe_load((FOLDER / "health_test.yaml").read_text(encoding="utf-8"))["tests"]
    want = [test["healthStatus"] for test in listed if test["inputPath"] == f"testdata/{path.name}"]
    word, message = health(yaml.safe_load(path.read_text(encoding="utf-8")))
    assert [{"status": word, "message": message}] == want


# --- every reason ---


@pytest.mark.parametrize(("kind", "status", "reason"), EVERY_REASON)
def test_every_reason_alone_gives_a_word_and_a_message(kind: ConditionType, status: str, reason: str) -> None:
    word, message = health(with_conditions((kind, status, reason)))
    meant = HEALTH.get(kind, {}).get(status, {}).get(reason)  # type: ignore[call-overload]
    assert word == (meant or Health.PROGRESSING)
    assert message


_CONDITIONS = st.fixed_dictionaries(
    {},
    optional={
        kind: st.one_of(
            st.sampled_from([(s, r) for s, reasons in REASONS[kind].items() for r in reasons]),
            st.tuples(st.sampled_from(["True", "False", "Unknown"]), st.just("OfANewerOperator")),
        )
        for kind in ConditionType
    },
)


@given(_CONDITIONS, st.sampled_from([{}, {"suspend": True}, {"suspend": False}]), st.integers(-2, 2))
def test_any_conditions_together_give_one_of_the_four_words(
    conditions: dict[ConditionType, tuple[str, str]], spec: dict[str, Any], off: int
) -> None:
    made = with_conditions(*((kind, *said) for kind, said in conditions.items()), spec=spec)
    made["metadata"]["generation"] += off
    word, message = health(made)
    assert word in set(Health)
    assert message
    if off:
        assert word == "Progressing", "a status of another generation says nothing about this one"


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("generation", [GENERATION - 1, GENERATION + 1])
def test_a_status_of_another_generation_is_never_judged(name: str, generation: int) -> None:
    made = SCENARIOS[name].made()
    made["metadata"]["generation"] = generation
    assert health(made)[0] == "Progressing"


# --- the interpreter ---


@pytest.mark.parametrize(
    "script",
    [
        "return os.time()",
        "return string.upper('a')",
        "return ('a'):upper()",
        "return require('os')",
        "return math.max(1, 2)",
        "return loadstring('return 1')()",
    ],
)
def test_scripts_have_no_more_than_in_argo_cd(script: str) -> None:
    with pytest.raises(LuaError):
        execute(script, {})


# --- precedence ---


@pytest.mark.parametrize(
    ("conditions", "spec", "want"),
    [
        ([(READY, "True", "Serving"), (STALLED, "True", "ImagePull")], {}, "Degraded"),
        ([(READY, "False", "Stopped"), (STALLED, "True", "ApplyFailed")], {}, "Degraded"),
        ([(READY, "True", "Scaling"), (RECONCILING, "True", "FirstCreation")], {}, "Healthy"),
        ([(READY, "False", "Unavailable"), (RECONCILING, "True", "RollingOut")], {}, "Progressing"),
        ([(READY, "False", "Suspended"), (STALLED, "True", "SpecInvalid")], {"suspend": True}, "Suspended"),
        ([(READY, "True", "OfANewerOperator")], {}, "Healthy"),
        ([(READY, "False", "OfANewerOperator")], {}, "Progressing"),
        ([(STALLED, "True", "OfANewerOperator")], {}, "Degraded"),
        ([(RECONCILING, "True", "OfANewerOperator")], {}, "Progressing"),
        ([], {}, "Progressing"),
    ],
)
def test_what_decides_where_conditions_differ(
    conditions: list[tuple[ConditionType, str, str]], spec: dict[str, Any], want: str
) -> None:
    assert health(with_conditions(*conditions, spec=spec))[0] == want


# --- messages ---


def test_a_healthy_cluster_that_lacks_something_says_so() -> None:
    _, text = health(SCENARIOS["healthy_waiting_for_a_gpu"].made())
    assert text.startswith("Scaling: 1 of 2 engines ready")
    assert "Unschedulable: 1 engine can't be scheduled" in text
    _, text = health(SCENARIOS["healthy_without_metrics_api"].made())
    assert text.startswith("Serving: ")
    assert "MetricsUnavailable: The metrics API isn't installed" in text


def test_the_word_is_not_said_twice() -> None:
    for name in ("progressing_rollout", "suspended_by_user"):
        word, text = health(SCENARIOS[name].made())
        assert not text.startswith(word)


def test_who_waits_for_the_operator_is_told_so() -> None:
    _, text = health(cluster(None))
    assert "The operator hasn't looked at generation 3 yet" in text


def test_a_deleted_cluster_names_what_holds_it() -> None:
    _, text = health(SCENARIOS["progressing_deletion"].made())
    assert "foregroundDeletion" in text
    gone = copy.deepcopy(SCENARIOS["healthy_serving"].made())
    gone["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:00Z"
    assert health(gone) == ("Progressing", "Being deleted")
