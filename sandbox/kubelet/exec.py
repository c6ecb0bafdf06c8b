"""`kubectl exec`: a command in a running container, over a WebSocket.

Protocol v5.channel.k8s.io: every binary message begins with the number of its channel. The last message, on
the error channel, is a metav1.Status with the exit code; message 255 closes the channel that it names.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import shutil
import struct
import termios
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from aiohttp import WSMsgType, web

from sandbox.kubelet.runtime import Process, end_command, in_background

PROTOCOL = "v5.channel.k8s.io"
STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
_CHUNK = 32 * 1024
_PIPE, _NOTHING = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
# Gives the command its terminal: job control and Ctrl-C need a controlling one.
_SETSID = shutil.which("setsid") or "/usr/bin/setsid"


@dataclass
class _Command:
    """A started command: where to write its stdin, and (channel, stream) of what it says."""

    process: asyncio.subprocess.Process
    stdin: asyncio.StreamWriter | None
    outputs: list[tuple[int, asyncio.StreamReader]]
    terminal: int = -1


async def serve(request: web.Request, container: Process) -> web.StreamResponse:
    """Run the `command` of the query in the container and carry its streams until it ends.

    Raises HTTPNotImplemented for other protocols.
    """
    websocket = web.WebSocketResponse(protocols=(PROTOCOL,), heartbeat=20)
    prepared = websocket.can_prepare(request)
    if not prepared.ok or prepared.protocol != PROTOCOL:
        raise web.HTTPNotImplemented(
            text=f"the sandbox can run commands over {PROTOCOL} only: use kubectl 1.31 or newer"
        )
    async with _started(container, request) as command:
        await websocket.prepare(request)
        typing = asyncio.create_task(_carry_input(websocket, command))
        saying = [asyncio.create_task(_carry_output(websocket, *output)) for output in command.outputs]
        ended = asyncio.create_task(command.process.wait())
        await asyncio.wait({typing, ended}, return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            await asyncio.gather(*saying)
            status = json.dumps(exit_status(ended.result())).encode()
            await websocket.send_bytes(bytes([ERROR]) + status)
            await websocket.close()
        for task in (typing, ended, *saying):
            task.cancel()
    return websocket


def exit_status(code: int) -> dict[str, Any]:
    """The metav1.Status for an exit code, as kubectl takes its own from it."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


@contextlib.asynccontextmanager
async def _started(container: Process, request: web.Request) -> AsyncIterator[_Command]:
    """The command, ended with all that it has started when the block ends."""
    argv = container.inside(request.query.getall("command"))
    environment = dict(container.config.environment)
    asked = {name for name in ("input", "output", "error", "tty") if request.query.get(name) in ("1", "true")}
    command = await (
        _on_terminal(argv, environment | {"TERM": "xterm"})
        if "tty" in asked
        else _on_pipes(argv, environment, asked)
    )
    try:
        yield command
    finally:
        await asyncio.shield(in_background(_end(command)))


async def _end(command: _Command) -> None:
    await end_command(command.process)
    if command.terminal >= 0 and command.stdin:
        command.stdin.close()


async def _on_pipes(argv: list[str], environment: dict[str, str], asked: set[str]) -> _Command:
    process = await asyncio.create_subprocess_exec(
        *argv,
        env=environment,
        stdin=_PIPE if "input" in asked else _NOTHING,
        stdout=_PIPE if "output" in asked else _NOTHING,
        stderr=_PIPE if "error" in asked else _NOTHING,
    )
    streams = ((STDOUT, process.stdout), (STDERR, process.stderr))
    return _Command(process, process.stdin, [(number, stream) for number, stream in streams if stream])


async def _on_terminal(argv: list[str], environment: dict[str, str]) -> _Command:
    ours, theirs = os.openpty()
    try:
        process = await asyncio.create_subprocess_exec(
            _SETSID, "--ctty", *argv, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
        )
    finally:
        os.close(theirs)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(os.dup(ours), "rb"))
    transport, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(ours, "wb")
    )
    return _Command(
        process, asyncio.StreamWriter(transport, protocol, reader, loop), [(STDOUT, reader)], terminal=ours
    )


async def _carry_input(websocket: web.WebSocketResponse, command: _Command) -> None:
    """Until the other side goes away."""
    async for message in websocket:
        if message.type is not WSMsgType.BINARY or not message.data:
            continue
        channel, data = message.data[0], message.data[1:]
        if channel == STDIN and command.stdin:
            with contextlib.suppress(ConnectionError):
                command.stdin.write(data)
                await command.stdin.drain()
        elif channel == CLOSE and data[:1] == bytes([STDIN]) and command.stdin and command.terminal < 0:
            command.stdin.close()
        elif channel == RESIZE and command.terminal >= 0:
            size = json.loads(data)
            window = struct.pack("HHHH", size["Height"], size["Width"], 0, 0)
            fcntl.ioctl(command.terminal, termios.TIOCSWINSZ, window)


async def _carry_output(websocket: web.WebSocketResponse, channel: int, stream: asyncio.StreamReader) -> None:
    # A terminal ends with EIO when the last process on it has ended.
    with contextlib.suppress(OSError):
        while data := await stream.read(_CHUNK):
            await websocket.send_bytes(bytes([channel]) + data)
