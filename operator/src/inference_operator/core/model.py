"""What the pure core reads and returns: frozen dataclasses, with no more behaviour than small questions.

    observe (dicts -> Observed)  ->  decide (spec, Observed, now -> Decision)  ->  render + apply  ->  status

Times are seconds since the epoch, durations are seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..api.conditions import Reason
from ..api.routing import Drain, GatewayReport
from ..api.v1alpha1 import InferenceClusterStatus


@dataclass(frozen=True)
class ClusterRef:
    """The InferenceCluster that a pass is about."""

    namespace: str
    name: str
    uid: str
    generation: int


@dataclass(frozen=True)
class Problem:
    """Why a spec or a plan doesn't hold: field path, the reason, and a message with the legal values."""

    field: str
    reason: Reason
    message: str


@dataclass(frozen=True)
class Plan:
    """What the spec became for one replica. Serialised into the revision, never made again for it."""

    #: Digest of every input of the planner: equal digest, equal plan.
    input_digest: str
    model_id: str
    served_name: str
    engine: str
    version: str
    image: str
    #: Complete command line behind the program name, user arguments included.
    args: tuple[str, ...]
    #: GPU type of the catalogue, None = any.
    accelerator: str | None
    #: Values of the node label nvidia.com/gpu.product that fit; empty = any.
    gpu_products: tuple[str, ...]
    resource_name: str
    tensor: int
    #: GPUs of one replica.
    gpus: int
    #: Requests that one replica works on at once.
    max_concurrency: int
    context_length: int | None
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class EnginePod:
    """One engine replica (a pod; later a group with one leader)."""

    name: str
    uid: str
    revision: str
    node: str
    created: float
    ready: bool
    terminating: bool
    #: Pending, Running, Succeeded, Failed.
    phase: str
    restarts: int = 0
    #: Reason of a waiting container: CrashLoopBackOff, ImagePullBackOff, ErrImagePull, …; "" = none.
    waiting: str = ""
    #: What the kubelet says about it, e.g. which image can't be pulled and why.
    waiting_message: str = ""
    #: Message of PodScheduled=False; "" = scheduled.
    unschedulable: str = ""
    #: Exit of the last container: "OOMKilled (137)", "Error (1)", …; "" = none.
    last_exit: str = ""
    deletion_cost: int | None = None
    #: The pod's node is known to be NotReady: the pod counts as lost.
    node_lost: bool = False
    #: Since when it has its node and isn't ready (of a ready one: since when it has its node); None = it has
    #: no node yet. Loading can't have begun before.
    loading_since: float | None = None
    #: When a container ended last; None = never.
    ended: float | None = None
    #: How long that container had run. Seconds.
    last_run: float = 0.0


@dataclass(frozen=True)
class Revision:
    """One frozen revision and what exists of it."""

    name: str
    created: float
    plan: Plan
    #: The pod template as written at creation, never rendered again.
    template: Mapping[str, Any]
    #: Digest of the template, kept to see whether today's rendering would differ.
    template_digest: str
    #: spec.replicas of its Deployment; None = the Deployment doesn't exist.
    replicas: int | None
    pods: tuple[EnginePod, ...] = ()
    #: Why the Deployment can't create pods (quota, admission); "" = it can.
    create_error: str = ""
    #: False = its record is gone and was read from the copy at the Deployment.
    recorded: bool = True

    @property
    def live(self) -> tuple[EnginePod, ...]:
        """Pods that exist and are not on their way out."""
        return tuple(p for p in self.pods if not p.terminating and p.phase not in ("Failed", "Succeeded"))

    @property
    def ready(self) -> tuple[EnginePod, ...]:
        """Live pods that are ready and whose node is there."""
        return tuple(p for p in self.live if p.ready and not p.node_lost)


@dataclass(frozen=True)
class GatewayObserved:
    """The gateway as Kubernetes and its own agents see it."""

    wanted: int
    #: Ready gateway pods by name.
    ready_pods: tuple[str, ...] = ()
    #: All live gateway pods by name.
    pods: tuple[str, ...] = ()
    #: Addresses of the ready ones.
    addresses: tuple[str, ...] = ()
    reports: tuple[GatewayReport, ...] = ()
    #: uid of the ServiceAccount of the gateway if younger than its Deployment: somebody deleted the first.
    renewed_account: str = ""
    #: Routing as last applied: share per revision, drains.
    shares: Mapping[str, int] = field(default_factory=dict)
    drains: tuple[Drain, ...] = ()


@dataclass(frozen=True)
class ScalerObserved:
    """Our HorizontalPodAutoscaler."""

    #: Replicas that it wants; None = it hasn't decided yet.
    desired: int | None = None
    #: Its own condition ScalingActive: can it read its metric? None = not said yet.
    active: bool | None = None
    #: Reason of that condition, one word.
    reason: str = ""
    #: It would set more replicas than its maximum.
    at_maximum: bool = False


@dataclass(frozen=True)
class MetricsApi:
    """Who answers custom.metrics.k8s.io in this Kubernetes cluster: there can be only one."""

    #: "<namespace>/<name>" of the Service behind it; "" = nobody does.
    service: str = ""
    #: It is our inference-metrics.
    ours: bool = False
    #: The API server reaches it.
    available: bool = False


NO_METRICS_API = MetricsApi()


@dataclass(frozen=True)
class ScalingObserved:
    """What scales this cluster, and what could."""

    ours: ScalerObserved | None = None
    #: Scalers of somebody else on this cluster, as people call them.
    rivals: tuple[str, ...] = ()
    api: MetricsApi = NO_METRICS_API
    #: Field manager that set spec.replicas last; "" = unknown.
    replicas_by: str = ""


@dataclass(frozen=True)
class TokenWindow:
    """Tokens that one gateway has counted of its engines in the last `seconds`."""

    #: How long it has looked.
    seconds: float
    prompt: int
    #: Prompt tokens that were in an engine's cache.
    cached: int
    generation: int

    @property
    def tokens(self) -> int:
        """Those that an engine had to work for."""
        return max(0, self.prompt - self.cached) + self.generation


@dataclass(frozen=True)
class Observed:
    """Everything that exists for one cluster at the start of a pass."""

    cluster: ClusterRef
    revisions: tuple[Revision, ...]
    gateway: GatewayObserved
    status: InferenceClusterStatus
    scaling: ScalingObserved = ScalingObserved()
    #: "Kind/name" of objects that carry our names or labels, but that something else controls.
    foreign: tuple[str, ...] = ()
    #: Pods that left their ReplicaSet, since somebody changed their labels: nothing would ever delete them.
    released: tuple[str, ...] = ()
    #: Pods that have a ReplicaSet again, and were made to go with the cluster in between.
    regained: tuple[str, ...] = ()
    #: Revision names of Deployments of ours without a record or its copy: nothing is known of their plan.
    unrecorded: tuple[str, ...] = ()

    def revision(self, name: str | None) -> Revision | None:
        """The revision of that name, if it exists."""
        return next((r for r in self.revisions if r.name == name), None)


@dataclass(frozen=True)
class Note:
    """One move with its reason: becomes an Event and a log line."""

    #: Normal or Warning.
    type: str
    #: CamelCase, stable.
    reason: str
    message: str


@dataclass(frozen=True)
class Decision:
    """What to do now. Applied blindly; the next pass starts from what exists then."""

    #: The revision that takes (or keeps) the traffic when nothing else happens.
    stable: str | None
    #: The revision that the spec asks for.
    target: str | None
    #: Engines wanted in all, and what keeps that from spec.replicas ("" = nothing).
    total: int = 0
    limited_by: str = ""
    #: Wanted spec.replicas per revision; a revision that isn't named is left alone.
    replicas: Mapping[str, int] = field(default_factory=dict)
    #: Share per revision in ten-thousandths; they add up to 10,000 or are all 0.
    shares: Mapping[str, int] = field(default_factory=dict)
    drains: tuple[Drain, ...] = ()
    #: An engine was chosen to go without knowing how busy any of them is.
    blind: bool = False
    #: Pods to mark as the first to go, by name.
    cheapest: tuple[str, ...] = ()
    #: Revisions whose objects are deleted.
    retire: tuple[str, ...] = ()
    #: CapacityAvailable's opinion when a rollout is held for want of GPUs; "" = not held.
    held: str = ""
    notes: tuple[Note, ...] = ()
    #: Look again after this many seconds even if nothing happens; None = the resync is enough.
    wake: float | None = None
