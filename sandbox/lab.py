"""What demo, benches and cluster tests do with a sandbox: install, apply, wait, load, break, look.

Reads go straight to the API server (a kubectl process costs a quarter of a second on a small machine, which
would be measured instead of the product); writes that a user would make go through kubectl and helm.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from typing import Any, TypeVar

from kubernetes import config
from kubernetes.client import ApiClient

from .client import Sandbox
from .load import Outcome

ROOT = Path(__file__).parent.parent
CHART = ROOT / "charts" / "inference-operator"
OPERATOR_NAMESPACE = "inference-system"
RELEASE = "inference-operator"
GROUP_PATH = "/apis/inferencecluster.io/v1alpha1"
#: Everything that the operator makes for a cluster, as API paths below a namespace.
CHILD_PATHS = (
    "apis/apps/v1/{}/deployments",
    "apis/apps/v1/{}/replicasets",
    "apis/apps/v1/{}/controllerrevisions",
    "api/v1/{}/pods",
    "api/v1/{}/services",
    "api/v1/{}/configmaps",
    "api/v1/{}/serviceaccounts",
    "apis/policy/v1/{}/poddisruptionbudgets",
    "apis/autoscaling/v2/{}/horizontalpodautoscalers",
    "apis/networking.k8s.io/v1/{}/networkpolicies",
    "apis/rbac.authorization.k8s.io/v1/{}/roles",
    "apis/rbac.authorization.k8s.io/v1/{}/rolebindings",
    "apis/discovery.k8s.io/v1/{}/endpointslices",
)

Json = dict[str, Any]
T = TypeVar("T")


class WaitTimeout(Exception):
    """Something didn't happen in time; the message says what was seen last."""


@dataclass
class Running:
    """A load that is being sent."""

    process: Popen[str]
    out: Path

    def finish(self, timeout: float = 300) -> list[Outcome]:
        """Wait for the last request and return all outcomes."""
        try:
            _, errors = self.process.communicate(timeout=timeout)
        except TimeoutExpired:
            self.process.kill()
            raise
        if self.process.returncode:
            raise RuntimeError(f"the load generator failed with {self.process.returncode}: {errors[-2000:]}")
        return [Outcome(**json.loads(line)) for line in self.out.read_text().splitlines()]


class Lab:
    """One sandbox with (or without) the operator in it."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self._api: ApiClient | None = None
        self._scratch = Path(tempfile.mkdtemp(prefix="lab-"))
        self._loads = 0

    # --- API ------------------------------------------------------------------------------------------

    @property
    def api(self) -> ApiClient:
        """A client of the sandbox's API server with administrator's rights."""
        if self._api is None:
            self._api = config.new_client_from_config(str(self.sandbox.kubeconfig))  # type: ignore[no-untyped-call]
        return self._api

    def get(self, path: str) -> Json | None:
        """GET of an API path; None when it doesn't exist."""
        response = self.api.call_api(
            "GET",
            f"{self.api.configuration.host}/{path.lstrip('/')}",
            header_params={"Accept": "application/json", **self._auth()},
            _request_timeout=10,
        )
        body = response.read()  # type: ignore[no-untyped-call]
        if response.status == 404:
            return None
        if response.status != 200:
            raise RuntimeError(f"GET {path}: HTTP {response.status}: {body[:300]!r}")
        return json.loads(body)  # type: ignore[no-any-return]

    def _auth(self) -> dict[str, str]:
        token = self.api.configuration.get_api_key_with_prefix("authorization")
        return {"Authorization": token} if token else {}

    def cluster(self, name: str, namespace: str = "default") -> Json | None:
        """The InferenceCluster, or None."""
        return self.get(f"{GROUP_PATH}/namespaces/{namespace}/inferenceclusters/{name}")

    def pods(self, namespace: str = "default", selector: str = "") -> list[Json]:
        """Pods by label selector, those on their way out included."""
        found = self.get(f"api/v1/namespaces/{namespace}/pods?labelSelector={selector}")
        return list(found["items"]) if found else []

    def engines(self, name: str, namespace: str = "default") -> list[Json]:
        """Engine pods of a cluster that aren't terminating."""
        selector = f"inferencecluster.io/cluster={name},inferencecluster.io/component=engine"
        return [p for p in self.pods(namespace, selector) if not p["metadata"].get("deletionTimestamp")]

    def gateways(self, name: str, namespace: str = "default") -> list[Json]:
        """Gateway pods of a cluster that aren't terminating."""
        selector = f"inferencecluster.io/cluster={name},inferencecluster.io/component=gateway"
        return [p for p in self.pods(namespace, selector) if not p["metadata"].get("deletionTimestamp")]

    def children(self, name: str, namespace: str = "default") -> list[str]:
        """`kind/name` of every object that carries the cluster's label."""
        found = []
        for path in CHILD_PATHS:
            url = (
                path.format(f"namespaces/{namespace}") + f"?labelSelector=inferencecluster.io/cluster={name}"
            )
            listing = self.get(url)
            found += [
                f"{path.rsplit('/', 1)[1]}/{o['metadata']['name']}"
                for o in (listing or {"items": []})["items"]
            ]
        return sorted(found)

    # --- what a user does -----------------------------------------------------------------------------

    def install_operator(self, *, replicas: int = 2, values: Mapping[str, str] | None = None) -> None:
        """`helm upgrade --install` of the real chart; returns when the Deployment is available."""
        settings = {"replicaCount": str(replicas), **(values or {})}
        self.sandbox.helm(
            [
                "upgrade",
                "--install",
                RELEASE,
                str(CHART),
                "--namespace",
                OPERATOR_NAMESPACE,
                "--create-namespace",
                "--wait",
                "--timeout",
                "120s",
                *[f"--set={key}={value}" for key, value in settings.items()],
            ]
        )

    def apply(self, manifest: Json, namespace: str = "default") -> None:
        """`kubectl apply --server-side` of one object."""
        self.sandbox.kubectl(
            ["apply", "--server-side", "--force-conflicts", "-n", namespace, "-f", "-"],
            input=json.dumps(manifest),
        )

    def scale(self, name: str, replicas: int, namespace: str = "default") -> None:
        """`kubectl scale ic`."""
        self.sandbox.kubectl(["scale", "ic", name, f"--replicas={replicas}", "-n", namespace])

    def delete(self, name: str, namespace: str = "default") -> None:
        """`kubectl delete ic` without waiting for the children."""
        self.sandbox.kubectl(["delete", "ic", name, "-n", namespace, "--wait=false"])

    # --- waiting --------------------------------------------------------------------------------------

    def until(self, what: str, look: Callable[[], T | None], timeout: float, interval: float = 0.2) -> T:
        """Call `look` until it returns something true; WaitTimeout tells what was waited for."""
        deadline = time.monotonic() + timeout
        while True:
            value = look()
            if value:
                return value
            if time.monotonic() > deadline:
                raise WaitTimeout(f"{what}: not within {timeout:g} s. Logs: {self.sandbox.logs_dir}")
            time.sleep(interval)

    def until_ready(
        self,
        name: str,
        namespace: str = "default",
        *,
        replicas: int | None = None,
        timeout: float = 60,
        generation: int | None = None,
    ) -> Json:
        """Wait for Ready=True of the newest generation (and so many ready replicas)."""
        seen: Json = {}

        def look() -> Json | None:
            nonlocal seen
            seen = self.cluster(name, namespace) or {}
            status = seen.get("status", {})
            wanted = generation or seen.get("metadata", {}).get("generation")
            fresh = condition(seen, "Ready").get("observedGeneration") == wanted
            enough = replicas is None or status.get("readyReplicas") == replicas
            return seen if fresh and enough and condition(seen, "Ready").get("status") == "True" else None

        try:
            return self.until(f"InferenceCluster {namespace}/{name} Ready", look, timeout)
        except WaitTimeout as error:
            raise WaitTimeout(f"{error}\nlast seen: {describe(seen)}") from None

    # --- traffic --------------------------------------------------------------------------------------

    def gateway_address(self, name: str, namespace: str = "default") -> str:
        """Cluster IP of the client Service."""
        service = self.get(f"api/v1/namespaces/{namespace}/services/{name}-gateway")
        if service is None:
            raise LookupError(f"Service {namespace}/{name}-gateway doesn't exist")
        return str(service["spec"]["clusterIP"])

    def start_load(
        self,
        name: str,
        model: str,
        *,
        namespace: str = "default",
        rate: float = 20,
        concurrent: int = 0,
        seconds: float = 10,
        tokens: int = 50,
        timeout: float = 120,
        prompt_bytes: int = 0,
    ) -> Running:
        """Start a load inside the sandbox's network, against the gateway's cluster IP.

        At a rate, or of so many concurrent requests.
        """
        self._loads += 1
        out = self._scratch / f"load-{self._loads}.jsonl"
        command = [
            "-m",
            "sandbox.load",
            "--host",
            self.gateway_address(name, namespace),
            "--model",
            model,
            "--rate",
            str(rate),
            "--concurrent",
            str(concurrent),
            "--seconds",
            str(seconds),
            "--tokens",
            str(tokens),
            "--timeout",
            str(timeout),
            "--prompt-bytes",
            str(prompt_bytes),
            "--out",
            str(out),
        ]
        return Running(self.sandbox.exec_python(command), out)

    @contextmanager
    def load(self, name: str, model: str, **options: Any) -> Iterator[list[Outcome]]:
        """Traffic around a block; the list is filled when the block is left."""
        outcomes: list[Outcome] = []
        running = self.start_load(name, model, **options)
        yield outcomes
        outcomes += running.finish()


def condition(cluster: Json, type_: str) -> Json:
    """One condition of an object, {} when it isn't there."""
    found: Sequence[Json] = cluster.get("status", {}).get("conditions", [])
    return next((c for c in found if c["type"] == type_), {})


def describe(cluster: Json) -> str:
    """Conditions in one line each, for error texts."""
    lines = [
        f"  {c['type']}={c['status']} {c['reason']}: {c.get('message', '')}"
        for c in cluster.get("status", {}).get("conditions", [])
    ]
    return "\n" + "\n".join(lines) if lines else "no status at all: is the operator running?"


def manifest(
    name: str,
    model: str = "meta-llama/Llama-3.1-8B-Instruct",
    *,
    served: str | None = None,
    replicas: int = 1,
    load_seconds: float = 2.0,
    **spec: Any,
) -> Json:
    """A small InferenceCluster whose simulated engines load for `load_seconds`.

    Scaled by hand, unless `autoscaling` says otherwise.
    """
    engine = dict(spec.pop("engine", {}))
    engine["env"] = [
        {"name": "INFERENCE_SIM_LOAD_SECONDS", "value": str(load_seconds)},
        *engine.get("env", []),
    ]
    return {
        "apiVersion": "inferencecluster.io/v1alpha1",
        "kind": "InferenceCluster",
        "metadata": {"name": name},
        "spec": {
            "model": {"id": model, "servedName": served or name},
            "replicas": replicas,
            "engine": engine,
            "autoscaling": {"mode": "Disabled"},
            **spec,
        },
    }
