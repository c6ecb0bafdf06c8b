"""`python -m sandbox`, which `tools/sandbox` runs in any folder."""

from sandbox.cli import main
from sandbox.launcher import command

if __name__ == "__main__":
    main(prog_name=command())
