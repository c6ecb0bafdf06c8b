"""What a pass tells: the status, written when it differs; Events for moves; log lines with the same words."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence

from ..api import names
from ..api.operator_config import Prices
from ..api.v1alpha1 import InferenceClusterSpec, InferenceClusterStatus
from ..core.deletion import deletion_status
from ..core.edges import edges
from ..core.model import Decision, Note, Observed, Plan, Problem, TokenWindow
from ..core.observe import parse_status
from ..core.status import compute_status
from ..ports import Clock, Kube, KubeError, Metrics, NotFound, Object
from ..render.children import rendering_digest

log = logging.getLogger(__name__)


class Report:
    """One pass over one cluster."""

    def __init__(
        self,
        *,
        kube: Kube,
        metrics: Metrics,
        clock: Clock,
        cluster: Object,
        problems: Sequence[Problem],
        prices: Prices,
    ) -> None:
        """`cluster` as it was read in this pass, `problems` of its spec, `prices` of the operator
        configuration."""
        meta = cluster["metadata"]
        self._kube = kube
        self._metrics = metrics
        self._clock = clock
        self._cluster = cluster
        self._problems = problems
        self._prices = prices
        self._status = parse_status(cluster.get("status") or {})
        #: Keys of every log line of the pass.
        self.context: dict[str, object] = {
            "namespace": meta["namespace"],
            "name": meta["name"],
            "uid": meta["uid"],
            "generation": meta.get("generation", 0),
            "reconcileID": uuid.uuid4().hex[:12],
        }

    async def write(
        self,
        spec: InferenceClusterSpec | None,
        plan: Plan | None,
        observed: Observed,
        decision: Decision | None,
        errors: Sequence[KubeError] = (),
        tokens: Sequence[TokenWindow] | None = None,
    ) -> None:
        """Compute the whole status and write it if it isn't what stands there already.

        `tokens` as the gateways have counted them, None = nothing new is known.
        """
        target = decision.target if decision else None
        status = compute_status(
            spec,
            observed,
            decision,
            plan=plan,
            now=self._clock.now(),
            problems=self._problems,
            errors=[str(error) for error in errors if not error.transient],
            rendering=rendering_digest(observed.cluster.name, target, plan, spec)
            if spec and plan and target
            else None,
            prices=self._prices,
            tokens=tokens,
        )
        await self._write(status)

    async def write_deletion(self, observed: Observed) -> None:
        """Write that the cluster is being deleted, if that doesn't stand there already."""
        finalizers = self._cluster["metadata"].get("finalizers") or ()
        try:
            await self._write(deletion_status(observed, finalizers, self._clock.now()))
        except NotFound:
            log.debug("it is gone", extra={"context": self.context})

    async def _write(self, status: InferenceClusterStatus) -> None:
        if status == self._status:
            return
        meta = self._cluster["metadata"]
        await self._kube.apply_status(
            {
                "apiVersion": names.API_VERSION,
                "kind": names.KIND,
                # The uid makes it fail on a new cluster of the same name.
                "metadata": {"name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"]},
                "status": status.model_dump(mode="json", by_alias=True, exclude_none=True),
            }
        )
        self._metrics.status_written()
        before, self._status = self._status, status
        await self.tell(list(edges(before, status)))

    async def tell(self, notes: Sequence[Note]) -> None:
        """One Event and one log line per move. An Event that can't be written is only logged."""
        for note in notes:
            level = logging.WARNING if note.type == "Warning" else logging.INFO
            log.log(level, "%s", note.message, extra={"context": self.context, "reason": note.reason})
            try:
                await self._kube.event(self._cluster, note.type, note.reason, note.message)
            except KubeError as error:
                log.warning("no event", extra={"context": self.context, "reason": str(error)})
