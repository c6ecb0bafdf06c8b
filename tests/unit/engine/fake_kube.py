"""A strict API server in memory, and the watch-fed view of it: enough of both for a reconcile pass.

uid, resourceVersion and generation, server-side apply with one manager's ownership, delete preconditions,
status isolation, injected refusals, and a process that dies before its n-th write.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from inference_operator.adapters.trim import trim_child, trim_scaler
from inference_operator.api import names
from inference_operator.core.fields import field_set
from inference_operator.core.model import MetricsApi
from inference_operator.core.observe_scaling import SCALER_KIND
from inference_operator.ports import Conflict, KubeError, NotFound

Object = dict[str, Any]
Key = tuple[str, str, str]


class Died(BaseException):
    """The process ended before this write: nothing of the pass runs any more, not even an except clause."""


class FakeKube:
    """Implements ports.Kube."""

    def __init__(self) -> None:
        self.objects: dict[Key, Object] = {}
        self.writes: list[str] = []
        self.reads: list[str] = []
        self.events: list[tuple[str, str, str]] = []
        #: Asked before each write with "verb Kind name"; an error that it returns is raised.
        self.refuse: Callable[[str], KubeError | None] = lambda what: None
        self.die_after: int | None = None
        self._versions = itertools.count(1)
        self._uids = itertools.count(1)

    # --- what a test does ---

    def create(self, obj: Object) -> Object:
        """As a user: POST."""
        stored = copy.deepcopy(obj)
        stored["metadata"] |= {
            "uid": f"uid-{next(self._uids)}",
            "resourceVersion": str(next(self._versions)),
            "generation": 1,
            "creationTimestamp": "2026-11-30T12:00:00Z",
        }
        self.objects[_key(stored)] = stored
        return stored

    def edit(self, kind: str, name: str, change: Callable[[Object], None], namespace: str = "ns") -> None:
        """As someone else: the field that is changed leaves our entry of managedFields."""
        obj = self.objects[kind, namespace, name]
        change(obj)
        obj["metadata"]["managedFields"] = []
        obj["metadata"]["resourceVersion"] = str(next(self._versions))

    def update_spec(self, name: str, namespace: str = "ns", **spec: Any) -> None:
        """As a user: change an InferenceCluster."""
        cluster = self.objects[names.KIND, namespace, name]
        cluster["spec"] |= spec
        cluster["metadata"]["generation"] += 1
        cluster["metadata"]["resourceVersion"] = str(next(self._versions))

    def kinds(self) -> list[str]:
        return sorted(kind for kind, _, _ in self.objects)

    def named(self, kind: str, name: str, namespace: str = "ns") -> Object:
        return self.objects[kind, namespace, name]

    # --- ports.Kube ---

    async def get(self, kind: str, namespace: str | None, name: str) -> Object | None:
        self.reads.append(f"get {kind} {name}")
        return copy.deepcopy(self.objects.get((kind, namespace or "", name)))

    async def find(self, kind: str, namespace: str, name: str) -> Object | None:
        self.reads.append(f"find {kind} {name}")
        return copy.deepcopy(self.objects.get((kind, namespace, name)))

    async def apply(self, obj: Object) -> Object:
        self._write("apply", obj["kind"], obj["metadata"]["name"])
        live = self.objects.get(_key(obj))
        if live is None:
            stored = self.create(obj)
            stored["metadata"]["managedFields"] = [_entry(obj)]
            return copy.deepcopy(stored)
        if obj["kind"] == "ControllerRevision" and obj["data"] != live["data"]:
            raise KubeError("data is immutable", status=422, transient=False)
        before = copy.deepcopy(live)
        _merge(live, copy.deepcopy(obj))
        live["metadata"]["managedFields"] = [_entry(obj)]
        if live != before:
            live["metadata"]["resourceVersion"] = str(next(self._versions))
        return copy.deepcopy(live)

    async def apply_status(self, obj: Object) -> Object:
        self._write("status", obj["kind"], obj["metadata"]["name"])
        live = self.objects.get(_key(obj))
        if live is None or live["metadata"]["uid"] != obj["metadata"]["uid"]:
            raise Conflict("uid mismatch", status=409, transient=True)
        live["status"] = copy.deepcopy(obj["status"])
        live["metadata"]["resourceVersion"] = str(next(self._versions))
        return copy.deepcopy(live)

    async def annotate(
        self, kind: str, namespace: str, name: str, annotations: Mapping[str, str | None]
    ) -> Object:
        self._write("annotate", kind, name)
        return self._patch(kind, namespace, name, {"metadata": {"annotations": dict(annotations)}})

    async def merge(self, kind: str, namespace: str, name: str, patch: Object) -> Object:
        self._write("merge", kind, name)
        return self._patch(kind, namespace, name, patch)

    async def delete(self, kind: str, namespace: str, name: str, *, uid: str, resource_version: str) -> None:
        self._write("delete", kind, name)
        live = self.objects.get((kind, namespace, name))
        if live is None:
            return
        meta = live["metadata"]
        if (meta["uid"], meta["resourceVersion"]) != (uid, resource_version):
            raise Conflict("precondition failed", status=409, transient=True)
        del self.objects[kind, namespace, name]

    async def event(self, involved: Object, type_: str, reason: str, message: str) -> None:
        self.events.append((type_, reason, message))

    def _patch(self, kind: str, namespace: str, name: str, patch: Object) -> Object:
        live = self.objects.get((kind, namespace, name))
        if live is None:
            raise NotFound("not found", status=404, transient=False)
        _merge(live, patch)
        live["metadata"]["resourceVersion"] = str(next(self._versions))
        return copy.deepcopy(live)

    def _write(self, verb: str, kind: str, name: str) -> None:
        if self.die_after is not None:
            if self.die_after == 0:
                raise Died
            self.die_after -= 1
        what = f"{verb} {kind} {name}"
        error = self.refuse(what)
        if error is not None:
            raise error
        self.writes.append(what)


class FakeStore:
    """Implements ports.Store. It knows what the test has synced, and the answers of our own writes."""

    def __init__(self, kube: FakeKube) -> None:
        self._kube = kube
        self._objects: dict[Key, Object] = {}
        self.lost_nodes: set[str] = set()
        self.api = MetricsApi("inference-system/metrics-api", ours=True, available=True)

    def sync(self) -> None:
        """The watches catch up with everything."""
        trimmed = {
            key: _trim(copy.deepcopy(obj))
            for key, obj in self._kube.objects.items()
            if _is_ours(obj) or key[0] == SCALER_KIND
        }
        self._objects = {key: obj for key, obj in trimmed.items() if obj is not None}

    def children(self, kind: str, namespace: str, cluster: str) -> Sequence[Object]:
        return [
            obj
            for (k, ns, _), obj in sorted(self._objects.items())
            if (k, ns, _cluster(obj)) == (kind, namespace, cluster)
        ]

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        return self._objects.get((kind, namespace, name))

    def node_ready(self, name: str) -> bool:
        return name not in self.lost_nodes

    def metrics_api(self) -> MetricsApi:
        return self.api

    def upsert(self, kind: str, obj: Object) -> None:
        self._objects[kind, obj["metadata"]["namespace"], obj["metadata"]["name"]] = trim_child(obj)


def _trim(obj: Object) -> Object | None:
    return trim_scaler(obj) if obj["kind"] == SCALER_KIND else trim_child(obj)


def _cluster(obj: Object) -> str:
    if obj["kind"] == SCALER_KIND:
        return str(obj["spec"]["scaleTargetRef"]["name"])
    return str(obj["metadata"]["labels"].get(names.LABEL_CLUSTER))


def _is_ours(obj: Object) -> bool:
    labels = obj["metadata"].get("labels") or {}
    return obj["kind"] != names.KIND and labels.get(names.LABEL_MANAGED_BY) == names.MANAGED_BY


def _entry(obj: Object) -> Object:
    return {"manager": names.FIELD_MANAGER, "operation": "Apply", "fieldsV1": field_set(obj)}


def _key(obj: Object) -> Key:
    meta = obj["metadata"]
    return obj["kind"], meta.get("namespace", ""), meta["name"]


def _merge(live: Object, patch: Object) -> None:
    for name, value in patch.items():
        if value is None:
            live.pop(name, None)
        elif isinstance(value, dict) and isinstance(live.get(name), dict):
            _merge(live[name], value)
        else:
            live[name] = value
