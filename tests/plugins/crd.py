"""The fixture `server`: our CRD in the sandbox, and a fast way to ask the API server about clusters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import kubernetes
import pytest

from inference_operator.api.names import GROUP, PLURAL, VERSION
from sandbox.client import Sandbox

CRD_FILE = Path(__file__).resolve().parents[2] / "crds" / "inferenceclusters.yaml"
NAMESPACE = "api-tests"

Json = dict[str, Any]


class Server:
    """Creation of clusters as a dry run, with the validation that kubectl asks for."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        client = kubernetes.config.new_client_from_config(str(sandbox.kubeconfig))
        self._api = kubernetes.client.CustomObjectsApi(client)

    def create(self, manifest: Json) -> Json:
        """The object as the API server would store it. Raises ApiException when it is refused."""
        stored: Json = self._api.create_namespaced_custom_object(
            GROUP, VERSION, NAMESPACE, PLURAL, manifest, dry_run="All", field_validation="Strict"
        )
        return stored

    def refusal(self, manifest: Json) -> str:
        """The API server's message; "" when it would take the object."""
        try:
            self.create(manifest)
        except kubernetes.client.ApiException as error:
            message: str = json.loads(error.body)["message"]
            return message
        return ""


@pytest.fixture(scope="session")
def server(sandbox: Sandbox) -> Server:
    """The sandbox with our CRD and the namespace `api-tests`."""
    sandbox.kubectl(["apply", "--server-side", "--force-conflicts", "-f", str(CRD_FILE)])
    sandbox.kubectl(["wait", "--for=condition=Established", "--timeout=30s", f"crd/{PLURAL}.{GROUP}"])
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    sandbox.kubectl(["apply", "-f", "-"], input=json.dumps(namespace))
    return Server(sandbox)
