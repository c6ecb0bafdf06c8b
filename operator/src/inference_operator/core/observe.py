"""Raw objects -> Observed. Parsing only: what is missing is absent, never guessed.

What the trimmed children must still hold:

    InferenceCluster    metadata.{name, namespace, uid, generation}, status
    ControllerRevision  metadata, data
    Deployment          metadata with annotations, spec.replicas, status.conditions
    ServiceAccount      metadata
    Pod                 metadata, spec.nodeName, status.{phase, containerStatuses, initContainerStatuses},
                        status.conditions with lastTransitionTime of PodScheduled and Ready
    ConfigMap           metadata, data
    HorizontalPodAutoscaler  metadata, status.{desiredReplicas, conditions}
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from ..api import names
from ..api.routing import GatewayReport, Routing
from ..api.v1alpha1 import InferenceClusterStatus
from .model import NO_METRICS_API, ClusterRef, EnginePod, GatewayObserved, MetricsApi, Observed, Revision
from .observe_scaling import SCALER_KIND, observe_scaling
from .owners import Object, controller, owned, owners
from .record import Record, RecordError, decode

_M = TypeVar("_M", bound=BaseModel)

#: A container that is merely on its way.
_STARTING = frozenset({"ContainerCreating", "PodInitializing"})


def cluster_ref(cluster: Object) -> ClusterRef:
    """Which InferenceCluster this is."""
    metadata = cluster["metadata"]
    return ClusterRef(metadata["namespace"], metadata["name"], metadata["uid"], metadata.get("generation", 0))


def observe(
    cluster: Object,
    children: Mapping[str, Sequence[Object]],
    node_ready: Callable[[str], bool],
    metrics_api: MetricsApi = NO_METRICS_API,
) -> Observed:
    """Everything that exists for one cluster.

    `children` holds the objects with the cluster's label by kind, and every HorizontalPodAutoscaler that
    targets it, whoever made it; `node_ready` is False only for a node that is known to be gone or NotReady.
    """
    ref = cluster_ref(cluster)
    revisions, unrecorded = _revisions(ref, children, node_ready)
    made = list(_made_by(ref, revisions, children))
    return Observed(
        cluster=ref,
        revisions=revisions,
        gateway=_gateway(ref, children),
        status=parse_status(cluster.get("status") or {}),
        scaling=observe_scaling(cluster, children.get(SCALER_KIND, ()), metrics_api),
        foreign=tuple(_foreign(ref, children)),
        released=tuple(pod["metadata"]["name"] for pod in made if not owners(pod)),
        regained=tuple(
            pod["metadata"]["name"]
            for pod in made
            if controller(pod) is not None and any(owner["uid"] == ref.uid for owner in owners(pod))
        ),
        unrecorded=unrecorded,
    )


def parse_status(status: Object) -> InferenceClusterStatus:
    """What holds of a stored status. A field that this release can't read (a newer one wrote it) is dropped
    alone: the name of the stable revision must not be lost over it."""
    whole = _parsed(InferenceClusterStatus, json.dumps(status))
    if whole is not None:
        return whole
    kept: dict[str, Any] = {}
    for key, value in status.items():
        if _parsed(InferenceClusterStatus, json.dumps({key: value})) is not None:
            kept[key] = value
    return InferenceClusterStatus.model_validate_json(json.dumps(kept))


def _foreign(ref: ClusterRef, children: Mapping[str, Sequence[Object]]) -> Iterator[str]:
    for kind in sorted(children):
        if kind in ("Pod", SCALER_KIND):
            continue  # pods belong to ReplicaSets, an odd one is simply nobody's engine; scalers are rivals
        for obj in children[kind]:
            if not owned(obj, ref.uid):
                yield f"{kind}/{obj['metadata']['name']}"


def _made_by(
    ref: ClusterRef, revisions: Iterable[Revision], children: Mapping[str, Sequence[Object]]
) -> Iterator[Object]:
    """Pods that a ReplicaSet of ours made, by their name alone: `<deployment>-<hash>-<random>`."""
    workloads = {names.workload_name(ref.name, revision.name) for revision in revisions}
    workloads.add(names.gateway_name(ref.name))
    for pod in children.get("Pod", ()):
        if pod["metadata"]["name"].rsplit("-", 2)[0] in workloads:
            yield pod


def _ours(ref: ClusterRef, children: Mapping[str, Sequence[Object]], kind: str) -> list[Object]:
    return [obj for obj in children.get(kind, ()) if owned(obj, ref.uid)]


def _named(objects: Iterable[Object], name: str) -> Object | None:
    return next((obj for obj in objects if obj["metadata"]["name"] == name), None)


def _label(obj: Object, label: str) -> str:
    return str((obj["metadata"].get("labels") or {}).get(label, ""))


def _revisions(
    ref: ClusterRef, children: Mapping[str, Sequence[Object]], node_ready: Callable[[str], bool]
) -> tuple[tuple[Revision, ...], tuple[str, ...]]:
    """Revisions, oldest first, and names of those with a Deployment and no readable record.

    A record that someone deleted is read from its copy: without it the engines of a revision that is no
    longer in the spec could neither be routed to nor drained.
    """
    deployments = {
        _label(obj, names.LABEL_REVISION): obj
        for obj in _ours(ref, children, "Deployment")
        if _label(obj, names.LABEL_COMPONENT) == names.COMPONENT_ENGINE
    }
    records = {_label(obj, names.LABEL_REVISION): obj for obj in _ours(ref, children, "ControllerRevision")}
    found: list[Revision] = []
    for name in {**records, **deployments}:
        kept = [obj for obj in (records.get(name), deployments.get(name)) if obj is not None]
        record = next(filter(None, map(_record, kept)), None)
        if record is None:
            continue
        deployment = deployments.pop(name, None)
        found.append(
            Revision(
                name=name,
                # A record that was made again is younger than what it is about.
                created=min(timestamp(obj["metadata"].get("creationTimestamp")) for obj in kept),
                plan=record.plan,
                template=record.template,
                template_digest=record.template_digest,
                replicas=(deployment.get("spec") or {}).get("replicas", 1) if deployment else None,
                pods=tuple(_engines(ref, name, children, node_ready)),
                create_error=_condition(deployment or {}, "ReplicaFailure", "True"),
                recorded=name in records,
            )
        )
    found.sort(key=lambda revision: (revision.created, revision.name))
    return tuple(found), tuple(sorted(deployments))


def _record(obj: Object) -> Record | None:
    """What a ControllerRevision, or the copy at a Deployment, says; None if it can't be read."""
    try:
        if obj["kind"] == "ControllerRevision":
            return decode(obj.get("data") or {})
        # Not Python's json: that one runs out of stack, and lets pass what no JSON can say again.
        copy = (obj["metadata"].get("annotations") or {}).get(names.ANNOTATION_RECORD, "")
        return decode(from_json(copy, allow_inf_nan=False))
    except (RecordError, ValueError):
        return None


def _pods(children: Mapping[str, Sequence[Object]], deployment: str, component: str) -> list[Object]:
    """Pods that a ReplicaSet of this Deployment made. ReplicaSets aren't watched: their name says enough,
    `<deployment>-<hash>`, and a hash holds no dash."""
    found = []
    for pod in children.get("Pod", ()):
        owner = controller(pod)
        if _label(pod, names.LABEL_COMPONENT) != component or owner is None or owner["kind"] != "ReplicaSet":
            continue
        if owner["name"].rpartition("-")[0] == deployment:
            found.append(pod)
    return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))


def _engines(
    ref: ClusterRef,
    revision: str,
    children: Mapping[str, Sequence[Object]],
    node_ready: Callable[[str], bool],
) -> Iterator[EnginePod]:
    for pod in _pods(children, names.workload_name(ref.name, revision), names.COMPONENT_ENGINE):
        if _label(pod, names.LABEL_REVISION) == revision:
            yield _engine(pod, revision, node_ready)


def _engine(pod: Object, revision: str, node_ready: Callable[[str], bool]) -> EnginePod:
    metadata, status = pod["metadata"], pod.get("status") or {}
    node = (pod.get("spec") or {}).get("nodeName") or ""
    waiting, waiting_message = _waiting(status)
    exit_ = _last_exit(status)
    containers = status.get("containerStatuses") or ()
    return EnginePod(
        name=metadata["name"],
        uid=metadata["uid"],
        revision=revision,
        node=node,
        created=timestamp(metadata.get("creationTimestamp")),
        ready=_has_condition(pod, "Ready", "True"),
        terminating=bool(metadata.get("deletionTimestamp")),
        phase=status.get("phase") or "Pending",
        restarts=sum(int(container.get("restartCount") or 0) for container in containers),
        waiting=waiting,
        waiting_message=waiting_message,
        unschedulable=_condition(pod, "PodScheduled", "False"),
        last_exit=f"{exit_.get('reason') or 'Error'} ({exit_.get('exitCode')})" if exit_ else "",
        deletion_cost=_integer((metadata.get("annotations") or {}).get(names.ANNOTATION_DELETION_COST)),
        node_lost=bool(node) and not node_ready(node),
        loading_since=_loading_since(pod) if node else None,
        ended=timestamp(exit_.get("finishedAt")) if exit_ else None,
        last_run=timestamp(exit_.get("finishedAt")) - timestamp(exit_.get("startedAt")),
    )


def _statuses(status: Object) -> list[Object]:
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def _waiting(status: Object) -> tuple[str, str]:
    for container in _statuses(status):
        waiting = (container.get("state") or {}).get("waiting") or {}
        reason = waiting.get("reason") or ""
        if reason and reason not in _STARTING:
            return reason, waiting.get("message") or ""
    return "", ""


def _last_exit(status: Object) -> Object:
    """How a container ended last, {} = it never did. Exit 0 counts: an engine never ends by itself."""
    for container in status.get("containerStatuses") or ():
        for key in ("state", "lastState"):
            ended: Object | None = (container.get(key) or {}).get("terminated")
            if ended:
                return ended
    return {}


def _conditions(obj: Object) -> Sequence[Object]:
    return (obj.get("status") or {}).get("conditions") or ()


def _has_condition(obj: Object, kind: str, status: str) -> bool:
    return any(c.get("type") == kind and c.get("status") == status for c in _conditions(obj))


def _condition(obj: Object, kind: str, status: str) -> str:
    """Message (or reason) of a condition that has this status; "" = it hasn't."""
    for condition in _conditions(obj):
        if condition.get("type") == kind and condition.get("status") == status:
            return condition.get("message") or condition.get("reason") or kind
    return ""


def _loading_since(pod: Object) -> float:
    """The kubelet sets Ready=False when it takes the pod up and again when a ready one stops being it, but
    not at a restart in between: an engine that never got ready loads since its start."""
    moments = [timestamp(pod["metadata"].get("creationTimestamp"))]
    for kind, status in (("PodScheduled", "True"), ("Ready", "False")):
        moments += [
            timestamp(c["lastTransitionTime"])
            for c in _conditions(pod)
            if c.get("type") == kind and c.get("status") == status and c.get("lastTransitionTime")
        ]
    return max(moments)


def _gateway(ref: ClusterRef, children: Mapping[str, Sequence[Object]]) -> GatewayObserved:
    name = names.gateway_name(ref.name)
    deployment = _named(_ours(ref, children, "Deployment"), name)
    pods = [
        pod
        for pod in _pods(children, name, names.COMPONENT_GATEWAY)
        if (pod.get("status") or {}).get("phase") not in ("Failed", "Succeeded")
    ]
    config_maps = _ours(ref, children, "ConfigMap")
    routing = _routing(_named(config_maps, names.routing_name(ref.name)))
    ready = [
        pod
        for pod in pods
        if _has_condition(pod, "Ready", "True") and not pod["metadata"].get("deletionTimestamp")
    ]
    return GatewayObserved(
        wanted=(deployment.get("spec") or {}).get("replicas", 1) if deployment else 0,
        ready_pods=tuple(pod["metadata"]["name"] for pod in ready),
        addresses=tuple(filter(None, (pod["status"].get("podIP") for pod in ready))),
        pods=tuple(pod["metadata"]["name"] for pod in pods),
        reports=tuple(_reports(_named(config_maps, names.report_name(ref.name)))),
        renewed_account=_renewed(deployment, _named(_ours(ref, children, "ServiceAccount"), name)),
        shares={track.revision: track.share for track in routing.tracks} if routing else {},
        drains=routing.drains if routing else (),
    )


def _renewed(deployment: Object | None, account: Object | None) -> str:
    """uid of an account that is younger than the Deployment: the tokens that its first pods got are void."""
    if deployment is None or account is None:
        return ""
    since, made = (timestamp(o["metadata"].get("creationTimestamp")) for o in (deployment, account))
    return str(account["metadata"]["uid"]) if made > since else ""


def _routing(config_map: Object | None) -> Routing | None:
    text = ((config_map or {}).get("data") or {}).get(names.ROUTING_KEY)
    return _parsed(Routing, text) if text else None


def _reports(config_map: Object | None) -> Iterator[GatewayReport]:
    """Reports that can be read. A broken one counts as missing, which is never good news."""
    data = (config_map or {}).get("data") or {}
    for key in sorted(data):
        report = _parsed(GatewayReport, data[key]) if key.startswith(names.REPORT_KEY_PREFIX) else None
        if report is not None:
            yield report


def _parsed(model: type[_M], text: str) -> _M | None:
    try:
        return model.model_validate_json(text)
    except ValidationError:
        return None


def timestamp(text: object) -> float:
    """Seconds since the epoch of an RFC 3339 time; 0.0 for whatever isn't one. Without a zone it is UTC.

    Some of these times stand where people can write (status), so none of them may end a pass.
    """
    if not isinstance(text, str):
        return 0.0
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return 0.0
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _integer(text: str | None) -> int | None:
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None
