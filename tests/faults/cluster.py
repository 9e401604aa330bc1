"""Nodes on one database, each behind a wire of its own: what the faults break, and what puts it together again."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from faults import wire
from faults.clocked_node import write_offset
from faults.wire import Wire
from forks import Fork, Forks
from free_port import free_port
from paydesk_process import environment
from postgres_server import PostgresServer

START_SECONDS_MAX = 60.0
END_SECONDS_MAX = 15.0
POLL_INTERVAL_SECONDS = 0.02
TRUSTED_MS_MAX = 60_000
# Attempts are short and soon repeated, so that a run sees the whole of a notification's life, and of an outcome that
# is unknown.
VARIABLES = {
    "PAYDESK_LOG_FORMAT": "json",
    "PAYDESK_DATABASE_TIMEOUT_SECONDS": "3",
    "PAYDESK_WEBHOOK_TIMEOUT_SECONDS": "2",
    "PAYDESK_WEBHOOK_RETRY_SECONDS": "1,1,2,2,4,4,8,8,8,8,8,8",
    "PAYDESK_INQUIRY_NOT_FOUND_SECONDS": "90",
    "PAYDESK_INQUIRY_PAUSE_SECONDS": "5,10,20",
    "PAYDESK_REVERSAL_PAUSE_SECONDS": "5,10,20",
    "DEVELOPMENT": "1",
}
ACQUIRER = (
    "refund:lost@10 refund:unheard@5 refund:not_sent@5 refund:delay:0.3s@10 refund:decline:rejected_by_issuer@5"
    " inquiry:lost@20 reversal:lost@30 reversal:unheard@20"
)
"""How the acquirer answers in a run that is to be hard."""

_forks = Forks("faults.clocked_node")


class Node:
    """One node: a process that is killed, stopped and started again at the same address."""

    def __init__(self, name: str, database_url: str, folder: Path, variables: Mapping[str, str]) -> None:
        self.name = name
        self._variables = environment(**VARIABLES, PAYDESK_SIMULATOR_SCRIPT=ACQUIRER, **variables)
        self._compares_clocks = database_url.startswith("postgres")
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self.front: Wire | None = None
        self.back: Wire | None = None
        self.up = False
        self.log = folder / f"{name}.log"
        self._clock = folder / f"{name}.clock"
        self._arguments = [database_url, str(self.port), str(self._clock)]
        self._process: Fork | None = None
        self._wanted = False
        self._keeper: asyncio.Task[None] | None = None
        self.move_clock(0)

    async def start(self) -> None:
        """Start it and keep it running: a process that ends by itself, for want of its database, is started again."""
        self._wanted = True
        self._keeper = asyncio.create_task(self._keep())
        await self.until_up()

    async def until_up(self) -> None:
        """Wait until it answers."""
        async with asyncio.timeout(START_SECONDS_MAX):
            while not self.up:  # noqa: ASYNC110 - another process gives no sign of its own
                await asyncio.sleep(POLL_INTERVAL_SECONDS)

    def kill(self) -> None:
        """`kill -9`; it is started again at once."""
        self.up = False
        self._signal(signal.SIGKILL)

    async def restart(self) -> None:
        """`kill -9`, and wait until its successor answers."""
        killed = self._process
        self.kill()
        async with asyncio.timeout(START_SECONDS_MAX):
            while self._process is killed:  # noqa: ASYNC110 - the same
                await asyncio.sleep(POLL_INTERVAL_SECONDS)
        await self.until_up()

    async def crash_at(self, label: str, times: int) -> None:
        """Let it die when it comes to that place for the n-th time."""
        with contextlib.suppress(OSError, TimeoutError):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            head = (
                f"GET /nothing HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Crash-At: {label}:{times}\r\nConnection: close\r\n\r\n"
            )
            try:
                writer.write(head.encode())
                await asyncio.wait_for(reader.read(), 1)
            finally:
                writer.close()

    def suspend(self) -> None:
        """SIGSTOP."""
        self._signal(signal.SIGSTOP)

    def wake_up(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)

    def move_clock(self, offset_ms: int) -> None:
        """Let its wall clock be so much ahead of the machine's."""
        self._offset_ms = offset_ms
        write_offset(self._clock, offset_ms)

    async def end(self) -> int:
        """SIGTERM, and the status that it ended with."""
        self._wanted = False
        process = self._process
        assert process is not None, "it was started"
        self._signal(signal.SIGTERM)
        deadline = time.monotonic() + END_SECONDS_MAX
        while (status := process.poll()) is None and time.monotonic() < deadline:  # noqa: ASYNC110 - the same
            await asyncio.sleep(POLL_INTERVAL_SECONDS)
        await self.close()
        return -1 if status is None else status

    async def close(self) -> None:
        """Leave nothing of it behind."""
        self._wanted = False
        self.kill()
        if self._keeper is not None:
            await self._keeper

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    async def _keep(self) -> None:
        while self._wanted:
            if abs(self._offset_ms) > TRUSTED_MS_MAX and not self._compares_clocks:
                # A process can't know that the clock it starts by is wrong.
                self.move_clock(0)
            process = self._process = _forks.start(self._arguments, self._variables, self.log)
            while process.poll() is None:
                # A connection that is accepted by a stopped process would say nothing of it.
                self.up = self.up or await self._answers()
                await asyncio.sleep(POLL_INTERVAL_SECONDS)
            self.up = False

    async def _answers(self) -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        writer.close()
        return True


@dataclass
class Cluster:
    """The nodes, their database, and the wires between them. `addresses` is what a client is given."""

    database_url: str
    nodes: list[Node]
    server: PostgresServer | None
    counts: dict[str, int] = field(default_factory=dict)
    changing: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Locked while a fault makes the database unreachable."""
    calm: asyncio.Event = field(default_factory=asyncio.Event)
    """Nothing is broken any more."""

    @property
    def addresses(self) -> list[str]:
        """Where the nodes are reached."""
        return [node.address for node in self.nodes]

    @property
    def wires(self) -> list[Wire]:
        """Every wire that there is."""
        return [one for node in self.nodes for one in (node.front, node.back) if one is not None]

    def count(self, what: str) -> None:
        """One more of these."""
        self.counts[what] = self.counts.get(what, 0) + 1

    async def rest(self, seconds: float) -> None:
        """Wait so long, or until all is to be calm."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.calm.wait(), seconds)

    async def heal(self) -> None:
        """Everything runs, every wire is whole, every clock right."""
        for one in self.wires:
            one.mend()
        for node in self.nodes:
            node.wake_up()
            node.move_clock(0)
        for node in self.nodes:
            await node.until_up()


@contextlib.asynccontextmanager
async def cluster(
    database_url: str,
    folder: Path,
    *,
    nodes: int,
    wires: bool,
    chance: random.Random,
    server: PostgresServer | None = None,
    variables: Mapping[str, str] | None = None,
) -> AsyncIterator[Cluster]:
    """Nodes on the database, running; with `wires` there is one before and, on PostgreSQL, one behind each.

    `variables` are settings of the nodes. Without one of their own, their clocks may differ by minutes.
    """
    settings = {"PAYDESK_CLOCK_DIFFERENCE_SECONDS_MAX": "300"} if variables is None else variables
    with tempfile.TemporaryDirectory(prefix="pdk-") as sockets:
        made = Cluster(database_url, [], server)
        try:
            for number in range(nodes):
                name = f"node-{number + 1}"
                made.nodes.append(await _node(name, made, folder, Path(sockets), wires, chance, settings))
            await asyncio.gather(*(node.start() for node in made.nodes))
            yield made
        finally:
            await asyncio.gather(*(node.close() for node in made.nodes))
            await asyncio.gather(*(one.close() for one in made.wires))


async def _node(
    name: str,
    made: Cluster,
    folder: Path,
    sockets: Path,
    wires: bool,  # noqa: FBT001 - private
    chance: random.Random,
    variables: Mapping[str, str],
) -> Node:
    url = made.database_url
    back: Wire | None = None
    if wires and made.server is not None:
        (sockets / name).mkdir()
        back = Wire(wire.to_postgres(url), random.Random(chance.random()))
        await back.listen_socket(sockets / name)
        url = wire.through(url, sockets / name)
    node = Node(name, url, folder, variables)
    node.back = back
    if wires:
        node.front = Wire(wire.to_port(node.port), random.Random(chance.random()))
        node.address = f"http://127.0.0.1:{await node.front.listen_tcp()}"
    return node
