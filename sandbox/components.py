"""Command lines and static configuration of the plane's processes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox import net, nodes

# Enough for thousands of objects; the defaults (20/30 for the controller manager) throttle any bench.
_FAST_CLIENT = ("--kube-api-qps=5000", "--kube-api-burst=10000")


@dataclass(frozen=True)
class Plane:
    """What the plane is started with (`plane.json`).

    hpa_sync_period: a Go duration; kubelet_module: Python module to run as the kubelet; relay_fd: the
    inherited listening socket on the host's 127.0.0.1.
    """

    state: str
    bin_dir: str
    hpa_sync_period: str
    kubelet_module: str
    kubelet_socket: str
    relay_fd: int

    @property
    def root(self) -> Path:
        """The state directory."""
        return Path(self.state)

    def kubeconfig(self, stem: str) -> Path:
        """The kubeconfig that the process `stem` uses inside the plane."""
        return self.root / "pki" / f"{stem}.kubeconfig"


Command = list[str | Path]


def etcd(plane: Plane) -> Command:
    """Single member, no fsync: its data is on a tmpfs and ends with the sandbox anyway."""
    client, peer = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
    return [
        Path(plane.bin_dir) / "etcd",
        f"--data-dir={plane.root / 'etcd' / 'data'}",
        "--unsafe-no-fsync",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        f"--quota-backend-bytes={4 << 30}",
        "--auto-compaction-retention=10m",
        "--log-level=warn",
    ]


def apiserver(plane: Plane) -> Command:
    """The API server; PodSecurity and ServiceAccount admission are on by default."""
    pki = plane.root / "pki"
    return [
        Path(plane.bin_dir) / "kube-apiserver",
        "--etcd-servers=http://127.0.0.1:2379",
        # A namespace without a default route has no address to guess from ("Unable to find suitable network
        # address"), and pods must reach the server behind the Service `kubernetes`.
        "--bind-address=0.0.0.0",
        f"--advertise-address={net.PLANE_ADDRESS}",
        f"--secure-port={net.API_PORT}",
        "--endpoint-reconciler-type=none",
        f"--service-cluster-ip-range={net.SERVICE_RANGE}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        f"--client-ca-file={pki / 'ca.crt'}",
        f"--tls-cert-file={pki / 'apiserver.crt'}",
        f"--tls-private-key-file={pki / 'apiserver.key'}",
        f"--service-account-key-file={pki / 'sa.pub'}",
        f"--service-account-signing-key-file={pki / 'sa.key'}",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--requestheader-client-ca-file={pki / 'front-ca.crt'}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={pki / 'front-proxy.crt'}",
        f"--proxy-client-key-file={pki / 'front-proxy.key'}",
        f"--kubelet-client-certificate={pki / 'kubelet-client.crt'}",
        f"--kubelet-client-key={pki / 'kubelet-client.key'}",
        "--kubelet-preferred-address-types=InternalIP",
        # 300 s by default: no test waits five minutes for the pods of a lost node.
        "--default-not-ready-toleration-seconds=5",
        "--default-unreachable-toleration-seconds=5",
        f"--audit-policy-file={plane.root / 'audit-policy.json'}",
        f"--audit-log-path={plane.root / 'audit.log'}",
        # One file for a sandbox's whole life: a rotation would hide events from its readers.
        "--audit-log-maxsize=1000000",
        "--profiling=false",
    ]


def controller_manager(plane: Plane) -> Command:
    """All controllers, with the node timers shortened by the same factor of eight to ten."""
    pki, kubeconfig = plane.root / "pki", plane.kubeconfig("controller-manager")
    return [
        Path(plane.bin_dir) / "kube-controller-manager",
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--service-account-private-key-file={pki / 'sa.key'}",
        f"--root-ca-file={pki / 'ca.crt'}",
        f"--cluster-signing-cert-file={pki / 'ca.crt'}",
        f"--cluster-signing-key-file={pki / 'ca.key'}",
        "--use-service-account-credentials",
        "--leader-elect=false",
        *_FAST_CLIENT,
        "--bind-address=127.0.0.1",
        f"--horizontal-pod-autoscaler-sync-period={plane.hpa_sync_period}",
        "--node-monitor-period=1s",
        "--node-monitor-grace-period=5s",
        "--node-startup-grace-period=10s",
        "--profiling=false",
    ]


def scheduler(plane: Plane) -> Command:
    """The default profile."""
    kubeconfig = plane.kubeconfig("scheduler")
    return [
        Path(plane.bin_dir) / "kube-scheduler",
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--leader-elect=false",
        *_FAST_CLIENT,
        "--bind-address=127.0.0.1",
        "--profiling=false",
    ]


def proxy(plane: Plane) -> Command:
    """One kube-proxy for all pods: they are routed through the plane's namespace.

    Start it only when its node has an InternalIP: without one it waits 30 s, assumes loopback, and exits when
    the address appears later.
    """
    return [
        Path(plane.bin_dir) / "kube-proxy",
        f"--kubeconfig={plane.kubeconfig('proxy')}",
        "--proxy-mode=nftables",
        f"--cluster-cidr={net.POD_RANGE}",
        f"--hostname-override={nodes.CONTROL_PLANE}",
        # These sysctls belong to the host's namespace and cannot be written from here.
        "--conntrack-max-per-core=0",
        "--conntrack-tcp-timeout-established=0",
        "--conntrack-tcp-timeout-close-wait=0",
        "--healthz-bind-address=127.0.0.1:10256",
        "--metrics-bind-address=127.0.0.1:10249",
    ]


def coredns(plane: Plane) -> Command:
    """Cluster DNS; see `corefile`."""
    return [Path(plane.bin_dir) / "coredns", "-conf", plane.root / "Corefile"]


def kubelet(plane: Plane, python: str) -> Command:
    """All nodes and their pods; see `sandbox.kubelet`."""
    return [
        *(python, "-m", plane.kubelet_module),
        *("--state", plane.root / "kubelet"),
        *("--kubeconfig", plane.kubeconfig("kubelet")),
        *("--nodes", plane.root / "nodes.json"),
        *("--control", plane.kubelet_socket),
        *("--pki", plane.root / "pki"),
    ]


def relay(plane: Plane, python: str) -> Command:
    """The API server on the host's 127.0.0.1."""
    return [python, "-m", "sandbox.relay", "--fd", str(plane.relay_fd), "--to", f"127.0.0.1:{net.API_PORT}"]


def corefile(plane: Plane) -> str:
    """Names of the cluster and nothing else: the plane has no way out, so anything else does not exist.

    Two blocks, because inside one `template` would answer before `kubernetes` (order of plugin.cfg).
    """
    return f"""cluster.local:53 in-addr.arpa:53 {{
    bind {net.DNS_BACKEND}
    errors
    ready {net.DNS_BACKEND}:8181
    kubernetes cluster.local in-addr.arpa {{
        kubeconfig {plane.kubeconfig("coredns")}
        pods insecure
        ttl 5
    }}
}}
.:53 {{
    bind {net.DNS_BACKEND}
    template ANY ANY {{
        rcode NXDOMAIN
    }}
}}
"""


def audit_policy() -> dict[str, Any]:
    """Every write of everybody; of reads those that tests ask about: Secrets, and all by service accounts.

    The control plane's own service accounts (kube-system) read so much that they would drown the rest.
    """
    reads = ["get", "list", "watch"]
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            {"level": "Metadata", "verbs": ["create", "update", "patch", "delete", "deletecollection"]},
            {"level": "None", "verbs": reads, "userGroups": ["system:serviceaccounts:kube-system"]},
            {
                "level": "Metadata",
                "verbs": reads,
                "resources": [{"group": "", "resources": ["secrets"]}],
            },
            {"level": "Metadata", "verbs": reads, "userGroups": ["system:serviceaccounts"]},
            {"level": "None"},
        ],
    }


def write_configuration(plane: Plane) -> None:
    """Write the files that the command lines above refer to."""
    (plane.root / "audit-policy.json").write_text(json.dumps(audit_policy()))
    (plane.root / "Corefile").write_text(corefile(plane))
    (plane.root / "resolv.conf").write_text(
        f"nameserver {net.DNS_SERVICE}\n"
        "search default.svc.cluster.local svc.cluster.local cluster.local\n"
        "options ndots:5\n"
    )
