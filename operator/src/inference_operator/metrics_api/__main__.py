"""Command line of the metrics API."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

import click

from .. import __version__
from ..adapters.telemetry import configure_logging
from .run import Config, StartError, run


@click.command(context_settings={"auto_envvar_prefix": "INFERENCE_METRICS", "max_content_width": 100})
@click.version_option(__version__, prog_name="inference-metrics")
@click.option(
    "--namespace",
    "namespaces",
    multiple=True,
    metavar="NS",
    envvar="INFERENCE_METRICS_NAMESPACES",
    help="Namespace to answer for; repeat it for more. Default: all. As variable: separated by spaces.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False),
    help="File with credentials. Default: those of the pod's ServiceAccount.",
)
@click.option(
    "--tls-cert-file",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="Serving certificate (PEM), read again when it changes.",
)
@click.option(
    "--tls-key-file",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="Its private key (PEM).",
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=6443,
    show_default=True,
    help="Port of the API, for the API server.",
)
@click.option(
    "--probe-port",
    type=click.IntRange(1, 65535),
    default=8080,
    show_default=True,
    help="Port of /healthz, /readyz and /metrics.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="Least important log lines that are written (JSON, to stderr).",
)
def main(
    namespaces: tuple[str, ...],
    kubeconfig: str | None,
    tls_cert_file: Path,
    tls_key_file: Path,
    port: int,
    probe_port: int,
    log_level: str,
) -> None:
    """Answer custom.metrics.k8s.io: how many requests each InferenceCluster has, and how full that makes it.

    The HorizontalPodAutoscalers of the clusters ask it through the API server. It asks the gateways, when it
    is asked. Several processes may run; they share nothing. Each option can also be given as an environment
    variable, INFERENCE_METRICS_ and its name in capitals.

    Exit status: 0 after a signal, 1 when it can't start or go on.
    """
    configure_logging(log_level)
    config = Config(namespaces, kubeconfig, tls_cert_file, tls_key_file, port, probe_port)
    try:
        asyncio.run(run(config))
    except StartError as error:
        logging.getLogger(__name__).error("%s", error)
        sys.exit(1)
    except Exception:
        logging.getLogger(__name__).exception("ended by an error")
        sys.exit(1)


if __name__ == "__main__":
    main()
