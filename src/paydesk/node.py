"""What `dev` and `serve` share: a node is workers and listeners that start together and stop together."""

from __future__ import annotations

import asyncio
import errno
import signal
import socket
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from paydesk.http import server
from paydesk.settings import Settings
from paydesk.signals import Signals
from paydesk.storage.connect import open_database, wakes_carried
from paydesk.storage.database import Database


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
        async with wakes_carried(settings.database_url, database):
            yield database
    finally:
        await database.close()


def stop_on_signals(stop: asyncio.Event) -> None:
    """SIGTERM and Ctrl-C set `stop`; a second Ctrl-C ends the process at once."""

    def on_interrupt() -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_signal_handler(signal.SIGINT, on_interrupt)


async def run_together(stop: asyncio.Event, *parts: Coroutine[Any, Any, None]) -> None:
    """Run the parts until `stop` is set and all have ended; one that ends sooner or fails ends all."""
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stop.set()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, before anything else is done: a taken port is noticed first. Raises `StartRefused`."""
    try:
        return server.bind(host, port)
    except OSError as error:
        reason = error.strerror or str(error)
        question = " Is another Paydesk running there?" if error.errno == errno.EADDRINUSE else ""
        raise StartRefused(f"Cannot listen on {host}:{port}: {reason}.{question}") from None
