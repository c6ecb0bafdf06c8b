"""Carries TCP connections from the host into the plane.

A socket belongs to the network namespace it was made in, whoever uses it. So the listening socket is made on
the host's 127.0.0.1 and handed down as a file descriptor to this process, which runs inside the plane: it
accepts on the host's side and connects on the plane's side. One hop, nothing to authenticate in between.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import socket
import struct
import sys

#: On stdin: accept nothing more, and end with the last connection.
FINISH = b"finish\n"
_CHUNK = 256 * 1024
_connections: set[asyncio.Task[None]] = set()


async def serve(listener: socket.socket, host: str, port: int) -> asyncio.Server:
    """Relay every connection accepted on `listener` to host:port until the returned server is closed."""

    async def connected(client_in: asyncio.StreamReader, client_out: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            _connections.add(task)
            task.add_done_callback(_connections.discard)
        try:
            target_in, target_out = await asyncio.open_connection(host, port, limit=_CHUNK)
        except OSError:
            _reset(client_out)
            return
        try:
            await asyncio.gather(_copy(client_in, target_out), _copy(target_in, client_out))
        finally:
            target_out.close()
            client_out.close()

    return await asyncio.start_server(connected, sock=listener, limit=_CHUNK)


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """Copy one direction and pass its end on; the other direction may go on (half-closed connections)."""
    try:
        while data := await source.read(_CHUNK):
            target.write(data)
            await target.drain()
        with contextlib.suppress(OSError):
            target.write_eof()
    except OSError:
        _reset(target)


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection as a refusal or reset by the other side would: a clean end looks like an answer."""
    # Without a zero linger time the kernel sends FIN, also for an aborted transport (socket(7)).
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _until_told(server: asyncio.Server) -> None:
    """Return when the other end of stdin is gone (the process that asked for the forward has ended), or, once
    it said FINISH, at the end of the last connection."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    if await reader.readline() == FINISH:
        server.close()
        gone = asyncio.ensure_future(reader.read())
        while _connections and not gone.done():
            await asyncio.wait({*_connections, gone}, return_when=asyncio.FIRST_COMPLETED)


async def _run(arguments: argparse.Namespace) -> None:
    host, _, port = arguments.to.rpartition(":")
    server = await serve(socket.socket(fileno=arguments.fd), host, int(port))
    if not arguments.tie_to_stdin:
        await server.serve_forever()
    await _until_told(server)
    # Connections in progress would keep the process alive for as long as they last.
    os._exit(0)


def main() -> None:
    """`python -m sandbox.relay --fd N --to HOST:PORT [--tie-to-stdin]`, run inside the plane."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fd", type=int, required=True, help="inherited listening socket")
    parser.add_argument("--to", required=True, help="HOST:PORT to connect to")
    parser.add_argument("--tie-to-stdin", action="store_true", help="end when stdin closes, or says finish")
    asyncio.run(_run(parser.parse_args()))


if __name__ == "__main__":
    main()
