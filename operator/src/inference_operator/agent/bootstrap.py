"""The first haproxy.cfg, written by the gateway pod's init container."""

from __future__ import annotations

from . import config
from .files import replace
from .model import Gateway
from .settings import Settings


def bootstrap(settings: Settings) -> None:
    """Write a first configuration without engines: HAProxy starts before the API server was asked anything.

    A configuration that is there already stays: after a restart of the pod's containers it is the better one.
    """
    settings.directory.mkdir(parents=True, exist_ok=True)
    if settings.config_file.exists():
        return
    replace(settings.shares_file, "")
    replace(settings.server_state_file, config.NO_STATES)
    replace(settings.config_file, config.file(Gateway(), settings, {}))
