"""`python -m sandbox.kubelet`: the kubelet of every node in a list."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
from pathlib import Path

from sandbox import images
from sandbox.kubelet import server
from sandbox.kubelet.api import JSON, Api
from sandbox.kubelet.assembly import write_etc
from sandbox.kubelet.control import Control
from sandbox.kubelet.housekeeping import keep_house
from sandbox.kubelet.network import Network
from sandbox.kubelet.node import Host, Node
from sandbox.kubelet.store import Store


async def serve(state: Path, kubeconfig: Path, specs: list[JSON], control: Path, pki: Path) -> None:
    """Register the nodes, print "ready", and run their pods until killed."""
    await asyncio.to_thread(images.write_launchers, state / "images")
    await asyncio.to_thread(write_etc, state / "images" / "etc")
    api = await Api.from_kubeconfig(kubeconfig)
    host = Host(api, Store(api), Network(), state)
    await host.network.start()
    nodes = {spec["name"]: Node(host, spec, f"10.244.255.{index}") for index, spec in enumerate(specs, 1)}
    async with asyncio.TaskGroup() as group:
        group.create_task(host.store.run())
        await host.store.wait_synced()
        for node in nodes.values():
            await host.network.add_node_address(node.ip)
            await node.register()
        group.create_task(_follow_nodes(api, nodes))
        group.create_task(keep_house(nodes.values()))
        await Control(nodes).serve(control)
        tls = await asyncio.to_thread(server.tls, pki / "ca.crt", pki / "kubelet.crt", pki / "kubelet.key")
        # The state directory is the sandbox's own one plus /kubelet (sandbox.components).
        await server.Server(nodes, tls, sandbox=state.parent.name).start()
        print("ready", flush=True)


async def _follow_nodes(api: Api, nodes: dict[str, Node]) -> None:
    async for event, item in api.watch("/api/v1/nodes"):
        for each in item["items"] if event == "SYNC" else [item]:
            if node := nodes.get(each["metadata"]["name"]):
                node.object_changed(each)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m sandbox.kubelet", description=__doc__)
    parser.add_argument("--state", type=Path, required=True, help="directory for logs, volumes and launchers")
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--nodes", type=Path, required=True, help="JSON: [{name, labels, taints, capacity}]")
    parser.add_argument("--control", type=Path, required=True, help="unix socket to listen on")
    parser.add_argument(
        "--pki", type=Path, required=True, help="directory of ca.crt, kubelet.crt, kubelet.key"
    )
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    specs = json.loads(options.nodes.read_text())
    asyncio.run(serve(options.state.resolve(), options.kubeconfig, specs, options.control, options.pki))


if __name__ == "__main__":
    main()
