"""One engine process from start to end: load, serve, drain."""

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import AsyncIterator
from typing import Final

from aiohttp import web

from sandbox.engine import VLLM_VERSION, stats
from sandbox.engine.core import EngineCore
from sandbox.engine.fault_board import FaultBoard, control_app
from sandbox.engine.metrics import Metrics
from sandbox.engine.server import EngineServer
from sandbox.engine.settings import Settings, StartError

log = logging.getLogger("vllm")

EXIT_TERMINATED: Final = 128 + signal.SIGTERM

_OUT_OF_MEMORY: Final = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 448.00 MiB. GPU 0 has a total capacity of "
    "79.10 GiB of which 371.88 MiB is free."
)


async def run(settings: Settings) -> int:
    """Run the engine until it is told to stop; returns the exit code, raises StartError if it can't start."""
    stop = _stop_on_signal()
    board = FaultBoard(settings.faults)
    async with _control_port(settings, board):
        log.info("vLLM API server version %s", VLLM_VERSION)
        log.info("Initializing a V1 LLM engine (v%s) with config: model='%s'", VLLM_VERSION, settings.model)
        # As vLLM does, take the port before the load and listen after it: a port in use shows at once, and
        # until then a probe is refused.
        with (
            contextlib.nullcontext() if settings.headless else _bind(settings.host, settings.port) as listener
        ):
            if not await _load(settings, board, stop):
                return EXIT_TERMINATED
            if listener is None:
                log.info("Launched a headless worker: no API server in this process")
                await stop.wait()
                return 0
            return await _serve(settings, board, listener, stop)


def _stop_on_signal() -> asyncio.Event:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    # As PID 1 of a container the process has no default handlers: without these SIGTERM would do nothing.
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


def _bind(host: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise StartError(
            f"can't bind to port {port} of host {host or '*'!r}: {error.strerror}. Free the port, or choose "
            "another with --port (for the fault switches: INFERENCE_SIM_CONTROL_PORT, 0 turns them off)."
        ) from None
    return listener


@contextlib.asynccontextmanager
async def _control_port(settings: Settings, board: FaultBoard) -> AsyncIterator[None]:
    """Serve the fault switches next to the engine's port; 0 turns them off."""
    if not settings.control_port:
        yield
        return
    runner = web.AppRunner(control_app(board), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.SockSite(runner, _bind(settings.host, settings.control_port)).start()
        yield
    finally:
        await runner.cleanup()


async def _load(settings: Settings, board: FaultBoard, stop: asyncio.Event) -> bool:
    """Spend the load time; False if the process was told to stop meanwhile."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    log.info("Starting to load model %s...", settings.model)
    stopped = asyncio.ensure_future(stop.wait())
    while True:
        wanted = settings.load_seconds if board.faults.load_seconds is None else board.faults.load_seconds
        left = None if board.faults.hang_at_load else started + wanted - loop.time()
        if left is not None and left <= 0:
            break
        board.changed.clear()
        changed = asyncio.ensure_future(board.changed.wait())
        await asyncio.wait((stopped, changed), timeout=left, return_when=asyncio.FIRST_COMPLETED)
        changed.cancel()
        if stop.is_set():
            return False
    stopped.cancel()
    if board.faults.oom_at_load:
        log.error("EngineCore failed to start.\n%s", _OUT_OF_MEMORY)
        raise StartError("Engine core initialization failed. See root cause above. Failed core proc(s): {}")
    log.info("Model loading took %.2f seconds", loop.time() - started)
    log.info("GPU KV cache size: %s tokens", f"{settings.num_gpu_blocks * settings.block_size:,}")
    return True


async def _serve(settings: Settings, board: FaultBoard, listener: socket.socket, stop: asyncio.Event) -> int:
    metrics = Metrics(settings.served_names[0], stats.cache_config_labels(settings))
    core = EngineCore(settings, stats.Stats(metrics))
    board.attach(core)
    server = EngineServer(settings, core, metrics, board)
    runner = web.AppRunner(
        server.app(),
        access_log=None,
        # A client that leaves cancels its handler, which is how a request gets aborted.
        handler_cancellation=True,
        keepalive_timeout=settings.keep_alive_seconds,
        shutdown_timeout=0.5,
    )
    await runner.setup()
    site = web.SockSite(runner, listener, backlog=2048)
    await site.start()
    log.info("Starting vLLM server on http://%s:%d", settings.host or "0.0.0.0", settings.port)  # noqa: S104
    log.info("Application startup complete.")
    await stop.wait()
    if settings.shutdown_timeout > 0:
        await _drain(server, settings.shutdown_timeout)
    else:
        await _abort(core, server, runner, site, listener)
    await runner.cleanup()
    return 0


async def _drain(server: EngineServer, seconds: float) -> None:
    """Let running and queued requests finish; /health stays 200 and the port open until then."""
    log.info("Shutdown requested: draining for up to %g seconds", seconds)
    server.draining = True
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(server.idle.wait(), seconds)


async def _abort(
    core: EngineCore, server: EngineServer, runner: web.AppRunner, site: web.SockSite, listener: socket.socket
) -> None:
    """Drop everything, as measured at --shutdown-timeout 0.

    The port is closed at once. Open streams get neither an end nor an error: they hang until their client
    leaves or SIGKILL comes, and the process stays with them.
    """
    core.freeze()
    # Stop listening first, close later: asyncio sets up an accepted connection in the next turns of its loop,
    # and when the server is closed meanwhile, that connection stays open with nobody to answer it.
    asyncio.get_running_loop().remove_reader(listener)
    listener.shutdown(socket.SHUT_RDWR)
    await asyncio.sleep(0.05)
    await site.stop()
    if runner.server is not None:
        for connection in runner.server.connections:
            if connection not in server.busy:
                connection.force_close()
    if not server.idle.is_set():
        log.info("Waiting for connections to close. (CTRL+C to force quit)")
    await server.idle.wait()
