"""The `refused` and `accepted` rows of tests/data/bad_input.yaml on a real API server with our CRD."""

import json
import re
from pathlib import Path

import kubernetes
import pytest

from inference_operator.api.names import GROUP, PLURAL, VERSION
from sandbox.client import Sandbox
from tests.data.bad_input import Json, Row, rows, strange_rows

pytest_plugins = ["tests.plugins.sandbox"]

ROOT = Path(__file__).resolve().parents[2]
ROWS = [*rows(), *strange_rows()]
NAMESPACE = "bad-input"


class Server:
    """Dry-run creation of clusters with the validation that kubectl asks for."""

    def __init__(self, kubeconfig: Path) -> None:
        client = kubernetes.config.new_client_from_config(str(kubeconfig))
        self._api = kubernetes.client.CustomObjectsApi(client)

    def refusal(self, manifest: Json) -> str:
        """The API server's message; "" when it would take the object."""
        try:
            self._api.create_namespaced_custom_object(
                GROUP, VERSION, NAMESPACE, PLURAL, manifest, dry_run="All", field_validation="Strict"
            )
        except kubernetes.client.ApiException as error:
            message: str = json.loads(error.body)["message"]
            return message
        return ""


@pytest.fixture(scope="module")
def server(sandbox: Sandbox) -> Server:
    sandbox.kubectl(["apply", "--server-side", "--force-conflicts", "-f", str(ROOT / "crds")])
    sandbox.kubectl(["wait", "--for=condition=Established", "--timeout=30s", f"crd/{PLURAL}.{GROUP}"])
    sandbox.kubectl(["create", "namespace", NAMESPACE])
    return Server(sandbox.kubeconfig)


@pytest.mark.parametrize("row", [r for r in ROWS if r.refused], ids=lambda r: r.case)
def test_bad_input_is_refused_with_the_rule_s_own_words(server: Server, row: Row) -> None:
    assert row.refused is not None
    message = server.refusal(row.manifest())
    assert re.search(row.refused, message, re.DOTALL), message or "it was accepted"
    if row.healed is not None:
        assert server.refusal(row.manifest(row.healed)) == ""


@pytest.mark.parametrize("row", [r for r in ROWS if r.accepted], ids=lambda r: r.case)
def test_strange_but_legal_input_is_accepted(server: Server, row: Row) -> None:
    assert server.refusal(row.manifest()) == ""


@pytest.mark.parametrize("row", [r for r in ROWS if r.invalid], ids=lambda r: r.case)
def test_what_the_operator_judges_gets_past_the_schema(server: Server, row: Row) -> None:
    assert server.refusal(row.manifest()) == ""
    assert server.refusal(row.manifest(row.healed)) == ""
