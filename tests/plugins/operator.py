"""Fixtures: `operator`, the real chart installed by Helm in the sandbox; `namespace`, a fresh one."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator

import pytest

from sandbox.client import Sandbox
from sandbox.lab import Lab
from tests.cluster.operator_lab import install

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def operator(sandbox: Sandbox) -> Lab:
    """A sandbox with one operator at work."""
    lab = Lab(sandbox)
    install(lab, replicas=1)
    return lab


@pytest.fixture
def namespace(sandbox: Sandbox) -> Iterator[str]:
    """A namespace of the test's own, in which only pods that pass Pod Security "restricted" run."""
    name = f"test-{next(_numbers)}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    sandbox.kubectl(["apply", "-f", "-"], input=json.dumps(body))
    yield name
    sandbox.kubectl(["delete", "ic", "--all", "-n", name, "--wait=true"], check=False)
    sandbox.kubectl(["delete", "namespace", name, "--wait=false"])
