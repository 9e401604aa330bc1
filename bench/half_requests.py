"""`python -m bench.half_requests`: measure the effect of 2,000 sockets that send half a request.

Gets from 32 connections, with and without these sockets in turns. Half of them stop in the middle of the head, half in
the middle of the body; a closed one reconnects at once. They are opened by a separate process.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Iterator

from rich.console import Console
from rich.table import Table

from bench.load import BenchError, Measured, find_wrk
from bench.running import Running, service
from bench.seed import Sizes
from paydesk.platform.process import node

SIZES = Sizes(terminals=2_000, families=32)
HEAD = "POST /v1/orders HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n"
SETTLE_SECONDS = 6.0
"""Longer than the request timeouts: by then sockets are closed and reconnect all the time."""


def main() -> None:
    """Measure, and print the ratio."""
    arguments = _arguments()
    if arguments.send_to:
        node.allow_open_files(arguments.sockets)
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_send_halves(arguments.send_to, arguments.sockets))
        return
    try:
        find_wrk()
        with (
            tempfile.TemporaryDirectory(prefix="paydesk-bench-") as folder,
            service(f"sqlite:{folder}/bench.db", SIZES, families_per_run=1) as running,
        ):
            rows = _measure(running, arguments)
    except BenchError as error:
        sys.exit(str(error))
    _show(rows, arguments.sockets)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.half_requests", description=__doc__)
    parser.add_argument("--sockets", type=int, default=2_000, help="that send half a request")
    parser.add_argument("--connections", type=int, default=32, help="that send whole ones")
    parser.add_argument("--seconds", type=float, default=5, help="of one run")
    parser.add_argument("--runs", type=int, default=3, help="with and without; the medians are shown")
    parser.add_argument("--send-to", metavar="URL", help=argparse.SUPPRESS)
    return parser.parse_args()


def _measure(running: Running, arguments: argparse.Namespace) -> list[tuple[Measured, Measured]]:
    rows = []
    console = Console(stderr=True)
    for number in range(arguments.runs):
        console.print(f"round {number + 1} of {arguments.runs} …")
        without = running.one("get", arguments.connections, arguments.seconds)
        with _halves(running.url, arguments.sockets):
            rows.append((without, running.one("get", arguments.connections, arguments.seconds)))
    return rows


def _show(rows: list[tuple[Measured, Measured]], sockets: int) -> None:
    table = Table("", "gets per second", "p99 ms", "CPU µs", title=f"{sockets:,} sockets with half a request")
    for name, column in (("without them", 0), ("beside them", 1)):
        runs = [pair[column] for pair in rows]
        rate, p99, cpu = (
            statistics.median(getattr(run, field) for run in runs) for field in ("per_second", "p99_ms", "cpu_us")
        )
        table.add_row(name, f"{rate:,.0f}", f"{p99:.1f}", f"{cpu:.0f}")
    ratio = statistics.median(beside.per_second / without.per_second for without, beside in rows)
    console = Console()
    console.print(table)
    console.print(f"throughput beside them: {ratio:.2f} of what it is without")


@contextlib.contextmanager
def _halves(url: str, sockets: int) -> Iterator[None]:
    command = [sys.executable, "-m", "bench.half_requests", "--send-to", url, "--sockets", str(sockets)]
    process = subprocess.Popen(command)
    try:
        time.sleep(SETTLE_SECONDS)
        if process.poll() is not None:
            raise BenchError("The sockets with half a request have ended.")
        yield
    finally:
        process.terminate()
        process.wait()


async def _send_halves(url: str, sockets: int) -> None:
    address = urllib.parse.urlsplit(url)
    head = HEAD.format(host=address.netloc).encode()
    assert address.hostname is not None
    assert address.port is not None
    await asyncio.gather(
        *(_send_half(address.hostname, address.port, (head, head[:40])[place % 2]) for place in range(sockets))
    )


async def _send_half(host: str, port: int, half: bytes) -> None:
    """Send half a request, and again on a new connection as soon as it is closed."""
    while True:
        try:
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(half)
            while await reader.read(4096):
                pass
            writer.close()
        except OSError:
            await asyncio.sleep(0.01)


if __name__ == "__main__":
    main()
