"""Entry point of `kubectl inference`: whatever goes wrong ends as one line, never as a traceback."""

from __future__ import annotations

import os
import sys
from typing import Final

import click

from .commands import PROGRAM, cli
from .completion import VARIABLE
from .errors import PluginError

_INTERRUPTED: Final = 128 + 2
_BROKEN_PIPE: Final = 128 + 13


def main() -> None:
    """Run the command line; exits with the status that the help names."""
    try:
        status = cli.main(prog_name=PROGRAM, complete_var=VARIABLE, standalone_mode=False)
        sys.stdout.flush()
        sys.exit(status if isinstance(status, int) else 0)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except PluginError as error:
        _end(str(error), 1)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(_INTERRUPTED)
    except BrokenPipeError:
        # Whoever read has enough; Python would complain once more when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(_BROKEN_PIPE)
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        _end(f"a bug of this plugin: {reason}: report it, with the output of kubectl inference --version", 1)


def _end(message: str, status: int) -> None:
    sys.stderr.write(f"error: {message}\n")
    sys.exit(status)


if __name__ == "__main__":
    main()
