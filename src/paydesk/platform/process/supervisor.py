"""`paydesk serve --processes N`: a supervisor that runs N processes on one port, restarts them and deploys.

Each process has its own listening sockets, and the system distributes connections among them (SO_REUSEPORT). The
supervisor keeps the sockets open, so that pending connections survive a process: its successor accepts them.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import structlog

from paydesk.platform import logs
from paydesk.platform.process import node
from paydesk.platform.process.node import StartRefused
from paydesk.platform.process.siblings import QUESTION, READY, Channel, Frame
from paydesk.platform.settings import Settings

PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX = 0.1, 5.0
BACKOFF_RESET_SECONDS = 30.0
HOLD_SECONDS = 1.0
"""If the pause before a restart is longer, the sockets are closed at once: new connections go to other processes."""

START_SECONDS_MAX = 60.0
END_SECONDS_MAX = 25.0

log = structlog.get_logger("supervisor")


class Process:
    """A child process. It drains and ends when its channel closes, which the supervisor does, also by dying."""

    def __init__(self, child: asyncio.subprocess.Process, number: int, channel: Channel) -> None:
        self._child, self._number, self._channel = child, number, channel
        self._reading: asyncio.Task[None] | None = None
        self._takes_frames = False
        self.pid = child.pid
        self.began = asyncio.get_running_loop().time()

    @classmethod
    async def start(cls, command: Sequence[str], number: int, listeners: Sequence[socket.socket]) -> Process:
        """Start a process on these listeners."""
        own, theirs = socket.socketpair()
        with theirs:
            descriptors = [theirs.fileno(), *(listener.fileno() for listener in listeners)]
            inherited = ":".join(map(str, (number, *descriptors)))
            child = await asyncio.create_subprocess_exec(
                *command,
                "--inherit",
                inherited,
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=descriptors,
                process_group=0,
            )
        return cls(child, number, Channel(await asyncio.open_unix_connection(sock=own)))

    async def is_ready(self, relay: Callable[[int, Frame], None]) -> bool:
        """Wait until it accepts connections, then pass its frames to `relay`; return False if it ended instead."""
        try:
            async with asyncio.timeout(START_SECONDS_MAX):
                first = await self._channel.first()
        except (TimeoutError, OSError):
            self.signal(signal.SIGKILL)
            return False
        self._takes_frames = first == READY
        self._reading = asyncio.create_task(self._channel.read(partial(relay, self._number)))
        return bool(first)

    def send(self, frame: Frame) -> None:
        """Send it a frame, unless it is not ready or of an earlier version."""
        if self._takes_frames:
            self._channel.send(frame)

    async def ended(self) -> int:
        """Wait for its end and return the exit code."""
        code = await self._child.wait()
        self._channel.close()
        return code

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal if it still runs."""
        with suppress(ProcessLookupError):
            self._child.send_signal(number)

    async def end(self, seconds_max: float, *, at_once: bool = True) -> None:
        """End it: at once by its channel, or by SIGTERM with `drain_seconds`; kill it after `seconds_max`."""
        if at_once:
            self._channel.close()
        else:
            self.signal(signal.SIGTERM)
        ended = asyncio.create_task(self.ended())
        await asyncio.wait((ended,), timeout=seconds_max)
        if not ended.done():
            log.error("process_killed", pid=self.pid, after_seconds=seconds_max)
            self.signal(signal.SIGKILL)
        await ended


@dataclass(slots=True)
class Slot:
    """One of the N slots: its number from 1, its listeners, and its current process."""

    number: int
    listeners: list[socket.socket] = field(default_factory=list)
    process: Process | None = None

    def close(self) -> None:
        """Close the supervisor's copies of the listeners."""
        for listener in self.listeners:
            listener.close()
        self.listeners = []


class Supervisor:
    """The supervisor of `count` processes, each started by `command`."""

    def __init__(self, settings: Settings, command: Sequence[str], count: int) -> None:
        self._settings, self._command = settings, command
        self._slots = [Slot(number + 1) for number in range(count)]
        self._ending: set[asyncio.Task[None]] = set()
        self._stop, self._deploy = asyncio.Event(), asyncio.Event()
        self._end_seconds_max = settings.drain_seconds + END_SECONDS_MAX

    async def run(self, *, beside: bool) -> int:
        """Run until SIGTERM and return the exit code. Raises `StartRefused`.

        If the first process refuses to start, its exit code is returned and there is no retry.
        """
        for slot in self._slots:
            slot.listeners = self._listen(beside=beside or slot.number > 1)
        node.stop_on_signals(self._stop)
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._deploy.set)
        code = await self._first_start()
        if code is not None:
            return code
        tasks = [asyncio.create_task(self._keep(slot)) for slot in self._slots]
        tasks.append(asyncio.create_task(self._run_deploys()))
        try:
            await node.until(self._stop, *tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._end_all()
        return 0

    def _listen(self, *, beside: bool) -> list[socket.socket]:
        addresses = self._settings.listen, self._settings.operator_listen
        return [node.listen_at(address, beside=beside) for address in addresses]

    async def _first_start(self) -> int | None:
        """Start the first process; return None once it is ready, otherwise the exit code."""
        first = self._slots[0]
        first.process = await self._start(first)
        ready = asyncio.create_task(first.process.is_ready(self._relay))
        await node.until(self._stop, ready)
        if self._stop.is_set():
            ready.cancel()
            await self._end_all()
            return 0
        if await ready:
            log.info("process_ready", number=first.number, pid=first.process.pid)
            return None
        code = await first.process.ended()
        if code < 0:
            raise StartRefused(f"The first process was killed by {signal.Signals(-code).name} before it was ready.")
        return code or 1

    async def _start(self, slot: Slot) -> Process:
        if not slot.listeners:
            slot.listeners = self._listen(beside=True)
        return await Process.start(self._command, slot.number, slot.listeners)

    def _relay(self, number: int, frame: Frame) -> None:
        """Pass a question of the process in a slot to all others, and its answer to the one that asked."""
        for slot in self._slots:
            if slot.process and (slot.number != number if frame.kind == QUESTION else slot.number == frame.number):
                slot.process.send(frame._replace(number=number))

    async def _keep(self, slot: Slot) -> None:
        """Keep a process in this slot; the pause before a restart grows while processes keep dying."""
        pause, loop = PAUSE_SECONDS_MIN, asyncio.get_running_loop()
        while True:
            if slot.process is None:
                slot.process = await self._start(slot)
                if await slot.process.is_ready(self._relay):
                    log.info("process_ready", number=slot.number, pid=slot.process.pid)
            process = slot.process
            code = await process.ended()
            if slot.process is not process:
                continue  # A deploy has replaced it.
            slot.process = None
            log.error("process_exited", number=slot.number, pid=process.pid, code=code, restart_after_seconds=pause)
            if pause > HOLD_SECONDS:
                slot.close()
            await asyncio.sleep(pause)
            is_stable = loop.time() - process.began > BACKOFF_RESET_SECONDS
            pause = PAUSE_SECONDS_MIN if is_stable else min(pause * 2, PAUSE_SECONDS_MAX)

    async def _run_deploys(self) -> None:
        while True:
            await self._deploy.wait()
            self._deploy.clear()
            log.info("deploy_started", processes=len(self._slots))
            for slot in self._slots:
                if not await self._replace(slot):
                    log.error(
                        "deploy_failed",
                        reason="the new process is not ready; the old ones keep running",
                        number=slot.number,
                    )
                    break
            else:
                log.info("deploy_finished", processes=len(self._slots))

    async def _replace(self, slot: Slot) -> bool:
        """Replace the process of a slot, which drains once its successor is ready."""
        successor = await self._start(slot)
        try:
            ready = await successor.is_ready(self._relay)
        except asyncio.CancelledError:
            self._end(successor)
            raise
        if not ready:
            await successor.ended()
            return False
        old, slot.process = slot.process, successor
        log.info("process_ready", number=slot.number, pid=successor.pid, replaced_pid=old.pid if old else None)
        if old is not None:
            self._end(old)
        return True

    def _end(self, process: Process) -> None:
        ending = asyncio.create_task(process.end(self._end_seconds_max))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    async def _end_all(self) -> None:
        for slot in self._slots:
            slot.close()
        left = [slot.process for slot in self._slots if slot.process is not None]
        await asyncio.gather(*(process.end(self._end_seconds_max, at_once=False) for process in left), *self._ending)


async def run(settings: Settings, command: Sequence[str], processes: int, *, beside: bool = False) -> int:
    """Run `processes` of `command`, 0 for one per core, until SIGTERM; return the exit code. Raises `StartRefused`."""
    logs.configure(settings.log_format, level=settings.log_level)
    node.log_version()
    count = processes or len(os.sched_getaffinity(0))
    if settings.database_url.startswith("sqlite:") and count > 1:
        raise StartRefused(
            f"{count} processes need PostgreSQL: a SQLite file serves one process. Set PAYDESK_DATABASE_URL, or omit"
            " --processes."
        )
    # Each process has its part of the node's rate limits.
    return await Supervisor(settings, (*command, "--processes", str(count)), count).run(beside=beside)
