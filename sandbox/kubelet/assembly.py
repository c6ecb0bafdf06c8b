"""What a container's process gets: command, environment, user, mounts; and the message it leaves."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox import images
from sandbox.images import Image
from sandbox.kubelet import environment
from sandbox.kubelet.api import JSON
from sandbox.kubelet.environment import ConfigError
from sandbox.kubelet.runtime import ContainerConfig, Mount

if TYPE_CHECKING:
    from sandbox.kubelet.container import Container

_MESSAGE_BYTES = 4096


async def assemble(container: Container, image: Image) -> ContainerConfig:
    """Resolve the container's spec. Raises ConfigError, ApiError."""
    pod, spec = container.pod, container.spec
    user, group = _user(container, image)
    home = next((home for uid, home in images.USERS.values() if uid == user), "/")
    given = await _environment(container)
    variables = {
        "PATH": images.PATH,
        "HOME": home,
        "HOSTNAME": pod.hostname,
        **image.environment,
        **pod.device_environment(container.name),
        **given,
    }
    command = _command(spec, image, given)
    if not command:
        raise ConfigError(f"image {spec['image']} has no default command: give one")
    return ContainerConfig(
        hostname=pod.hostname,
        user=user,
        group=group,
        home=home,
        command=command,
        environment=variables,
        working_directory=spec.get("workingDir") or "/",
        mounts=await asyncio.to_thread(_mounts, container, image, given),
        read_only_root=bool((spec.get("securityContext") or {}).get("readOnlyRootFilesystem")),
        log=container.log.path,
    )


def write_etc(directory: Path) -> None:
    """The /etc files that are the same in every container."""
    directory.mkdir(parents=True, exist_ok=True)
    users = images.USERS.items()
    passwd = "".join(f"{name}:x:{uid}:{uid}::{home}:/bin/sh\n" for name, (uid, home) in users)
    (directory / "passwd").write_text(passwd)
    (directory / "group").write_text("".join(f"{name}:x:{uid}:\n" for name, (uid, _) in users))
    (directory / "nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files dns\n")


def write_pod_etc(directory: Path, pod: JSON, hostname: str, ip: str) -> None:
    """hosts, hostname and resolv.conf of a pod."""
    spec, namespace = pod["spec"], pod["metadata"]["namespace"]
    names = hostname
    if subdomain := spec.get("subdomain"):
        names = f"{hostname}.{subdomain}.{namespace}.svc.cluster.local {hostname}"
    aliases = [f"{each['ip']} {' '.join(each['hostnames'])}\n" for each in spec.get("hostAliases") or []]
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "hosts").write_text(f"127.0.0.1 localhost\n::1 localhost\n{ip} {names}\n{''.join(aliases)}")
    (directory / "hostname").write_text(f"{hostname}\n")
    (directory / "resolv.conf").write_text(
        f"nameserver 10.96.0.10\nsearch {namespace}.svc.cluster.local svc.cluster.local cluster.local\n"
        "options ndots:5\n"
    )


def runs_as_root(pod: JSON, container: JSON) -> bool:
    """Whether the container's user is 0, by its spec or by its image."""
    try:
        image_user = images.find_image(container["image"]).user
    except images.ImageError:
        image_user = 0
    return bool(_security(pod, container).get("runAsUser", image_user) == 0)


def termination_message(container: Container, *, failed: bool) -> str:
    """What the container wrote to its terminationMessagePath; its log's end where the policy says so."""
    message = _tail(_message_file(container), _MESSAGE_BYTES)
    if not message and failed and container.spec.get("terminationMessagePolicy") == "FallbackToLogsOnError":
        message = _tail(container.log.path, 2048)
    return message


async def _environment(container: Container) -> dict[str, str]:
    pod = container.pod
    found = {
        (kind, name): await pod.host.store.fetch(kind, pod.namespace, name)
        for kind, name in environment.references(container.spec)
    }
    sources = environment.Sources(
        pod=pod.object,
        pod_ip=pod.network.ip,
        host_ip=pod.node.ip,
        lookup=lambda kind, name: found[kind, name],
        services=pod.host.store.services(pod.namespace),
        allocatable=pod.node.capacity,
    )
    return environment.build(container.spec, sources)


def _command(spec: JSON, image: Image, variables: dict[str, str]) -> list[str]:
    """`command` replaces ENTRYPOINT and drops CMD, `args` replaces CMD."""
    entrypoint = spec.get("command") or list(image.entrypoint)
    arguments = spec.get("args") or ([] if spec.get("command") else list(image.arguments))
    return [environment.expand(word, variables) for word in (*entrypoint, *arguments)]


def _user(container: Container, image: Image) -> tuple[int, int]:
    context = _security(container.pod.spec, container.spec)
    user = int(context.get("runAsUser", image.user))
    if context.get("runAsNonRoot") and user == 0:
        raise ConfigError("container has runAsNonRoot and image will run as root")
    known = any(uid == user for uid, _ in images.USERS.values())
    # A user without an entry in /etc/passwd gets group 0.
    return user, int(context.get("runAsGroup", user if known else 0))


def _security(pod: JSON, container: JSON) -> JSON:
    """The container's security context: its own fields before the pod's."""
    return (pod.get("securityContext") or {}) | (container.get("securityContext") or {})


def _mounts(container: Container, image: Image, variables: dict[str, str]) -> list[Mount]:
    pod, state = container.pod, container.pod.host.state
    message = _message_file(container)
    message.write_text("")
    message.chmod(0o666)
    shared, own = state / "images" / "etc", pod.directory / "etc"
    return [
        Mount(state / "images" / image.name / "bin", images.LAUNCHERS, read_only=True),
        *(Mount(Path(path), path, read_only=True) for path in image.binds),
        *(
            Mount(shared / name, f"/etc/{name}", read_only=True)
            for name in ("passwd", "group", "nsswitch.conf")
        ),
        *(Mount(own / name, f"/etc/{name}", read_only=True) for name in ("hosts", "hostname", "resolv.conf")),
        Mount(message, container.spec.get("terminationMessagePath") or "/dev/termination-log"),
        *pod.volumes.mounts(container.spec, variables),
    ]


def _message_file(container: Container) -> Path:
    return container.pod.directory / "etc" / f"termination-{container.name}"


def _tail(path: Path, size: int) -> str:
    if not path.exists():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - size))
        return file.read().decode(errors="replace")
