"""Actions of probes and lifecycle hooks (httpGet, tcpSocket, exec, sleep), from inside the pod's network."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import aiohttp

from sandbox.kubelet.network import PodNetwork
from sandbox.kubelet.runtime import Process

JSON = dict[str, Any]
_AGENT = "kube-probe/1.37"


class Handlers:
    """Runs handlers for one pod. HTTP and TCP need no process: their sockets are born in its namespace."""

    def __init__(self, network: PodNetwork) -> None:
        self._network = network
        # ssl=False: the kubelet doesn't verify certificates either, and connects anew for each probe.
        connector = aiohttp.TCPConnector(socket_factory=network.socket, force_close=True, ssl=False, limit=0)
        headers = {"User-Agent": _AGENT, "Accept": "*/*"}
        self._session = aiohttp.ClientSession(connector=connector, headers=headers)

    async def close(self) -> None:
        await self._session.close()

    async def run(self, handler: JSON, container: JSON, process: Process, seconds: float) -> tuple[bool, str]:
        """Do what `handler` says, within so many seconds; returns (success, message)."""
        try:
            if action := handler.get("httpGet"):
                return await self._http(action, container, seconds)
            if action := handler.get("tcpSocket"):
                return await self._tcp(action, container, seconds)
            if action := handler.get("exec"):
                code, words = await process.execute(action.get("command") or [], seconds)
                return code == 0, words if code == 0 else f"exit code {code}: {words}"
            if action := handler.get("sleep"):
                async with asyncio.timeout(seconds):
                    await asyncio.sleep(action["seconds"])
                return True, ""
        except TimeoutError:
            return False, f"timeout after {seconds:g} s"
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return False, str(error) or repr(error)
        return False, f"the sandbox doesn't know this handler: {', '.join(handler)}"

    async def _http(self, action: JSON, container: JSON, seconds: float) -> tuple[bool, str]:
        scheme = action.get("scheme", "HTTP").lower()
        host, port = action.get("host") or self._network.ip, _port(action["port"], container)
        url = f"{scheme}://{host}:{port}/{(action.get('path') or '/').lstrip('/')}"
        headers = {header["name"]: header["value"] for header in action.get("httpHeaders") or []}
        async with self._session.get(
            url, headers=headers, allow_redirects=False, timeout=aiohttp.ClientTimeout(total=seconds)
        ) as response:
            await response.read()
            ok = 200 <= response.status < 400
            return ok, "" if ok else f"HTTP probe failed with statuscode: {response.status}"

    async def _tcp(self, action: JSON, container: JSON, seconds: float) -> tuple[bool, str]:
        address = action.get("host") or self._network.ip, _port(action["port"], container)
        with self._network.socket((socket.AF_INET, socket.SOCK_STREAM, 0)) as connection:
            async with asyncio.timeout(seconds):
                await asyncio.get_running_loop().sock_connect(connection, address)
        return True, ""


def _port(port: int | str, container: JSON) -> int:
    """The number of a port; a name is looked up among the container's ports."""
    for each in container.get("ports") or []:
        if each.get("name") == port:
            return int(each["containerPort"])
    return int(port)
