"""Phase and conditions of pods from the states of their containers."""

from typing import Any

import pytest

from sandbox.kubelet import status

JSON = dict[str, Any]
RUNNING = {"running": {"startedAt": "t"}}
WAITING = {"waiting": {"reason": "ContainerCreating"}}
DONE = {"terminated": {"exitCode": 0}}
FAILED = {"terminated": {"exitCode": 1}}


def entry(state: JSON, *, last: JSON | None = None, ready: bool = False, started: bool = False) -> JSON:
    return {"name": "c", "state": state, "lastState": last or {}, "ready": ready, "started": started}


def spec(policy: str = "Always", *inits: JSON) -> JSON:
    return {"restartPolicy": policy, "initContainers": list(inits)}


@pytest.mark.parametrize(
    ("policy", "states", "expected"),
    [
        ("Always", [entry(WAITING)], "Pending"),
        ("Always", [entry(RUNNING), entry(WAITING)], "Pending"),
        ("Always", [entry(RUNNING)], "Running"),
        ("Always", [entry(WAITING, last=FAILED)], "Running"),  # CrashLoopBackOff
        ("Always", [entry(DONE)], "Running"),
        ("OnFailure", [entry(DONE), entry(RUNNING)], "Running"),
        ("OnFailure", [entry(DONE), entry(DONE)], "Succeeded"),
        ("OnFailure", [entry(FAILED)], "Running"),
        ("Never", [entry(FAILED), entry(RUNNING)], "Running"),
        ("Never", [entry(FAILED), entry(DONE)], "Failed"),
        ("Never", [entry(DONE)], "Succeeded"),
    ],
)
def test_phase(policy: str, states: list[JSON], expected: str) -> None:
    assert status.phase(spec(policy), [], states, over=False) == expected


def test_phase_of_a_pod_that_is_over() -> None:
    assert status.phase(spec(), [], [entry(DONE)], over=True) == "Succeeded"
    assert status.phase(spec(), [], [entry(DONE), entry(FAILED)], over=True) == "Failed"
    assert status.phase(spec(), [], [entry(WAITING)], over=True) == "Failed"


def test_failed_init_container_fails_the_pod_only_if_it_never_restarts() -> None:
    assert status.phase(spec("Never", {}), [entry(FAILED)], [entry(WAITING)], over=False) == "Failed"
    assert status.phase(spec("Always", {}), [entry(FAILED)], [entry(WAITING)], over=False) == "Pending"


def test_initialized_waits_for_sidecars_to_start() -> None:
    sidecar, init = {"restartPolicy": "Always"}, {}
    both = spec("Always", init, sidecar)
    assert not status.initialized(both, [entry(DONE), entry(RUNNING)])
    assert not status.initialized(both, [entry(RUNNING), entry(RUNNING, started=True)])
    assert status.initialized(both, [entry(DONE), entry(RUNNING, started=True)])


def conditions(
    pod: JSON, mains: list[JSON], previous: list[JSON], at: str, phase: str = "Running"
) -> dict[str, JSON]:
    found = status.conditions(pod, phase, [], mains, previous, at)
    return {each["type"]: each for each in found}


def test_transition_time_moves_with_the_status_only() -> None:
    pod = {"spec": {}}
    first = conditions(pod, [entry(RUNNING)], [], "t1")
    assert first["Ready"]["status"] == "False"
    assert first["Ready"]["message"] == "containers with unready status: [c]"
    second = conditions(pod, [entry(RUNNING, ready=True)], list(first.values()), "t2")
    assert second["Ready"]["status"] == "True" and second["Ready"]["lastTransitionTime"] == "t2"
    assert second["Initialized"]["lastTransitionTime"] == "t1"


def test_readiness_gate_holds_ready_back() -> None:
    pod: JSON = {
        "spec": {"readinessGates": [{"conditionType": "example.com/in"}]},
        "status": {"conditions": []},
    }
    ready = [entry(RUNNING, ready=True)]
    found = conditions(pod, ready, [], "t")
    assert (found["ContainersReady"]["status"], found["Ready"]["status"]) == ("True", "False")
    pod["status"]["conditions"] = [{"type": "example.com/in", "status": "True"}]
    assert conditions(pod, ready, [], "t")["Ready"]["status"] == "True"


def test_finished_pod_is_not_ready_and_says_why() -> None:
    found = conditions({"spec": {}}, [entry(DONE)], [], "t", phase="Succeeded")
    assert (found["Ready"]["status"], found["Ready"]["reason"]) == ("False", "PodCompleted")
