"""The smallest kubelet that lets a plane come up: nodes with an address, a control socket that echoes.

It stands in for `sandbox.kubelet` where a test is about the plane alone.
"""

import argparse
import asyncio
import base64
import datetime
import json
import ssl
import tempfile
from pathlib import Path

import aiohttp
import yaml


def tls(config: dict) -> ssl.SSLContext:
    user, cluster = config["users"][0]["user"], config["clusters"][0]["cluster"]
    context = ssl.create_default_context(
        cadata=base64.b64decode(cluster["certificate-authority-data"]).decode()
    )
    with tempfile.NamedTemporaryFile() as pair:
        pair.write(
            base64.b64decode(user["client-certificate-data"]) + base64.b64decode(user["client-key-data"])
        )
        pair.flush()
        context.load_cert_chain(pair.name)
    return context


def now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def register(session: aiohttp.ClientSession, server: str, node: dict, index: int) -> None:
    metadata = {"name": node["name"], "labels": node["labels"]}
    conditions = [{"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": now()}]
    status = {
        "addresses": [{"type": "InternalIP", "address": f"10.244.255.{index + 1}"}],
        "capacity": node["capacity"],
        "allocatable": node["capacity"],
        "conditions": conditions,
    }
    body = {"metadata": metadata, "spec": {"taints": node["taints"]}, "status": status}
    async with session.post(f"{server}/api/v1/nodes", json=body) as response:
        response.raise_for_status()


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while line := await reader.readline():
        request = json.loads(line)
        known = request.get("node", "gpu-0").startswith("gpu-")
        reply = {"ok": True, "request": request} if known else {"ok": False, "error": "no such node"}
        writer.write(json.dumps(reply).encode() + b"\n")
        await writer.drain()
    writer.close()


async def main() -> None:
    parser = argparse.ArgumentParser()
    for option in ("state", "kubeconfig", "nodes", "control", "pki"):
        parser.add_argument(f"--{option}", type=Path, required=True)
    options = parser.parse_args()
    config = yaml.safe_load(options.kubeconfig.read_text())
    server = config["clusters"][0]["cluster"]["server"]
    await asyncio.start_unix_server(answer, options.control)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls(config))) as session:
        for index, node in enumerate(json.loads(options.nodes.read_text())):
            await register(session, server, node, index)
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
