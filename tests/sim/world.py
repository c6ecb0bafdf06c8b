"""A Kubernetes cluster in a few hundred lines: objects, and the controllers that react to them.

Time stands still but for `tick`. Every reaction is a method that looks at the objects and changes them, so a
test runs them in any order, as often as it likes, or not at all. What happens is written into `log` as prose.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from inference_operator.api import names
from inference_operator.api.routing import EngineReport, GatewayReport, Routing
from inference_operator.core.staffing import SCALE, load
from inference_operator.core.status import rfc3339

Object = dict[str, Any]
START = 1_800_000_000.0
#: Seconds from having a node to being ready, and from the deletion of a pod to its end.
LOAD_SECONDS = 4
END_SECONDS = 3
#: Requests that one engine works on at once, for the autoscaler's figure.
SLOTS = 8
#: An engine's last running request ends this long after its drain began.
BUSY_SECONDS = 6


class World:
    """One InferenceCluster named llama in namespace ml, and everything around it."""

    def __init__(self, spec: Object, *, gpus: int, gateways: bool = True) -> None:
        self.now = START
        self.gpus = gpus
        self.gateways = gateways
        self.objects: dict[tuple[str, str], Object] = {}
        self.log: list[str] = []
        #: Images whose engines crash at start.
        self.broken: set[str] = set()
        #: Open requests, for the autoscaler; None = it can't read its metric.
        self.demand: int | None = None
        #: Goes up with every change.
        self.version = 0
        #: Pods that were deleted while they still had requests.
        self.cut: list[str] = []
        self._serial = 0
        self.cluster: Object = {
            "metadata": {"name": "llama", "namespace": "ml", "uid": "uid-llama", "generation": 1},
            "spec": spec,
        }

    # --- the API server ---

    def children(self) -> dict[str, list[Object]]:
        found: dict[str, list[Object]] = {}
        for (kind, _), obj in sorted(self.objects.items()):
            found.setdefault(kind, []).append(obj)
        return found

    def change(self, spec: Object, why: str) -> None:
        self.say(f"user: {why}")
        self.cluster["spec"] = spec
        self.cluster["metadata"]["generation"] += 1
        self.version += 1

    def apply(self, obj: Object) -> None:
        key = (obj["kind"], obj["metadata"]["name"])
        live = self.objects.get(key)
        if live is not None and live["metadata"]["annotations"] == obj["metadata"]["annotations"]:
            return
        obj = json.loads(json.dumps(obj))
        if live is None:
            obj["metadata"] |= {"uid": self._uid(), "creationTimestamp": rfc3339(self.now)}
            self.objects[key] = obj
            self.say(f"operator: creates {key[0]} {key[1]}{_detail(obj)}")
            return
        if obj["kind"] == "ControllerRevision" and obj["data"] != live["data"]:
            raise AssertionError(f"ControllerRevision {key[1]} is immutable")
        before = _detail(live)
        kept = {k: live[k] for k in ("status", "data") if k in live and k not in obj}
        meta = {**obj["metadata"], **{k: live["metadata"][k] for k in ("uid", "creationTimestamp")}}
        self.objects[key] = {**obj, **kept, "metadata": meta}
        if _detail(obj) != before:
            self.say(f"operator: changes {key[0]} {key[1]}{_detail(obj)}")
        self.version += 1

    def delete(self, kind: str, name: str) -> bool:
        obj = self.objects.pop((kind, name), None)
        if obj is None:
            return False
        self.say(f"operator: deletes {kind} {name}")
        if kind == "Deployment":
            for pod in self.pods(name):
                self._end(pod)
        return True

    def annotate(self, pod: str, cost: str | None) -> None:
        annotations = self.objects["Pod", pod]["metadata"].setdefault("annotations", {})
        if cost is None:
            annotations.pop(names.ANNOTATION_DELETION_COST, None)
        else:
            annotations[names.ANNOTATION_DELETION_COST] = cost
        self.say(f"operator: {'marks' if cost else 'unmarks'} {pod}")

    def write_status(self, status: Object) -> None:
        if status != self.cluster.get("status"):
            self.cluster["status"] = status
            self.version += 1

    # --- what others see ---

    def pods(self, deployment: str) -> list[Object]:
        owner = f"{deployment}-{_HASH}"
        return [
            obj
            for (kind, _), obj in sorted(self.objects.items())
            if kind == "Pod" and obj["metadata"]["ownerReferences"][0]["name"] == owner
        ]

    def deployments(self) -> list[Object]:
        return [obj for (kind, _), obj in sorted(self.objects.items()) if kind == "Deployment"]

    def engines(self) -> list[Object]:
        return [p for d in self.deployments() for p in self.pods(d["metadata"]["name"]) if is_engine(p)]

    def serving(self) -> int:
        """Engines that take new requests now."""
        drained = self.drains()
        return sum(
            is_ready(pod) and not is_ending(pod) and pod["metadata"]["name"] not in drained
            for pod in self.engines()
        )

    def drains(self) -> dict[str, float]:
        routing = self.routing()
        return {drain.pod: drain.since for drain in routing.drains} if routing else {}

    def routing(self) -> Routing | None:
        config_map = self.objects.get(("ConfigMap", names.routing_name("llama")))
        return Routing.model_validate_json(config_map["data"][names.ROUTING_KEY]) if config_map else None

    # --- controllers ---

    def tick(self) -> None:
        self.now += 1

    def replica_sets(self) -> None:
        """As kube-controller-manager: missing pods are made, and of too many the cheapest go."""
        for deployment in self.deployments():
            name, wanted = deployment["metadata"]["name"], deployment["spec"]["replicas"]
            active = [pod for pod in self.pods(name) if not is_ending(pod)]
            for _ in range(wanted - len(active)):
                self._create_pod(deployment)
            for pod in sorted(active, key=_rank)[: max(0, len(active) - wanted)]:
                self._end(pod)

    def scheduler(self) -> None:
        for pod in [obj for (kind, _), obj in sorted(self.objects.items()) if kind == "Pod"]:
            if pod["spec"]["nodeName"] or is_ending(pod):
                continue
            used = sum(_gpus(other) for other in self.engines() if other["spec"]["nodeName"])
            if _gpus(pod) > self.gpus - used:
                self._condition(pod, "PodScheduled", "False", "0/1 nodes: Insufficient nvidia.com/gpu.")
                continue
            pod["spec"]["nodeName"] = "gpu-0"
            pod["scheduled"] = self.now
            self._condition(pod, "PodScheduled", "True", "")

    def kubelet(self) -> None:
        for (kind, name), pod in sorted(self.objects.items()):
            if kind != "Pod":
                continue
            if is_ending(pod):
                if self.now >= pod["ended"] + END_SECONDS or not pod["spec"]["nodeName"]:
                    del self.objects[kind, name]
                    self.say(f"kubelet: {name} is gone")
            elif pod["spec"]["nodeName"] and not is_ready(pod):
                self._start(pod)

    def gateway(self, index: int) -> None:
        """One agent: reports how it sees each engine after its last look at the routing document."""
        report = self.objects.get(("ConfigMap", names.report_name("llama")))
        pods = [p for p in self.pods(names.gateway_name("llama")) if is_ready(p) and not is_ending(p)]
        routing = self.routing()
        if report is None or routing is None or index >= len(pods) or not self.gateways:
            return
        me = pods[index]["metadata"]["name"]
        document = GatewayReport(
            gateway=me, ready=True, routing_digest="", engines=tuple(self._seen(routing))
        )
        data = report.setdefault("data", {})
        text = document.model_dump_json()
        if data.get(f"{names.REPORT_KEY_PREFIX}{me}") != text:
            data[f"{names.REPORT_KEY_PREFIX}{me}"] = text
            self.version += 1

    def autoscaler(self) -> None:
        """As kube-controller-manager with an Object metric, AverageValue and tolerance 0, and no window."""
        hpa = self.objects.get(("HorizontalPodAutoscaler", names.engine_name("llama")))
        status, spec = self.cluster.get("status") or {}, self.cluster["spec"]
        if hpa is None or not status.get("selector"):
            return
        active = {"type": "ScalingActive", "status": "True", "reason": "ValidMetricFound"}
        if self.demand is None:
            active = {"type": "ScalingActive", "status": "False", "reason": "FailedGetObjectMetric"}
            wanted = (hpa.get("status") or {}).get("desiredReplicas", 0)
        else:
            target, figure = SCALE * 1000, load(self.demand, SLOTS)
            running = status["replicas"]
            wanted = running if figure == target * running else math.ceil(figure / target)
            wanted = min(hpa["spec"]["maxReplicas"], max(hpa["spec"]["minReplicas"], wanted))
            if wanted != spec["replicas"]:
                self.change({**spec, "replicas": wanted}, f"(autoscaler) replicas {wanted}")
        now = {"desiredReplicas": wanted, "conditions": [active]}
        if hpa.get("status") != now:
            hpa["status"] = now
            self.version += 1

    def _seen(self, routing: Routing) -> Iterator[EngineReport]:
        tracks = {track.revision for track in routing.tracks}
        drains = {drain.pod: drain.since for drain in routing.drains}
        for pod in self.engines():
            name, revision = pod["metadata"]["name"], pod["metadata"]["labels"][names.LABEL_REVISION]
            if not is_ready(pod) or revision not in tracks:
                continue
            if name in drains:
                idle = self.now >= drains[name] + BUSY_SECONDS
                yield EngineReport(pod=name, revision=revision, state="DRAIN", idle=idle)
            else:
                yield EngineReport(pod=name, revision=revision, state="DRAIN" if is_ending(pod) else "UP")

    # --- helpers ---

    def say(self, text: str) -> None:
        self.log.append(f"{self.now - START:4.0f}s {text}")
        self.version += 1

    def _uid(self) -> str:
        self._serial += 1
        return f"uid-{self._serial}"

    def _create_pod(self, deployment: Object) -> None:
        uid = self._uid()
        name = f"{deployment['metadata']['name']}-{_HASH}-{self._serial:03}"
        owner = {
            "kind": "ReplicaSet",
            "name": f"{deployment['metadata']['name']}-{_HASH}",
            "controller": True,
        }
        template = deployment["spec"]["template"]
        self.objects["Pod", name] = {
            "kind": "Pod",
            "metadata": {
                "name": name,
                "uid": uid,
                "creationTimestamp": rfc3339(self.now),
                "labels": dict(template["metadata"]["labels"]),
                "ownerReferences": [owner | {"uid": "rs"}],
            },
            "spec": {"nodeName": "", "containers": template["spec"]["containers"]},
            "status": {"phase": "Pending", "conditions": []},
        }
        self.say(f"replicaset: creates {name}")

    def _end(self, pod: Object) -> None:
        if is_ending(pod):
            return
        name = pod["metadata"]["name"]
        since = self.drains().get(name)
        if is_engine(pod) and is_ready(pod) and (since is None or self.now < since + BUSY_SECONDS):
            self.cut.append(name)
        pod["metadata"]["deletionTimestamp"] = rfc3339(self.now)
        pod["ended"] = self.now
        self.say(f"replicaset: deletes {name}")

    def _start(self, pod: Object) -> None:
        name = pod["metadata"]["name"]
        if pod["spec"]["containers"][0]["image"] in self.broken:
            state = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off restarting"}}
            ran = {"startedAt": rfc3339(pod["scheduled"]), "finishedAt": rfc3339(pod["scheduled"] + 1)}
            last = {"terminated": {"reason": "Error", "exitCode": 1, **ran}}
            statuses = [{"name": "engine", "restartCount": 3, "state": state, "lastState": last}]
            if pod["status"].get("containerStatuses") != statuses:
                pod["status"]["containerStatuses"] = statuses
                self.say(f"kubelet: {name} crashes")
        elif self.now >= pod["scheduled"] + LOAD_SECONDS:
            pod["status"]["phase"] = "Running"
            self._condition(pod, "Ready", "True", "")
            self.say(f"kubelet: {name} is ready")

    def _condition(self, pod: Object, kind: str, status: str, message: str) -> None:
        conditions = [c for c in pod["status"]["conditions"] if c["type"] != kind]
        new = {"type": kind, "status": status, "message": message, "lastTransitionTime": rfc3339(self.now)}
        old = [c for c in pod["status"]["conditions"] if c["type"] == kind]
        if old and old[0]["status"] == status and old[0]["message"] == message:
            return
        pod["status"]["conditions"] = [*conditions, new]
        self.version += 1


_HASH = "abc12"


def is_engine(pod: Object) -> bool:
    return pod["metadata"]["labels"][names.LABEL_COMPONENT] == names.COMPONENT_ENGINE


def is_ending(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def is_ready(pod: Object) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"]["conditions"])


def _gpus(pod: Object) -> int:
    return int(pod["spec"]["containers"][0]["resources"]["requests"].get("nvidia.com/gpu", 0))


def _rank(pod: Object) -> tuple[bool, bool, int, str]:
    """controller.ActivePodsWithRanks: unassigned, not ready, lower cost, newer."""
    cost = int(pod["metadata"].get("annotations", {}).get(names.ANNOTATION_DELETION_COST, 0))
    newest = "".join(chr(255 - ord(c)) for c in pod["metadata"]["creationTimestamp"])
    return bool(pod["spec"]["nodeName"]), is_ready(pod), cost, newest


def _detail(obj: Object) -> str:
    """The part of an object that a reader of the log wants to see."""
    if obj["kind"] == "Deployment":
        return f" with {obj['spec']['replicas']} replicas"
    if obj["kind"] == "ConfigMap" and names.ROUTING_KEY in obj.get("data", {}):
        routing = Routing.model_validate_json(obj["data"][names.ROUTING_KEY])
        shares = ", ".join(f"{track.revision} {track.share / 100:g} %" for track in routing.tracks)
        drains = "".join(f", draining {drain.pod}" for drain in routing.drains)
        return f": {shares}{drains}"
    return ""
