"""Values of fields that the user left out, and durations in seconds.

The CRD carries one default only (`spec.replicas`, which the scale subresource needs): a default written into
the object by the API server shows as drift in GitOps tools and freezes the value at its first apply.
These values are part of a revision's digest rule (a field at its default is left out), so they never change
within v1alpha1; the engine version is not among them, since it moves with the operator's releases.
"""

from __future__ import annotations

from typing import Final

LOAD_TIMEOUT: Final = "30m"
DRAIN_TIMEOUT: Final = "5m"
QUEUE_TIMEOUT: Final = "60s"
QUEUE_LENGTH: Final = 1000
GATEWAY_REPLICAS: Final = 2
GPUS_PER_NODE: Final = 8
RESOURCE_NAME: Final = "nvidia.com/gpu"
NODE_LOSS_TOLERATION_SECONDS: Final = 30
#: More replicas than any cluster has.
LARGEST_TOTAL: Final = 10_000
MIN_REPLICAS: Final = 1
MAX_REPLICAS: Final = 4
#: Each replica that comes back costs a whole model load, so a lull of minutes must not take one away.
SCALE_DOWN_WINDOW_SECONDS: Final = 300
SCALE_DOWN_PERIOD_SECONDS: Final = 120

_UNIT_SECONDS: Final = {"s": 1, "m": 60, "h": 3600}


def seconds(duration: str) -> int:
    """Whole seconds of a `Duration` of the API.

    >>> seconds("90s"), seconds("5m"), seconds("2h")
    (90, 300, 7200)
    """
    return int(duration[:-1]) * _UNIT_SECONDS[duration[-1]]
