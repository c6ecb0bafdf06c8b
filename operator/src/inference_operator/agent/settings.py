"""What one gateway pod is told at start, and where its files stand."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..api import names

#: HAProxy's own needs beside the buffers of requests: code, health checks, two workers during a reload.
_BASE_MIB: Final = 64
#: Two passes with a buffer of 256 KiB each. Measured per waiting request: 277 KiB with bodies of 2 kB, and
#: 471 KiB with bodies of 200 kB.
_BYTES_PER_REQUEST: Final = 2 * 270_000
_DEFAULT_MEMORY_MIB: Final = 512


@dataclass(frozen=True)
class Settings:
    """Fixed for the life of the agent."""

    pod: str
    namespace: str
    pod_ip: str
    memory_mib: int = _DEFAULT_MEMORY_MIB
    #: Shared by the three containers of the pod.
    directory: Path = Path("/run/gateway")
    port: int = names.GATEWAY_PORT
    agent_port: int = names.AGENT_PORT
    #: HAProxy's log goes to this UDP port on loopback. A Unix datagram socket would hold 10 messages
    #: (net.unix.max_dgram_qlen in a fresh network namespace): less than one dead engine's cut streams.
    log_port: int = 9514

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Settings:
        """From POD_NAME, POD_NAMESPACE, POD_IP, GATEWAY_MEMORY_MIB; ValueError names the bad one."""
        memory = environment.get("GATEWAY_MEMORY_MIB", str(_DEFAULT_MEMORY_MIB))
        if not memory.isdecimal() or int(memory) <= _BASE_MIB:
            raise ValueError(
                f"GATEWAY_MEMORY_MIB={memory!r}: HAProxy's memory limit in whole MiB, above {_BASE_MIB}"
            )
        ip = environment.get("POD_IP", "")
        if ip:
            ipaddress.ip_address(ip)
        return cls(
            pod=environment.get("POD_NAME", ""),
            namespace=environment.get("POD_NAMESPACE", ""),
            pod_ip=ip,
            memory_mib=int(memory),
            directory=Path(environment.get("GATEWAY_DIRECTORY", "/run/gateway")),
        )

    @property
    def bind(self) -> str:
        """Where HAProxy listens. A node without IPv6 can't bind `[::]`: used only where needed."""
        return f"[::]:{self.port} v4v6" if ":" in self.pod_ip else f"*:{self.port}"

    @property
    def max_connections(self) -> int:
        """Connections that HAProxy accepts: each may be a request with its body in a buffer."""
        return max(64, (self.memory_mib - _BASE_MIB) * 2**20 // _BYTES_PER_REQUEST)

    @property
    def config_file(self) -> Path:
        """HAProxy's configuration, always in step with what runs."""
        return self.directory / "haproxy.cfg"

    @property
    def shares_file(self) -> Path:
        """Map file: backend -> share of its track in ten-thousandths."""
        return self.directory / "shares.map"

    @property
    def server_state_file(self) -> Path:
        """States of the servers, handed from the old worker to the new one at a reload."""
        return self.directory / "servers.state"

    @property
    def stats_socket(self) -> Path:
        """Runtime API of the current worker."""
        return self.directory / "haproxy.sock"

    @property
    def master_socket(self) -> Path:
        """Master CLI: reload, list of workers, runtime API of older workers."""
        return self.directory / "master.sock"

    @property
    def relay_socket(self) -> Path:
        """Where HAProxy's first pass of a request hands it to the second."""
        return self.directory / "relay.sock"

    @property
    def state_file(self) -> Path:
        """Last good routing and endpoints, for a start while the API server is away."""
        return self.directory / "state.json"
