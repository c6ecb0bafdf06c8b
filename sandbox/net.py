"""Addresses of the plane: one table, so that certificates, flags and objects cannot disagree.

The ranges are the usual ones of a real cluster; they can be, because the whole plane lives in a network
namespace of its own. Loopback and link-local addresses are refused in EndpointSlices by the API server
(pkg/apis/core/validation, ValidateNonSpecialIP), hence 10.244.255.x for what Services point to.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from sandbox.errors import SandboxError

POD_RANGE = "10.244.0.0/16"
SERVICE_RANGE = "10.96.0.0/14"
PLANE_ADDRESS = "10.244.255.254"
DNS_BACKEND = "10.244.255.253"
DNS_SERVICE = "10.96.0.10"
API_SERVICE = "10.96.0.1"
# Pods have no subnet: this is the gateway of their /32 route, the same trick as Calico's.
POD_GATEWAY = "169.254.1.1"
API_PORT = 6443
API_URL = f"https://127.0.0.1:{API_PORT}"

_SETUP = (
    "ip link set lo up",
    f"ip addr add {PLANE_ADDRESS}/32 dev lo",
    f"ip addr add {DNS_BACKEND}/32 dev lo",
    f"ip addr add {POD_GATEWAY}/32 dev lo",
    # Without a route a cluster IP is "Network is unreachable" before kube-proxy's rules can rewrite it. Not
    # by way of lo: for a Service without endpoints the kernel would then answer from the cluster IP itself,
    # find that this is no address of its own and send nothing (icmp_send, RTCF_LOCAL), so that clients see a
    # time-out where a cluster refuses. A veth pair, because pods need that driver anyway; it carries nothing.
    "ip link add services type veth peer name services-peer",
    "ip link set services up",
    "ip link set services-peer up",
    f"ip route add {SERVICE_RANGE} dev services src {PLANE_ADDRESS}",
)


def set_up() -> None:
    """Configure the network namespace this process is in (its own: it needs CAP_NET_ADMIN there)."""
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    for command in _SETUP:
        done = subprocess.run(command.split(), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SandboxError(
                "setting up the plane's network failed",
                where=command,
                why=done.stderr.strip(),
                fix="run the command in `unshare -Urn` to see what this kernel refuses",
            )
