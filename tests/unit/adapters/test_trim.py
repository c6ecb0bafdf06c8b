"""What the watches keep of an object is all that core.observe reads of it."""

from __future__ import annotations

from typing import Any

from inference_operator.adapters.trim import trim_child
from inference_operator.api import names
from inference_operator.core.observe import observe, timestamp

Object = dict[str, Any]

OWNER = {"apiVersion": names.API_VERSION, "kind": names.KIND, "name": "llama", "uid": "u", "controller": True}
CLUSTER: Object = {"metadata": {"namespace": "ml", "name": "llama", "uid": "u", "generation": 1}}
ENDED = {
    "reason": "Error",
    "exitCode": 1,
    "startedAt": "2027-01-15T08:01:00Z",
    "finishedAt": "2027-01-15T08:02:00Z",
}


def metadata(name: str, owner: Object) -> Object:
    return {
        "namespace": "ml",
        "name": name,
        "uid": f"uid-{name}",
        "resourceVersion": "7",
        "creationTimestamp": "2027-01-15T08:00:00Z",
        "labels": {names.LABEL_REVISION: "r1", names.LABEL_COMPONENT: names.COMPONENT_ENGINE},
        "ownerReferences": [owner],
        "managedFields": [],
    }


POD: Object = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": metadata(
        "llama-r1-abc-x", {"kind": "ReplicaSet", "name": "llama-r1-abc", "uid": "rs", "controller": True}
    ),
    "spec": {"nodeName": "gpu-0", "containers": []},
    "status": {
        "phase": "Running",
        "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2027-01-15T08:00:30Z"},
            {"type": "Ready", "status": "False", "lastTransitionTime": "2027-01-15T08:00:40Z"},
        ],
        "containerStatuses": [
            {
                "name": "engine",
                "restartCount": 2,
                "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
                "lastState": {"terminated": ENDED},
            }
        ],
    },
}
RECORD: Object = {
    "apiVersion": "apps/v1",
    "kind": "ControllerRevision",
    "metadata": metadata("llama-r1", OWNER),
    "data": {
        "templateDigest": "d",
        "template": {},
        "plan": {
            "inputDigest": "i",
            "model": "m",
            "servedName": "s",
            "engine": "VLLM",
            "version": "0.32.0",
            "image": "vllm/vllm-openai:v0.32.0",
            "resourceName": "nvidia.com/gpu",
            "tensor": 1,
            "gpus": 1,
            "maxConcurrency": 64,
        },
    },
}
DEPLOYMENT: Object = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": metadata("llama-r1", OWNER),
    "spec": {"replicas": 3, "template": {}},
    "status": {
        "conditions": [{"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: pods"}]
    },
}


def test_a_trimmed_object_is_observed_as_the_whole_one() -> None:
    whole = {obj["kind"]: [obj] for obj in (POD, RECORD, DEPLOYMENT)}
    kept = {kind: [trim_child(obj) for obj in objects] for kind, objects in whole.items()}
    want = observe(CLUSTER, whole, lambda _: True)
    assert observe(CLUSTER, kept, lambda _: True) == want
    # Every part of it was there to be lost.
    made = want.revisions[0]
    engine = made.pods[0]
    assert engine.loading_since == timestamp("2027-01-15T08:00:40Z")
    assert (engine.ended, engine.last_run) == (timestamp("2027-01-15T08:02:00Z"), 60.0)
    assert (engine.waiting, engine.waiting_message, engine.restarts) == (
        "CrashLoopBackOff",
        "back-off 10s",
        2,
    )
    assert (made.replicas, made.create_error) == (3, "exceeded quota: pods")
