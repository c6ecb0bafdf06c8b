"""Simulator of one vLLM server, as seen from outside: command line, HTTP API, metrics, start and end.

It exists so that the operator and the gateway can be tried on a machine without a GPU, thirty engines on
two cores. `vllm serve MODEL [flags]` of the image becomes `python -m sandbox.engine serve MODEL [flags]`.
Nothing in here is imported by the operator.
"""

from pathlib import Path
from typing import Final

VLLM_VERSION: Final = "0.32.0"
DATA_DIR: Final = Path(__file__).parent / "data"
