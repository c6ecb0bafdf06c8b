"""Log lines and metrics as others read them."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path

from inference_operator.adapters.telemetry import JsonFormatter, Telemetry
from inference_operator.ports import ClusterCost

ROOT = Path(__file__).parents[3]


def line(*, exc_info: bool = False, **extra: object) -> dict[str, object]:
    record = logging.getLogger("x").makeRecord(
        "x", logging.INFO, "f.py", 1, "applying %s", ("it",), None, extra=extra
    )
    if exc_info:
        try:
            raise ValueError("broken")
        except ValueError as error:
            record.exc_info = (type(error), error, error.__traceback__)
    parsed: dict[str, object] = json.loads(JsonFormatter().format(record))
    return parsed


def test_the_context_of_a_pass_stands_at_the_top_level() -> None:
    parsed = line(context={"namespace": "ns", "name": "llama", "reconcileID": "abc"}, reason="why")
    assert parsed["message"] == "applying it"
    assert (parsed["namespace"], parsed["name"], parsed["reconcileID"]) == ("ns", "llama", "abc")
    assert (parsed["level"], parsed["reason"]) == ("info", "why")
    assert "context" not in parsed


def test_an_exception_is_one_line_too() -> None:
    assert "ValueError: broken" in str(line(exc_info=True)["exception"])


def test_what_is_no_json_is_still_written() -> None:
    assert line(value=Path("/x"))["value"] == "/x"


def used() -> Telemetry:
    telemetry = Telemetry()
    telemetry.queue_added()
    telemetry.queue_depth(3)
    telemetry.queue_waited(0.2)
    telemetry.queue_retried()
    telemetry.pass_done("success", 0.1)
    telemetry.child_written("Service", "apply")
    telemetry.status_written()
    telemetry.leading(True)
    telemetry.schema_outdated(False)
    telemetry.watch_age("Pod", lambda: 7.0)
    telemetry.config_read(False)
    telemetry.cluster_cost("ns", "llama", ClusterCost("USD", 2, 2.5, 0.694))
    return telemetry


def test_metrics_say_what_was_counted() -> None:
    text = used().render().decode()
    assert 'inference_operator_reconciles_total{result="success"} 1.0' in text
    assert 'inference_operator_child_writes_total{kind="Service",verb="apply"} 1.0' in text
    assert "inference_operator_queue_depth 3.0" in text
    assert "inference_operator_leader 1.0" in text
    assert 'inference_operator_watch_age_seconds{kind="Pod"} 7.0' in text
    assert "inference_operator_config_valid 0.0" in text
    assert "inference_operator_config_refused_total 1.0" in text
    assert "process_resident_memory_bytes" in text


LABELS = '{currency="USD",name="llama",namespace="ns"}'


def cost_lines(telemetry: Telemetry) -> list[str]:
    return [
        line for line in telemetry.render().decode().splitlines() if line.startswith("inference_cluster_")
    ]


def test_a_clusters_cost_stands_there_as_long_as_it_has_one() -> None:
    telemetry = used()
    assert sorted(cost_lines(telemetry)) == [
        f"inference_cluster_cost_per_million_tokens{LABELS} 0.694",
        f"inference_cluster_gpu_hour_price{LABELS} 2.5",
        f"inference_cluster_gpus_held{LABELS} 2.0",
    ]
    telemetry.cluster_cost("ns", "llama", ClusterCost("USD", 3, 2.5, None))
    assert sorted(cost_lines(telemetry)) == [
        f"inference_cluster_gpu_hour_price{LABELS} 2.5",
        f"inference_cluster_gpus_held{LABELS} 3.0",
    ]
    telemetry.cluster_cost("ns", "llama", None)
    assert cost_lines(telemetry) == []


def test_a_process_that_leads_no_more_shows_no_cost() -> None:
    telemetry = used()
    telemetry.leading(False)
    assert cost_lines(telemetry) == []


def test_every_metric_is_documented_and_no_other() -> None:
    exposed = set(re.findall(r"^# TYPE (inference_\w+) ", used().render().decode(), re.MULTILINE))
    exposed = {name for name in exposed if not name.endswith("_created")}
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    documented = set(re.findall(r"^\| `(inference_\w+)`", page, re.MULTILINE))
    assert documented == exposed
