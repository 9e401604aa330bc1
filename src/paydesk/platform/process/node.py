"""A node, in `dev` and `serve`: workers and listeners that start and stop together."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import gc
import os
import resource
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import structlog

from paydesk.core.signals import Signals
from paydesk.core.version import version
from paydesk.platform.http.server import server
from paydesk.platform.settings import Settings
from paydesk.platform.storage.connect import DIRECT_NEEDED, notifications_published, open_database, pooler_of
from paydesk.platform.storage.database import Database, UnsafeDatabase
from paydesk.platform.storage.metrics import CONNECTIONS

YOUNG_OBJECTS_MAX = 10_000
"""Garbage collection threshold; the running requests alone exceed Python's default of 700 objects."""

GIL_WAIT_SECONDS = 0.0001
"""The thread switch interval. With the default of 5 ms a finished commit waits for the event loop, and the event loop
for threads that hash passwords or read many rows."""

PR_SET_DUMPABLE = 4
"""An option of prctl(2)."""

OPEN_FILES_RESERVED = 256
"""File descriptors besides clients' connections: the database, webhooks, files."""

log = structlog.get_logger("node")


class StartRefused(Exception):
    """The node refuses to start; the message says why and what to do."""


@asynccontextmanager
async def database_of(settings: Settings) -> AsyncIterator[Database]:
    """Open the node's database and exchange signals with the other nodes on it; close it at the end.

    Raises `UnsafeDatabase` as `open_database` does, and for a pooler in transaction mode without a URL past it.
    """
    database: Any = await open_database(
        settings.database_url,
        signals=Signals(),
        connections_max=settings.database_connections_max,
        timeout_seconds=settings.database_timeout_seconds,
    )
    try:
        if pooler_of(database) == "transaction" and settings.database_listen_url is None:
            raise UnsafeDatabase(DIRECT_NEEDED)
        with CONNECTIONS.including(database.connections_by_state):
            async with notifications_published(settings.direct_database_url, database):
                yield database
    finally:
        await database.close()


def log_version() -> None:
    """Log what runs: the first line of a process."""
    log.info("starting", version=version())


def stop_on_signals(stop: asyncio.Event, begin: Callable[[], None] | None = None) -> None:
    """Make SIGTERM, SIGHUP and Ctrl-C set `stop`, or call `begin`; a second Ctrl-C ends the process at once.

    SIGHUP, sent when the shell ends, stays ignored under `nohup`.
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
    """Run the parts until `stop` is set and all have ended; if one ends or fails, all are stopped."""
    # The objects created at start live until the end: no collection looks at them.
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS_MAX)
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
    """Wait for `stop` or for the first task to end, and raise its exception."""
    stopping = asyncio.create_task(stop.wait())
    try:
        done, _ = await asyncio.wait((stopping, *tasks), return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        stopping.cancel()
        await asyncio.gather(stopping, return_exceptions=True)


def keep_private() -> None:
    """Write no core dump, which would hold keys, tokens and passwords, and make new files private: for `serve`.

    On Linux no other process of the same user may attach to this one either, unless it is a debugger of root.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.umask(0o077)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def allow_open_files(count: int) -> None:
    """Raise this process's limit of open files to `count` connections, as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = count + OPEN_FILES_RESERVED
    if soft != resource.RLIM_INFINITY and soft < needed:
        possible = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (possible, hard))
        if possible < needed:
            log.warning("open_files_limited", allowed=possible, needed=needed)


def listen_at(address: str, *, beside: bool) -> socket.socket:
    """Return a listening socket of `serve` that shares its port with other processes of `serve`.

    Without `beside` the port must be free. Raises `StartRefused`.
    """
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    if not beside:
        # A shared socket does not detect that the port is in use.
        listen(host, int(port), taken=" If Paydesk runs there already, use --beside.").close()
    return listen(host, int(port), shared=True)


def listen(
    host: str, port: int, *, shared: bool = False, taken: str = " Stop the program that uses it, or choose another."
) -> socket.socket:
    """Return a listening socket. Raises `StartRefused`, for example if the port is in use."""
    try:
        return server.bind(host, port, shared=shared)
    except OSError as error:
        reason = error.strerror or str(error)
        question = taken if error.errno == errno.EADDRINUSE else ""
        raise StartRefused(f"Cannot listen on {host}:{port}: {reason}.{question}") from None
