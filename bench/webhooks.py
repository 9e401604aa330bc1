"""`python -m bench.webhooks`: measure how many notifications a second one node delivers to a fast receiver.

The events are committed before. A separate process is the receiver, which answers at once. The node's process runs only
the worker of deliveries, with durable commits; its log is off below warnings.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import cast

import uvloop
from rich.console import Console
from rich.table import Table

from bench import notifications
from bench.postgres import Postgres
from paydesk.core.clock import SystemClock
from paydesk.engine.webhooks.delivery import worker
from paydesk.engine.webhooks.schedule import PENDING
from paydesk.platform import logs
from paydesk.platform.settings import Settings
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Database, Transaction
from paydesk.platform.storage.migrate import migrate
from paydesk.platform.worker import WorkerContext

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: text/plain\r\n\r\nok"
LOOK_SECONDS = 0.05
WAIT_SECONDS_MAX = 120.0

NewDatabase = Callable[[int], str]
"""Creates the database of a run and returns its URL."""

ANY_PENDING = f"SELECT 1 FROM deliveries WHERE {PENDING} LIMIT 1"


@dataclass(frozen=True, slots=True)
class Run:
    """One run: notifications delivered, seconds, and the worker's CPU seconds."""

    events: int
    seconds: float
    cpu_seconds: float


def main() -> None:
    """Measure, and print the table."""
    arguments = _arguments()
    if arguments.receive:
        with contextlib.suppress(KeyboardInterrupt):
            uvloop.run(_receive())
        return
    logs.configure("json", sys.stderr, level="warning")
    with _receivers(arguments.receivers) as urls, _database(arguments.database) as new_database:
        runs = [uvloop.run(_deliver(new_database(number), urls, arguments.events)) for number in range(arguments.runs)]
    table = Table("run", "notifications", "per second", "CPU µs each", title=f"{arguments.database}, one node")
    for number, run in enumerate(runs, start=1):
        each = run.cpu_seconds / run.events * 1e6
        table.add_row(str(number), f"{run.events:,}", f"{run.events / run.seconds:,.0f}", f"{each:,.0f}")
    Console().print(table)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.webhooks", description=__doc__)
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--receivers", type=int, default=1, help="each gets all events")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--receive", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


# The receiver --------------------------------------------------------------------------------------------------------


class _Receiver(asyncio.Protocol):
    """Answers every POST with 200, on connections that are kept open."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport, self._buffer = cast("asyncio.WriteTransport", transport), b""

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:end].lower()
            start = head.index(b"content-length:") + len(b"content-length:")
            whole = end + 4 + int(head[start:].split(b"\r\n", 1)[0])
            if len(self._buffer) < whole:
                return
            self._buffer = self._buffer[whole:]
            self._transport.write(ANSWER)
            if b"connection: close" in head:
                self._transport.close()


async def _receive() -> None:
    server = await asyncio.get_running_loop().create_server(_Receiver, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)  # noqa: T201 - read by the parent
    await server.serve_forever()


@contextlib.contextmanager
def _receivers(count: int) -> Iterator[list[str]]:
    command = [sys.executable, "-m", "bench.webhooks", "--receive"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        port = int(process.stdout.readline())
        yield [f"http://127.0.0.1:{port}/hooks/{number}" for number in range(count)]
    finally:
        process.terminate()
        process.wait()


# The node ------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _database(name: str) -> Iterator[NewDatabase]:
    with tempfile.TemporaryDirectory(prefix="paydesk-bench-") as folder:
        if name == "sqlite":
            yield lambda number: f"sqlite:{folder}/{number}.db"
            return
        server = Postgres(clients_max=10)
        try:
            yield lambda number: server.create_database(f"webhooks_{number}")
        finally:
            server.end()


async def _deliver(url: str, receivers: list[str], events: int) -> Run:
    database, clock = await open_database(url), SystemClock()
    try:
        await migrate(database, clock.now_ms())
        await notifications.subscribe(database, receivers, clock.now_ms())
        await notifications.announce(database, notifications.orders_of(events), clock.now_ms())
        context = WorkerContext(database, Settings(), clock, notifications.KEYS, loopback_allowed=True)
        stop = asyncio.Event()
        began, cpu_began = time.perf_counter(), _cpu_seconds()
        running = asyncio.create_task(worker.run(context, stop))
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while await _any_pending(database):  # noqa: ASYNC110 - the worker does not signal completion
                await asyncio.sleep(LOOK_SECONDS)
        run = Run(events * len(receivers), time.perf_counter() - began, _cpu_seconds() - cpu_began)
        stop.set()
        database.signals.notify(["stop"])
        await running
    finally:
        await database.close()
    return run


async def _any_pending(database: Database) -> bool:
    async def work(tx: Transaction) -> bool:
        return await tx.one(ANY_PENDING) is not None

    return await database.read(work)


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
