"""Flux's health check expressions say what Argo CD's health check says, and where plain kstatus differs."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from inference_operator.api.names import API_VERSION, KIND
from tools.gen_gitops import HEALTH

from .argocd import FOLDER, health
from .cel import CelError, evaluate, flux
from .scenarios import EVERY_REASON, SCENARIOS, cluster, with_conditions

SAME = {
    "Healthy": "Current",
    "Suspended": "Current",
    "Progressing": "InProgress",
    "Degraded": "Failed",
}


def _expressions() -> dict[str, str]:
    documents = yaml.safe_load_all((FOLDER.parent / "flux" / "clusters.yaml").read_text(encoding="utf-8"))
    [checks] = [doc["spec"]["healthCheckExprs"] for doc in documents if doc["kind"] == "Kustomization"]
    [check] = checks
    assert (check.pop("apiVersion"), check.pop("kind")) == (API_VERSION, KIND)
    assert list(check) == ["inProgress", "failed", "current"]
    found: dict[str, str] = check
    return found


EXPRESSIONS = _expressions()


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name != "progressing_no_status"])
def test_flux_agrees_with_argo_cd(name: str) -> None:
    made = SCENARIOS[name].made()
    assert flux(EXPRESSIONS, made) == SAME[health(made)[0]]


_NEWER = [(kind, status, "OfANewerOperator") for kind in HEALTH for status in ("True", "False", "Unknown")]


@given(
    st.lists(st.sampled_from([*EVERY_REASON, *_NEWER]), unique_by=lambda entry: entry[0]),
    st.sampled_from([{}, {"suspend": True}, {"suspend": False}]),
    st.sampled_from([0, 0, 0, 1, -1]),
    st.booleans(),
)
def test_flux_agrees_with_argo_cd_on_any_conditions(
    conditions: list[Any], spec: dict[str, Any], off: int, deleted: bool
) -> None:
    made = with_conditions(*conditions, spec=spec)
    made["metadata"]["generation"] += off
    if deleted:
        made["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:00Z"
    assert flux(EXPRESSIONS, made) == SAME[health(made)[0]]


def test_a_cluster_without_a_status_is_waited_for() -> None:
    """CEL has no way to ask for a missing root field: Flux is told of an error and goes on looking."""
    assert flux(EXPRESSIONS, cluster(None)) == "Unknown"


# --- kstatus, which Flux uses without expressions, as do other tools ---


def kstatus(obj: dict[str, Any]) -> str:
    """cli-utils' rules for a kind that it doesn't know: Current, InProgress, Failed or Terminating."""
    status = obj.get("status", {})
    if "deletionTimestamp" in obj["metadata"]:
        return "Terminating"
    if status.get("observedGeneration", obj["metadata"]["generation"]) != obj["metadata"]["generation"]:
        return "InProgress"
    conditions = status.get("conditions", [])
    for found in conditions:
        word = {"Reconciling": "InProgress", "Stalled": "Failed"}.get(found["type"])
        if word and found["status"] == "True":
            return word
    ready = [found["status"] for found in conditions if found["type"] == "Ready"]
    return "Current" if ready in ([], ["True"]) else "InProgress"


#: Why kstatus alone isn't enough: what it says of these.
KSTATUS_DIFFERS = {
    # It serves, and is still being created.
    "healthy_first_of_three": "InProgress",
    # Nothing in them tells it that somebody wants them so.
    "suspended_by_user": "InProgress",
    "suspended_stopped": "InProgress",
    # Ready=False is no failure to it.
    "degraded_no_engine": "InProgress",
    "degraded_no_gateway": "InProgress",
    # It takes what has no conditions for done: the operator writes its first ones within seconds.
    "progressing_no_status": "Current",
    "progressing_deletion": "Terminating",
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_kstatus_agrees_but_for_what_is_known(name: str) -> None:
    made = SCENARIOS[name].made()
    assert kstatus(made) == KSTATUS_DIFFERS.get(name, SAME[health(made)[0]])


def test_the_first_pass_already_tells_kstatus_to_wait() -> None:
    """Acceptance I5: a status from the first pass on, also while nothing is known yet."""
    assert kstatus(SCENARIOS["progressing_first_pass"].made()) == "InProgress"


# --- the evaluator itself ---


@pytest.mark.parametrize(
    ("expression", "want"),
    [
        ("a == 'x' || missing", True),
        ("missing || a == 'x'", True),
        ("a == 'y' && missing", False),
        ("has(b.c) && !has(b.d)", True),
        ("a in ['x', 'y'] && a != 'y'", True),
        ("list.exists(e, e.k == 'v' && e.n == '1')", True),
        ("list.exists(e, e.k == 'w')", False),
        ("a == 'y' && a == 'x' || a == 'x'", True),
        ("a == 'y' && (a == 'x' || a == 'x')", False),
    ],
)
def test_cel(expression: str, want: bool) -> None:
    scope = {"a": "x", "b": {"c": "d"}, "list": [{"k": "v"}, {"k": "v", "n": "1"}]}
    assert evaluate(expression, scope) is want


@pytest.mark.parametrize(
    "expression", ["missing", "a", "a == 'y' || missing", "has(b.c.d.e)", "a == 'x' ?", "a &&"]
)
def test_cel_refuses(expression: str) -> None:
    with pytest.raises(CelError):
        evaluate(expression, {"a": "x", "b": {}})
