"""What the operator's own configuration gives to every rendered object."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RenderSettings:
    """Images of the gateway pod. Engine images come from the plan."""

    agent_image: str
    haproxy_image: str
