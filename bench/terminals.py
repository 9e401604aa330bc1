"""`python -m bench.terminals`: measure what waiting terminals cost a node, and how soon an order is offered.

All terminals wait with a long poll, begun one after another, so that not all end at once. First nothing happens for
a minute: the CPU time of the node, its statements to the database, and its memory for each terminal. Then orders are
sent at a fixed rate regardless of earlier ones, each for another terminal: the time from the moment at which an order
was due to be created until the poll returns it. At last virtual terminals take the sessions over in a process of their
own: the memory of each.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import uvloop
from rich.console import Console
from rich.table import Table

from bench import seed
from bench.load import BenchError, cpu_seconds, memory_mb
from bench.postgres import Postgres
from bench.running import free_port, started
from bench.wakes import Client, Run, connect
from paydesk.core.clock import SystemClock
from paydesk.platform.process import node
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.migrate import migrate
from paydesk_dev.virtual.fleet import Fleet
from paydesk_dev.virtual.terminal.client import Pace

WARM_TERMINALS = 50
"""They wait before memory is first measured, so that what a node needs once does not count."""
CONNECTING_AT_ONCE = 100
SETTLE_SECONDS = 3.0

Figures = dict[str, str]


def main() -> None:
    """Measure, and print the table."""
    arguments = _arguments()
    if arguments.fleet:
        uvloop.run(_fleet(arguments))
        return
    node.allow_open_files(2 * arguments.count)
    try:
        with ExitStack() as stack:
            figures = _measure(arguments, stack)
    except BenchError as error:
        sys.exit(str(error))
    table = Table("", title=f"{arguments.count:,} terminals on one node, {arguments.database}", show_header=False)
    table.add_column(justify="right")
    for name, figure in figures.items():
        table.add_row(name, figure)
    Console().print(table)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.terminals", description=__doc__)
    parser.add_argument("--count", type=int, default=2_000, help="of waiting terminals (%(default)s)")
    parser.add_argument("--seconds", type=float, default=60, help="in which nothing happens (%(default)s)")
    parser.add_argument("--poll-seconds", type=int, default=25, help="that a poll waits, at most 55 (%(default)s)")
    parser.add_argument("--rate", type=float, default=100, help="orders a second (%(default)s)")
    parser.add_argument("--orders", type=int, default=1_000, help="to send, each to another terminal (%(default)s)")
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--fleet", metavar="URL", help=argparse.SUPPRESS)
    parser.add_argument("--devices", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def _measure(arguments: argparse.Namespace, stack: ExitStack) -> Figures:
    console = Console(stderr=True)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="paydesk-bench-")))
    url = f"sqlite:{folder}/bench.db"
    if arguments.database == "postgres":
        postgres = Postgres(clients_max=0)
        stack.callback(postgres.end)
        url = postgres.create_database("terminals")
    terminals = arguments.orders + arguments.count
    console.print(f"seeding {terminals:,} terminals …")
    seeded = uvloop.run(_seed(url, terminals))
    port, counts = free_port(), folder / "counts.json"
    command = [sys.executable, "-m", "bench.node", url, str(port), str(counts)]
    process = stack.enter_context(started(command, port, "/livez"))
    measured = Measured(port, process.pid, counts, seeded, arguments, console)
    figures = uvloop.run(measured.run())
    console.print("virtual terminals take the sessions over …")
    figures["memory of a virtual terminal, its side"] = _fleet_memory(port, folder, measured.idle, arguments)
    return figures


class Measured:
    """The node while terminals wait and while orders come."""

    def __init__(
        self,
        port: int,
        pid: int,
        counts: Path,
        seeded: dict[str, Any],
        arguments: argparse.Namespace,
        console: Console,
    ) -> None:
        self._port, self._pid, self._counts = port, pid, counts
        self._seeded, self._arguments, self._console = seeded, arguments, console
        self.idle = seeded["devices"][arguments.orders :]
        self._waiting: set[int] = set()
        self._polls = 0

    async def run(self) -> Figures:
        """Return the figures."""
        async with asyncio.TaskGroup() as group:
            polls = await self._wait(group, self.idle[:WARM_TERMINALS])
            before_mb = await self._settled_mb()
            self._console.print(f"connecting {len(self.idle):,} terminals …")
            pause = self._arguments.poll_seconds / max(len(self.idle), 1)
            polls += await self._wait(group, self.idle[WARM_TERMINALS:], pause)
            after_mb = await self._settled_mb()
            figures = {
                "memory of the node for a waiting terminal": _kb(after_mb - before_mb, len(self.idle) - WARM_TERMINALS)
            }
            figures |= await self._idle_minute()
            figures |= await self._orders()
            for poll in polls:
                poll.cancel()
        return figures

    async def _idle_minute(self) -> Figures:
        seconds = self._arguments.seconds
        self._console.print(f"nothing happens for {seconds:g} s …")
        before, polls, spent = await self._statements(), self._polls, cpu_seconds(self._pid)
        began = time.monotonic()
        await asyncio.sleep(seconds)
        share = (cpu_seconds(self._pid) - spent) / (time.monotonic() - began)
        after = await self._statements()
        return {
            f"CPU of the node in {seconds:g} s": f"{share:.2%} of a core",
            "polls answered meanwhile": f"{self._polls - polls:,}",
            "statements to the database": f"{after['statements'] - before['statements']:,}",
            "  of them writing": f"{after.get('writing statements', 0) - before.get('writing statements', 0):,}",
            "transactions that write": f"{after.get('writes', 0) - before.get('writes', 0):,}",
        }

    async def _orders(self) -> Figures:
        if not self._arguments.orders:
            return {}
        self._console.print(f"{self._arguments.orders:,} orders, {self._arguments.rate:g} a second …")
        devices = self._seeded["devices"][: self._arguments.orders]
        run = Run(self._seeded["access_token"], devices, 0, self._arguments.rate)
        await run.go(self._port, self._port)
        if run.refused:
            raise BenchError(f"{len(run.refused)} requests were refused; the first: {run.refused[0]}")
        times = run.milliseconds()
        return {
            "from create to offer, p50": f"{times[len(times) // 2]:.1f} ms",
            "  p99": f"{times[int(len(times) * 0.99)]:.1f} ms",
            "  max": f"{times[-1]:.1f} ms",
        }

    async def _wait(
        self, group: asyncio.TaskGroup, devices: list[dict[str, str]], pause: float = 0
    ) -> list[asyncio.Task[None]]:
        """Let the terminals wait, the pause apart, and return their tasks once all do."""
        tasks = []
        expected = len(self._waiting) + len(devices)
        for device in devices:
            tasks.append(group.create_task(self._poll(device)))
            await asyncio.sleep(pause)
        while len(self._waiting) < expected:  # noqa: ASYNC110 - all tasks together have no event
            await asyncio.sleep(0.05)
        return tasks

    async def _poll(self, device: dict[str, str]) -> None:
        """Wait with one poll after another; the first is answered with the mode."""
        client = await connect(self._port)
        await self._ask(client, device)
        self._waiting.add(id(device))
        try:
            while True:
                await self._ask(client, device)
                self._polls += 1
        finally:
            client.close()

    async def _ask(self, client: Client, device: dict[str, str]) -> None:
        path = f"/device/v1/next?wait={self._arguments.poll_seconds}&boot_id={device['boot_id']}"
        status, message = await client.ask("GET", path, device["token"])
        assert status in (200, 204), f"a poll was answered {status}: {message}"

    async def _settled_mb(self) -> float:
        await asyncio.sleep(SETTLE_SECONDS)
        return memory_mb(self._pid)

    async def _statements(self) -> dict[str, int]:
        self._counts.unlink(missing_ok=True)
        os.kill(self._pid, signal.SIGUSR1)
        while not self._counts.exists():  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.01)
        counts: dict[str, int] = json.loads(self._counts.read_text())
        return counts


def _fleet_memory(port: int, folder: Path, devices: list[dict[str, str]], arguments: argparse.Namespace) -> str:
    """Let a process of its own run virtual terminals with these tokens, and return what it says of its memory."""
    file = folder / "devices.json"
    file.write_text(json.dumps([device["token"] for device in devices]))
    command = [sys.executable, "-m", "bench.terminals", "--fleet", f"http://127.0.0.1:{port}", "--devices", str(file)]
    command += ["--poll-seconds", str(arguments.poll_seconds)]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    if ended.returncode:
        raise BenchError(f"The virtual terminals failed: {ended.stderr}")
    return ended.stdout.strip()


async def _fleet(arguments: argparse.Namespace) -> None:
    """Run a virtual terminal for each token, and print the memory of each."""
    tokens: list[str] = json.loads(arguments.devices.read_text())
    node.allow_open_files(2 * len(tokens))
    fleet = Fleet(arguments.fleet, None, Pace(poll_seconds=arguments.poll_seconds), hidden=True)
    await fleet.start()
    waiting = list(enumerate(tokens))

    async def add() -> None:
        while waiting:
            number, token = waiting.pop()
            await fleet.add(f"T__{number}", token, "approve")

    while len(waiting) > len(tokens) - WARM_TERMINALS:
        number, token = waiting.pop()
        await fleet.add(f"T__{number}", token, "approve")
    await asyncio.sleep(SETTLE_SECONDS)
    before_mb = memory_mb(os.getpid())
    await asyncio.gather(*(add() for _ in range(CONNECTING_AT_ONCE)))
    await asyncio.sleep(SETTLE_SECONDS)
    after_mb = memory_mb(os.getpid())
    assert fleet.connected == len(tokens), f"{fleet.connected} of {len(tokens)} terminals are connected"
    sys.stdout.write(_kb(after_mb - before_mb, len(tokens) - WARM_TERMINALS))
    await fleet.stop()


def _kb(megabytes: float, terminals: int) -> str:
    return f"{megabytes * 1000 / max(terminals, 1):.1f} kB"


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
