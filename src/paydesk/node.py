"""What `dev` and `serve` share: a node is workers and listeners that start together and stop together."""

from __future__ import annotations

import asyncio
import errno
import gc
import resource
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import structlog

from paydesk.core.signals import Signals
from paydesk.http import server
from paydesk.operator_events import Reporter
from paydesk.settings import Settings
from paydesk.storage.bounded import BoundedDatabase
from paydesk.storage.connect import notifications_published, open_database
from paydesk.storage.database import Database

YOUNG_OBJECTS_MAX = 10_000
"""So many new objects make the collector look for cycles; the requests under way alone are more than its 700."""

GIL_WAIT_SECONDS = 0.0001
"""So long a thread waits before the one that runs must let go; with Python's 5 ms a commit that is on the disk waits
for the event loop, and the loop for whoever hashes a password or reads much."""

OPEN_FILES_BESIDE = 256
"""What a process has open beside its clients' connections: the database, webhooks, files."""

log = structlog.get_logger("node")


class StartRefused(Exception):
    """The node does not start; the message says why and what to do."""


@asynccontextmanager
async def database_of(settings: Settings) -> AsyncIterator[Database]:
    """The node's database, closed at the end; meanwhile it wakes the other nodes on it, and they wake this one."""
    database = await open_database(
        settings.database_url,
        signals=Signals(),
        connections_max=settings.database_connections_max,
        timeout_seconds=settings.database_timeout_seconds,
    )
    try:
        async with notifications_published(settings.database_url, database):
            yield database
    finally:
        await database.close()


def reporter_of(database: Database, settings: Settings) -> Reporter:
    """Return the node's reporter, which all its listeners share."""
    return Reporter(BoundedDatabase(database, settings.requests_max))


def stop_on_signals(stop: asyncio.Event, begin: Callable[[], None] | None = None) -> None:
    """SIGTERM and Ctrl-C set `stop`, or `begin` what will; a second Ctrl-C ends the process at once.

    So does SIGHUP, the end of a terminal, unless `nohup` has it ignored.
    """
    interrupted = False

    def on_interrupt() -> None:
        nonlocal interrupted
        if interrupted or stop.is_set():
            raise KeyboardInterrupt
        interrupted = True
        (begin or stop.set)()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, begin or stop.set)
    loop.add_signal_handler(signal.SIGINT, on_interrupt)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        loop.add_signal_handler(signal.SIGHUP, begin or stop.set)


async def run_together(stop: asyncio.Event, *parts: Coroutine[Any, Any, None]) -> None:
    """Run the parts until `stop` is set and all have ended; one that ends sooner or fails ends all."""
    _spare_the_collector()
    sys.setswitchinterval(GIL_WAIT_SECONDS)
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stop.set()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result


async def until(stop: asyncio.Event, *tasks: asyncio.Task[Any]) -> None:
    """Wait for `stop`, or for the first of the tasks to end, whose failure is raised."""
    stopping = asyncio.create_task(stop.wait())
    try:
        done, _ = await asyncio.wait((stopping, *tasks), return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        stopping.cancel()
        await asyncio.gather(stopping, return_exceptions=True)


def allow_open_files(count: int) -> None:
    """Let this process have so many files and sockets open, as far as the system lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + OPEN_FILES_BESIDE
    if soft != resource.RLIM_INFINITY and soft < wanted:
        possible = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (possible, hard))
        if possible < wanted:
            log.warning("few open files allowed", allowed=possible, wanted=wanted)


def listen_at(address: str, *, beside: bool) -> socket.socket:
    """A listener of `serve`, which shares its port with others of its kind; only `beside` may they be there already.

    Raises `StartRefused`.
    """
    host, _, port = address.rpartition(":")
    if not beside:
        # Whoever shares would not notice.
        listen(
            host, int(port), taken=" Is another Paydesk running there? With --beside this one starts all the same."
        ).close()
    return listen(host, int(port), shared=True)


def _spare_the_collector() -> None:
    """What was made while starting stays until the end, so nobody need look at it again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS_MAX)


def listen(
    host: str, port: int, *, shared: bool = False, taken: str = " Is another Paydesk running there?"
) -> socket.socket:
    """A listening socket, before anything else is done: a taken port is noticed first. Raises `StartRefused`."""
    try:
        return server.bind(host, port, shared=shared)
    except OSError as error:
        reason = error.strerror or str(error)
        question = taken if error.errno == errno.EADDRINUSE else ""
        raise StartRefused(f"Cannot listen on {host}:{port}: {reason}.{question}") from None
