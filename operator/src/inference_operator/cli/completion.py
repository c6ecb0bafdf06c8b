"""Scripts for the shells' completion, by click's own machinery."""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import get_completion_class

EXECUTABLE: Final = "kubectl-inference"
#: Set by the scripts: the program then answers with completions and does nothing else.
VARIABLE: Final = "_KUBECTL_INFERENCE_COMPLETE"

#: kubectl runs this with the words behind `inference`, and reads what cobra's __complete would print: a
#: candidate a line, then a directive, here 4 (no file names).
_FOR_KUBECTL: Final = f"""#!/bin/sh
COMP_CWORD=$#
COMP_WORDS={EXECUTABLE}
for word in "$@"; do
  COMP_WORDS="$COMP_WORDS '$(printf %s "$word" | sed "s/'/'\\\\\\\\''/g")'"
done
export COMP_CWORD COMP_WORDS
{VARIABLE}=bash_complete {EXECUTABLE} | sed 's/^[^,]*,//'
echo :4
"""


def script(group: click.Command, shell: str) -> str:
    """The script of a shell, or for "kubectl" the program that kubectl asks."""
    if shell == "kubectl":
        return _FOR_KUBECTL
    made = get_completion_class(shell)
    assert made is not None  # noqa: S101 - the command line allows only shells that click knows
    return made(group, {}, EXECUTABLE, VARIABLE).source()
