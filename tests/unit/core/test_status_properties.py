"""What holds for the status of every state that can be observed, however unlikely."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from inference_operator.api.conditions import REASONS, ConditionType, Reason
from inference_operator.api.operator_config import Prices
from inference_operator.api.routing import GatewayEvent
from inference_operator.api.v1alpha1 import (
    Condition,
    ConditionStatus,
    InferenceClusterSpec,
    InferenceClusterStatus,
)
from inference_operator.core.decide import decide
from inference_operator.core.edges import edges
from inference_operator.core.model import Observed, Problem, TokenWindow
from inference_operator.core.status import compute_status

from .builders import NOW, PLAN, make_spec
from .test_decide_properties import NAMES, states

SPECS = st.builds(
    lambda n, strategy, suspend, cost: make_spec(
        replicas=n, rollout={"strategy": strategy}, suspend=suspend, cost=cost
    ),
    st.integers(0, 5),
    st.sampled_from(["RollingUpdate", "Recreate"]),
    st.sampled_from([False, False, False, True]),
    st.sampled_from([{}, {"maxCostPerMillionTokens": "1"}, {"gpuHourPrice": "3", "currency": "EUR"}]),
)
PROBLEMS = st.sampled_from([(), (), (), (Problem("spec.model.id", Reason.UNKNOWN_MODEL, "unknown"),)])
ERRORS = st.sampled_from([(), (), (), ("Deployment llama-a: 403",)])
RENDERINGS = st.sampled_from([None, "d" * 16, "e" * 16])
PRICES = st.sampled_from([Prices(), Prices(gpu_hour={"default": "2.50"})])
TOKENS = st.sampled_from(
    [None, [TokenWindow(30.0, 0, 0, 9)], [TokenWindow(600.0, 0, 0, 0)], [TokenWindow(600.0, 3, 1, 10**6)]]
)
FOREIGN = st.sampled_from([(), (), (), ("Service/llama-gateway",)])


@st.composite
def told(draw: st.DrawFn, state: Observed) -> Observed:
    """The state with events in the gateways' reports, and with a status of before."""
    pods = [pod.name for made in state.revisions for pod in made.pods] + ["gone-0"]
    event = st.builds(
        lambda kind, pod, ago, cut: GatewayEvent(
            kind=kind, pod=pod, time=NOW - ago, detection_ms=900, streams_cut=cut
        ),
        st.sampled_from(["EngineDown", "EngineUp", "ConfigRefused"]),
        st.sampled_from(pods),
        st.integers(0, 400),
        st.sampled_from([None, 0, 3]),
    )
    reports = tuple(
        report.model_copy(update={"events": tuple(draw(st.lists(event, max_size=10)))})
        for report in state.gateway.reports
    )
    status = state.status.model_copy(
        update={"conditions": draw(conditions()), "ready_replicas": draw(st.integers(0, 5))}
    )
    return replace(
        state,
        gateway=replace(state.gateway, reports=reports),
        status=status,
        foreign=draw(FOREIGN),
    )


@st.composite
def conditions(draw: st.DrawFn) -> list[Condition]:
    """What the table allows, some conditions missing."""
    return [
        Condition(
            type=kind.value,
            status=ConditionStatus(status),
            reason=draw(st.sampled_from(REASONS[kind][status])).value,
            last_transition_time="2026-01-01T00:00:00Z",
        )
        for kind in ConditionType
        if (status := draw(st.sampled_from([None, *REASONS[kind]]))) is not None
    ]


Problems = tuple[Problem, ...]


@settings(max_examples=300, deadline=None)
@given(
    st.one_of(SPECS, st.none()),
    states().flatmap(told),
    st.sampled_from(NAMES),
    PROBLEMS,
    ERRORS,
    RENDERINGS,
    PRICES,
    TOKENS,
)
def test_a_status_is_of_its_table_and_read_back_gives_itself(
    spec: InferenceClusterSpec | None,
    state: Observed,
    target: str,
    problems: Problems,
    errors: tuple[str, ...],
    rendering: str | None,
    prices: Prices,
    tokens: list[TokenWindow] | None,
) -> None:
    decision = decide(spec, target, state, NOW) if spec and not spec.suspend else None

    def computed(before: InferenceClusterStatus) -> InferenceClusterStatus:
        return compute_status(
            spec,
            replace(state, status=before),
            decision,
            plan=PLAN,
            now=NOW,
            problems=problems,
            errors=errors,
            rendering=rendering,
            prices=prices,
            tokens=tokens,
        )

    first = computed(state.status)
    assert {found.type for found in first.conditions} == set(ConditionType)
    for found in first.conditions:
        allowed = REASONS[ConditionType(found.type)][found.status.value]
        assert found.reason in [reason.value for reason in allowed], found
        assert found.message
    second = computed(first)
    assert second == first, "the same state is another status a pass later"
    assert list(edges(first, second)) == []
