"""The operator configuration: what holds, what is said about what doesn't, and changes while it runs."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from inference_operator.adapters.config_file import ConfigError, ConfigFile, parse
from inference_operator.api.operator_config import OperatorConfig


def test_prices_are_taken_as_they_are_written() -> None:
    config = parse('prices: {currency: EUR, gpuHour: {H100: 2.50, default: "1"}}\n')
    assert config.prices.gpu_hour == {"H100": "2.50", "default": "1"}
    assert (config.prices.of("H100"), config.prices.of("A10G"), config.prices.of(None)) == ("2.50", "1", "1")


@pytest.mark.parametrize("text", ["", "{}", "# nothing\n", "prices:\n  gpuHour: {}\nprometheus: {}\n"])
def test_nothing_is_legal(text: str) -> None:
    assert parse(text) == OperatorConfig()


@pytest.mark.parametrize(
    "address",
    ["http://prom:9090", "https://prom.example.com/api/prom", "http://[fd00::1]:9090/", "http://10.0.0.1"],
)
def test_addresses_that_hold(address: str) -> None:
    assert parse(f'prometheus: {{address: "{address}"}}').prometheus.address == address


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("prices: {gpuHour: {H100: free}}", ["prices.gpuHour.H100", '"free"', "[1-9]"]),
        ("prices: {gpuHour: {H100: -1}}", ["prices.gpuHour.H100", '"-1"']),
        ("prices: {gpuHour: {H100: 1e3}}", ["prices.gpuHour.H100", '"1e3"']),
        ("prices: {gpuHour: {H100: 0}}", ["prices.gpuHour.H100", '"0"']),
        ("prices: {gpuHour: {H100: }}", ["prices.gpuHour.H100", '""']),
        ("prices: {gpuHour: {H1000: 1}}", ["prices.gpuHour.H1000", "legal: H100, ", "default"]),
        ("prices: {currency: usd}", ["prices.currency", '"usd"', "[A-Z]"]),
        ("prices: {gpuhour: {}}", ["prices.gpuhour", "unknown field", "legal: currency, gpuHour"]),
        ("price: {}", ["price: unknown field", "legal: prices, prometheus"]),
        ("prometheus: {address: prom:9090}", ["prometheus.address", '"prom:9090"', "https?"]),
        ("prometheus: {address: 'http://a b'}", ["prometheus.address"]),
        ("prices: [1]", ["prices", "has to be a map"]),
        ("prices: {gpuHour: 1}", ["prices.gpuHour", "has to be a map"]),
        ("- 1", ["the document", "has to be a map"]),
        ("prices: {", ["no YAML"]),
        ("[" * 5000, ["no YAML"]),
    ],
)
def test_what_does_not_hold_is_named_with_its_value_and_what_is_legal(text: str, says: list[str]) -> None:
    with pytest.raises(ConfigError) as refused:
        parse(text)
    for words in says:
        assert words in str(refused.value)


class Watched:
    """A file, and what was told of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.changes = 0
        self.reads: list[bool] = []
        self.file = ConfigFile(path)

    def _changed(self) -> None:
        self.changes += 1

    def price(self) -> str | None:
        return self.file.current.prices.of("H100")

    async def becomes(self, text: str) -> None:
        self.path.write_text(text)
        await self.look()

    async def look(self) -> None:
        await self.file.look(self._changed, self.reads.append)


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    made = Watched(tmp_path / "config.yaml")
    made.path.write_text("prices: {gpuHour: {H100: 2}}\n")
    made.file.load()
    return made


async def test_a_change_is_taken_over(watched: Watched) -> None:
    await watched.look()
    assert (watched.price(), watched.changes, watched.reads) == ("2", 0, [])
    await watched.becomes("prices: {gpuHour: {H100: 3}}\n")
    assert (watched.price(), watched.changes, watched.reads) == ("3", 1, [True])


async def test_another_wording_changes_nothing(watched: Watched) -> None:
    await watched.becomes("# new\nprices:\n  gpuHour:\n    H100: '2'\n")
    assert (watched.changes, watched.reads) == (0, [True])


async def test_what_does_not_hold_is_said_once_and_the_last_good_one_stays(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            await watched.becomes("prices: {gpuHour: {H100: free}}\n")
    assert (watched.price(), watched.changes, watched.reads) == ("2", 0, [False])
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "prices.gpuHour.H100" in vars(caplog.records[0])["reason"]
    await watched.becomes("prices: {gpuHour: {H100: 2}}\n")
    assert (watched.changes, watched.reads) == (0, [False, True])


async def test_a_file_that_goes_and_comes_back(watched: Watched) -> None:
    watched.path.unlink()
    await watched.look()
    await watched.look()
    assert (watched.price(), watched.reads) == ("2", [False])
    await watched.becomes("prices: {gpuHour: {H100: 4}}\n")
    assert (watched.price(), watched.reads) == ("4", [False, True])


async def test_a_file_that_is_far_too_long_is_not_read_to_its_end(watched: Watched) -> None:
    await watched.becomes("#" * 70_000)
    assert (watched.price(), watched.reads) == ("2", [False])


def test_a_start_without_the_file_says_how_to_name_it(tmp_path: Path) -> None:
    file = ConfigFile(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match=r"none\.yaml.*--config"):
        file.load()


async def test_without_a_path_there_are_no_prices_and_nothing_to_look_at() -> None:
    file = ConfigFile(None)
    file.load()
    await file.look(lambda: None, lambda valid: None)
    assert file.current == OperatorConfig()
