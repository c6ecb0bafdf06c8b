"""`kubectl inference status`: what serves, what doesn't, why, and what to do."""

from __future__ import annotations

import time
from typing import Any, Final

from rich.console import RenderableType
from rich.text import Text

from ..api import names
from ..ports import KubeError, Object
from .access import Session, connected
from .errors import PluginError
from .live import keep_showing
from .options import Scope
from .output import show, write_document
from .status_text import overview, story
from .view import ClusterView, cluster_view, document, reports_of

_REFRESH_SECONDS: Final = 2.0


async def run(scope: Scope, name: str | None, output: str, watch: bool) -> None:
    """Print it once, or (`watch`) until Ctrl-C."""
    async with connected(scope) as session:
        if watch:
            await keep_showing(lambda: _seen(session, name), _REFRESH_SECONDS)
            return
        if name is not None:
            view = await look(session, await session.cluster(name))
            if output == "table":
                show(story(view, time.time()))
            else:
                write_document(document("ClusterStatus", **dumped(view)), output)
            return
        views = [cluster_view(cluster) for cluster in await session.clusters()]
        if output == "table":
            show(_overview(session, views))
        else:
            items = [dumped(view) for view in views]
            write_document(document("ClusterStatusList", items=items), output)


async def look(session: Session, cluster: Object) -> ClusterView:
    """One cluster with its pods. Without the right to read those, the rest is told."""
    namespace, name = cluster["metadata"]["namespace"], cluster["metadata"]["name"]
    missing = []
    pods: list[Object] = []
    report: Object | None = None
    try:
        pods = await session.pods(namespace, name)
    except PluginError as error:
        missing.append(f"engines and gateways: {error}")
    try:
        report = await session.client.get("ConfigMap", namespace, names.report_name(name))
    except KubeError as error:
        missing.append(f"how the gateways see the engines: {error}")
    return cluster_view(cluster, pods, reports_of(report), missing)


def dumped(view: ClusterView) -> dict[str, Any]:
    """As data with the API's field names."""
    return view.model_dump(mode="json", by_alias=True)


def _overview(session: Session, views: list[ClusterView]) -> RenderableType:
    if views:
        return overview(views, time.time(), namespaces=session.namespace is None)
    where = f"in namespace {session.namespace}" if session.namespace else "in any namespace"
    return Text(f"No InferenceCluster {where} of context {session.context.name}")


async def _seen(session: Session, name: str | None) -> RenderableType:
    if name is not None:
        return story(await look(session, await session.cluster(name)), time.time())
    return _overview(session, [cluster_view(cluster) for cluster in await session.clusters()])
