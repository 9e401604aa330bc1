"""`python -m bench`: creates, gets, refreshes and polls a second, durable, all checks on, beside a no-op route.

The load comes from a process of its own; every create is on a free terminal of its own with a key of its own, every
refresh rotates. The ratio to the no-op route of the same server in the same run is what can be compared across
machines; the figures themselves are this machine's.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench.load import Measured, WrkMissing, measure

OPERATIONS = ("noop", "get", "poll", "refresh", "create")
CONNECTIONS = (1, 32, 128, 256)
ORDERS = 500
START_SECONDS_MAX = 180.0


def main() -> None:
    """Run what the arguments ask for, and print the table."""
    arguments = _arguments()
    console = Console(stderr=True)
    measured: dict[str, list[Measured]] = {}
    try:
        for database in arguments.databases:
            with _database(database) as url, _service(url, console) as running, Progress(console=console) as progress:
                measured[database] = _measure_all(running, arguments, progress, database)
    except WrkMissing as missing:
        sys.exit(str(missing))
    for database, rows in measured.items():
        Console().print(table(database, rows))
    if arguments.json:
        arguments.json.write_text(json.dumps({name: [_plain(row) for row in rows] for name, rows in measured.items()}))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--databases", nargs="+", default=["sqlite", "postgres"], choices=["sqlite", "postgres"])
    parser.add_argument("--connections", nargs="+", type=int, default=list(CONNECTIONS))
    parser.add_argument("--operations", nargs="+", default=list(OPERATIONS), choices=OPERATIONS)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--runs", type=int, default=3, help="the median of so many is shown")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the figures")
    return parser.parse_args()


class Running:
    """The service under load, and how many terminals have had their order."""

    def __init__(self, url: str, pid: int, seed: Path) -> None:
        self.url, self.pid, self.seed, self.used, self.refreshed = url, pid, seed, 0, 0

    def one(self, operation: str, connections: int, seconds: float) -> Measured:
        """One run of one operation."""
        made = measure(
            operation,
            connections,
            seconds,
            url=self.url,
            pid=self.pid,
            seed=self.seed,
            first=self.used,
            run=self.refreshed,
        )
        if operation == "create":
            self.used += made.requests + connections
        self.refreshed += operation == "refresh"
        return made


def _measure_all(running: Running, arguments: argparse.Namespace, progress: Progress, name: str) -> list[Measured]:
    rows = []
    steps = [(operation, count) for count in arguments.connections for operation in arguments.operations]
    task = progress.add_task(name, total=len(steps) * arguments.runs)
    for operation, connections in steps:
        runs = []
        for _ in range(arguments.runs):
            progress.update(task, description=f"{name}: {operation} from {connections}")
            runs.append(running.one(operation, connections, arguments.seconds))
            progress.advance(task)
        rows.append(_median(runs))
    return rows


def _median(runs: list[Measured]) -> Measured:
    middle = statistics.median_low(run.per_second for run in runs)
    return next(run for run in runs if run.per_second == middle)


def table(database: str, rows: list[Measured]) -> Table:
    """The figures of one database, with each ratio to the no-op route under as many connections."""
    shown = Table(title=f"{database}: medians")
    for heading in ("operation", "connections", "per second", "of no-op", "p50 ms", "p99 ms", "CPU µs", "MB"):
        shown.add_column(heading, justify="left" if heading == "operation" else "right")
    idle = {row.connections: row.per_second for row in rows if row.operation == "noop"}
    for row in rows:
        ratio = f"{row.per_second / idle[row.connections]:.2f}" if row.connections in idle else "-"
        shown.add_row(
            row.operation,
            str(row.connections),
            f"{row.per_second:,.0f}",
            ratio,
            f"{row.p50_ms:.2f}",
            f"{row.p99_ms:.2f}",
            f"{row.cpu_us:.0f}",
            f"{row.memory_mb:.0f}",
        )
    return shown


def _plain(row: Measured) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__slots__}


@contextlib.contextmanager
def _database(kind: str) -> Iterator[str]:
    """A fresh database: a file, or a private PostgreSQL with fsync as in production."""
    with tempfile.TemporaryDirectory(prefix="paydesk-bench-") as folder:
        if kind == "sqlite":
            yield f"sqlite:{folder}/bench.db"
            return
        sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
        from postgres_server import PostgresServer  # type: ignore[import-not-found, unused-ignore]

        postgres = PostgresServer.start()
        try:
            yield postgres.create_database("bench")
        finally:
            postgres.end()


@contextlib.contextmanager
def _service(database_url: str, console: Console) -> Iterator[Running]:
    """The service on that database, seeded; its orders to get are made over its own interface."""
    folder = Path(tempfile.mkdtemp(prefix="paydesk-bench-"))
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    seed, url = folder / "seed.json", f"http://127.0.0.1:{port}"
    console.print(f"seeding {database_url.partition(':')[0]} …")
    process = subprocess.Popen([sys.executable, "-m", "bench.service", database_url, str(port), str(seed)])
    try:
        _wait_until_it_answers(url, process)
        running = Running(url, process.pid, folder / "seed.lua")
        seeded = json.loads(seed.read_text())
        seeded["orders"] = [_create(url, seeded["access_token"], number) for number in range(1, ORDERS + 1)]
        running.used = ORDERS + 1
        for device in seeded["devices"]:
            _poll_once(url, device)
        running.seed.write_text("return " + lua(seeded))
        yield running
    finally:
        process.terminate()
        process.wait(30)
        shutil.rmtree(folder)


def _wait_until_it_answers(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while True:
        try:
            urllib.request.urlopen(url + "/noop", timeout=1).close()
        except OSError:
            assert process.poll() is None, "the service did not start"
            assert time.monotonic() < deadline, "the service does not answer"
            time.sleep(0.1)
        else:
            return


def _create(url: str, token: str, number: int) -> str:
    body = {
        "type": "point",
        "transactions": {"payments": [{"amount": "24.90"}]},
        "config": {"point": {"terminal_id": f"NEWLAND_N950__N{100_000_000 + number}"}},
    }
    headers = {
        "Authorization": f"Bearer {token}",
        "Content-Type": "application/json",
        "X-Idempotency-Key": str(uuid.uuid4()),
    }
    request = urllib.request.Request(f"{url}/v1/orders", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        order_id: str = json.load(answer)["id"]
        return order_id


def _poll_once(url: str, device: dict[str, str]) -> None:
    """A terminal that is new to the node is told its mode; from then on it has nothing to do."""
    headers = {"Authorization": f"Bearer {device['token']}"}
    request = urllib.request.Request(f"{url}/device/v1/next?wait=0&boot_id={device['boot_id']}", headers=headers)
    urllib.request.urlopen(request, timeout=10).close()


def lua(value: Any) -> str:
    """The value as a Lua literal."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{name}={lua(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "{" + ",".join(lua(item) for item in value) + "}"
    return json.dumps(value)


if __name__ == "__main__":
    main()
