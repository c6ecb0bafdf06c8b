"""Command line of the operator."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path
from typing import Final

import click

from . import __version__
from .adapters.telemetry import configure_logging
from .app import Config, StartError, run

_NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@click.group(context_settings={"auto_envvar_prefix": "INFERENCE_OPERATOR", "max_content_width": 100})
@click.version_option(__version__, prog_name="inference-operator")
def main() -> None:
    """Keep LLM inference clusters true to what they declare.

    The operator watches InferenceCluster objects and keeps engines, gateways and everything around them as
    each of them says. It runs in Kubernetes (see the Helm chart), or outside for development.
    """


@main.command(name="run")
@click.option(
    "--namespace",
    "namespaces",
    multiple=True,
    metavar="NS",
    envvar="INFERENCE_OPERATOR_NAMESPACES",
    help="Namespace to look after; repeat it for more. Default: all. As variable: separated by spaces.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False),
    envvar="INFERENCE_OPERATOR_KUBECONFIG",
    help="File with credentials. Default: those of the pod's ServiceAccount.",
)
@click.option(
    "--agent-image",
    envvar="INFERENCE_OPERATOR_AGENT_IMAGE",
    default=f"ghcr.io/inferencecluster/inference-operator:{__version__}",
    show_default=True,
    help="Image of the gateways' agent.",
)
@click.option(
    "--haproxy-image",
    envvar="INFERENCE_OPERATOR_HAPROXY_IMAGE",
    default="docker.io/library/haproxy:3.2",
    show_default=True,
    help="Image of the gateways' proxy.",
)
@click.option(
    "--metrics-service",
    metavar="NS/NAME",
    envvar="INFERENCE_OPERATOR_METRICS_SERVICE",
    default="",
    help="Service of inference-metrics, to know our own metrics API. Default: it isn't installed.",
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="INFERENCE_OPERATOR_CONFIG",
    help="File with the operator configuration (YAML): prices of GPUs and the like. It is read again when it "
    "changes. Default: no prices.",
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    envvar="INFERENCE_OPERATOR_PORT",
    default=8080,
    show_default=True,
    help="Port of /healthz, /readyz and /metrics.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    envvar="INFERENCE_OPERATOR_LOG_LEVEL",
    default="info",
    show_default=True,
    help="Least important log lines that are written (JSON, to stderr).",
)
@click.option(
    "--lease-namespace",
    metavar="NS",
    envvar="INFERENCE_OPERATOR_POD_NAMESPACE",
    help="Namespace of the leader Lease. Default: the pod's own, outside a cluster `default`.",
)
def run_command(
    namespaces: tuple[str, ...],
    kubeconfig: str | None,
    agent_image: str,
    haproxy_image: str,
    metrics_service: str,
    config_file: Path | None,
    port: int,
    log_level: str,
    lease_namespace: str | None,
) -> None:
    """Run until SIGTERM or SIGINT.

    Several processes may run: one leads, by the Lease `inference-operator`, the others stand by and take over
    within 20 seconds. Each option can also be given as an environment variable, INFERENCE_OPERATOR_ and its
    name in capitals (for --namespace: INFERENCE_OPERATOR_NAMESPACES, for --lease-namespace:
    INFERENCE_OPERATOR_POD_NAMESPACE).

    Exit status: 0 after a signal, 1 when it can't start or go on.
    """
    configure_logging(log_level)
    config = Config(
        namespaces=namespaces,
        kubeconfig=kubeconfig,
        agent_image=agent_image,
        haproxy_image=haproxy_image,
        metrics_service=metrics_service,
        config_file=config_file,
        port=port,
        lease_namespace=lease_namespace or _own_namespace(),
    )
    try:
        asyncio.run(run(config))
    except StartError as error:
        logging.getLogger(__name__).error("%s", error)
        sys.exit(1)
    except Exception:
        # Also a watch task or the election that ended: a new process is the cure.
        logging.getLogger(__name__).exception("ended by an error")
        sys.exit(1)


def _own_namespace() -> str:
    return _NAMESPACE_FILE.read_text().strip() if _NAMESPACE_FILE.exists() else "default"


if __name__ == "__main__":
    main()
