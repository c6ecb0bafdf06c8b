"""A Service of the plane at a port of the host."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from sandbox.errors import SandboxError
from sandbox.relay import FINISH
from sandbox.up import listen

if TYPE_CHECKING:
    from sandbox.client import Sandbox

_POLL_SECONDS = 0.1


class Forward:
    """A running forward from 127.0.0.1:`port` to `address`, the HOST:PORT of the Service inside the plane."""

    def __init__(self, sandbox: Sandbox, target: str, port: int = 0) -> None:
        self._sandbox, self._target = sandbox, target
        self.address = address = service_address(sandbox, target)
        with listen(port) as listener:
            self.port: int = listener.getsockname()[1]
            relay = ["-m", "sandbox.relay", "--fd", str(listener.fileno()), "--to", address, "--tie-to-stdin"]
            # The pipe is the life line: the relay ends when this process does, however that happens.
            self._process = sandbox.exec_in_plane(
                [sys.executable, *relay], stdin=subprocess.PIPE, pass_fds=(listener.fileno(),)
            )

    def wait(self) -> None:
        """Block until the relay ends (the sandbox was stopped) or the Service is deleted.

        Raises SandboxError in the second case, once the connections of that moment have ended: the gateway
        drains them, while packets of new ones to the cluster IP of a deleted Service would vanish.
        """
        namespace, _, name = self._target.partition(":")[0].partition("/")
        watch = self._watch(namespace, name)
        try:
            while self._process.poll() is None:
                if watch.poll() == 0:
                    self._finish()
                    raise SandboxError(
                        f"Service {namespace}/{name} is gone",
                        why="it was deleted; the connections through this forward have ended",
                        fix="make it anew and forward again",
                    )
                if watch.returncode is not None:  # the API server was restarted
                    watch = self._watch(namespace, name)
                time.sleep(_POLL_SECONDS)
        finally:
            watch.kill()
            watch.wait()

    def _watch(self, namespace: str, name: str) -> subprocess.Popen[bytes]:
        """A process that ends with 0 when the Service is deleted, and with this one."""
        kubectl = [str(self._sandbox.bin("kubectl")), "--kubeconfig", str(self._sandbox.kubeconfig)]
        wait = ["wait", "--for=delete", f"service/{name}", "-n", namespace, "--timeout=-1s"]
        return subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", *kubectl, *wait],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def _finish(self) -> None:
        """Let the relay accept nothing more, and wait for the end of its connections."""
        if self._process.stdin:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.write(FINISH)
                self._process.stdin.flush()
        self._process.wait()

    def close(self) -> None:
        """End the forward and the connections that go through it."""
        if self._process.stdin:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        self._process.wait()


def service_address(sandbox: Sandbox, target: str) -> str:
    """CLUSTER-IP:PORT of `NAMESPACE/NAME[:PORT]`; PORT is a number or name, optional when there is one.

    Raises SandboxError when there is no such Service or port, or the Service has no cluster IP.
    """
    path, _, wanted = target.partition(":")
    namespace, _, name = path.partition("/")
    if not namespace or not name:
        raise SandboxError(f"{target!r} is not NAMESPACE/SERVICE[:PORT]", fix="write default/llama:80")
    spec = json.loads(sandbox.kubectl(["get", "service", name, "-n", namespace, "-o", "json"]).stdout)["spec"]
    if spec.get("clusterIP", "None") in ("", "None"):
        raise SandboxError(
            f"Service {path} has no cluster IP",
            why="it is headless or an ExternalName",
            fix="forward to a Service with a cluster IP",
        )
    ports = [p for p in spec["ports"] if not wanted or wanted in (str(p["port"]), p.get("name"))]
    if len(ports) != 1:
        known = ", ".join(
            f"{p['port']}" + (f" ({p['name']})" if p.get("name") else "") for p in spec["ports"]
        )
        raise SandboxError(
            f"Service {path} has no port {wanted}" if wanted else f"Service {path} has several ports",
            where=f"ports: {known}",
            fix="name one: NAMESPACE/SERVICE:PORT",
        )
    return f"{spec['clusterIP']}:{ports[0]['port']}"
