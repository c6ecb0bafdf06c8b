"""Models and GPU types that the planner knows. Sources and licences: data/README.md."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher, get_close_matches
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True)
class ModelShape:
    """What decides how a model can be laid out, as in its config.json."""

    layers: int
    hidden_size: int
    heads: int
    kv_heads: int
    head_dim: int
    #: Latent attention keeps one KV head, so the KV rule of tensor parallelism doesn't apply to it.
    latent_attention: bool = False
    #: Longest context that the model was trained for, in tokens; None = unknown.
    max_context: int | None = None

    def splits_into(self, tensor: int) -> bool:
        """Can that many GPUs share each layer? vLLM's rule: heads are split evenly; KV heads too, or each is
        copied equally often."""
        if self.heads % tensor:
            return False
        return self.latent_attention or self.kv_heads % tensor == 0 or tensor % self.kv_heads == 0


@dataclass(frozen=True)
class Gpu:
    """A GPU type."""

    name: str
    #: Values of the node label nvidia.com/gpu.product of whole, unshared GPUs.
    products: tuple[str, ...]


#: Characters of a wrong word that are compared: more say nothing and cost the event loop its time.
COMPARED = 48

#: GPU feature discovery appends these when a GPU is time-sliced or cut into MIG slices of one size.
_SLICE = re.compile(r"(-SHARED|-MIG-\d+g\.\d+gb(\.me)?)+$")


def read_data(name: str) -> Any:
    """Parsed JSON of a file in planner/data."""
    return json.loads(files(__package__).joinpath("data", name).read_text(encoding="utf-8"))


@cache
def models() -> dict[str, ModelShape]:
    """Shapes by Hugging Face id."""
    return {
        row["id"]: ModelShape(
            layers=row["layers"],
            hidden_size=row["hiddenSize"],
            heads=row["heads"],
            kv_heads=row["kvHeads"],
            head_dim=row["headDim"],
            latent_attention=row["attention"] == "mla",
            max_context=row["maxContext"],
        )
        for row in read_data("models.json")
    }


@cache
def gpus() -> dict[str, Gpu]:
    """GPU types by the name that `spec.accelerator.type` takes."""
    return {row["name"]: Gpu(row["name"], tuple(row["products"])) for row in read_data("gpus.json")}


def gpu_of_product(label: str) -> Gpu | None:
    """The GPU type behind a node's nvidia.com/gpu.product, also of a shared or sliced GPU.

    >>> gpu_of_product("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb").name
    'H100'
    """
    product = _SLICE.sub("", label)
    return next((gpu for gpu in gpus().values() if product in gpu.products), None)


def nearest_first(word: str, legal: Iterable[str]) -> list[str]:
    """Legal words, those most like `word` first (letter case doesn't count), equal ones in their order.

    For some dozens of words: a comparison takes about 20 µs.
    """
    # The matcher keeps what it has learnt of its second text.
    matcher = SequenceMatcher(None, "", word[:COMPARED].casefold())

    def unlike(candidate: str) -> float:
        matcher.set_seq1(candidate.casefold())
        return -matcher.ratio()

    return sorted(legal, key=unlike)


def nearest(word: str, legal: Sequence[str]) -> list[str]:
    """Up to three legal words that are much like `word`, the most like first (letter case doesn't count); for
    hundreds of words."""
    folded = {candidate.casefold(): candidate for candidate in legal}
    near = get_close_matches(word[:COMPARED].casefold(), list(folded), n=3, cutoff=0.5)
    return [folded[candidate] for candidate in near]
