"""`paydesk serve --processes N`: a parent that keeps N processes on one port, replaces those that die, and deploys.

Every process has listening sockets of its own, between which the system divides the connections (SO_REUSEPORT). The
parent holds them open, so that what waits to be let in outlives the process: its successor lets it in.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import structlog

from paydesk import logs, node
from paydesk.node import StartRefused
from paydesk.settings import Settings

PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX = 0.1, 5.0
BACKOFF_RESET_SECONDS = 30.0
HOLD_SECONDS = 1.0
"""What waits to be let in by a process that died waits no longer than this: after it the others have its share."""

START_SECONDS_MAX = 60.0
END_SECONDS_MAX = 25.0

log = structlog.get_logger("supervisor")


class Process:
    """A process that was started. When its channel closes, by will or because the parent died, it drains and ends."""

    def __init__(self, child: asyncio.subprocess.Process, channel: socket.socket) -> None:
        self._child, self._channel = child, channel
        self.pid = child.pid
        self.began = asyncio.get_running_loop().time()

    @classmethod
    async def start(cls, command: Sequence[str], number: int, listeners: Sequence[socket.socket]) -> Process:
        """Start it on these listeners."""
        own, theirs = socket.socketpair()
        own.setblocking(False)
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
        return cls(child, own)

    async def is_ready(self) -> bool:
        """Wait until it lets connections in; False where it ended instead."""
        try:
            async with asyncio.timeout(START_SECONDS_MAX):
                return bool(await asyncio.get_running_loop().sock_recv(self._channel, 16))
        except (TimeoutError, OSError):
            self.signal(signal.SIGKILL)
            return False

    async def ended(self) -> int:
        """Wait for its end; its exit code."""
        return await self._child.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, where it still runs."""
        with suppress(ProcessLookupError):
            self._child.send_signal(number)

    async def end(self, seconds_max: float, *, at_once: bool = True) -> None:
        """Have it drain: at once, or as SIGTERM asks. What is left of it after `seconds_max` is killed."""
        if at_once:
            self._channel.close()
        else:
            self.signal(signal.SIGTERM)
        ended = asyncio.create_task(self.ended())
        await asyncio.wait((ended,), timeout=seconds_max)
        if not ended.done():
            log.error("process does not end", pid=self.pid, after_seconds=seconds_max)
            self.signal(signal.SIGKILL)
        await ended
        self._channel.close()


@dataclass(slots=True)
class Place:
    """One of the N: its number from 1, its listeners, and who is in it now."""

    number: int
    listeners: list[socket.socket] = field(default_factory=list)
    process: Process | None = None

    def close(self) -> None:
        """Close the parent's hold on the listeners."""
        for listener in self.listeners:
            listener.close()
        self.listeners = []


class Supervisor:
    """The parent of `count` processes, each started by `command`."""

    def __init__(self, settings: Settings, command: Sequence[str], count: int) -> None:
        self._settings, self._command = settings, command
        self._places = [Place(number + 1) for number in range(count)]
        self._ending: set[asyncio.Task[None]] = set()
        self._stop, self._deploy = asyncio.Event(), asyncio.Event()
        self._end_seconds_max = settings.drain_seconds + END_SECONDS_MAX

    async def run(self, *, beside: bool) -> int:
        """Run until SIGTERM; the exit code. Raises `StartRefused`.

        What refuses to start at all has said why, and is not tried again.
        """
        for place in self._places:
            place.listeners = self._listen(beside=beside or place.number > 1)
        node.stop_on_signals(self._stop)
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._deploy.set)
        code = await self._first_start()
        if code is not None:
            return code
        tasks = [asyncio.create_task(self._keep(place)) for place in self._places]
        tasks.append(asyncio.create_task(self._deploy_when_asked()))
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
        """Start the first; None once it is ready, otherwise the exit code to end with."""
        first = self._places[0]
        first.process = await self._start(first)
        ready = asyncio.create_task(first.process.is_ready())
        await node.until(self._stop, ready)
        if self._stop.is_set():
            ready.cancel()
            await self._end_all()
            return 0
        if await ready:
            log.info("process ready", number=first.number, pid=first.process.pid)
            return None
        code = await first.process.ended()
        if code < 0:
            raise StartRefused(f"The first process was ended by {signal.Signals(-code).name} before it was ready.")
        return code or 1

    async def _start(self, place: Place) -> Process:
        if not place.listeners:
            place.listeners = self._listen(beside=True)
        return await Process.start(self._command, place.number, place.listeners)

    async def _keep(self, place: Place) -> None:
        """Have somebody in this place, with a growing pause where they die again and again."""
        pause, loop = PAUSE_SECONDS_MIN, asyncio.get_running_loop()
        while True:
            if place.process is None:
                place.process = await self._start(place)
                if await place.process.is_ready():
                    log.info("process ready", number=place.number, pid=place.process.pid)
            process = place.process
            code = await process.ended()
            if place.process is not process:
                continue  # A deploy has put another here.
            place.process = None
            log.error("process died", number=place.number, pid=process.pid, code=code, again_in_seconds=pause)
            if pause > HOLD_SECONDS:
                place.close()
            await asyncio.sleep(pause)
            calm = loop.time() - process.began > BACKOFF_RESET_SECONDS
            pause = PAUSE_SECONDS_MIN if calm else min(pause * 2, PAUSE_SECONDS_MAX)

    async def _deploy_when_asked(self) -> None:
        while True:
            await self._deploy.wait()
            self._deploy.clear()
            log.info("deploy begins", processes=len(self._places))
            for place in self._places:
                if not await self._succeed(place):
                    log.error("deploy ended: the new process is not ready, the old ones go on", number=place.number)
                    break
            else:
                log.info("deploy done", processes=len(self._places))

    async def _succeed(self, place: Place) -> bool:
        """Put a new process into a place; the old one drains once the new one is ready."""
        successor = await self._start(place)
        try:
            ready = await successor.is_ready()
        except asyncio.CancelledError:
            self._end(successor)
            raise
        if not ready:
            await successor.ended()
            return False
        old, place.process = place.process, successor
        log.info("process ready", number=place.number, pid=successor.pid, instead_of=old.pid if old else None)
        if old is not None:
            self._end(old)
        return True

    def _end(self, process: Process) -> None:
        ending = asyncio.create_task(process.end(self._end_seconds_max))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    async def _end_all(self) -> None:
        for place in self._places:
            place.close()
        left = [place.process for place in self._places if place.process is not None]
        await asyncio.gather(*(process.end(self._end_seconds_max, at_once=False) for process in left), *self._ending)


async def run(settings: Settings, command: Sequence[str], processes: int, *, beside: bool = False) -> int:
    """Run `processes` of `command`, 0 for one a core, until SIGTERM; the exit code. Raises `StartRefused`."""
    logs.configure(settings.log_format, level=settings.log_level)
    count = processes or len(os.sched_getaffinity(0))
    if settings.database_url.startswith("sqlite:") and count > 1:
        raise StartRefused(
            f"{count} processes need PostgreSQL: a SQLite file serves one process. Set PAYDESK_DATABASE_URL, or leave"
            " --processes out."
        )
    return await Supervisor(settings, command, count).run(beside=beside)
