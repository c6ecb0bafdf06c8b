"""The environment of a container: what a pod's spec says, resolved as a kubelet resolves it."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sandbox.kubelet.quantity import in_units

JSON = dict[str, Any]
_REFERENCE = re.compile(r"\$\$|\$\(([^()\s]*)\)")
_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


class ConfigError(Exception):
    """The spec refers to what isn't there (waiting reason CreateContainerConfigError)."""


@dataclass(frozen=True)
class Sources:
    """Where values come from.

    lookup(kind, name) -> the ConfigMap or Secret ("configmaps" | "secrets") of the pod's namespace, or None;
    services: those of the namespace, for service links; allocatable: the node's resources.
    """

    pod: JSON
    pod_ip: str
    host_ip: str
    lookup: Callable[[str, str], JSON | None]
    services: Sequence[JSON]
    allocatable: Mapping[str, str]


def build(container: JSON, sources: Sources) -> dict[str, str]:
    """Service variables, then envFrom, then env; later ones win and may use earlier ones as $(NAME).

    Raises ConfigError when a required ConfigMap, Secret or key is missing.
    """
    variables = service_variables(sources.services, links=sources.pod["spec"].get("enableServiceLinks", True))
    for source in container.get("envFrom") or []:
        for kind, field in (("configmaps", "configMapRef"), ("secrets", "secretRef")):
            if reference := source.get(field):
                values = _data(kind, reference, sources)
                variables |= {source.get("prefix", "") + key: value for key, value in values.items()}
    for item in container.get("env") or []:
        value = _value(item, container, sources, variables)
        if value is not None:
            variables[item["name"]] = value
    return variables


def references(container: JSON) -> set[tuple[str, str]]:
    """(kind, name) of the ConfigMaps and Secrets that the container's environment reads."""
    sources = [item.get("valueFrom") or {} for item in container.get("env") or []]
    sources += container.get("envFrom") or []
    fields = {
        "configMapRef": "configmaps",
        "configMapKeyRef": "configmaps",
        "secretRef": "secrets",
        "secretKeyRef": "secrets",
    }
    kinds = fields.items()
    return {(kind, source[name]["name"]) for source in sources for name, kind in kinds if name in source}


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace $(NAME); an unknown name stays as written and $$ is a plain dollar sign."""

    def replace(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return variables.get(match[1], match[0])

    return _REFERENCE.sub(replace, text)


def field(path: str, pod: JSON, pod_ip: str, host_ip: str) -> str:
    """The value of a downward API field path. Raises ConfigError for a path that doesn't exist."""
    metadata, spec = pod["metadata"], pod["spec"]
    if match := _SUBSCRIPT.fullmatch(path):
        return str((metadata.get(match[1]) or {}).get(match[2], ""))
    if path in ("metadata.labels", "metadata.annotations"):
        return "\n".join(f'{key}="{value}"' for key, value in sorted((metadata.get(path[9:]) or {}).items()))
    values = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata["namespace"],
        "metadata.uid": metadata["uid"],
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", "default"),
        "status.podIP": pod_ip,
        "status.podIPs": pod_ip,
        "status.hostIP": host_ip,
        "status.hostIPs": host_ip,
    }
    if path not in values:
        raise ConfigError(f"fieldPath {path!r} is not supported")
    return str(values[path])


def resource(reference: JSON, container: JSON, allocatable: Mapping[str, str]) -> str:
    """The value of a resourceFieldRef; a missing limit means the node's allocatable."""
    kind, _, name = reference["resource"].partition(".")
    resources = container.get("resources") or {}
    given = (resources.get(kind) or {}).get(name)
    if given is None:
        given = allocatable.get(name, "0") if kind == "limits" else "0"
    return in_units(given, reference.get("divisor") or "1")


def service_variables(services: Sequence[JSON], *, links: bool) -> dict[str, str]:
    """Docker-style service links of the namespace; those of the API server even when links are off."""
    variables: dict[str, str] = {}
    for service in services:
        metadata, spec = service["metadata"], service["spec"]
        is_api_server = metadata["name"] == "kubernetes" and metadata["namespace"] == "default"
        if (links or is_api_server) and spec.get("clusterIP", "None") not in ("None", ""):
            variables |= _links(metadata["name"], spec)
    return variables


def _links(name: str, spec: JSON) -> dict[str, str]:
    prefix, ip, ports = name.upper().replace("-", "_"), spec["clusterIP"], spec.get("ports") or []
    if not ports:
        return {}
    first = ports[0]
    links = {
        f"{prefix}_SERVICE_HOST": ip,
        f"{prefix}_SERVICE_PORT": str(first["port"]),
        f"{prefix}_PORT": f"{first.get('protocol', 'TCP').lower()}://{ip}:{first['port']}",
    }
    for port in ports:
        number, protocol = str(port["port"]), port.get("protocol", "TCP")
        if port.get("name"):
            links[f"{prefix}_SERVICE_PORT_{port['name'].upper().replace('-', '_')}"] = number
        stem = f"{prefix}_PORT_{number}_{protocol}"
        links |= {
            stem: f"{protocol.lower()}://{ip}:{number}",
            f"{stem}_PROTO": protocol.lower(),
            f"{stem}_PORT": number,
            f"{stem}_ADDR": ip,
        }
    return links


def _value(item: JSON, container: JSON, sources: Sources, variables: Mapping[str, str]) -> str | None:
    source = item.get("valueFrom")
    if not source:
        return expand(item.get("value", ""), variables)
    if reference := source.get("fieldRef"):
        return field(reference["fieldPath"], sources.pod, sources.pod_ip, sources.host_ip)
    if reference := source.get("resourceFieldRef"):
        return resource(reference, container, sources.allocatable)
    for kind, name in (("configmaps", "configMapKeyRef"), ("secrets", "secretKeyRef")):
        if reference := source.get(name):
            values = _data(kind, reference, sources)
            if reference["key"] not in values and not reference.get("optional"):
                title = _title(kind, reference, sources)
                raise ConfigError(f"couldn't find key {reference['key']} in {title}")
            return values.get(reference["key"])
    raise ConfigError(f"env {item['name']}: no source in valueFrom is supported ({', '.join(source)})")


def _data(kind: str, reference: JSON, sources: Sources) -> dict[str, str]:
    found = sources.lookup(kind, reference["name"])
    if found is None:
        if reference.get("optional"):
            return {}
        raise ConfigError(f"{_title(kind, reference, sources)} not found")
    data = found.get("data") or {}
    if kind == "secrets":
        return {key: base64.b64decode(value).decode(errors="replace") for key, value in data.items()}
    return dict(data)


def _title(kind: str, reference: JSON, sources: Sources) -> str:
    word = "ConfigMap" if kind == "configmaps" else "Secret"
    return f"{word} {sources.pod['metadata']['namespace']}/{reference['name']}"
