"""What the operator's own configuration gives to every rendered object."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RenderSettings:
    """Images of the gateway pod (engine images come from the plan), and what the API server knows."""

    agent_image: str
    haproxy_image: str
    #: Does a HorizontalPodAutoscaler have a tolerance of its own (Kubernetes 1.35 and newer)?
    hpa_tolerance: bool = False
