"""The command line: options, help and exit statuses. What a command needs is imported when it runs."""

from __future__ import annotations

import asyncio
import sys

import click

from .. import __version__
from .options import Scope, all_namespaces, connection, optional_name, output, required_name

PROGRAM = "kubectl inference"
_SETTINGS = {"max_content_width": 100, "help_option_names": ["-h", "--help"]}


@click.group(context_settings=_SETTINGS)
@click.version_option(__version__, prog_name=PROGRAM)
def cli() -> None:
    """See, understand and try InferenceClusters from a terminal.

    Every command reads through the API server with your own rights, and none changes anything.

    \b
    Start here:
      kubectl inference status             which clusters serve, and which don't
      kubectl inference status qwen        one of them: why, and what to do
      kubectl inference explain qwen       every condition with its meaning
      kubectl inference chat qwen "Hello"  ask it

    \b
    Rights, all in the clusters' namespaces:
      status, explain   get and list inferenceclusters; list pods and get configmaps for engines
      top               get and list inferenceclusters, list pods, get pods/proxy
      chat              get inferenceclusters, create services/proxy
      render            none

    \b
    Exit status: 0 the question was answered; 1 it couldn't be, one line on standard error says why;
    2 the command line is wrong; 130 after Ctrl-C.

    NO_COLOR=1 turns colours off; a pipe gets none, and no line is cut there.
    """


@cli.command()
@optional_name
@connection
@all_namespaces
@output
@click.option("-w", "--watch", is_flag=True, help="Look again every two seconds, until Ctrl-C.")
def status(
    name: str | None,
    namespace: str | None,
    context: str | None,
    kubeconfig: str | None,
    all_namespaces: bool,
    output: str,
    watch: bool,
) -> None:
    """Say what serves, what doesn't, why, and what to do.

    Without NAME one line for each cluster. With NAME the whole story: the verdict, the conditions that
    matter, the plan, revisions, engines, gateways, scaling, the last failovers and how to ask it.

    \b
    Examples:
      kubectl inference status -A
      kubectl inference status qwen -n ml --watch
      kubectl inference status qwen -o json | jq .verdict

    Exit status: 0 also for a cluster that doesn't serve; 1 when it can't be read or doesn't exist.
    """
    _one_or_all(name, all_namespaces)
    if watch and output != "table":
        raise click.UsageError("--watch is for people: leave -o out, or repeat the command")
    if watch and not sys.stdout.isatty():
        raise click.UsageError("--watch needs a terminal: leave it out, or repeat the command")
    from .status import run

    asyncio.run(run(Scope(namespace, all_namespaces, context, kubeconfig), name, output, watch))


@cli.command()
@optional_name
@connection
@all_namespaces
@output
@click.option("--once", is_flag=True, help="Print it once; without a terminal that is always so.")
def top(
    name: str | None,
    namespace: str | None,
    context: str | None,
    kubeconfig: str | None,
    all_namespaces: bool,
    output: str,
    once: bool,
) -> None:
    """Show how busy each engine is, every second until Ctrl-C.

    The gateways count: requests on an engine (in flight), those that wait for it (queued), how many it gets
    at once (limit), and whether it gets any (UP, DOWN, DRAIN). The line of a cluster holds its sums; there,
    in flight stands beside what its engines take by the plan. Numbers are the sums over all gateways.

    \b
    Examples:
      kubectl inference top
      kubectl inference top qwen -n ml --once
      kubectl inference top -A -o json

    Exit status: 0; 1 when the clusters can't be read. A gateway that doesn't answer is named.
    """
    _one_or_all(name, all_namespaces)
    from .top import run

    asyncio.run(run(Scope(namespace, all_namespaces, context, kubeconfig), name, output, once))


@cli.command()
@required_name
@connection
@output
def explain(
    name: str, namespace: str | None, context: str | None, kubeconfig: str | None, output: str
) -> None:
    """Tell why a cluster is as it is.

    What is wrong with its spec, with the field and the legal values; why the plan is what it is; and each
    condition: the question it answers, the answer, and what to do now.

    \b
    Examples:
      kubectl inference explain qwen
      kubectl inference explain qwen -o json | jq '.conditions[] | select(.action != "")'

    Exit status: 0 whatever is wrong with the cluster; 1 when it can't be read or doesn't exist.
    """
    from .explain import run

    asyncio.run(run(Scope(namespace, False, context, kubeconfig), name, output))


@cli.command()
@required_name
@click.argument("prompt", required=False)
@connection
@click.option("--max-tokens", type=click.IntRange(min=1), help="Longest answer. Default: the engine's.")
@click.option("--system", metavar="TEXT", help="Instruction before the conversation.")
def chat(
    name: str,
    prompt: str | None,
    namespace: str | None,
    context: str | None,
    kubeconfig: str | None,
    max_tokens: int | None,
    system: str | None,
) -> None:
    """Ask the model, through the same gateway as its clients.

    The answer goes to standard output as it comes. On standard error stand the thoughts of a reasoning model
    and, at the end, the engine that answered, the time to the first token and the speed. Without PROMPT it is
    a conversation with memory: a line a question, Ctrl-D ends it. The way leads through the API server: it is
    for trying, not for load.

    \b
    Examples:
      kubectl inference chat qwen "Why is the sky blue?" --max-tokens 100
      kubectl inference chat qwen --system "Answer in one word."
      echo "Name a river." | kubectl inference chat qwen

    Exit status: 0 after a whole answer; 1 when there was none or it was cut.
    """
    from .chat import run

    run(Scope(namespace, False, context, kubeconfig), name, prompt, max_tokens, system)


@cli.command()
@click.option("-f", "--filename", required=True, metavar="FILE", help="Manifest; - is standard input.")
@click.option("-n", "--namespace", metavar="NS", help="For manifests that name none. Default: default.")
@click.option(
    "--agent-image",
    default=f"ghcr.io/inferencecluster/inference-operator:{__version__}",
    show_default=True,
    help="Image of the gateways' agent.",
)
@click.option(
    "--haproxy-image",
    default="docker.io/library/haproxy:3.2",
    show_default=True,
    help="Image of the gateways' proxy.",
)
def render(filename: str, namespace: str | None, agent_image: str, haproxy_image: str) -> None:
    """Print what the operator would make of a manifest, without any cluster.

    The plan stands in comments, then follows every object as YAML, as for a new cluster whose metrics API is
    installed: to review a change, to diff two of them, or to check a manifest before it is applied. Objects
    of other kinds in the file are passed by.

    \b
    Examples:
      kubectl inference render -f qwen.yaml
      kubectl inference render -f qwen.yaml | kubectl apply --dry-run=server -f -
      diff <(kubectl inference render -f old.yaml) <(kubectl inference render -f new.yaml)

    Exit status: 0; 1 when a spec doesn't hold (each problem on standard error, with its field and the legal
    values) or the file can't be read.
    """
    from ..render.settings import RenderSettings
    from .render import run

    settings = RenderSettings(agent_image=agent_image, haproxy_image=haproxy_image, hpa_tolerance=True)
    run(filename, namespace, settings)


@cli.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish", "kubectl"]))
def completion(shell: str) -> None:
    """Print a script that completes commands, options and names of clusters.

    bash, zsh and fish complete `kubectl-inference …`. For `kubectl inference …` kubectl itself asks a program
    of a fixed name, which `kubectl` prints; kubectl's own completion has to be on.

    \b
    Examples:
      source <(kubectl inference completion bash)
      kubectl inference completion kubectl > ~/.local/bin/kubectl_complete-inference
      chmod +x ~/.local/bin/kubectl_complete-inference

    Exit status: 0.
    """
    from .completion import script

    click.echo(script(cli, shell))


def _one_or_all(name: str | None, all_namespaces: bool) -> None:
    if name is not None and all_namespaces:
        raise click.UsageError("NAME is in one namespace: use -n instead of -A")
