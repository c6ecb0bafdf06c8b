"""The HorizontalPodAutoscaler of a cluster: it targets the InferenceCluster itself, never a Deployment.

So the total is one number whatever revisions there are, and the operator alone splits it over them.
"""

from __future__ import annotations

from typing import Final

from ..api import defaults, names
from ..api.autoscaling import Autoscaling, ScalingRules
from ..core.model import ClusterRef
from ..core.staffing import SCALE
from .common import Object, child
from .settings import RenderSettings

#: Up goes to what is needed at once. An Object metric's AverageValue doesn't compound while engines load.
_UP_PERIOD_SECONDS: Final = 15


def scaler(ref: ClusterRef, scaling: Autoscaling, settings: RenderSettings) -> Object:
    """One HPA pass lands on the number that core.staffing computes, since the figure is made for that."""
    low, high = scaling.bounds
    described = {"apiVersion": names.API_VERSION, "kind": names.KIND, "name": ref.name}
    metric = {
        "type": "Object",
        "object": {
            "describedObject": described,
            "metric": {"name": names.METRIC_LOAD},
            "target": {"type": "AverageValue", "averageValue": str(SCALE)},
        },
    }
    down = {"type": "Pods", "value": 1, "periodSeconds": defaults.SCALE_DOWN_PERIOD_SECONDS}
    up = {"type": "Pods", "value": high, "periodSeconds": _UP_PERIOD_SECONDS}
    behavior = scaling.behavior
    body = {
        "scaleTargetRef": described,
        "minReplicas": low,
        "maxReplicas": high,
        "metrics": [metric],
        "behavior": {
            "scaleUp": _rules(behavior.scale_up, 0, up, settings),
            "scaleDown": _rules(behavior.scale_down, defaults.SCALE_DOWN_WINDOW_SECONDS, down, settings),
        },
    }
    name = names.engine_name(ref.name)
    return child(
        "autoscaling/v2", "HorizontalPodAutoscaler", name, ref, names.COMPONENT_ENGINE, {"spec": body}
    )


def _rules(rules: ScalingRules, window: int, policy: Object, settings: RenderSettings) -> Object:
    """All fields, always: a default of Kubernetes' own (down to the minimum within 15 s) is none of ours."""
    given = rules.stabilization_window_seconds
    rendered: Object = {
        "stabilizationWindowSeconds": window if given is None else given,
        "selectPolicy": rules.select_policy or "Max",
        "policies": [
            {"type": p.type, "value": p.value, "periodSeconds": p.period_seconds} for p in rules.policies
        ]
        or [policy],
    }
    if settings.hpa_tolerance:
        # The default tolerance of 10 % would keep a pool of ten and more from growing by one.
        rendered["tolerance"] = "0"
    return rendered
