"""`inference-agent`: what it does with its arguments and its environment."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from inference_operator.agent.__main__ import main


def call(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(main, arguments, env=environment)


def test_bootstrap_writes_what_haproxy_needs_and_leaves_a_later_file_alone(tmp_path: Path):
    folder = tmp_path / "gateway"
    result = call("bootstrap", GATEWAY_DIRECTORY=str(folder), GATEWAY_MEMORY_MIB="1024")
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in folder.iterdir()) == ["haproxy.cfg", "servers.state", "shares.map"]
    assert "default_backend unavailable" in (folder / "haproxy.cfg").read_text()
    (folder / "haproxy.cfg").write_text("later")
    assert call("bootstrap", GATEWAY_DIRECTORY=str(folder)).exit_code == 0
    assert (folder / "haproxy.cfg").read_text() == "later"


@pytest.mark.parametrize(
    ("arguments", "environment", "message"),
    [
        (("bootstrap",), {"GATEWAY_MEMORY_MIB": "1Gi"}, "GATEWAY_MEMORY_MIB='1Gi'"),
        (("bootstrap",), {"GATEWAY_MEMORY_MIB": "64"}, "above 64"),
        (("run",), {}, "--cluster"),
        (("run", "--cluster", "llama"), {}, "'llama' is not NAMESPACE/NAME"),
        (("run", "--cluster", "a/b\nc"), {}, "NAMESPACE/NAME"),
        (("run", "--cluster", "a/b"), {"POD_NAME": ""}, "POD_NAME is not set"),
        (("run", "--cluster", "a/b"), {"POD_NAME": "p", "POD_IP": "nope"}, "nope"),
    ],
)
def test_mistakes_are_named(arguments: tuple[str, ...], environment: dict[str, str], message: str):
    result = call(*arguments, **environment)
    assert result.exit_code != 0
    assert message in result.output
