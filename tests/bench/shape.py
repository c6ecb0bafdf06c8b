"""`make bench-shape`: autoscaling live in the sandbox, and the canary judge on simulated rollouts.

QUICK=1 runs each figure once and briefly, without the missing metrics (CI); plain runs take 30 minutes;
FULL=1 waits for the defaults of the way back.
"""

from __future__ import annotations

import sys

import click

from sandbox.client import Sandbox
from sandbox.lab import Lab

from .figures import Bench
from .rollouts import simulate
from .scaling import SIZES, Scaling

LIVE = ("jump", "calm", "faults", "requests")
#: Simulated rollouts of each kind.
ROLLOUTS = {"quick": 600, "plain": 4000, "full": 20_000}


@click.command(help=__doc__)
@click.option("--quick", is_flag=True)
@click.option("--full", is_flag=True)
@click.option("--only", multiple=True, type=click.Choice((*LIVE, "rollouts")), help="Only these.")
def main(quick: bool, full: bool, only: tuple[str, ...]) -> None:
    mode = "quick" if quick else "full" if full else "plain"
    bench = Bench("shape", mode, only=only)
    sandbox = Sandbox("bench-shape")
    scaling = Scaling(Lab(sandbox), bench, SIZES[mode])
    parts = only or (*LIVE, "rollouts")
    try:
        if live := [part for part in parts if part in LIVE]:
            sandbox.up()
            scaling.lab.install_operator()
            for part in live:
                bench.attempt(part, getattr(scaling, part))
    finally:
        sandbox.down()
    if "rollouts" in parts:
        bench.attempt("rollouts", lambda: simulate(bench, ROLLOUTS[mode]))
    sys.exit(bench.finish())


if __name__ == "__main__":
    main()
