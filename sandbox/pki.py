"""Certificates and kubeconfigs of one sandbox, made with the openssl program.

Two authorities on purpose: the aggregation layer's front proxy must not share the clients' authority, or any
client certificate could pass for the proxy and name any user (Kubernetes docs, "Configure the Aggregation
Layer").
"""

from __future__ import annotations

import base64
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import yaml

from sandbox.errors import SandboxError
from sandbox.net import PLANE_ADDRESS

_Arguments = list[str | Path]


@dataclass(frozen=True)
class Identity:
    """A certificate to make: file stem, subject, authority and, for servers, the names it answers to."""

    stem: str
    subject: str
    authority: str = "ca"
    names: tuple[str, ...] = ()


API_NAMES = (
    "IP:127.0.0.1",
    "IP:10.96.0.1",
    f"IP:{PLANE_ADDRESS}",
    "DNS:localhost",
    "DNS:kubernetes",
    "DNS:kubernetes.default",
    "DNS:kubernetes.default.svc",
    "DNS:kubernetes.default.svc.cluster.local",
)
IDENTITIES = (
    Identity("apiserver", "/CN=kube-apiserver", names=API_NAMES),
    Identity("front-proxy", "/CN=front-proxy-client", authority="front-ca"),
    # What the API server shows to kubelets; sandbox.kubelet.server lets in nobody else.
    Identity("kubelet-client", "/CN=kube-apiserver-kubelet-client"),
    Identity("admin", "/O=system:masters/CN=admin"),
    Identity("setup", "/O=system:masters/CN=sandbox-setup"),
    # One process keeps all nodes, so it cannot be system:node:NAME; the audit log still tells it apart.
    Identity("kubelet", "/O=system:masters/CN=sandbox-kubelet"),
    Identity("controller-manager", "/CN=system:kube-controller-manager"),
    Identity("scheduler", "/CN=system:kube-scheduler"),
    Identity("proxy", "/CN=system:kube-proxy"),
    Identity("coredns", "/CN=system:coredns"),
)
CLIENTS = ("admin", "setup", "kubelet", "controller-manager", "scheduler", "proxy", "coredns")

_CA_CONFIG = """[req]
distinguished_name = dn
x509_extensions = ext
[dn]
[ext]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
"""
_LEAF_CONFIG = """[req]
distinguished_name = dn
x509_extensions = ext
[dn]
[ext]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth, clientAuth
authorityKeyIdentifier = keyid
subjectAltName = {names}
"""
_NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "3650"]


def create(folder: Path) -> None:
    """Write authorities, certificates and service account keys into `folder`, as STEM.crt and STEM.key."""

    def authority(stem: str) -> None:
        config = folder / f"{stem}.cnf"
        config.write_text(_CA_CONFIG)
        _openssl(
            "req", "-x509", "-config", config, "-subj", f"/CN={stem}", *_NEW_KEY, *_outputs(folder, stem)
        )

    def leaf(identity: Identity) -> None:
        config = folder / f"{identity.stem}.cnf"
        config.write_text(_LEAF_CONFIG.format(names=",".join(identity.names) or f"DNS:{identity.stem}"))
        ca = folder / identity.authority
        sign: _Arguments = ["-CA", ca.with_suffix(".crt"), "-CAkey", ca.with_suffix(".key")]
        request: _Arguments = ["req", "-x509", "-config", config, "-subj", identity.subject]
        _openssl(*request, *sign, *_NEW_KEY, *_outputs(folder, identity.stem))

    def service_accounts() -> None:
        _openssl(
            "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", folder / "sa.key"
        )
        _openssl("pkey", "-in", folder / "sa.key", "-pubout", "-out", folder / "sa.pub")

    with ThreadPoolExecutor() as pool:
        keys = pool.submit(service_accounts)
        list(pool.map(authority, ("ca", "front-ca")))
        list(pool.map(leaf, IDENTITIES))
        keys.result()


def kubeconfig(folder: Path, stem: str, server: str) -> str:
    """A self-contained kubeconfig (certificates inline) for the client `stem` at `server`, as YAML."""

    def inline(name: str) -> str:
        return base64.b64encode((folder / name).read_bytes()).decode()

    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "sandbox",
                    "cluster": {"server": server, "certificate-authority-data": inline("ca.crt")},
                }
            ],
            "users": [
                {
                    "name": stem,
                    "user": {
                        "client-certificate-data": inline(f"{stem}.crt"),
                        "client-key-data": inline(f"{stem}.key"),
                    },
                }
            ],
            "contexts": [{"name": "sandbox", "context": {"cluster": "sandbox", "user": stem}}],
            "current-context": "sandbox",
        }
    )


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read."""
    path.touch(mode=0o600)
    path.write_text(text)


def _outputs(folder: Path, stem: str) -> _Arguments:
    return ["-out", folder / f"{stem}.crt", "-keyout", folder / f"{stem}.key"]


def _openssl(*arguments: str | Path) -> None:
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SandboxError(
            "making a certificate failed",
            where=f"openssl {' '.join(map(str, arguments))}",
            why=done.stderr.strip(),
            fix="the sandbox needs OpenSSL 3.0 or newer (`openssl version`)",
        )
