"""The inside of a sandbox: PID 1 of namespaces of its own, from the bare network to a cluster that answers.

    network -> etcd -> kube-apiserver -> { controller-manager, scheduler, CoreDNS, kubelet -> kube-proxy }
                                         \\ relay to the host, objects of an installer

`sandbox.up` starts it as `python -m sandbox.plane STATE` inside `unshare` and reads one JSON object per line
from its stdout: {"stage": text}, {"ready": true} or {"error": text}.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp

from sandbox import components, net, objects
from sandbox.errors import SandboxError
from sandbox.supervisor import Process, Supervisor

# Kubernetes' own tests saw 31-35 s for an API server on busy two-core runners.
_START_SECONDS = 120.0
_KUBELET_STOP_SECONDS = 5.0
_STOP_SECONDS = 1.0

Probe = Callable[[], Awaitable[bool]]


class Plane:
    """One start of the plane; `run` returns when it was told to stop."""

    def __init__(
        self, plane: components.Plane, supervisor: Supervisor, session: aiohttp.ClientSession
    ) -> None:
        self._plane = plane
        self._supervisor = supervisor
        self._session = session

    async def run(self, stop: asyncio.Event) -> None:
        """Start everything, report, keep it alive until `stop` is set, then stop everything."""
        try:
            starting = asyncio.create_task(self._start())
            stopping = asyncio.create_task(stop.wait())
            await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                await starting
                self._supervisor.keep_alive()
                _tell(ready=True)
                await stopping
            else:
                starting.cancel()
        finally:
            await self._supervisor.stop(["kubelet"], seconds=_KUBELET_STOP_SECONDS)
            await self._supervisor.stop(seconds=_STOP_SECONDS)

    async def _start(self) -> None:
        start, plane = self._supervisor.start, self._plane
        _tell(stage="starting etcd")
        etcd = start("etcd", components.etcd(plane))
        await self._until(etcd, _connects("127.0.0.1", 2379), "open port")
        _tell(stage="starting kube-apiserver")
        apiserver = start("kube-apiserver", components.apiserver(plane))
        start("relay", components.relay(plane, sys.executable), pass_fds=(plane.relay_fd,))
        await self._until(apiserver, self._healthy(f"{net.API_URL}/readyz"), "/readyz")
        _tell(stage="starting controllers, scheduler, DNS and nodes")
        manager = start("kube-controller-manager", components.controller_manager(plane))
        scheduler = start("kube-scheduler", components.scheduler(plane))
        await asyncio.gather(
            self._until(manager, self._healthy("https://127.0.0.1:10257/healthz"), "/healthz"),
            self._until(scheduler, self._healthy("https://127.0.0.1:10259/healthz"), "/healthz"),
            self._start_dns(),
            self._start_nodes(),
        )
        _tell(stage="waiting for Services and names to work")
        proxy = start("kube-proxy", components.proxy(plane))
        await self._until(proxy, _connects(net.API_SERVICE, 443), "working cluster IP")
        await self._until(proxy, _resolves("kubernetes.default.svc.cluster.local"), "working Service name")
        # Until the controller manager has made it, every pod in the namespace is refused.
        account = f"{net.API_URL}/api/v1/namespaces/default/serviceaccounts/default"
        await self._until(manager, self._healthy(account), "ServiceAccount default/default")

    async def _start_dns(self) -> None:
        for collection, body in objects.all_objects():
            await self._create(collection, body)
        dns = self._supervisor.start("coredns", components.coredns(self._plane))
        await self._until(dns, self._healthy(f"http://{net.DNS_BACKEND}:8181/ready"), "/ready")

    async def _start_nodes(self) -> None:
        kubelet = self._supervisor.start("kubelet", components.kubelet(self._plane, sys.executable))

        async def said_ready() -> bool:
            return "ready" in kubelet.log.read_text(errors="replace").splitlines()

        await self._until(kubelet, said_ready, 'line "ready"')

    async def _create(self, collection: str, body: objects.Object) -> None:
        answer = ""
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            try:
                async with self._session.post(net.API_URL + collection, json=body) as response:
                    if response.status in (201, 409):
                        return
                    answer = f"{response.status} {(await response.text())[:300]}"
                # kube-system itself is made by the API server in the background, soon after it is ready.
                if response.status not in (404, 429, 500, 503):
                    break
            except (aiohttp.ClientError, TimeoutError) as error:
                answer = repr(error)
            await asyncio.sleep(0.1)
        raise SandboxError(
            "the API server refused an object of the sandbox",
            where=f"POST {collection} {body['metadata']['name']}",
            why=answer,
            fix="read the log of kube-apiserver",
        )

    async def _until(self, process: Process, probe: Probe, what: str) -> None:
        await self._supervisor.until(process, probe, seconds=_START_SECONDS, what=what)

    def _healthy(self, url: str) -> Probe:
        async def probe() -> bool:
            try:
                async with self._session.get(url) as response:
                    return response.status == 200
            except (aiohttp.ClientError, TimeoutError):
                return False

        return probe


def _connects(host: str, port: int) -> Probe:
    async def probe() -> bool:
        try:
            async with asyncio.timeout(1.0):
                _, writer = await asyncio.open_connection(host, port)
        except (OSError, TimeoutError):
            return False
        writer.close()
        return True

    return probe


def _resolves(name: str) -> Probe:
    async def probe() -> bool:
        try:
            async with asyncio.timeout(1.0):
                await asyncio.get_running_loop().getaddrinfo(name, None, family=socket.AF_INET)
        except (OSError, TimeoutError):
            return False
        return True

    return probe


def _tell(**message: object) -> None:
    # A broken pipe means that `up` is gone; the kernel is about to kill this process, too (--kill-child).
    with contextlib.suppress(BrokenPipeError):
        print(json.dumps(message), flush=True)


def _mount(state: Path) -> None:
    """etcd's data on a tmpfs, and the cluster's resolver for every program run inside the plane."""
    data = state / "etcd"
    data.mkdir(mode=0o700)
    resolver = Path("/etc/resolv.conf").resolve()
    for command in (
        ["mount", "-t", "tmpfs", "-o", "size=4g,mode=0700", "tmpfs", str(data)],
        ["mount", "--bind", str(state / "resolv.conf"), str(resolver)],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SandboxError(
                "mounting inside the plane failed",
                where=" ".join(command),
                why=done.stderr.strip(),
                fix="the mount points must exist; look for what is special about them with `findmnt`",
            )


def _api_tls(state: Path) -> ssl.SSLContext:
    pki = state / "pki"
    context = ssl.create_default_context(cafile=pki / "ca.crt")
    context.load_cert_chain(pki / "setup.crt", pki / "setup.key")
    # The controller manager and the scheduler serve /healthz with certificates that they sign themselves.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def _main(plane: components.Plane) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    supervisor = Supervisor(plane.root / "log", plane.root / "processes.json")
    connector = aiohttp.TCPConnector(ssl=_api_tls(plane.root))
    timeout = aiohttp.ClientTimeout(total=5.0)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        await Plane(plane, supervisor, session).run(stop)


def main() -> None:
    """`python -m sandbox.plane STATE`, as PID 1 of its namespaces."""
    plane = components.Plane(**json.loads((Path(sys.argv[1]) / "plane.json").read_text()))
    try:
        net.set_up()
        _mount(plane.root)
        asyncio.run(_main(plane))
    except SandboxError as error:
        _tell(error=str(error))
        sys.exit(1)


if __name__ == "__main__":
    main()
