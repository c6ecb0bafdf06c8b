"""The metrics page, built from one scrape of the real engine, so that names, labels and buckets are its own.

The page is a list of samples in the order of the scrape. Counting is a dictionary look-up, rendering one
pass over some 450 lines: at one scrape a second from thirty engines a registry with locks and collectors
would cost more than the engines do.
"""

import re
import time
from bisect import bisect_left
from collections.abc import Mapping
from typing import Final

from sandbox.engine import DATA_DIR, VLLM_VERSION

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_SAMPLE: Final = re.compile(r"^(vllm:\w+)(?:\{(.*)\})? \S+$")
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')

# Labels every series has: they do not tell series of one metric apart.
_COMMON: Final = ("engine", "model_name")


class Histogram:
    """Counts per bucket, made cumulative when rendered."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self) -> None:
        self.bounds: list[float] = []
        self.counts: list[int] = []
        self.total = 0.0

    def add_bound(self, bound: float) -> None:
        self.bounds.append(bound)
        self.counts.append(0)

    def observe(self, value: float, times: int = 1) -> None:
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times


class Metrics:
    """All `vllm:` metrics of one engine; a name or label the real page lacks is a KeyError."""

    def __init__(self, model_name: str, cache_config: Mapping[str, str]) -> None:
        self._model_name = _escaped(model_name)
        self._cache_config = cache_config
        self._values: dict[str, float] = {}
        self._histograms: dict[str, Histogram] = {}
        # A page line is a comment (key None), or the text before the value and the key of the value.
        self._lines: list[tuple[str, str | None]] = []
        page = (DATA_DIR / f"vllm-{VLLM_VERSION}-metrics.txt").read_text()
        types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", page, re.MULTILINE))
        created = time.time()
        for line in page.splitlines():
            if line.startswith("#"):
                self._lines.append((line, None))
            else:
                self._add_sample(line, types, created)

    def inc(self, name: str, amount: float = 1.0, label: str = "") -> None:
        """Add to a counter; `label` is the value of the label that tells its series apart, if any."""
        self._values[_key(name, label)] += amount

    def set(self, name: str, value: float, label: str = "") -> None:
        """Set a gauge."""
        key = _key(name, label)
        if key not in self._values:
            raise KeyError(key)
        self._values[key] = value

    def get(self, name: str, label: str = "") -> float:
        """The value of a counter or gauge."""
        return self._values[_key(name, label)]

    def histogram(self, name: str) -> Histogram:
        """The histogram of that family name, without _bucket."""
        return self._histograms[name]

    def render(self) -> bytes:
        """The page in the Prometheus text format 0.0.4."""
        values = self._values | self._histogram_values()
        return "".join(
            f"{text}\n" if key is None else f"{text} {values[key]!r}\n" for text, key in self._lines
        ).encode()

    def _add_sample(self, line: str, types: Mapping[str, str], created: float) -> None:
        match = _SAMPLE.match(line)
        if match is None:
            raise ValueError(f"vllm-{VLLM_VERSION}-metrics.txt: not a sample line: {line!r}")
        name, labels = match[1], dict(_LABEL.findall(match[2] or ""))
        base = re.sub(r"_(bucket|count|sum)$", "", name)
        info = name == "vllm:cache_config_info"
        own = "" if info else "".join(value for label, value in labels.items() if label not in _COMMON)
        key = _key(name, own)
        if types.get(base) == "histogram":
            if name.endswith("_bucket"):
                self._histograms.setdefault(base, Histogram()).add_bound(float(labels["le"]))
        else:
            self._values[key] = created if name.endswith("_created") else 0.0
        if info or own == "awake":
            self._values[key] = 1.0
        labels["model_name"] = self._model_name
        if info:
            del labels["model_name"]
            labels |= self._cache_config
        text = ",".join(f'{label}="{value}"' for label, value in labels.items())
        self._lines.append((f"{name}{{{text}}}", key))

    def _histogram_values(self) -> dict[str, float]:
        values: dict[str, float] = {}
        for name, histogram in self._histograms.items():
            running = 0
            for bound, times in zip(histogram.bounds, histogram.counts, strict=True):
                running += times
                values[_key(f"{name}_bucket", "+Inf" if bound == float("inf") else repr(bound))] = float(
                    running
                )
            values[_key(f"{name}_count", "")] = float(running)
            values[_key(f"{name}_sum", "")] = histogram.total
        return values


def _key(name: str, label: str) -> str:
    return f"{name} {label}" if label else name


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
