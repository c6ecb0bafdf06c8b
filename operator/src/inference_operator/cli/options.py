"""Options that every command has, and the completion of names. Nothing slow is imported here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import click

_F = TypeVar("_F", bound=Callable[..., Any])

#: Somebody waits behind the TAB key.
_COMPLETION_SECONDS: Final = 2.0


@dataclass(frozen=True)
class Scope:
    """Which clusters a command is about; None = what the kubeconfig says."""

    namespace: str | None = None
    all_namespaces: bool = False
    context: str | None = None
    kubeconfig: str | None = None


def complete_names(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """Names of the namespace's clusters. Whatever goes wrong, there is merely nothing to offer."""
    from .access import connected

    options = context.params

    async def names() -> list[str]:
        scope = Scope(options.get("namespace"), False, options.get("context"), options.get("kubeconfig"))
        async with asyncio.timeout(_COMPLETION_SECONDS), connected(scope) as session:
            return [obj["metadata"]["name"] for obj in await session.clusters()]

    try:
        return [name for name in asyncio.run(names()) if name.startswith(begun)]
    except Exception:
        return []


def connection(function: _F) -> _F:
    """-n, --context and --kubeconfig."""
    for decorator in (
        click.option(
            "--kubeconfig",
            type=click.Path(),
            metavar="FILE",
            help="File with contexts and credentials. Default: $KUBECONFIG, then ~/.kube/config.",
        ),
        click.option("--context", metavar="NAME", help="Context of the kubeconfig. Default: the current."),
        click.option(
            "-n",
            "--namespace",
            metavar="NS",
            help="Namespace. Default: the context's.",
        ),
    ):
        function = decorator(function)
    return function


all_namespaces = click.option(
    "-A", "--all-namespaces", is_flag=True, help="Clusters of all namespaces, instead of one."
)

output = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml"]),
    default="table",
    show_default=True,
    help="Form of the answer; json and yaml are stable documents for programs.",
)

optional_name = click.argument("name", required=False, shell_complete=complete_names)
required_name = click.argument("name", shell_complete=complete_names)
