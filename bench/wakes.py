"""`python -m bench.wakes`: measure the time from an order on one node to a terminal that polls another.

Orders are sent at a fixed rate regardless of earlier ones (an open loop), each for a different terminal that waits with
a long poll. The time runs from the moment at which an order was due to be sent, so that a slow service does not look
fast, until the poll returns it; the terminal then acknowledges it. The nodes are separate processes on a private
PostgreSQL with every fsync.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, cast

import uvloop
from rich.console import Console
from rich.table import Table

from bench import seed
from bench.load import cpu_seconds, family_cpu_seconds
from bench.postgres import Postgres
from bench.running import free_port, started
from paydesk.core.clock import SystemClock
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.migrate import migrate

HEAD_START_SECONDS = 1.0
"""Time before its order at which a terminal starts to wait."""
TILLS_MAX, TILL_SECONDS_MAX = 256, 2.0
"""The tills take turns: a node closes a connection that is silent for 5 s at first."""
ANSWER_SECONDS_MAX = 60.0


class Client(asyncio.Protocol):
    """A persistent connection to a node, with one request at a time."""

    def __init__(self) -> None:
        self._received = b""
        self._answer: asyncio.Future[tuple[int, Any]] | None = None
        self._transport: asyncio.WriteTransport | None = None
        self.answered_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        """Handle a part of the answer, mostly all of it."""
        self._received += data
        head, found, body = self._received.partition(b"\r\n\r\n")
        if not found or len(body) < _length(head):
            return
        self.answered_at, self._received = asyncio.get_running_loop().time(), b""
        if self._answer is not None and not self._answer.done():
            self._answer.set_result((int(head[9:12]), json.loads(body) if body else None))

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the pending request, because the node has closed the connection."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionResetError("the node closed the connection"))

    async def ask(self, method: str, path: str, token: str, body: Any = None, key: str = "") -> tuple[int, Any]:
        """Send a request; return the status and the document of the answer."""
        assert self._transport is not None, "it is connected"
        raw = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(raw)}\r\n" if raw else ""
        head += f"X-Idempotency-Key: {key}\r\n" if key else ""
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(head.encode() + b"\r\n" + raw)
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            return await self._answer

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()


def _length(head: bytes) -> int:
    _, found, rest = head.lower().partition(b"\r\ncontent-length:")
    return int(rest.partition(b"\r\n")[0]) if found else 0


async def connect(port: int) -> Client:
    """Open a connection to the node at that port."""
    _, client = await asyncio.get_running_loop().create_connection(Client, "127.0.0.1", port)
    return client


@dataclass
class Run:
    """One run: when each order was due, and when it arrived."""

    access_token: str
    devices: list[dict[str, str]]
    first: int
    rate: float
    due: dict[int, float] = field(default_factory=dict)
    came: dict[int, float] = field(default_factory=dict)
    waiting: set[int] = field(default_factory=set)
    late: int = 0
    """Number of orders whose terminal did not wait yet when they were due."""
    refused: list[str] = field(default_factory=list)

    async def go(self, tills_at: int, terminals_at: int) -> None:
        """Send every terminal its order, and wait until all have arrived."""
        numbers = iter(range(len(self.devices)))
        count = min(len(self.devices), max(64, int(self.rate * HEAD_START_SECONDS)))
        terminals = [await connect(terminals_at) for _ in range(count)]
        tills: asyncio.Queue[Client] = asyncio.Queue()
        for _ in range(max(1, min(TILLS_MAX, int(self.rate * TILL_SECONDS_MAX)))):
            tills.put_nowait(await connect(tills_at))
        async with asyncio.TaskGroup() as group:
            for terminal in terminals:
                group.create_task(self._play(terminal, numbers))
            while len(self.waiting) < count:  # noqa: ASYNC110 - the first ones wait before it begins
                await asyncio.sleep(0.01)
            await self._send_all(tills, group)
        for client in (*terminals, *(tills.get_nowait() for _ in range(tills.qsize()))):
            client.close()

    async def _send_all(self, tills: asyncio.Queue[Client], group: asyncio.TaskGroup) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time() + 0.1
        for number in range(len(self.devices)):
            self.due[number] = began + number / self.rate
            await asyncio.sleep(self.due[number] - loop.time())
            self.late += number not in self.waiting
            group.create_task(self._send(tills, number))

    async def _send(self, tills: asyncio.Queue[Client], number: int) -> None:
        till = await tills.get()
        terminal_id = f"{seed.TERMINAL_PREFIX}{seed.FIRST_SERIAL + self.first + number}"
        body = {
            "type": "point",
            "transactions": {"payments": [{"amount": "24.90"}]},
            "config": {"point": {"terminal_id": terminal_id}},
        }
        status, answer = await till.ask("POST", "/v1/orders", self.access_token, body, str(uuid.uuid4()))
        if status != 201:
            self.refused.append(f"{status} {answer}")
        tills.put_nowait(till)

    async def _play(self, client: Client, numbers: Iterator[int]) -> None:
        """Run a terminal: get its mode, wait for its order, acknowledge it."""
        for number in numbers:
            token, boot_id = self.devices[number]["token"], self.devices[number]["boot_id"]
            status, message = 204, None
            while message is None or message["type"] != "order":
                self.waiting.discard(number)
                if message is not None or status != 204:
                    self.waiting.add(number)
                status, message = await client.ask("GET", f"/device/v1/next?wait=30&boot_id={boot_id}", token)
                assert status in (200, 204), f"a poll was answered {status}: {message}"
            self.came[number] = client.answered_at
            lease = f"/device/v1/leases/{message['lease_id']}/ack"
            status, answer = await client.ask("POST", lease, token, {"boot_id": boot_id})
            if status != 200:
                self.refused.append(f"{status} {answer}")

    def milliseconds(self) -> list[float]:
        """Return the times from due to arrival, in ascending order."""
        return sorted((self.came[number] - due) * 1000 for number, due in self.due.items())


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.wakes", description=__doc__)
    parser.add_argument("--rate", type=float, default=500, help="orders a second (%(default)s)")
    parser.add_argument("--seconds", type=float, default=20, help="of each run (%(default)s)")
    arguments = parser.parse_args()
    console = Console(stderr=True)
    shown = Table(title=f"from the till to the terminal, {arguments.rate:g} orders a second")
    for heading in ("terminals poll", "orders", "p50 ms", "p99 ms", "max ms", "CPU µs an order", "late terminals"):
        shown.add_column(heading, justify="left" if heading == "terminals poll" else "right")
    with ExitStack() as stack:
        postgres = Postgres(clients_max=0)
        stack.callback(postgres.end)
        url, count = postgres.create_database("wakes"), int(arguments.rate * arguments.seconds)
        console.print(f"seeding {2 * count} terminals …")
        seeded = uvloop.run(_seed(url, 2 * count))
        ports = [free_port(), free_port()]
        nodes = [
            stack.enter_context(started([sys.executable, "-m", "bench.node", url, str(port)], port, "/livez"))
            for port in ports
        ]
        for place, (name, terminals_at) in enumerate((("another node", ports[1]), ("the same node", ports[0]))):
            console.print(f"terminals that poll {name} …")
            run = Run(seeded["access_token"], seeded["devices"][place * count :][:count], place * count, arguments.rate)
            before = [sum(cpu_seconds(node.pid) for node in nodes), family_cpu_seconds(postgres.pid)]
            uvloop.run(run.go(ports[0], terminals_at))
            after = [sum(cpu_seconds(node.pid) for node in nodes), family_cpu_seconds(postgres.pid)]
            spent = " / ".join(f"{(new - old) / count * 1e6:.0f}" for old, new in zip(before, after, strict=True))
            if run.refused:
                sys.exit(f"{len(run.refused)} requests were refused; the first: {run.refused[0]}")
            shown.add_row(name, f"{count:,}", *_figures(run.milliseconds()), spent, str(run.late))
    Console().print(shown)


def _figures(milliseconds: list[float]) -> Iterator[str]:
    for value in (
        statistics.median(milliseconds),
        milliseconds[int(len(milliseconds) * 0.99)],
        milliseconds[-1],
    ):
        yield f"{value:.1f}"


async def _seed(url: str, terminals: int) -> dict[str, Any]:
    database = await open_database(url)
    try:
        now_ms = SystemClock().now_ms()
        await migrate(database, now_ms)
        return await seed.seed(database, now_ms, seed.Sizes(terminals=terminals, families=1, pollers=terminals))
    finally:
        await database.close()


if __name__ == "__main__":
    main()
