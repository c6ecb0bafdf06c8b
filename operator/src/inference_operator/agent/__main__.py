"""Command line of the gateway agent: `inference-agent bootstrap` and `inference-agent run`."""

from __future__ import annotations

import asyncio

import click

from . import jsonlog, words
from .settings import Settings


class _ClusterType(click.ParamType[tuple[str, str]]):
    name = "NAMESPACE/NAME"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        namespace, _, name = value.partition("/")
        try:
            return words.label(namespace, "namespace"), words.label(name, "name")
        except words.RefusedError as error:
            self.fail(f"{value!r} is not NAMESPACE/NAME: {error}", param, ctx)


@click.group()
@click.option("--log-level", default="INFO", show_default=True, help="Least severe level that is logged.")
def main(log_level: str) -> None:
    """Agent of an inference gateway: keeps the HAProxy beside it true to its clusters."""
    jsonlog.configure(log_level)


@main.command()
def bootstrap() -> None:
    """Write a first haproxy.cfg without engines, for HAProxy to start with."""
    from .bootstrap import bootstrap as write_bootstrap

    write_bootstrap(_settings())


@main.command()
@click.option(
    "--cluster",
    "clusters",
    type=_ClusterType(),
    multiple=True,
    required=True,
    help="InferenceCluster to serve; repeat it to serve several.",
)
@click.option(
    "--kubeconfig", type=click.Path(exists=True, dir_okay=False), help="Default: the pod's own account."
)
def run(clusters: tuple[tuple[str, str], ...], kubeconfig: str | None) -> None:
    """Serve until SIGTERM, and then until HAProxy has finished its streams."""
    # Here, since the Kubernetes client costs a second of CPU that the init container need not pay.
    from .run import serve

    settings = _settings()
    if not settings.pod:
        raise click.ClickException("POD_NAME is not set: it names this gateway in its reports.")
    asyncio.run(serve(settings, clusters, kubeconfig))


def _settings() -> Settings:
    try:
        return Settings.from_environment()
    except ValueError as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
