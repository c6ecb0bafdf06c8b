"""Entry point: `python -m sandbox.engine serve MODEL [flags]` stands for `vllm serve MODEL [flags]`."""

import asyncio
import logging
import os
import sys

from sandbox.engine import VLLM_VERSION, cli, settings

USAGE = """usage: vllm [-h] [-v] {serve} ...

Engine simulator with the command line of vLLM %s.

  serve     serve a model: vllm serve MODEL [flags]; vllm serve --help lists them
"""


def main(argv: list[str]) -> int:
    """Run one command; returns the exit code: 0 stopped, 1 failed, 2 wrong arguments."""
    if argv[:1] in (["-v"], ["--version"]):
        sys.stdout.write(f"{VLLM_VERSION}\n")
        return 0
    if argv[:1] != ["serve"]:
        asked = argv[:1] in (["-h"], ["--help"])
        (sys.stdout if asked else sys.stderr).write(USAGE % VLLM_VERSION)
        return 0 if asked else 2
    arguments = cli.parse_serve(argv[1:])
    _log_like_vllm()
    try:
        wanted = settings.from_arguments(arguments, os.environ)
        # Imported late: a wrong flag has to show at once, the HTTP stack takes a quarter of a second of CPU.
        from sandbox.engine import lifecycle

        return asyncio.run(lifecycle.run(wanted))
    except settings.StartError as error:
        logging.getLogger("vllm").error("ValueError: %s", error)
        return 1


def _log_like_vllm() -> None:
    handler = logging.StreamHandler(sys.stdout)
    form = "(APIServer pid=%(process)d) %(levelname)s %(asctime)s [%(filename)s:%(lineno)d] %(message)s"
    handler.setFormatter(logging.Formatter(form, "%m-%d %H:%M:%S"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
