"""The nodes of a sandbox: what `--gpu-nodes` and `--cpu-nodes` mean, and the file format of `--nodes`.

A node is `{"name", "labels", "taints", "capacity"}` in the shapes of the Kubernetes API; the kubelet turns
the list into Node objects.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from sandbox.errors import SandboxError

Node = dict[str, Any]

CONTROL_PLANE = "control-plane"
_ZONES = "abc"


def default_nodes(gpu: int, cpu: int) -> list[Node]:
    """`gpu` nodes gpu-0... with eight H100 each and `cpu` nodes cpu-0..., spread over three zones."""
    nodes = [_gpu_node(index) for index in range(gpu)]
    nodes += [_node(f"cpu-{index}", index, {"cpu": "32", "memory": "128Gi"}) for index in range(cpu)]
    return nodes


def load_nodes(path: Path) -> list[Node]:
    """Read a node list from a JSON or YAML file; raises SandboxError naming the entry that is wrong."""
    try:
        data = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise SandboxError("the node file cannot be read", where=str(path), why=str(error)) from error
    fix = 'write a list of {"name": "gpu-0", "labels": {}, "taints": [], "capacity": {"cpu": "32", ...}}'
    if not isinstance(data, list):
        raise SandboxError("the node file is not a list", where=str(path), fix=fix)
    nodes: list[Node] = []
    for number, entry in enumerate(data):
        if (
            not isinstance(entry, dict)
            or not entry.get("name")
            or not isinstance(entry.get("capacity"), dict)
        ):
            raise SandboxError(f"entry {number} lacks a name or a capacity", where=str(path), fix=fix)
        nodes.append({"labels": {}, "taints": []} | entry)
    names = [node["name"] for node in nodes]
    twice = {name for name in names if names.count(name) > 1 or name == CONTROL_PLANE}
    if twice:
        raise SandboxError(
            f"node names used twice: {', '.join(sorted(twice))}",
            where=str(path),
            why=f"names are unique, and {CONTROL_PLANE} is the plane's own node",
            fix="rename them",
        )
    return nodes


def control_plane_node() -> Node:
    """The node that kube-proxy belongs to: present in every sandbox, closed to ordinary pods."""
    node = _node(CONTROL_PLANE, 0, {"cpu": "4", "memory": "16Gi"})
    node["labels"]["node-role.kubernetes.io/control-plane"] = ""
    node["taints"] = [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]
    return node


def _gpu_node(index: int) -> Node:
    node = _node(f"gpu-{index}", index, {"cpu": "192", "memory": "2000Gi", "nvidia.com/gpu": "8"})
    # The labels that GPU feature discovery writes for an HGX H100 machine.
    node["labels"] |= {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
        "nvidia.com/gpu.count": "8",
        "nvidia.com/gpu.memory": "81559",
        "nvidia.com/gpu.family": "hopper",
        "nvidia.com/gpu.compute.major": "9",
        "nvidia.com/gpu.compute.minor": "0",
        "nvidia.com/mig.capable": "true",
        "nvidia.com/cuda.driver-version.full": "595.91.07",
        "nvidia.com/cuda.driver-version.major": "595",
        "nvidia.com/cuda.runtime-version.major": "13",
    }
    node["taints"] = [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
    return node


def _node(name: str, index: int, capacity: dict[str, str]) -> Node:
    return {
        "name": name,
        "labels": {
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            "topology.kubernetes.io/region": "sandbox",
            "topology.kubernetes.io/zone": f"sandbox-{_ZONES[index % len(_ZONES)]}",
        },
        "taints": [],
        "capacity": {"pods": "110", "ephemeral-storage": "2000Gi"} | capacity,
    }
