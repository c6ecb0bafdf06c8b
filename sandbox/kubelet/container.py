"""One container of a pod: starting, probing, restarting, stopping."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
import uuid
from collections.abc import Coroutine
from enum import Enum
from typing import TYPE_CHECKING, Any

from sandbox.images import ImageError, find_image
from sandbox.kubelet import probes, runtime
from sandbox.kubelet.api import JSON, ApiError
from sandbox.kubelet.assembly import assemble, termination_message
from sandbox.kubelet.environment import ConfigError
from sandbox.kubelet.logs import ContainerLog
from sandbox.kubelet.runtime import Process, StartError
from sandbox.kubelet.status import timestamp
from sandbox.kubelet.timing import MINIMUM_GRACE, BackOff, Deadline

if TYPE_CHECKING:
    from sandbox.kubelet.pod import Pod

_CONFIG_RETRY = 1.0
# The kubelet sets no limit here.
_POST_START_SECONDS = 3600.0


class Kind(Enum):
    """Init containers run one by one before the others; sidecars are those that stay."""

    INIT = "init"
    SIDECAR = "sidecar"
    MAIN = "main"


class Container:
    """`status()` is its entry in the pod's status; `started` tells when a sidecar lets the next one begin."""

    def __init__(self, pod: Pod, spec: JSON, kind: Kind, previous: JSON | None) -> None:
        self.pod, self.spec, self.kind = pod, spec, kind
        self.name: str = spec["name"]
        self.log = ContainerLog(pod.directory / f"{self.name}.log")
        self.started = asyncio.Event()
        self.process: Process | None = None
        self._state: JSON = {
            "waiting": {"reason": "PodInitializing" if pod.has_inits else "ContainerCreating"}
        }
        self._last_state: JSON = {}
        self._restarts = 0
        self._id = ""
        self._ready = False
        self._stopping = asyncio.Event()
        self._stop_process: Process | None = None
        self._back_off = BackOff()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        # The terminated state of the process before the next one, empty before the first.
        self._ended: JSON = {}
        if previous:
            self._adopt(previous)

    def _adopt(self, previous: JSON) -> None:
        """Carry on after a reboot of the node: what ran is over, and its next start is a restart."""
        state = previous["state"]
        ended = state.get("terminated") or (previous.get("lastState") or {}).get("terminated")
        if "running" in state:
            ended = {
                "exitCode": 255,
                "reason": "Unknown",
                "startedAt": state["running"]["startedAt"],
                "finishedAt": timestamp(time.time()),
                "containerID": previous.get("containerID", ""),
            }
        if ended:
            self._ended = self._last_state = {"terminated": ended}
            self._restarts = previous["restartCount"]
            if self.kind is Kind.MAIN and not self._restarts_after(ended["exitCode"]):
                self._state = self._ended
                self._stopping.set()

    @property
    def exit_code(self) -> int | None:
        """Of a container that has ended and stays so."""
        code: int | None = self._state.get("terminated", {}).get("exitCode")
        return code

    def status(self) -> JSON:
        running = "running" in self._state
        return {
            "name": self.name,
            "image": self.spec["image"],
            "imageID": f"sandbox/{self.spec['image']}" if self._id else "",
            "containerID": f"sandbox://{self._id}" if self._id else "",
            "restartCount": self._restarts,
            "started": running and self.started.is_set(),
            # An init container is ready when it has done its work.
            "ready": self.exit_code == 0 if self.kind is Kind.INIT else running and self._ready,
            "state": self._state,
            "lastState": self._last_state,
        }

    async def run(self) -> None:
        """Start and restart by the pod's policy, until it is over or `forbid` was called."""
        while not self._stopping.is_set():
            process = await self._create()
            if process is None:
                continue
            if self._stopping.is_set():
                process.signal(signal.SIGKILL)
            code = await self._supervise(process)
            if self._stopping.is_set() or not self._restarts_after(code):
                return
            await self._wait_to_restart(time.time() - process.started)

    def forbid(self) -> None:
        """No start and no restart from now on; a process that runs is left to `stop`."""
        self._stopping.set()
        # As probeManager.StopLivenessAndStartup: readiness goes on, so endpoints can show `serving`.
        self._cancel("startup", "liveness")

    async def stop(self, deadline: Deadline, turn: asyncio.Future[None] | None = None) -> None:
        """preStop, stop signal, and SIGKILL at the deadline; returns when the process is gone.

        The signal waits for `turn` as long as there is time.
        """
        self.forbid()
        if self.process is not None:
            await self._shut_down(self.process, deadline, turn)

    def kill(self, *, out_of_memory: bool = False) -> None:
        if self.process is not None:
            self.process.out_of_memory = out_of_memory
            self.process.signal(signal.SIGKILL)

    async def _create(self) -> Process | None:
        """Start the process; None after a failure (its waiting time is over then)."""
        try:
            image = find_image(self.spec["image"])
            config = await assemble(self, image)
            await asyncio.to_thread(self.log.begin_run)
            return await runtime.start(config, self.pod.network)
        except ImageError as error:
            await self._image_failed(error)
        except (ConfigError, ApiError) as error:
            self.pod.event("Warning", "Failed", f"Error: {error}")
            await self._wait("CreateContainerConfigError", str(error), _CONFIG_RETRY)
        except StartError as error:
            self.pod.event("Warning", "Failed", f"Error: {error}")
            await self._wait("RunContainerError", str(error), self._back_off.failed() or _CONFIG_RETRY)
        return None

    async def _image_failed(self, error: ImageError) -> None:
        self.pod.event("Warning", "Failed", f"Failed to pull image: {error}")
        await self._wait(error.reason, str(error), _CONFIG_RETRY)
        if error.reason == "ErrImagePull":
            message = f'Back-off pulling image "{self.spec["image"]}"'
            await self._wait("ImagePullBackOff", message, self._back_off.failed() or _CONFIG_RETRY)

    async def _supervise(self, process: Process) -> int:
        """Follow a process to its end; returns its exit code."""
        if self._ended:
            self._last_state, self._restarts = self._ended, self._restarts + 1
        self.process, self._id = process, uuid.uuid4().hex
        self._state = {"running": {"startedAt": timestamp(process.started)}}
        self._spawn("startup", self._after_start(process))
        self.pod.changed()
        code = await asyncio.shield(process.exited)
        self._cancel(*self._tasks)
        self.process = None
        self.started.clear()
        self._ready = False
        self._state = self._ended = {"terminated": self._terminated(process, code)}
        self.pod.changed()
        return code

    def _terminated(self, process: Process, code: int) -> JSON:
        reason = "Completed" if code == 0 else "Error"
        message = termination_message(self, failed=code != 0)
        if process.out_of_memory:
            reason = "OOMKilled"
        elif process.start_error:
            reason, message = "StartError", process.start_error
        return {
            "exitCode": code,
            "reason": reason,
            "startedAt": timestamp(process.started),
            "finishedAt": timestamp(time.time()),
            "containerID": f"sandbox://{self._id}",
        } | ({"message": message} if message else {})

    def _restarts_after(self, code: int) -> bool:
        policy = self.pod.spec.get("restartPolicy", "Always")
        if self.kind is Kind.SIDECAR:
            return True
        if self.kind is Kind.INIT or policy == "OnFailure":
            return code != 0 and policy != "Never"
        return bool(policy == "Always")

    async def _wait_to_restart(self, ran_for: float) -> None:
        seconds = self._back_off.failed(ran_for)
        if seconds:
            self.pod.event("Warning", "BackOff", f"Back-off restarting failed container {self.name}")
            message = f"back-off {seconds:g}s restarting failed container={self.name} pod={self.pod.title}"
            await self._wait("CrashLoopBackOff", message, seconds)

    async def _wait(self, reason: str, message: str, seconds: float) -> None:
        """Show a waiting state for so many seconds, or until the container isn't to start any more."""
        self._state = {"waiting": {"reason": reason, "message": message}}
        self._last_state = self._ended
        self.pod.changed()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    async def _after_start(self, process: Process) -> None:
        """postStart and startup probe; then the container counts as started and the other probes begin."""
        if hook := (self.spec.get("lifecycle") or {}).get("postStart"):
            done, message = await self.pod.handlers.run(hook, self.spec, process, _POST_START_SECONDS)
            if not done:
                self._replace(process, "FailedPostStartHook", f"PostStartHook failed: {message}")
                return
        if probe := self.spec.get("startupProbe"):
            async for success, message in self._verdicts("Startup", probe, process):
                if success:
                    break
                self._replace(
                    process, "Killing", f"failed startup probe, will be restarted: {message}", probe
                )
                return
        self.started.set()
        self._ready = not self.spec.get("readinessProbe")
        self.pod.changed()
        for name, follow in (("readiness", self._readiness), ("liveness", self._liveness)):
            if probe := self.spec.get(f"{name}Probe"):
                self._spawn(name, follow(probe, process))

    async def _readiness(self, probe: JSON, process: Process) -> None:
        async for success, _ in self._verdicts("Readiness", probe, process):
            if success != self._ready:
                self._ready = success
                self.pod.changed()

    async def _liveness(self, probe: JSON, process: Process) -> None:
        async for success, message in self._verdicts("Liveness", probe, process):
            if not success:
                self._replace(
                    process, "Killing", f"failed liveness probe, will be restarted: {message}", probe
                )
                return

    def _verdicts(self, title: str, probe: JSON, process: Process) -> Any:
        def failed(message: str) -> None:
            self.pod.event("Warning", "Unhealthy", f"{title} probe failed: {message}")

        async def check(seconds: float) -> tuple[bool, str]:
            return await self.pod.handlers.run(probe, self.spec, process, seconds)

        return probes.verdicts(probe, check, failed)

    def _replace(self, process: Process, reason: str, message: str, probe: JSON | None = None) -> None:
        """Shut the process down; `run` starts another one."""
        self.pod.event("Warning", reason, f"Container {self.name} {message}")
        grace = (probe or {}).get("terminationGracePeriodSeconds") or self.pod.grace_seconds
        self._spawn("replace", self._shut_down(process, Deadline(grace)))

    async def _shut_down(
        self, process: Process, deadline: Deadline, turn: asyncio.Future[None] | None = None
    ) -> None:
        hook = (self.spec.get("lifecycle") or {}).get("preStop")
        if self._stop_process is not process:
            # Once for each process, though liveness probe and deletion may both end it.
            self._stop_process = process
            if hook:
                await self._pre_stop(hook, process, deadline)
            if turn is not None:
                await deadline.wait(turn, process.exited)
            deadline.leave_at_least(MINIMUM_GRACE)
            process.signal(find_image(self.spec["image"]).stop_signal)
        if not await deadline.wait(process.exited):
            process.signal(signal.SIGKILL)
        await asyncio.shield(process.exited)

    async def _pre_stop(self, hook: JSON, process: Process, deadline: Deadline) -> None:
        action = asyncio.ensure_future(self.pod.handlers.run(hook, self.spec, process, deadline.seconds_left))
        try:
            await deadline.wait(action, process.exited)
            if action.done() and not action.result()[0]:
                self.pod.event("Warning", "FailedPreStopHook", f"PreStopHook failed: {action.result()[1]}")
        finally:
            action.cancel()

    def _spawn(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        self._tasks[name] = self.pod.spawn(work)

    def _cancel(self, *names: str) -> None:
        for name in names:
            if task := self._tasks.pop(name, None):
                task.cancel()
