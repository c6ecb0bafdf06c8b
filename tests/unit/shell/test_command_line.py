"""`inference-operator` as a person meets it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from inference_operator import __main__ as entry
from inference_operator import __version__
from inference_operator.app import Config


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    loggers = [
        logging.getLogger(name) for name in (None, "kopf", "kopf._core.reactor.running", "aiohttp.access")
    ]
    kept = [(logger, logger.level, logger.handlers[:]) for logger in loggers]
    yield
    for logger, level, handlers in kept:
        logger.setLevel(level)
        logger.handlers[:] = handlers


def test_version() -> None:
    done = CliRunner().invoke(entry.main, ["--version"])
    assert done.output == f"inference-operator, version {__version__}\n"


def test_help_explains_each_option() -> None:
    done = CliRunner().invoke(entry.main, ["run", "--help"])
    for word in (
        "--namespace",
        "--kubeconfig",
        "--agent-image",
        "--haproxy-image",
        "--port",
        "--log-level",
        "--config",
    ):
        assert word in done.output
    assert "Exit status" in done.output


def config_from(monkeypatch: pytest.MonkeyPatch, arguments: list[str], env: dict[str, str]) -> Config:
    seen: list[Config] = []

    async def run(config: Config) -> None:
        seen.append(config)

    monkeypatch.setattr(entry, "run", run)
    monkeypatch.setattr(entry, "configure_logging", lambda level: None)
    done = CliRunner().invoke(entry.main, ["run", *arguments], env=env, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return seen[0]


def test_options_come_from_the_environment_and_the_command_line_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    env = {
        "INFERENCE_OPERATOR_NAMESPACES": "a b",
        "INFERENCE_OPERATOR_AGENT_IMAGE": "agent:1",
        "INFERENCE_OPERATOR_HAPROXY_IMAGE": "haproxy:1",
        "INFERENCE_OPERATOR_METRICS_SERVICE": "system/metrics",
        "INFERENCE_OPERATOR_PORT": "9000",
        "INFERENCE_OPERATOR_CONFIG": "/etc/x.yaml",
        "INFERENCE_OPERATOR_POD_NAMESPACE": "system",
    }
    assert config_from(monkeypatch, [], env) == Config(
        namespaces=("a", "b"),
        kubeconfig=None,
        agent_image="agent:1",
        haproxy_image="haproxy:1",
        metrics_service="system/metrics",
        port=9000,
        lease_namespace="system",
        config_file=Path("/etc/x.yaml"),
    )
    config = config_from(monkeypatch, ["--port", "9001", "--namespace", "c"], env)
    assert (config.port, config.namespaces) == (9001, ("c",))


def test_a_wrong_level_is_refused_with_the_legal_ones() -> None:
    done = CliRunner().invoke(entry.main, ["run", "--log-level", "loud"])
    assert done.exit_code == 2
    assert "'debug', 'info', 'warning', 'error'" in done.output


def test_without_credentials_it_ends_with_one_line_that_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(SystemExit) as ended:
        entry.main(["run", "--port", "18080"], standalone_mode=False)
    assert ended.value.code == 1
    last = json.loads(capsys.readouterr().err.splitlines()[-1])
    assert "can't load credentials from the pod's ServiceAccount" in last["message"]
    assert "kubeconfig" in last["message"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("prices: {gpuHour: {H100: free}}", ["prices.gpuHour.H100", '"free"', "should match"]),
        (None, ["can't read", "--config"]),
    ],
    ids=["wrong", "absent"],
)
def test_a_configuration_that_does_not_hold_ends_the_start_with_its_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, says: list[str]
) -> None:
    path = tmp_path / "config.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SystemExit) as ended:
        entry.main(["run", "--config", str(path)], standalone_mode=False)
    assert ended.value.code == 1
    message = json.loads(capsys.readouterr().err.splitlines()[-1])["message"]
    for words in ["operator configuration", *says]:
        assert words in message
