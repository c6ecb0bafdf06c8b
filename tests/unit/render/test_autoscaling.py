"""Our HorizontalPodAutoscaler."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from inference_operator.api.autoscaling import Autoscaling
from inference_operator.core.model import MetricsApi, ScalingObserved
from inference_operator.render.autoscaling import scaler
from inference_operator.render.children import children, unwanted
from inference_operator.render.settings import RenderSettings
from tests.unit.core.builders import PLAN, REF, make_spec, observed
from tests.unit.render.test_children import NEW

SETTINGS = RenderSettings(agent_image="operator:1", haproxy_image="haproxy:3.2")
OURS = MetricsApi("inference-system/metrics", ours=True, available=True)
SCALER = ("HorizontalPodAutoscaler", "llama-engine")


def made(settings: RenderSettings = SETTINGS, **scaling: Any) -> dict[str, Any]:
    parsed = Autoscaling.model_validate(scaling)
    return scaler(REF, parsed, settings)["spec"]  # type: ignore[no-any-return]


def test_it_targets_the_cluster_itself_and_one_object_metric_of_it() -> None:
    spec = made(minReplicas=2, maxReplicas=9)
    target = {"apiVersion": "inferencecluster.io/v1alpha1", "kind": "InferenceCluster", "name": "llama"}
    assert spec["scaleTargetRef"] == target
    assert (spec["minReplicas"], spec["maxReplicas"]) == (2, 9)
    assert spec["metrics"] == [
        {
            "type": "Object",
            "object": {
                "describedObject": target,
                "metric": {"name": "inference_load_percent"},
                "target": {"type": "AverageValue", "averageValue": "100"},
            },
        }
    ]


def test_up_at_once_down_slowly_and_both_always_said() -> None:
    """Acceptance E12: without scaleDown, Kubernetes goes to the minimum within 15 seconds."""
    assert made(maxReplicas=9)["behavior"] == {
        "scaleUp": {
            "stabilizationWindowSeconds": 0,
            "selectPolicy": "Max",
            "policies": [{"type": "Pods", "value": 9, "periodSeconds": 15}],
        },
        "scaleDown": {
            "stabilizationWindowSeconds": 300,
            "selectPolicy": "Max",
            "policies": [{"type": "Pods", "value": 1, "periodSeconds": 120}],
        },
    }


def test_a_users_behaviour_wins_field_by_field() -> None:
    down = {
        "stabilizationWindowSeconds": 0,
        "policies": [{"type": "Percent", "value": 50, "periodSeconds": 30}],
    }
    got = made(behavior={"scaleDown": down, "scaleUp": {"selectPolicy": "Disabled"}})["behavior"]
    assert got["scaleDown"] == {**down, "selectPolicy": "Max"}
    assert got["scaleUp"]["selectPolicy"] == "Disabled"
    assert got["scaleUp"]["policies"] == [{"type": "Pods", "value": 4, "periodSeconds": 15}]


def test_the_tolerance_is_0_where_kubernetes_knows_one() -> None:
    got = made(replace(SETTINGS, hpa_tolerance=True))["behavior"]
    assert [rules["tolerance"] for rules in got.values()] == ["0", "0"]


def test_it_exists_only_while_it_is_wanted() -> None:
    automatic = make_spec(replicas=2, autoscaling={})
    state = replace(observed(), scaling=ScalingObserved(api=OURS))
    kinds = [o["kind"] for o in children(automatic, PLAN, state, NEW, SETTINGS)]
    assert kinds.count("HorizontalPodAutoscaler") == 1
    assert SCALER not in unwanted(automatic, state, NEW)
    for spec, other in (
        (make_spec(replicas=2, autoscaling={"mode": "Disabled"}), state),
        (make_spec(replicas=0, autoscaling={}), state),
        (automatic, observed()),
    ):
        made_kinds = [o["kind"] for o in children(spec, PLAN, other, NEW, SETTINGS)]
        assert "HorizontalPodAutoscaler" not in made_kinds
        assert SCALER in unwanted(spec, other, NEW)
