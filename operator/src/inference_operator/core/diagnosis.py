"""Why engines aren't ready: pod states -> one reason and a message that says what, where and what to do."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ..api.conditions import Reason
from .model import EnginePod, Plan, Revision
from .rollout import stuck

_PULL = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"}
)
#: What the kubelet says while it can't even make the container: a Secret or a key of one that doesn't exist,
#: a user that the image doesn't have.
_NOT_MADE = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
#: One restart of one pod is no verdict (acceptance A10).
_CRASHES = 2


@dataclass(frozen=True)
class Failure:
    """What keeps engines from getting ready, when waiting alone won't help."""

    reason: Reason
    message: str
    #: It stays so until somebody changes something, however well the cluster has served before.
    for_person: bool = False


def failure(revision: Revision, load_timeout: float, now: float) -> Failure | None:
    """The worst that is wrong with a revision's engines; None = they are ready or on their way.

    `load_timeout` in seconds, `now` in seconds since the epoch.
    """
    found = _refused(revision)
    for check in (_no_volume, _image_pull, _not_made, _crash_loop, _load_timeout):
        found = found or check(revision.live, revision.plan, load_timeout, now)
    return found


def lacks_volume(pod: EnginePod) -> bool:
    """Does the scheduler wait for a volume claim that doesn't exist, and not for a node?"""
    return "persistentvolumeclaim" in pod.unschedulable and "not found" in pod.unschedulable


def uncreated(revision: Revision) -> int:
    """Engines that the API server refuses to create."""
    return max(0, (revision.replicas or 0) - len(revision.live)) if revision.create_error else 0


def some(count: int) -> str:
    """ "1 engine", "3 engines"."""
    return f"{count} engine" + ("" if count == 1 else "s")


def waiting(pods: Sequence[EnginePod]) -> str:
    """What engines that aren't ready are doing, for people: "2 loading, 1 waiting for a node"."""
    counts: dict[str, int] = {}
    for pod in pods:
        state = _state(pod)
        if state:
            counts[state] = counts.get(state, 0) + 1
    return ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))


def _state(pod: EnginePod) -> str:
    if pod.node_lost:
        return f"on lost node {pod.node}"
    if pod.ready:
        return ""
    if pod.unschedulable:
        return "waiting for a node"
    if pod.waiting:
        detail = f" ({pod.waiting_message})" if pod.waiting_message else ""
        return f"in {pod.waiting}{detail}"
    return "loading" if pod.phase == "Running" else "starting"


def _refused(revision: Revision) -> Failure | None:
    """Quota comes free by itself and a new namespace gets its service account a moment later; what admission
    forbids for another reason, it forbids again."""
    error, missing = revision.create_error, uncreated(revision)
    heals = "exceeded quota" in error or "error looking up service account" in error
    if not missing or heals or not ("forbidden" in error or "is invalid" in error):
        return None
    text = f"{some(missing)} can't be created: {error}"
    if "no PriorityClass with name" in error:
        text += ": create that PriorityClass, or change spec.placement.priorityClassName"
        return Failure(Reason.MISSING_OBJECT, text, for_person=True)
    text += ": change the spec, or the policy that refuses it"
    return Failure(Reason.CREATE_FAILED, text, for_person=True)


def _no_volume(pods: Sequence[EnginePod], plan: Plan, load: float, now: float) -> Failure | None:
    """A claim that is applied together with the cluster may come a moment later, and whoever waits for the
    cluster gives up at the first Stalled."""
    bad = [pod for pod in pods if lacks_volume(pod) and stuck(pod, now)]
    if not bad:
        return None
    text = f"{some(len(bad))} can't be scheduled (pod {bad[0].name}: {bad[0].unschedulable}): create the "
    text += "PersistentVolumeClaim, or change spec.model.source"
    return Failure(Reason.MISSING_OBJECT, text, for_person=True)


def _waiting_with(pods: Sequence[EnginePod], reasons: Collection[str]) -> tuple[list[EnginePod], str]:
    """Pods that wait for one of these reasons, and what the kubelet says of the first."""
    bad = [pod for pod in pods if pod.waiting in reasons]
    return bad, f"pod {bad[0].name}: {bad[0].waiting_message or bad[0].waiting}" if bad else ""


def _image_pull(pods: Sequence[EnginePod], plan: Plan, load: float, now: float) -> Failure | None:
    bad, why = _waiting_with(pods, _PULL)
    if not bad:
        return None
    return Failure(
        Reason.IMAGE_PULL,
        f"{some(len(bad))} can't pull {plan.image} ({why}): check spec.engine.image, "
        "spec.engine.version and spec.imagePullSecrets",
    )


def _not_made(pods: Sequence[EnginePod], plan: Plan, load: float, now: float) -> Failure | None:
    bad, why = _waiting_with(pods, _NOT_MADE)
    if not bad:
        return None
    return Failure(
        Reason.CONTAINER_CONFIG,
        f"{some(len(bad))} can't be started ({why}): create what is missing, or change "
        "spec.model.source or spec.engine",
        for_person=any(pod.waiting == "CreateContainerConfigError" for pod in bad),
    )


def _crash_loop(pods: Sequence[EnginePod], plan: Plan, load: float, now: float) -> Failure | None:
    bad = [pod for pod in pods if _crashing(pod, load)]
    if not bad:
        return None
    last = f", last exit {bad[0].last_exit}" if bad[0].last_exit else ""
    return Failure(
        Reason.CRASH_LOOP,
        f"{some(len(bad))} can't stay up (pod {bad[0].name}: {bad[0].restarts} restarts{last}): see "
        f"kubectl logs {bad[0].name} --previous, then change spec.model or spec.engine",
    )


def _crashing(pod: EnginePod, load: float) -> bool:
    """Did it end again and again, in less time than a load may take, without getting ready in between?

    The kubelet's CrashLoopBackOff is no measure: it comes and goes with each restart, and a verdict must not.
    """
    if pod.ready or pod.restarts < _CRASHES or pod.ended is None or pod.loading_since is None:
        return False
    return pod.ended >= pod.loading_since and pod.last_run < load


def _load_timeout(pods: Sequence[EnginePod], plan: Plan, load: float, now: float) -> Failure | None:
    """What the startup probe ended for its slowness loads still, seen from here: it never got ready."""
    bad = [p for p in pods if not p.ready and p.loading_since is not None and now >= p.loading_since + load]
    if not bad:
        return None
    state = waiting(bad[:1])
    return Failure(
        Reason.LOAD_TIMEOUT,
        f"{some(len(bad))} could not get ready within {load:.0f} s (pod {bad[0].name} on {bad[0].node}: "
        f"{state}): see kubectl logs {bad[0].name}; it has to list {plan.served_name} at /v1/models. Raise "
        "spec.engine.loadTimeout if it only needs longer",
    )
