"""InferenceClusters in every state that a person or a sync can meet, with statuses made by the operator.

`manifests/argocd/testdata` holds them as files, in the form of Argo CD's own tests of health checks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from inference_operator.api.conditions import REASONS, ConditionType, Reason
from inference_operator.api.names import API_VERSION, KIND
from inference_operator.api.v1alpha1 import ConditionStatus, InferenceClusterStatus
from inference_operator.core.deletion import deletion_status
from tests.unit.core.builders import (
    NOW,
    PLAN,
    REF,
    engine,
    engines_of,
    loading,
    observed,
    revision,
    unschedulable,
)
from tests.unit.core.statuses import (
    DOWN,
    FIRST,
    HALF,
    LOST,
    NEVER_SEEN,
    NO_GATEWAY,
    PROBLEM,
    ROLLING,
    SERVED,
    SERVING,
    known,
    status,
)

Json = dict[str, Any]

GENERATION = REF.generation
_READ = ("observedGeneration", "replicas", "readyReplicas", "conditions")
_WENT = known(
    (ConditionType.RECONCILING, ConditionStatus.FALSE, Reason.SETTLED),
    (ConditionType.GATEWAY_READY, ConditionStatus.TRUE, Reason.ACCEPTING),
)


class Scenario(NamedTuple):
    """A cluster and Argo CD's word for it."""

    want: str
    made: Callable[[], Json]


def cluster(status: InferenceClusterStatus | None, *, spec: Json | None = None, **metadata: Any) -> Json:
    """The object as the API server would give it; status None = no pass has been over it yet."""
    obj: Json = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": REF.name, "namespace": REF.namespace, "generation": GENERATION, **metadata},
        "spec": {
            "model": {"id": PLAN.model_id, "servedName": PLAN.served_name},
            "replicas": 2,
            **(spec or {}),
        },
    }
    if status is not None:
        written = status.model_dump(mode="json", by_alias=True, exclude_none=True)
        # The plan, the scaling and so on say nothing here, and would change these files with every release.
        obj["status"] = {key: written[key] for key in _READ if key in written}
    return obj


def with_conditions(*conditions: tuple[ConditionType, str, str], spec: Json | None = None) -> Json:
    """A cluster that says just this."""
    made = cluster(InferenceClusterStatus(observed_generation=GENERATION), spec=spec)
    made["status"]["conditions"] = [
        {"type": kind.value, "status": status, "reason": reason, "message": f"About {kind.value}"}
        for kind, status, reason in conditions
    ]
    return made


#: Every (condition, status, reason) that the API has.
EVERY_REASON = [
    (kind, status, reason)
    for kind, by_status in REASONS.items()
    for status, reasons in by_status.items()
    for reason in reasons
]


def _failing(before: InferenceClusterStatus = FIRST, **state: Any) -> Json:
    """Its only engine hasn't got ready for that reason."""
    return cluster(status(revision("a", [loading("a-0", **state)]), n=1, before=before), spec={"replicas": 1})


def _deleting() -> Json:
    last = status(SERVING)
    gone = deletion_status(observed(SERVING, status=last), ["foregroundDeletion"], NOW)
    return cluster(gone, deletionTimestamp="2027-01-15T08:00:00Z", finalizers=["foregroundDeletion"])


_SUSPENDED = {"suspend": True}
_HALF_PULLING = revision(
    "a",
    [
        engine("a-0"),
        loading("a-1", waiting="CreateContainerConfigError", waiting_message='secret "hf" not found'),
    ],
)

SCENARIOS: dict[str, Scenario] = {
    "healthy_serving": Scenario("Healthy", lambda: cluster(status(SERVING))),
    "healthy_scaling": Scenario("Healthy", lambda: cluster(status(HALF))),
    "healthy_first_of_three": Scenario(
        "Healthy", lambda: cluster(status(HALF, n=3, before=FIRST), spec={"replicas": 3})
    ),
    "healthy_waiting_for_a_gpu": Scenario(
        "Healthy", lambda: cluster(status(revision("a", [engine("a-0"), unschedulable("a-1")])))
    ),
    "healthy_with_an_engine_lost": Scenario("Healthy", lambda: cluster(status(HALF, before=LOST))),
    "healthy_without_metrics_api": Scenario(
        "Healthy",
        lambda: cluster(status(SERVING, spec={"autoscaling": {}}), spec={"autoscaling": {"maxReplicas": 4}}),
    ),
    "progressing_no_status": Scenario("Progressing", lambda: cluster(None)),
    "progressing_stale_generation": Scenario(
        "Progressing", lambda: cluster(status(SERVING), generation=GENERATION + 1)
    ),
    "progressing_first_pass": Scenario(
        "Progressing", lambda: cluster(status(before=FIRST, gates=NEVER_SEEN, target="a"))
    ),
    "progressing_first_creation": Scenario("Progressing", lambda: cluster(status(DOWN, before=FIRST))),
    "progressing_first_creation_without_gpu": Scenario(
        "Progressing", lambda: cluster(status(revision("a", [unschedulable("a-0")]), n=1, before=FIRST))
    ),
    "progressing_rollout": Scenario("Progressing", lambda: cluster(status(*ROLLING, target="b"))),
    "progressing_started_again": Scenario("Progressing", lambda: cluster(status(DOWN))),
    "progressing_deletion": Scenario("Progressing", _deleting),
    "suspended_by_user": Scenario(
        "Suspended", lambda: cluster(status(SERVING, spec=_SUSPENDED), spec=_SUSPENDED)
    ),
    "suspended_stopped": Scenario("Suspended", lambda: cluster(status(n=0), spec={"replicas": 0})),
    "degraded_invalid_spec": Scenario("Degraded", lambda: cluster(status(SERVING, problems=[PROBLEM]))),
    "degraded_name_taken": Scenario(
        "Degraded", lambda: cluster(status(SERVING, foreign=["Service/llama-gateway"]))
    ),
    "degraded_no_engine": Scenario("Degraded", lambda: cluster(status(DOWN, before=SERVED))),
    "degraded_no_gateway": Scenario(
        "Degraded", lambda: cluster(status(SERVING, gates=NO_GATEWAY, before=_WENT))
    ),
    "degraded_image_pull": Scenario("Degraded", lambda: _failing(waiting="ImagePullBackOff")),
    "degraded_crash_loop": Scenario(
        "Degraded",
        lambda: _failing(waiting="CrashLoopBackOff", restarts=3, last_exit="OOMKilled (137)", ended=NOW - 5),
    ),
    "degraded_load_timeout": Scenario("Degraded", lambda: _failing(loading_since=NOW - 7200)),
    "degraded_missing_secret": Scenario(
        "Degraded",
        lambda: _failing(waiting="CreateContainerConfigError", waiting_message='secret "hf" not found'),
    ),
    "degraded_missing_claim": Scenario(
        "Degraded",
        lambda: cluster(
            status(
                revision(
                    "a", [unschedulable("a-0", unschedulable='persistentvolumeclaim "models" not found')]
                ),
                n=1,
                before=FIRST,
            ),
            spec={"replicas": 1},
        ),
    ),
    "degraded_pods_refused": Scenario(
        "Degraded",
        lambda: cluster(
            status(
                replace(
                    revision("a", replicas=2), create_error='pods "a" is forbidden: violates PodSecurity'
                ),
                before=FIRST,
            )
        ),
    ),
    "degraded_write_refused": Scenario(
        "Degraded", lambda: cluster(status(SERVING, errors=["Deployment llama-a: 403 Forbidden"]))
    ),
    "degraded_while_serving": Scenario("Degraded", lambda: cluster(status(_HALF_PULLING))),
    "degraded_rollout_stuck": Scenario(
        "Degraded",
        lambda: cluster(
            status(
                revision("a", engines_of("a", 2), age=5000),
                revision("b", [loading("b-0", waiting="ErrImagePull")], age=100),
                target="b",
            )
        ),
    ),
}
