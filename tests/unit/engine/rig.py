"""A reconciler on the fake API server, with helpers that read as sentences."""

from __future__ import annotations

from typing import Any

from inference_operator.api import names
from inference_operator.api.operator_config import Prices
from inference_operator.engine.directory import Directory
from inference_operator.engine.reconciler import Reconciler
from inference_operator.render.settings import RenderSettings
from tests.unit.engine.fake_kube import FakeKube, FakeStore, Object
from tests.unit.engine.fakes import CountingMetrics, FakeClock, FakeGateways

KEY = ("ns", "llama")


def cluster(name: str = "llama", **spec: Any) -> Object:
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {
            "model": {"id": "meta-llama/Llama-3.1-8B-Instruct"},
            "replicas": 2,
            # Most tests set replicas by hand.
            "autoscaling": {"mode": "Disabled"},
            **spec,
        },
    }


class Rig:
    def __init__(self, kube: FakeKube | None = None) -> None:
        self.kube = kube or FakeKube()
        self.store = FakeStore(self.kube)
        self.store.sync()
        self.clock = FakeClock(1_800_000_000.0)
        self.metrics = CountingMetrics()
        self.gateways = FakeGateways()
        self.prices = Prices()
        self.queued: list[tuple[str, str]] = []
        self.directory = Directory(self.queued.append)
        self.reconciler = Reconciler(
            kube=self.kube,
            store=self.store,
            directory=self.directory,
            clock=self.clock,
            metrics=self.metrics,
            jitter=lambda: 0.5,
            settings=lambda: RenderSettings(agent_image="operator:1", haproxy_image="haproxy:3.2"),
            gateways=self.gateways,
            prices=lambda: self.prices,
        )

    async def run(self, key: tuple[str, str] = KEY) -> float | None:
        return await self.reconciler.reconcile(key)

    async def run_until_quiet(self, key: tuple[str, str] = KEY) -> int:
        """Passes until one writes nothing; returns how many that took."""
        for passes in range(1, 20):
            self.store.sync()
            before = len(self.kube.writes)
            await self.run(key)
            if len(self.kube.writes) == before:
                return passes
        raise AssertionError(f"never quiet, last writes: {self.kube.writes[-5:]}")

    def status(self, name: str = "llama") -> Object:
        found: Object = self.kube.named(names.KIND, name).get("status", {})
        return found

    def condition(self, type_: str) -> Object:
        return next((c for c in self.status().get("conditions", []) if c["type"] == type_), {})

    def child(self, kind: str) -> list[Object]:
        return [obj for (k, _, _), obj in sorted(self.kube.objects.items()) if k == kind]
