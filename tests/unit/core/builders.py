"""Observed states for tests: everything has a value that means "nothing special", tests name what matters."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from inference_operator.api.routing import Drain, EngineReport, GatewayEvent, GatewayReport
from inference_operator.api.v1alpha1 import InferenceClusterSpec, InferenceClusterStatus, RevisionsStatus
from inference_operator.core.model import (
    ClusterRef,
    EnginePod,
    GatewayObserved,
    Observed,
    Plan,
    Revision,
)

NOW = 1_800_000_000.0
REF = ClusterRef("ml", "llama", "uid-1", 3)

PLAN = Plan(
    input_digest="0" * 64,
    model_id="meta-llama/Llama-3.1-8B-Instruct",
    served_name="llama-8b",
    engine="VLLM",
    version="0.32.0",
    image="vllm/vllm-openai:v0.32.0",
    args=("meta-llama/Llama-3.1-8B-Instruct", "--served-model-name", "llama-8b", "--max-num-seqs", "64"),
    accelerator="H100",
    gpu_products=("NVIDIA-H100-80GB-HBM3",),
    resource_name="nvidia.com/gpu",
    tensor=1,
    gpus=1,
    max_concurrency=64,
    context_length=131072,
)


def make_plan(**changes: Any) -> Plan:
    return replace(PLAN, **changes)


def make_spec(**fields: Any) -> InferenceClusterSpec:
    """A spec from fields in their wire names; the model is given, and nothing scales by itself."""
    fields.setdefault("autoscaling", {"mode": "Disabled"})
    model = {"id": "meta-llama/Llama-3.1-8B-Instruct", **fields.pop("model", {})}
    return InferenceClusterSpec.model_validate_json(json.dumps({"model": model, **fields}))


def engine(name: str, revision: str = "a", **changes: Any) -> EnginePod:
    """A ready engine, made 1,000 s ago."""
    pod = EnginePod(
        name=name,
        uid=f"uid-{name}",
        revision=revision,
        node="gpu-0",
        created=NOW - 1000,
        ready=True,
        terminating=False,
        phase="Running",
        loading_since=NOW - 1000,
    )
    return replace(pod, **changes)


def loading(name: str, revision: str = "a", **changes: Any) -> EnginePod:
    """An engine that has its node and isn't ready yet."""
    return engine(
        name, revision, **{"ready": False, "created": NOW - 20, "loading_since": NOW - 20, **changes}
    )


def unschedulable(name: str, revision: str = "a", *, age: float = 60, **changes: Any) -> EnginePod:
    """An engine for which there is no GPU."""
    fields = {
        "ready": False,
        "node": "",
        "phase": "Pending",
        "created": NOW - age,
        "loading_since": None,
        "unschedulable": "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
    }
    return engine(name, revision, **{**fields, **changes})


def revision(
    name: str, pods: Sequence[EnginePod] = (), replicas: int | None = -1, *, age: float = 1000, **changes: Any
) -> Revision:
    """A revision whose Deployment asks for as many engines as there are live ones, unless told otherwise."""
    live = [pod for pod in pods if not pod.terminating]
    made = Revision(
        name=name,
        created=NOW - age,
        plan=PLAN,
        template={"metadata": {}, "spec": {}},
        template_digest="d" * 16,
        replicas=len(live) if replicas == -1 else replicas,
        pods=tuple(replace(pod, revision=name) for pod in pods),
    )
    return replace(made, **changes)


def engines_of(name: str, count: int, **changes: Any) -> list[EnginePod]:
    """Ready engines name-0, name-1, …; the last is the newest."""
    return [engine(f"{name}-{i}", name, **{"created": NOW - 1000 + i, **changes}) for i in range(count)]


def report(
    gateway: str, *, ready: bool = True, events: Sequence[GatewayEvent] = (), **states: str
) -> GatewayReport:
    """`states` by pod name with _ for -: UP, DOWN, DRAIN, IDLE (drained and idle)."""
    engines = tuple(
        EngineReport(
            pod=pod.replace("_", "-"),
            revision="",
            state="DRAIN" if state == "IDLE" else state,
            idle=state == "IDLE",
        )
        for pod, state in states.items()
    )
    return GatewayReport(
        gateway=gateway, ready=ready, routing_digest="", engines=engines, events=tuple(events)
    )


def gateway(
    *reports: GatewayReport,
    ready: Sequence[str] = ("g-0", "g-1"),
    drains: Sequence[Drain] = (),
    **changes: Any,
) -> GatewayObserved:
    """Two ready gateway pods, g-0 and g-1, that have reported what is given."""
    made = GatewayObserved(
        wanted=2, ready_pods=tuple(ready), pods=("g-0", "g-1"), reports=reports, drains=tuple(drains)
    )
    return replace(made, **changes)


def both(**states: str) -> GatewayObserved:
    """Both gateway pods see the same."""
    return gateway(report("g-0", **states), report("g-1", **states))


def seen_by_both(
    revisions: Sequence[Revision], drains: Sequence[Drain] = (), *, idle: bool = False
) -> GatewayObserved:
    """Both gateway pods see every ready engine UP, and the drained ones in DRAIN."""
    drained = {drain.pod for drain in drains}
    engines = tuple(
        EngineReport(
            pod=pod.name,
            revision=pod.revision,
            state="DRAIN" if pod.name in drained else "UP",
            idle=idle and pod.name in drained,
        )
        for made in revisions
        for pod in made.ready
    )
    reports = [
        GatewayReport(gateway=name, ready=True, routing_digest="", engines=engines) for name in ("g-0", "g-1")
    ]
    return gateway(*reports, drains=drains)


def observed(
    *revisions: Revision,
    stable: str | None = None,
    target: str | None = None,
    gateway: GatewayObserved | None = None,
    status: InferenceClusterStatus | None = None,
    **changes: Any,
) -> Observed:
    """`stable` and `target` as the status holds them; gateways see everything unless told otherwise."""
    known = RevisionsStatus(stable=stable, target=target or stable) if stable else None
    return Observed(
        cluster=REF,
        revisions=tuple(sorted(revisions, key=lambda r: r.created)),
        gateway=gateway or seen_by_both(revisions),
        status=status or InferenceClusterStatus(revisions=known),
        **changes,
    )
