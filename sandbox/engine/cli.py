"""The command line of `vllm serve`, built from the flag list of the real parser.

Every flag of vLLM is known here with its type and its choices, so an argument list that the operator renders
wrongly fails here the way it fails on a GPU node: usage on stderr, exit code 2. Which flags then act is
decided in `settings.py`; the others are accepted and have no effect.
"""

import argparse
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, Final, NoReturn

from sandbox.engine import DATA_DIR, VLLM_VERSION

# The dump holds long options only; these are vLLM's add_argument calls with a short twin.
SHORT_OPTIONS: Final = {
    "--api-server-count": "-asc",
    "--attention-config": "-ac",
    "--compilation-config": "-cc",
    "--data-parallel-address": "-dpa",
    "--data-parallel-backend": "-dpb",
    "--data-parallel-external-lb": "-dpe",
    "--data-parallel-hybrid-lb": "-dph",
    "--data-parallel-rank": "-dpn",
    "--data-parallel-rpc-port": "-dpp",
    "--data-parallel-size": "-dp",
    "--data-parallel-size-local": "-dpl",
    "--data-parallel-start-rank": "-dpr",
    "--decode-context-parallel-size": "-dcp",
    "--enable-expert-parallel": "-ep",
    "--nnodes": "-n",
    "--node-rank": "-r",
    "--optimization-level": "-O",
    "--pipeline-parallel-size": "-pp",
    "--prefill-context-parallel-size": "-pcp",
    "--quantization": "-q",
    "--speculative-config": "-sc",
    "--tensor-parallel-size": "-tp",
}

# Flags that would change what a client sees and that the simulator does not imitate: refusing them beats
# serving plain HTTP on a port that was asked to speak TLS.
NOT_SIMULATED: Final = ("--config", "--grpc", "--ssl-certfile", "--ssl-keyfile", "--uds")

# The dump says only "optional of something"; these are the somethings other than text.
_OPTIONAL_INT: Final = (
    "--grpc-port",
    "--max-cpu-loras",
    "--max-log-len",
    "--max-num-active-seqs",
    "--max-num-queued-reqs",
    "--max-num-queued-tokens",
    "--max-num-scheduled-tokens",
    "--max-parallel-loading-workers",
    "--num-gpu-blocks-override",
)
_OPTIONAL_SIZE: Final = ("--kv-cache-memory-bytes",)
_OPTIONAL_FLOAT: Final = ("--kv-offloading-size",)
_OPTIONAL_JSON: Final = (
    "--default-mm-loras",
    "--ec-transfer-config",
    "--kv-events-config",
    "--kv-transfer-config",
    "--mm-processor-kwargs",
    "--pooler-config",
    "--speculative-config",
)

_DECIMAL: Final = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY: Final = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}

Converter = Callable[[str], Any]


def human_readable_int(text: str) -> int:
    """Read `4096`, `32k` (32,000), `32K` (32,768) or `25.6k`; raises ArgumentTypeError on anything else."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kKmMgGtT])", text.strip())
    if match is None:
        return int(text)
    number, suffix = match.groups()
    if suffix in _DECIMAL:
        return int(float(number) * _DECIMAL[suffix])
    if "." in number:
        raise argparse.ArgumentTypeError(
            f"Decimals are not allowed with binary suffixes like {suffix}. "
            f"Did you mean to use {number}{suffix.lower()} instead?"
        )
    return int(number) * _BINARY[suffix]


def human_readable_int_or_auto(text: str) -> int:
    """As human_readable_int; `auto` and `-1` give -1, "the largest that fits"."""
    return -1 if text.strip().lower() in ("auto", "-1") else human_readable_int(text)


def optional(convert: Converter) -> Converter:
    """Read the word `None`, or the empty string, as no value."""

    def read(text: str) -> Any:
        return None if text in ("", "None") else convert(text)

    # argparse puts the name of the converter into its message: "invalid int value: 'x'".
    read.__name__ = getattr(convert, "__name__", "value")
    return read


def _json_object(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"expected a JSON object, got {text}")
    return value


def _backend_name(text: str) -> str:
    return text.lower().replace("-", "_")


_BY_KIND: Final[dict[str, Converter]] = {
    "int": int,
    "float": float,
    "loads": json.loads,
    "_parse_type": json.loads,
    "parse_dataclass": _json_object,
    "human_readable_int": human_readable_int,
    "human_readable_int_or_auto": human_readable_int_or_auto,
}


def _converter(flag: str, entry: dict[str, Any]) -> Converter:
    kind = entry.get("type")
    if kind == "_optional_type":
        for flags, convert in (
            (_OPTIONAL_INT, int),
            (_OPTIONAL_SIZE, human_readable_int),
            (_OPTIONAL_FLOAT, float),
            (_OPTIONAL_JSON, json.loads),
        ):
            if flag in flags:
                return optional(convert)
        return optional(str)
    if kind == "<lambda>" and entry.get("choices"):
        return _backend_name
    return _BY_KIND.get(kind or "str", str)


def _choices(entry: dict[str, Any], convert: Converter) -> list[Any] | None:
    # argparse compares choices with the converted value, the dump holds them as text.
    return [convert(choice) for choice in entry["choices"]] if entry.get("choices") else None


def _add_flag(parser: argparse.ArgumentParser, flag: str, entry: dict[str, Any]) -> None:
    names = [SHORT_OPTIONS[flag], flag] if flag in SHORT_OPTIONS else [flag]
    kind = entry["kind"]
    if kind == "BooleanOptionalAction":
        parser.add_argument(*names, action=argparse.BooleanOptionalAction, default=None)
    elif kind == "_StoreTrueAction":
        parser.add_argument(*names, action="store_true")
    else:
        convert = _converter(flag, entry)
        options: dict[str, Any] = {"type": convert, "choices": _choices(entry, convert), "default": None}
        if kind == "_AppendAction":
            options["action"] = "append"
        elif entry.get("nargs"):
            options["nargs"] = entry["nargs"]
        parser.add_argument(*names, **options)


def _twins(flags: dict[str, Any]) -> Iterator[str]:
    """The `--no-x` names that BooleanOptionalAction adds by itself."""
    for flag in flags:
        positive = "--" + flag.removeprefix("--no-")
        if flag.startswith("--no-") and positive in flags:
            yield flag


class ServeParser(argparse.ArgumentParser):
    """argparse with vLLM's three liberties: `_` for `-` in names, `--x.key value`, and `-O3`."""

    def parse_serve(self, args: list[str]) -> argparse.Namespace:
        """Parse what follows `vllm serve`; ends the process with code 2 and a usage text on an error."""
        return self.parse_args(list(self._join_dotted([_normal_name(arg) for arg in args])))

    def error(self, message: str) -> NoReturn:
        # argparse names the whole usage of 406 flags; vLLM keeps it to its first line, and so do we.
        self.exit(2, f"usage: {self.prog} [model_tag] [options]\n{self.prog}: error: {message}\n")

    def _join_dotted(self, args: list[str]) -> Iterator[str]:
        """Collect `--x.a.b v`, `--x.a=v` and `--x.list+ v,w` into one JSON argument per flag at the end."""
        objects: dict[str, dict[str, Any]] = defaultdict(dict)
        pending = iter(args)
        for arg in pending:
            name, _, value = arg.partition("=")
            if not (name.startswith("-") and "." in name and not _is_number(name)):
                yield arg
                continue
            if "=" not in arg:
                value = next(pending, "")
                if not value:
                    self.error(f"argument {name}: expected one argument")
            flag, *path = name.removesuffix("+").split(".")
            leaf = value.split(",") if name.endswith("+") else _json_or_text(value)
            _merge(objects[flag], path, leaf)
        for flag, content in objects.items():
            yield from (flag, json.dumps(content))


def _normal_name(arg: str) -> str:
    if arg.startswith("--"):
        name, equals, value = arg.partition("=")
        flag, dot, keys = name.partition(".")
        return flag.replace("_", "-") + dot + keys + equals + value
    if arg.startswith("-O") and len(arg) > 2:
        return "--optimization-level=" + arg[2:].removeprefix("=")
    return arg


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?\d*\.?\d+", text) is not None


def _json_or_text(text: str) -> Any:
    for read in (json.loads, human_readable_int):
        try:
            return read(text)
        except (ValueError, argparse.ArgumentTypeError):
            continue
    return text


def _merge(target: dict[str, Any], path: list[str], leaf: Any) -> None:
    *parents, last = path
    for key in parents:
        target = target.setdefault(key, {})
    if isinstance(leaf, list) and isinstance(target.get(last), list):
        target[last].extend(leaf)
    else:
        target[last] = leaf


def load_flags() -> dict[str, dict[str, Any]]:
    """The flag list of the simulated version: option string -> kind, type, nargs, choices, default."""
    flags: dict[str, dict[str, Any]] = json.loads((DATA_DIR / f"vllm-{VLLM_VERSION}-flags.json").read_text())
    return flags


def build_parser() -> ServeParser:
    """The parser of `vllm serve`. A flag that was not given is None (False for plain switches)."""
    parser = ServeParser(
        prog="vllm serve",
        usage="vllm serve [model_tag] [options]",
        description=f"Engine simulator with the command line of vLLM {VLLM_VERSION}.",
    )
    parser.add_argument("model_tag", nargs="?", help="the model to serve (default: Qwen/Qwen3-0.6B)")
    flags = load_flags()
    generated = {"--help", *_twins(flags)}
    for flag, entry in flags.items():
        if flag not in generated:
            _add_flag(parser, flag, entry)
    return parser


def parse_serve(args: list[str]) -> argparse.Namespace:
    """Parse the arguments after `vllm serve` and refuse the flags that are not simulated."""
    parser = build_parser()
    namespace = parser.parse_serve(args)
    for flag in NOT_SIMULATED:
        if getattr(namespace, flag.removeprefix("--").replace("-", "_")):
            parser.error(f"argument {flag}: known to vLLM {VLLM_VERSION}, not imitated by the simulator")
    return namespace
