"""Argo CD's actions: what is offered when, and what they change. Run over upstream's form of test, a list."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from .argocd import FOLDER, act, offered
from .scenarios import SCENARIOS

_ACTIONS = FOLDER / "actions"
_TESTS: dict[str, list[dict[str, Any]]] = yaml.safe_load(
    (_ACTIONS / "action_test.yaml").read_text(encoding="utf-8")
)


def _read(path: str) -> dict[str, Any]:
    obj: dict[str, Any] = yaml.safe_load((_ACTIONS / path).read_text(encoding="utf-8"))
    return obj


@pytest.mark.parametrize("test", _TESTS["discoveryTests"], ids=lambda test: test["inputPath"])
def test_offers(test: dict[str, Any]) -> None:
    want = {action["name"]: {"disabled": action["disabled"]} for action in test["result"]}
    assert offered(_read(test["inputPath"])) == want


@pytest.mark.parametrize("test", _TESTS["actionTests"], ids=lambda test: test["action"])
def test_changes_one_field_alone(test: dict[str, Any]) -> None:
    assert act(test["action"], _read(test["inputPath"])) == _read(test["expectedOutputPath"])


def test_every_action_is_tested() -> None:
    actions = {path.parent.name for path in _ACTIONS.glob("*/action.lua")}
    assert {test["action"] for test in _TESTS["actionTests"]} == actions


@pytest.mark.parametrize("name", SCENARIOS)
def test_exactly_one_is_offered_unless_the_cluster_is_deleted(name: str) -> None:
    made = SCENARIOS[name].made()
    open_to = [action for action, said in offered(made).items() if not said["disabled"]]
    if "deletionTimestamp" in made["metadata"]:
        assert open_to == []
    else:
        assert open_to == ["resume" if made["spec"].get("suspend") else "suspend"]
