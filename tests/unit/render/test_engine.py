"""The engine's pod template against what hurt others (acceptance groups A, B, F, G)."""

from __future__ import annotations

import http.server
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from inference_operator.planner import plan as planner
from inference_operator.planner.reserved import env_reason
from inference_operator.render.engine import MODEL_LISTED, MODELS_ROOT, pod_template
from inference_operator.render.quantity import mebibytes
from tests.unit.core.builders import PLAN, make_plan, make_spec

Object = dict[str, Any]


def template(plan: Any = PLAN, **spec: Any) -> Object:
    return pod_template("llama", "0123456789", plan, make_spec(**spec))


def pod(plan: Any = PLAN, **spec: Any) -> Object:
    found: Object = template(plan, **spec)["spec"]
    return found


def container(plan: Any = PLAN, **spec: Any) -> Object:
    (found,) = pod(plan, **spec)["containers"]
    return found  # type: ignore[no-any-return]


def env(plan: Any = PLAN, **spec: Any) -> dict[str, Any]:
    return {v["name"]: v.get("value", v.get("valueFrom")) for v in container(plan, **spec)["env"]}


# --- probes ---


@pytest.mark.parametrize(("timeout", "seconds"), [(None, 1800), ("90s", 90), ("3h", 10_800)])
def test_the_startup_probe_covers_the_whole_load(timeout: str | None, seconds: int) -> None:
    probe = container(engine={"loadTimeout": timeout} if timeout else {})["startupProbe"]
    assert probe["periodSeconds"] == 2
    assert probe["failureThreshold"] * probe["periodSeconds"] == seconds


def test_no_probe_waits_before_its_first_try() -> None:
    made = container()
    for name in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert "initialDelaySeconds" not in made[name]


def test_liveness_survives_a_minute_of_silence() -> None:
    probe = container()["livenessProbe"]
    assert probe["periodSeconds"] * (probe["failureThreshold"] - 1) >= 60


def test_liveness_and_readiness_ask_the_engine_itself() -> None:
    made = container()
    for name in ("readinessProbe", "livenessProbe"):
        assert made[name]["httpGet"] == {"path": "/health", "port": "http", "scheme": "HTTP"}


def test_readiness_fails_within_five_seconds() -> None:
    probe = container()["readinessProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] <= 5


class _Models(http.server.BaseHTTPRequestHandler):
    answer = b""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.answer if self.path == "/v1/models" else b"{}")

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def models() -> Iterator[int]:
    server = http.server.HTTPServer(("127.0.0.1", 0), _Models)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({"data": [{"id": "llama-8b"}]}, 0),
        ({"data": [{"id": "lora"}, {"id": "llama-8b"}]}, 0),
        ({"data": [{"id": "other"}]}, 1),
        ({"data": []}, 1),
        ({}, 1),
    ],
)
def test_the_startup_probe_passes_only_when_the_served_name_is_listed(
    models: int, answer: Object, code: int
) -> None:
    """Acceptance A12: /health may be 200 before the model serves. Proxies of the environment are not
    asked."""
    _Models.answer = json.dumps(answer).encode()
    program = MODEL_LISTED.replace("8000", str(models))
    done = subprocess.run(
        [sys.executable, "-c", program, "llama-8b"],
        capture_output=True,
        env={"http_proxy": "http://127.0.0.1:1"},
        check=False,
    )
    assert done.returncode == code, done.stderr


def test_the_startup_probe_fails_while_nothing_listens(models: int) -> None:
    program = MODEL_LISTED.replace("8000", "1")
    assert subprocess.run([sys.executable, "-c", program, "x"], capture_output=True, check=False).returncode


def test_the_served_name_is_an_argument_and_never_code() -> None:
    command = container(make_plan(served_name="a'); print(('"))["startupProbe"]["exec"]["command"]
    assert command == ["python3", "-c", MODEL_LISTED, "a'); print(('"]


# --- the end of a pod ---


@pytest.mark.parametrize("drain", ["1s", "5m", "2h"])
def test_the_grace_is_longer_than_pre_stop_and_drain_together(drain: str) -> None:
    made = pod(engine={"drainTimeout": drain})
    pre_stop = made["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    seconds = {"1s": 1, "5m": 300, "2h": 7200}[drain]
    assert made["terminationGracePeriodSeconds"] > pre_stop + seconds + 15
    assert pre_stop >= 5


def test_an_engine_that_ends_is_started_again_whatever_its_exit_code() -> None:
    assert pod()["restartPolicy"] == "Always"


# --- GPUs and memory ---


@pytest.mark.parametrize("gpus", [1, 4])
def test_gpus_are_asked_for_under_the_plans_resource_name(gpus: int) -> None:
    made = container(make_plan(gpus=gpus, resource_name="nvidia.com/mig-1g.10gb"))["resources"]
    want = {"nvidia.com/mig-1g.10gb": str(gpus)}
    assert made == {"requests": want, "limits": want}


def test_which_gpus_are_visible_is_the_kubelets_work() -> None:
    assert "NVIDIA_VISIBLE_DEVICES" not in json.dumps(template(make_plan(gpus=8)))


def test_shared_memory_is_there_for_several_gpus_and_counts_in_the_limit() -> None:
    made = pod(make_plan(gpus=4), engine={"resources": {"cpu": "8", "memory": "64Gi"}})
    assert {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8192Mi"}} in made["volumes"]
    resources = made["containers"][0]["resources"]
    assert resources["requests"]["memory"] == resources["limits"]["memory"] == "73728Mi"
    assert resources["requests"]["cpu"] == "8"
    assert "cpu" not in resources["limits"]


def test_one_gpu_needs_no_shared_memory_and_keeps_the_users_words() -> None:
    made = pod(engine={"resources": {"memory": "64Gi"}})
    assert [volume["name"] for volume in made["volumes"]] == ["cache"]
    assert made["containers"][0]["resources"]["limits"]["memory"] == "64Gi"


@pytest.mark.parametrize(
    ("quantity", "want"),
    [("64Gi", 65536), ("1G", 954), ("1.5Mi", 2), ("1", 1), ("500m", 1), ("1Ti", 1048576), ("1048576k", 1000)],
)
def test_memory_quantities(quantity: str, want: int) -> None:
    assert mebibytes(quantity) == want


# --- where it runs ---


def test_the_gpu_type_is_matched_by_the_products_of_the_catalogue() -> None:
    made = pod(make_plan(gpu_products=("NVIDIA-H100-80GB-HBM3", "NVIDIA-H100-NVL")))
    terms = made["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert terms["nodeSelectorTerms"] == [
        {
            "matchExpressions": [
                {
                    "key": "nvidia.com/gpu.product",
                    "operator": "In",
                    "values": ["NVIDIA-H100-80GB-HBM3", "NVIDIA-H100-NVL"],
                }
            ]
        }
    ]
    assert "affinity" not in pod(make_plan(gpu_products=()))


def test_gpu_taints_are_tolerated_and_a_lost_node_is_left_early() -> None:
    theirs = {"key": "team", "operator": "Equal", "value": "a", "effect": "NoSchedule"}
    made = pod(placement={"tolerations": [theirs], "nodeLossTolerationSeconds": 0})["tolerations"]
    assert made[:2] == [{"key": "nvidia.com/gpu", "operator": "Exists"}, theirs]
    assert [(t["key"], t["effect"], t["tolerationSeconds"]) for t in made[2:]] == [
        ("node.kubernetes.io/not-ready", "NoExecute", 0),
        ("node.kubernetes.io/unreachable", "NoExecute", 0),
    ]
    assert pod()["tolerations"][-1]["tolerationSeconds"] == 30


def test_another_resources_name_is_tolerated_as_a_taint_too() -> None:
    keys = [t["key"] for t in pod(make_plan(resource_name="amd.com/gpu"))["tolerations"]]
    assert keys[:2] == ["nvidia.com/gpu", "amd.com/gpu"]


def test_engines_of_a_revision_spread_over_nodes_if_they_can() -> None:
    (made,) = pod()["topologySpreadConstraints"]
    assert made["whenUnsatisfiable"] == "ScheduleAnyway"
    assert made["labelSelector"]["matchLabels"]["inferencecluster.io/revision"] == "0123456789"


def test_the_rest_of_placement_is_passed_on() -> None:
    placement = {
        "nodeSelector": {"pool": "gpu"},
        "runtimeClassName": "nvidia",
        "schedulerName": "volcano",
        "priorityClassName": "high",
    }
    made = pod(placement=placement, imagePullSecrets=[{"name": "registry"}])
    assert {key: made[key] for key in placement} == placement
    assert made["imagePullSecrets"] == [{"name": "registry"}]
    absent = {"nodeSelector", "runtimeClassName", "schedulerName", "priorityClassName", "imagePullSecrets"}
    assert not absent & set(pod())


# --- weights, environment ---


def test_weights_on_a_volume_are_read_only_and_the_engine_stays_offline() -> None:
    source = {"persistentVolumeClaim": {"claimName": "weights", "path": "llama"}}
    made = pod(model={"source": source})
    claim = {"claimName": "weights", "readOnly": True}
    assert {"name": "models", "persistentVolumeClaim": claim} in made["volumes"]
    mount = {"name": "models", "mountPath": "/models", "readOnly": True}
    assert mount in made["containers"][0]["volumeMounts"]
    assert env(model={"source": source})["HF_HUB_OFFLINE"] == "1"
    assert "HF_HUB_OFFLINE" not in env()


def test_the_planner_looks_for_weights_where_they_are_mounted() -> None:
    assert planner.MODELS_ROOT == MODELS_ROOT


def test_the_token_is_a_reference_and_nothing_else_of_the_secret() -> None:
    made = env(model={"source": {"huggingFace": {"tokenSecretRef": {"name": "hub"}}}})
    assert made["HF_TOKEN"] == {"secretKeyRef": {"name": "hub", "key": "token"}}
    assert "HF_TOKEN" not in env()


def test_caches_outlive_the_container() -> None:
    made = env()
    mounts = {mount["mountPath"] for mount in container()["volumeMounts"]}
    for name in ("HF_HOME", "VLLM_CACHE_ROOT", "HOME"):
        assert made[name].startswith("/cache")
    assert "/cache" in mounts


def test_nothing_is_reported_to_the_makers_of_the_engine() -> None:
    assert (env()["VLLM_NO_USAGE_STATS"], env()["DO_NOT_TRACK"]) == ("1", "1")


def test_the_engines_own_start_limit_is_the_load_timeout() -> None:
    assert env(engine={"loadTimeout": "2h"})["VLLM_ENGINE_READY_TIMEOUT_S"] == "7200"


def test_a_users_variable_comes_once_and_wins() -> None:
    made = container(engine={"env": [{"name": "DO_NOT_TRACK", "value": "0"}, {"name": "A", "value": "b"}]})
    names = [variable["name"] for variable in made["env"]]
    assert len(names) == len(set(names))
    assert env(engine={"env": [{"name": "DO_NOT_TRACK", "value": "0"}]})["DO_NOT_TRACK"] == "0"


def test_what_the_engine_cannot_do_without_is_refused_to_users() -> None:
    for name in ("HOME", "HF_HOME", "VLLM_CACHE_ROOT", "HF_TOKEN", "HF_HUB_OFFLINE"):
        assert env_reason(name), f"{name} could be overwritten"


# --- security ---


def test_the_pod_is_restricted() -> None:
    """Pod Security Standard "restricted", and no way to the API server."""
    made = pod(make_plan(gpus=8))
    assert made["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 2000,
        "runAsGroup": 0,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert made["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert made["automountServiceAccountToken"] is False
    assert made["enableServiceLinks"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC", "serviceAccountName"} & set(made)
    kinds = {kind for volume in made["volumes"] for kind in volume if kind != "name"}
    assert kinds <= {"emptyDir", "persistentVolumeClaim"}


def test_the_program_is_named_since_the_images_entry_point_changed_between_versions() -> None:
    made = container()
    assert made["command"] == ["vllm", "serve"]
    assert made["args"] == list(PLAN.args)


def test_users_labels_and_annotations_stand_beside_ours_and_never_replace_them() -> None:
    labels = {"team": "a", "inferencecluster.io/revision": "other"}
    made = template(podMetadata={"labels": labels, "annotations": {"note": "b"}})["metadata"]
    assert made["labels"]["team"] == "a"
    assert made["labels"]["inferencecluster.io/revision"] == "0123456789"
    assert made["annotations"]["note"] == "b"
    assert "app.kubernetes.io/instance" not in made["labels"]
