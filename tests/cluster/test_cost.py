"""Cost under real load: measured by the gateways' agents, told in the status, quiet while nothing changes."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from sandbox.lab import Lab, condition, manifest
from tests.cluster.operator_lab import install, operator_writes

pytest_plugins = ["tests.plugins.sandbox", "tests.plugins.operator"]

Json = dict[str, Any]
#: Of one GPU: 0.001 and 0.002 a second.
PRICE, DEARER = "3.60", "7.20"
RATE, TOKENS = 8, 40


def cost(lab: Lab, namespace: str) -> Json:
    found: Json = ((lab.cluster("dear", namespace) or {}).get("status") or {}).get("cost") or {}
    return found


def says(lab: Lab, namespace: str) -> str:
    found = condition(lab.cluster("dear", namespace) or {}, "WithinBudget")
    return f"{found.get('status')} {found.get('reason')}"


def counted(lab: Lab, namespace: str) -> float:
    """Tokens by the engine's own page: prompt - cached + generation."""
    address = lab.engines("dear", namespace)[0]["status"]["podIP"]
    script = "import sys, urllib.request as u; print(u.urlopen(f'http://{sys.argv[1]}:8000/metrics').read().decode())"
    page = lab.sandbox.exec_python(["-c", script, address]).communicate(timeout=20)[0]
    names = ("prompt_tokens_total", "prompt_tokens_cached_total", "generation_tokens_total")
    found = [re.findall(rf"^vllm:{name}\{{.*\}} (\S+)$", page, re.MULTILINE) for name in names]
    prompt, cached, generation = (sum(map(float, values)) for values in found)
    return prompt - cached + generation


def dear(budget: str, **cost: str) -> Json:
    return manifest("dear", cost={"maxCostPerMillionTokens": budget, **cost})


@pytest.fixture
def priced(operator: Lab) -> Iterator[Lab]:
    """The operator that runs already, with a new content of its configuration."""
    install(operator, replicas=1, values={"config.prices.gpuHour.default": PRICE})
    yield operator
    install(operator, replicas=1)


def test_cost_is_measured_and_compared_and_steady_load_writes_nothing(priced: Lab, namespace: str) -> None:
    operator = priced
    operator.apply(dear("0.50"), namespace)
    operator.until_ready("dear", namespace, replicas=1)
    with operator.load(
        "dear", "dear", namespace=namespace, rate=RATE, seconds=240, tokens=TOKENS
    ) as outcomes:
        started = time.time()
        operator.until("a figure", lambda: cost(operator, namespace).get("perMillionTokens"), 90)
        assert says(operator, namespace) == "False OverBudget"
        operator.apply(dear("100000"), namespace)
        operator.until("within", lambda: says(operator, namespace) == "True WithinBudget", 10)

        tokens, since = counted(operator, namespace), time.time()
        # The gateways' window began some seconds before the load did, which is felt less and less.
        time.sleep(max(0.0, started + 150 - time.time()))
        operator.apply(dear("100000", gpuHourPrice=DEARER), namespace)
        operator.until("the new price", lambda: cost(operator, namespace).get("gpuHourPrice") == DEARER, 10)
        time.sleep(5)
        before = operator_writes(operator.sandbox)
        time.sleep(60)
        assert operator_writes(operator.sandbox)[len(before) :] == []
        found = cost(operator, namespace)
        rate = (counted(operator, namespace) - tokens) / (time.time() - since)
    assert [outcome.error for outcome in outcomes if outcome.error] == []
    assert (found["currency"], found["gpusHeld"], found["gpuHourPrice"]) == ("USD", 1, DEARER)
    assert rate > RATE * TOKENS * 0.9
    assert float(found["perMillionTokens"]) == pytest.approx(0.002 / rate * 1e6, rel=0.2)
