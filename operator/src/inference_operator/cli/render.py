"""`kubectl inference render`: the plan and every child object of a manifest, without any cluster."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from ..api import names
from ..api.conditions import Reason
from ..api.parse import parse_spec
from ..api.schema import NAME_PATTERN
from ..api.v1alpha1 import InferenceClusterSpec, InferenceClusterStatus
from ..core.decide import decide
from ..core.model import ClusterRef, GatewayObserved, MetricsApi, Observed, Plan, Problem, ScalingObserved
from ..core.revision import revision_name
from ..planner.plan import make_plan
from ..ports import Object
from ..render.children import children
from ..render.policies import agent_access
from ..render.settings import RenderSettings
from .errors import PluginError
from .output import to_yaml
from .text import one_line, printable, some

#: What an InferenceCluster of Kubernetes has and a file doesn't; the references to it are left out again.
_NO_UID: Final = "00000000-0000-0000-0000-000000000000"
_METRICS_API: Final = MetricsApi(service="inference-system/inference-metrics", ours=True, available=True)


@dataclass(frozen=True)
class Rendered:
    """One cluster of the file."""

    ref: ClusterRef
    plan: Plan
    revision: str
    objects: list[Object]


def run(file: str, namespace: str | None, settings: RenderSettings) -> None:
    """Print all clusters of a file ("-" is standard input).

    Raises PluginError for a file that can't be read, and after printing the problems of its specs.
    """
    clusters = _clusters(_read(file), file)
    broken = 0
    for cluster in clusters:
        made = rendered(cluster, namespace or "default", settings)
        if isinstance(made, Rendered):
            sys.stdout.write(as_text(made))
            continue
        broken += 1
        name = one_line(str(_metadata(cluster).get("name") or "(no name)"))
        for problem in made:
            sys.stderr.write(f"{name}: {one_line(problem.field)}: {one_line(problem.message)}\n")
    if broken:
        raise PluginError(
            f"{some(broken, 'InferenceCluster')} of {file} can't be planned: mend the fields named above"
        )


def rendered(cluster: Object, namespace: str, settings: RenderSettings) -> Rendered | tuple[Problem, ...]:
    """What the operator would make of it in an empty namespace, or everything that is wrong with it.

    `namespace` counts when the manifest names none.
    """
    metadata = _metadata(cluster)
    name = str(metadata.get("name") or "")
    problems = list(_name_problems(name))
    spec = parse_spec(cluster.get("spec") or {})
    if not isinstance(spec, InferenceClusterSpec):
        found = (Problem(e.field, Reason.SCHEMA_VIOLATION, e.message) for e in spec)
        return (*problems, *found)
    plan = make_plan(spec)
    if not isinstance(plan, Plan):
        return (*problems, *plan)
    if problems:
        return tuple(problems)
    ref = ClusterRef(str(metadata.get("namespace") or namespace), name, _NO_UID, 1)
    observed = Observed(
        cluster=ref,
        revisions=(),
        gateway=GatewayObserved(wanted=0),
        status=InferenceClusterStatus(),
        scaling=ScalingObserved(api=_METRICS_API),
    )
    revision = revision_name(plan, spec)
    decision = decide(spec, revision, observed, 0.0)
    objects = [
        *agent_access(ref.namespace, [(ref.name, ref.uid)]),
        *children(spec, plan, observed, decision, settings),
    ]
    return Rendered(ref, plan, revision, [_ownerless(obj) for obj in objects])


def as_text(made: Rendered) -> str:
    """The plan as comments, then one YAML document an object."""
    head = "".join(f"# {one_line(line)}\n" for line in _plan_lines(made))
    return head + "".join(f"---\n{to_yaml(obj)}" for obj in made.objects)


def _plan_lines(made: Rendered) -> Iterator[str]:
    plan = made.plan
    yield f"InferenceCluster {made.ref.namespace}/{made.ref.name}: revision {made.revision}"
    yield f"model: {plan.model_id}, served as {plan.served_name}"
    yield f"engine: {plan.engine} {plan.version}, {plan.image}"
    kind = f" ({plan.accelerator})" if plan.accelerator else ""
    yield f"GPUs: {plan.gpus} x {plan.resource_name}{kind} a replica, tensor {plan.tensor}"
    context = f", {plan.context_length} tokens of context" if plan.context_length else ""
    yield f"concurrency: {plan.max_concurrency} requests at once a replica{context}"
    yield f"arguments: {' '.join(plan.args)}"
    for reason in plan.reasons:
        yield f"reason: {reason}"
    yield "For review: the operator makes these objects itself, and they belong to the InferenceCluster then."
    yield "Here they have no owner: applied by hand, nothing routes, scales or deletes them."


def _metadata(cluster: Object) -> Object:
    found = cluster.get("metadata")
    return found if isinstance(found, dict) else {}


def _ownerless(obj: Object) -> Object:
    """An owner's uid exists only in a cluster, and an invented one has the object collected as garbage."""
    metadata = {key: value for key, value in obj["metadata"].items() if key != "ownerReferences"}
    return {**obj, "metadata": metadata}


def _name_problems(name: str) -> Iterator[Problem]:
    if not re.fullmatch(NAME_PATTERN, name):
        text = (
            f"{name!r} is no legal name: at most 52 lower-case letters, digits and dashes, a letter first, "
            "no dash at the end"
        )
        yield Problem("metadata.name", Reason.SCHEMA_VIOLATION, text)


def _read(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise PluginError(f"can't read {file}: {error}: name a manifest, or - for standard input") from error


def _clusters(text: str, file: str) -> list[Object]:
    """The InferenceClusters of a YAML stream, those in a List included; other objects are passed by."""
    try:
        documents: list[Any] = list(yaml.safe_load_all(text))
    except yaml.YAMLError as error:
        where = printable(" ".join(str(error).split()))
        raise PluginError(f"{file} is no YAML: {where}: mend it there") from error
    found: list[Object] = []
    for document in documents:
        items = document.get("items") if isinstance(document, dict) and "items" in document else [document]
        found += [item for item in items or () if isinstance(item, dict) and item.get("kind") == names.KIND]
    if not found:
        raise PluginError(
            f"{file} holds no InferenceCluster: it has to have kind: {names.KIND} and "
            f"apiVersion: {names.API_VERSION}"
        )
    other = [str(o.get("apiVersion")) for o in found if o.get("apiVersion") != names.API_VERSION]
    if other:
        raise PluginError(
            f"{file} has apiVersion {one_line(other[0])}, this plugin knows {names.API_VERSION}: change it, "
            "or use the plugin of that release"
        )
    return found
