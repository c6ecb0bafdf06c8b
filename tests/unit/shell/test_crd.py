"""The look at the installed CRD before anything starts."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from inference_operator.api.schema import custom_resource_definition
from inference_operator.ports import KubeError
from inference_operator.shell.crd import CRD_NAME, CrdState, judge, wait_for_crd
from tests.unit.engine.fake_kube import FakeKube

Json = dict[str, Any]


def installed() -> Json:
    crd = copy.deepcopy(custom_resource_definition())
    crd["status"] = {"conditions": [{"type": "Established", "status": "True"}]}
    return crd


def test_the_crd_of_this_release_is_fine() -> None:
    assert judge(installed()) == CrdState("")


def test_a_newer_crd_is_fine() -> None:
    crd = installed()
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["fromTheFuture"] = {"type": "string"}
    assert judge(crd) == CrdState("")


def test_an_older_crd_is_worked_with_and_its_missing_fields_are_named() -> None:
    crd = installed()
    properties = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    del properties["spec"]["properties"]["gateway"]
    del properties["spec"]["properties"]["engine"]["properties"]["env"]["items"]["properties"]["value"]
    assert judge(crd) == CrdState("", ("spec.engine.env[].value", "spec.gateway"))


def test_no_crd_is_a_problem_that_says_what_to_do() -> None:
    assert "crds.install=true" in judge(None).problem


@pytest.mark.parametrize("change", ["not served", "other version"])
def test_a_crd_without_our_version_is_a_problem(change: str) -> None:
    crd = installed()
    if change == "not served":
        crd["spec"]["versions"][0]["served"] = False
    else:
        crd["spec"]["versions"][0]["name"] = "v1"
    assert "doesn't serve v1alpha1" in judge(crd).problem


def test_a_crd_that_is_being_established_is_waited_for() -> None:
    crd = installed()
    crd["status"] = {}
    assert "isn't established yet" in judge(crd).problem


def test_a_crd_on_its_way_out_is_a_problem_although_it_is_still_established() -> None:
    crd = installed()
    crd["metadata"]["deletionTimestamp"] = "2026-11-30T12:00:00Z"
    assert "is being deleted" in judge(crd).problem


async def test_waits_through_every_trouble_until_the_crd_is_there() -> None:
    answers: list[Json | KubeError | None] = [
        KubeError("503", status=503, transient=True),
        KubeError("403 Forbidden", status=403, transient=False),
        None,
        installed(),
    ]
    kube = FakeKube()

    async def get(kind: str, namespace: str | None, name: str) -> Json | None:
        assert (kind, namespace, name) == ("CustomResourceDefinition", None, CRD_NAME)
        answer = answers.pop(0)
        if isinstance(answer, KubeError):
            raise answer
        return answer

    kube.get = get  # type: ignore[method-assign]
    seen: list[str] = []
    await wait_for_crd(kube, on_state=lambda state: seen.append(state.problem), retry_seconds=0)
    assert [bool(problem) for problem in seen] == [True, True, True, False]
