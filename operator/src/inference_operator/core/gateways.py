"""Questions to the gateway's reports. Missing data is never good news."""

from __future__ import annotations

from collections.abc import Iterator

from ..api.routing import EngineReport, GatewayReport
from .model import EnginePod, GatewayObserved

#: Reports are written at most once a second, so an idle engine may be one that was drained a moment ago and
#: still counts as idle from an earlier drain. Seconds.
DRAIN_SETTLE = 2.0


def ready_reports(gateway: GatewayObserved) -> list[GatewayReport]:
    """Reports of the gateway pods that are ready now."""
    return [report for report in gateway.reports if report.gateway in gateway.ready_pods]


def _views(gateway: GatewayObserved, pod: str) -> Iterator[EngineReport | None]:
    """How each ready gateway pod sees an engine; None = it says nothing of it."""
    by_gateway = {report.gateway: report for report in gateway.reports}
    for name in gateway.ready_pods:
        report = by_gateway.get(name)
        yield next((engine for engine in report.engines if engine.pod == pod), None) if report else None


def acknowledged(gateway: GatewayObserved, pod: EnginePod) -> bool:
    """Do all ready gateway pods send requests to this engine?

    A pod is Ready for Kubernetes before the gateways have it in their backends: removing an old engine in
    that gap leaves nobody to serve (acceptance D5). Before the first report there is nobody to ask.
    """
    if not gateway.reports:
        return True
    return all(view is not None and view.state == "UP" for view in _views(gateway, pod.name))


def idle(gateway: GatewayObserved, pod: EnginePod) -> bool:
    """Has no gateway pod a request left on this drained engine?

    Gateway pods on their way out may still stream from it: what they said last counts too.
    """
    if not gateway.reports and not gateway.ready_pods:
        return True  # no gateway ever worked, so nobody ever sent a request
    if not gateway.ready_pods:
        return False
    if not all(
        view is not None and view.state == "DRAIN" and view.idle for view in _views(gateway, pod.name)
    ):
        return False
    leaving = (
        r for r in gateway.reports if r.gateway in gateway.pods and r.gateway not in gateway.ready_pods
    )
    return all(e.idle or e.state == "DOWN" for report in leaving for e in report.engines if e.pod == pod.name)


def down_everywhere(gateway: GatewayObserved, pod: EnginePod) -> bool:
    """Do all ready gateway pods that report say that this engine is down?"""
    views = [view for view in _views(gateway, pod.name) if view is not None]
    return bool(views) and all(view.state == "DOWN" for view in views)
