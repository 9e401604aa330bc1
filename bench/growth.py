"""`python -m bench.growth`: compare request costs at 1,000 and 1,000,000 orders, and measure memory growth.

Two services, one on a database with 1,000 orders and one with 1,000,000 (each with its events, deliveries, key and
lease), are loaded in turns, so that other load on the machine affects both. With `--memory` one service creates and
processes orders over its own interfaces instead, and its memory is printed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench import bulk, processing
from bench.load import BenchError, Measured, find_wrk
from bench.postgres import Postgres
from bench.running import Running, free_port, lua, started
from bench.seed import Sizes
from paydesk.core.clock import SystemClock
from paydesk.platform.storage.connect import open_database

FEW = 1000
CREATES_PER_SECOND_MAX = 10_000
TERMINALS_MIN = 100_000
NEWEST, ANY = 500, 20_000
OPERATIONS = {"create": "create", "get, the newest": "get", "get, any": "get"}
"""The label, and the load's script. Random orders may be missing in the database's cache; the newest are in it."""


@dataclass(frozen=True, slots=True)
class Grown:
    """A service on a database with that many orders."""

    orders: int
    newest: Running
    any: Running

    def runs(self, operation: str) -> Running:
        """Return the service to load."""
        return self.any if operation == "get, any" else self.newest


def main() -> None:
    """Measure what the arguments select, and print the table."""
    arguments = _arguments()
    console = Console(stderr=True)
    try:
        with _databases(arguments.database) as new_database, Progress(console=console) as progress:
            if arguments.memory:
                table = _memory(new_database("memory"), arguments, progress)
            else:
                find_wrk()
                table = _cost(new_database, arguments, progress)
    except BenchError as error:
        sys.exit(str(error))
    Console().print(table)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.growth", description=__doc__)
    parser.add_argument("--database", default="sqlite", choices=["sqlite", "postgres"])
    parser.add_argument("--orders", type=int, default=1_000_000, help="how many there are, or are made with --memory")
    parser.add_argument("--memory", action="store_true", help="create and process orders, and watch the memory")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=2, help="of one run")
    parser.add_argument("--runs", type=int, default=5, help="of each operation on each database; medians are shown")
    return parser.parse_args()


def _sizes(arguments: argparse.Namespace) -> Sizes:
    """Return the number of terminals: a free one for each possible create, including the warm-up."""
    creates = int(CREATES_PER_SECOND_MAX * arguments.seconds * (arguments.runs + 1))
    return Sizes(terminals=max(creates, TERMINALS_MIN), families=1)


@contextlib.contextmanager
def _databases(kind: str) -> Iterator[Callable[[str], str]]:
    """Yield a function that creates a database of this kind; all are removed at the end."""
    if kind == "postgres":
        postgres = Postgres(clients_max=0)
        try:
            yield postgres.create_database
        finally:
            postgres.end()
        return
    with tempfile.TemporaryDirectory(prefix="paydesk-growth-") as folder:
        yield lambda name: f"sqlite:{folder}/{name}.db"


@contextlib.contextmanager
def _service(
    url: str, sizes: Sizes, orders: int = 0, on_progress: Callable[[int], object] = lambda _: None
) -> Iterator[Grown]:
    """Run the service on a database with that many orders, half of them of the seller that calls."""
    with tempfile.TemporaryDirectory(prefix="paydesk-growth-") as name:
        folder, port = Path(name), free_port()
        seed = folder / "seed.json"
        arguments = [url, str(port), str(seed), str(sizes.terminals), str(sizes.families)]
        command = [sys.executable, "-m", "bench.service", *arguments]
        if orders:
            with started(command, port, "/noop"):
                pass  # This process migrates and seeds; a SQLite file can be used by one process at a time.
            asyncio.run(_fill(url, json.loads(seed.read_text())["seller_id"], orders, on_progress))
        with started(command, port, "/noop") as process:
            yield Grown(
                orders,
                _running(port, process, folder, sizes, range(max(orders - 2 * NEWEST, 0), orders, 2)),
                _running(port, process, folder, sizes, range(0, orders, 2)),
            )


def _running(port: int, process: subprocess.Popen[bytes], folder: Path, sizes: Sizes, numbers: range) -> Running:
    """Return the service with up to `ANY` of these orders to get; every second one is of the seller that calls."""
    own = Path(tempfile.mkdtemp(dir=folder))
    shutil.copy(folder / "seed.json", own)
    running = Running(f"http://127.0.0.1:{port}", process, own, sizes)
    ids = [bulk.order_id(number) for number in random.sample(numbers, min(len(numbers), ANY))]
    known = {"orders": ids, "families_per_run": 1, "terminals": sizes.terminals - sizes.pollers}
    (own / "seed.lua").write_text("return " + lua({**running.seeded, **known}))
    return running


async def _fill(url: str, seller_id: int, orders: int, on_progress: Callable[[int], object]) -> None:
    database = await open_database(url)
    # The last order is a minute old, so that none is pruned during the run.
    since_ms = SystemClock().now_ms() - 60_000 - orders * 1000
    await bulk.fill(database, seller_id, orders, since_ms=since_ms, on_progress=on_progress)
    if database.name == "postgres":
        await database.write(lambda tx: tx.run("ANALYZE"))
    await database.close()


# What an order costs ------------------------------------------------------------------------------------------------


def _cost(new_database: Callable[[str], str], arguments: argparse.Namespace, progress: Progress) -> Table:
    filling = progress.add_task("filling", total=arguments.orders)
    sizes = _sizes(arguments)

    def on_progress(done: int) -> None:
        progress.update(filling, completed=done)

    with (
        _service(new_database("few"), sizes, FEW) as few,
        _service(new_database("many"), sizes, arguments.orders, on_progress) as many,
    ):
        grown = (few, many)
        measured = _in_turns(grown, arguments, progress)
    table = Table(title=f"{arguments.database}: medians of {arguments.runs} runs, {arguments.connections} connections")
    for heading in ("operation", "orders", "CPU µs", "p50 ms", "p99 ms", "per second"):
        table.add_column(heading, justify="left" if heading == "operation" else "right")
    for operation in OPERATIONS:
        cpu_us = [_row(table, operation, one.orders, measured[operation, one.orders]) for one in grown]
        table.add_row("", "ratio", f"{cpu_us[1] / cpu_us[0]:.2f}", "", "", "", end_section=True)
    return table


def _in_turns(
    grown: tuple[Grown, ...], arguments: argparse.Namespace, progress: Progress
) -> dict[tuple[str, int], list[Measured]]:
    measured: dict[tuple[str, int], list[Measured]] = {(name, one.orders): [] for name in OPERATIONS for one in grown}
    task = progress.add_task("measuring", total=(arguments.runs + 1) * len(measured))
    for run in range(arguments.runs + 1):
        for (operation, orders), runs in measured.items():
            running = next(one.runs(operation) for one in grown if one.orders == orders)
            made = running.one(OPERATIONS[operation], arguments.connections, arguments.seconds)
            if run:  # the first one warms up
                runs.append(made)
            progress.advance(task)
    return measured


def _row(table: Table, operation: str, orders: int, runs: list[Measured]) -> float:
    cpu_us = statistics.median(run.cpu_us or 0 for run in runs)
    p50_ms, p99_ms, per_second = (
        statistics.median(getattr(run, name) for run in runs) for name in ("p50_ms", "p99_ms", "per_second")
    )
    table.add_row(operation, f"{orders:,}", f"{cpu_us:.0f}", f"{p50_ms:.2f}", f"{p99_ms:.2f}", f"{per_second:,.0f}")
    return cpu_us


# What memory it takes -----------------------------------------------------------------------------------------------


def _memory(url: str, arguments: argparse.Namespace, progress: Progress) -> Table:
    task = progress.add_task("creating and processing", total=arguments.orders)
    sizes = _sizes(arguments)
    with _service(url, sizes) as grown:
        samples = asyncio.run(
            processing.process(
                grown.newest,
                arguments.orders,
                arguments.connections,
                sizes,
                lambda done: progress.update(task, completed=done),
            )
        )
    table = Table(title=f"{arguments.database}: memory while {arguments.orders:,} orders are created and processed")
    table.add_column("orders", justify="right")
    table.add_column("MB", justify="right")
    for count, megabytes in samples:
        table.add_row(f"{count:,}", f"{megabytes:.1f}")
    orders, megabytes_then = zip(*samples[len(samples) // 2 :], strict=True)
    slope = statistics.linear_regression(orders, megabytes_then).slope
    table.add_row("second half", f"{slope * 100_000:+.1f} per 100,000")
    return table


if __name__ == "__main__":
    main()
