"""Names are frozen: a changed one is a second object, a changed selector is refused by the API server."""

from hypothesis import given
from hypothesis import strategies as st

from inference_operator.api import names
from inference_operator.api.schema import NAME_PATTERN

LEGAL = st.from_regex(NAME_PATTERN, fullmatch=True)
LONG = "a" * 51
REVISION = "0123456789"


def test_names_and_selectors_stand_here_word_by_word() -> None:
    assert names.API_VERSION == "inferencecluster.io/v1alpha1"
    assert names.FIELD_MANAGER == "inference-operator"
    assert names.gateway_service_name("llama") == "llama-gateway"
    assert names.gateway_name("llama") == "llama-gateway"
    assert names.engine_name("llama") == "llama-engine"
    assert names.routing_name("llama") == "llama-routing"
    assert names.report_name("llama") == "llama-gateway-report"
    assert names.workload_name("llama", REVISION) == "llama-0123456789"
    assert names.workload_name(LONG + "b", REVISION) == "aaaaaaaaaaaaaaaaaaaaaaaaa-cfb5e7cb-0123456789"
    assert names.engine_selector("llama", REVISION) == {
        "inferencecluster.io/cluster": "llama",
        "inferencecluster.io/component": "engine",
        "inferencecluster.io/revision": REVISION,
    }
    assert names.gateway_selector("llama") == {
        "inferencecluster.io/cluster": "llama",
        "inferencecluster.io/component": "gateway",
    }
    assert names.cluster_selector("llama") == {
        "app.kubernetes.io/managed-by": "inference-operator",
        "inferencecluster.io/cluster": "llama",
    }


@given(LEGAL)
def test_every_legal_name_has_legal_children(cluster: str) -> None:
    children = [
        names.workload_name(cluster, REVISION),
        names.gateway_name(cluster),
        names.engine_name(cluster),
        names.routing_name(cluster),
        names.report_name(cluster),
    ]
    assert all(len(name) <= names.MAX_CHILD_NAME for name in children)
    assert all(name[0].isalpha() and name[-1].isalnum() for name in children)
    assert len(set(children)) == len(children)
    assert len(names.gateway_service_name(cluster)) <= 63


def test_long_names_that_differ_at_the_end_have_different_children() -> None:
    assert names.workload_name(LONG + "b", REVISION) != names.workload_name(LONG + "c", REVISION)
    assert names.gateway_name(LONG + "b") != names.gateway_name(LONG + "c")
