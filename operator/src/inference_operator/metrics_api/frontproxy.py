"""Who may ask: the API server alone, by its front-proxy client certificate.

The aggregator has authenticated and authorised the user before it passes a request on (k/k: the handler chain
stands before the proxy), and says who it is in headers. Whoever else knows our address is told 401. What
certificates are good stands in the ConfigMap kube-system/extension-apiserver-authentication.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from ..adapters.kube import KubeClient
from ..ports import KubeError

log = logging.getLogger(__name__)

NAMESPACE: Final = "kube-system"
CONFIG_MAP: Final = "extension-apiserver-authentication"
ANONYMOUS: Final = "system:anonymous"
_PERIOD_SECONDS: Final = 60.0


@dataclass(frozen=True)
class Trust:
    """Which client certificates and headers count."""

    #: PEM.
    authority: str
    #: Common names; empty = every certificate of the authority.
    allowed_names: tuple[str, ...]
    #: Headers that name the user, in lower case.
    user_headers: tuple[str, ...]


def read_trust(config_map: Mapping[str, Any]) -> Trust:
    """From the ConfigMap. Raises ValueError: without an authority nobody could be trusted."""
    data = config_map.get("data") or {}
    authority = data.get("requestheader-client-ca-file") or ""
    if not authority:
        raise ValueError(
            f"ConfigMap {NAMESPACE}/{CONFIG_MAP} has no requestheader-client-ca-file: the API server runs "
            "without --requestheader-client-ca-file, so API aggregation is off"
        )
    return Trust(
        authority,
        tuple(orjson.loads(data.get("requestheader-allowed-names") or "[]")),
        tuple(h.lower() for h in orjson.loads(data.get("requestheader-username-headers") or "[]")),
    )


def common_name(certificate: Mapping[str, Any] | None) -> str:
    """Of the dict that ssl gives for a verified certificate; "" = none."""
    for part in (certificate or {}).get("subject", ()):
        for key, value in part:
            if key == "commonName":
                return str(value)
    return ""


def user(trust: Trust, certificate: Mapping[str, Any] | None, headers: Mapping[str, str]) -> str | None:
    """The user on whose behalf the API server asks; None = it isn't the API server, or names nobody.

    `certificate` is verified against the authority already, None = the client showed none.
    """
    if not certificate:
        return None
    if trust.allowed_names and common_name(certificate) not in trust.allowed_names:
        return None
    name = next((headers[header] for header in trust.user_headers if headers.get(header)), None)
    return None if name == ANONYMOUS else name


class FrontProxy:
    """The trust and the server's TLS context, both kept up to date."""

    def __init__(self, client: KubeClient, certificate: Path, key: Path) -> None:
        self._client = client
        self._files = certificate, key
        self._loaded: tuple[float, ...] = ()
        self._trust: Trust | None = None
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        # Optional, so that whoever shows none gets an answer in words.
        self.context.verify_mode = ssl.CERT_OPTIONAL
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2

    @property
    def trust(self) -> Trust | None:
        """None until it was read once."""
        return self._trust

    async def start(self) -> None:
        """Read both for the first time. Raises KubeError, ValueError, OSError (no certificate)."""
        self.load_certificate()
        await self._read()

    async def run(self) -> None:
        """Look for changes once a minute, for ever."""
        while True:
            await asyncio.sleep(_PERIOD_SECONDS)
            try:
                self.load_certificate()
                await self._read()
            except (KubeError, ValueError, OSError) as error:
                log.warning("certificates not renewed", extra={"reason": str(error)})

    def load_certificate(self) -> None:
        """The serving certificate, if its files have changed: new connections get the new one."""
        stamp = tuple(path.stat().st_mtime for path in self._files)
        if stamp != self._loaded:
            self.context.load_cert_chain(*self._files)
            self._loaded = stamp

    async def _read(self) -> None:
        config_map = await self._client.get("ConfigMap", NAMESPACE, CONFIG_MAP)
        trust = read_trust(config_map or {})
        if self._trust is None or trust.authority != self._trust.authority:
            self.context.load_verify_locations(cadata=trust.authority)
        self._trust = trust
