"""`python -m bench.reconnects`: measure how fast a busy node answers many new connections.

Gets from 100 connections keep the node busy. Then 128, later 500 connections open at once and send one get each, as
terminals do after a network failure. `--other FOLDER` also measures another checkout, with its own .venv, in turns.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
import sys
import tempfile
import time
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import uvloop
from rich.console import Console
from rich.table import Table

from bench.load import BenchError, find_wrk
from bench.running import Running, service
from bench.seed import Sizes
from paydesk.platform.process import node

SIZES = Sizes(terminals=2_000, families=32, pollers=1)
REQUEST = "GET /v1/orders/{} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n"
SETTLE_SECONDS = 1.0
PAUSE_SECONDS = 0.5
"""Pause between two waves of connections."""

ANSWER_SECONDS_MAX = 30.0


@dataclass(frozen=True, slots=True)
class Wave:
    """A wave of connections: the times until the median and the last one were answered."""

    median_ms: float
    last_ms: float


@dataclass(frozen=True, slots=True)
class Round:
    """One run of a checkout: the p99 of the busy connections, and its waves by number of connections."""

    p99_ms: float
    waves: dict[int, Wave]


def main() -> None:
    """Measure, and print the times to the first answer."""
    arguments = _arguments()
    node.allow_open_files(max(arguments.sockets))
    checkouts = {"this checkout": Path.cwd()}
    if arguments.other:
        checkouts["the other one"] = arguments.other.resolve()
    try:
        find_wrk()
        rounds = _measure(checkouts, arguments)
    except BenchError as error:
        sys.exit(str(error))
    _show(rounds, arguments)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.reconnects", description=__doc__)
    parser.add_argument("--sockets", type=int, nargs="+", default=[128, 500], help="that open at once")
    parser.add_argument("--connections", type=int, default=100, help="that keep the node busy")
    parser.add_argument("--seconds", type=float, default=10, help="of one run")
    parser.add_argument("--runs", type=int, default=3, help="the medians are shown")
    parser.add_argument("--other", type=Path, metavar="FOLDER", help="another checkout, to compare with")
    return parser.parse_args()


def _measure(checkouts: dict[str, Path], arguments: argparse.Namespace) -> dict[str, list[Round]]:
    rounds: dict[str, list[Round]] = {name: [] for name in checkouts}
    console = Console(stderr=True)
    with contextlib.ExitStack() as stack:
        services = {}
        for name, checkout in checkouts.items():
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="paydesk-bench-"))
            url = f"sqlite:{folder}/bench.db"
            services[name] = stack.enter_context(service(url, SIZES, families_per_run=1, checkout=checkout))
        for number in range(arguments.runs):
            console.print(f"round {number + 1} of {arguments.runs} …")
            for name, running in services.items():
                rounds[name].append(_round(running, arguments))
    return rounds


def _round(running: Running, arguments: argparse.Namespace) -> Round:
    """Run the waves repeatedly while the load keeps the node busy."""
    with ThreadPoolExecutor(1) as pool:
        load = pool.submit(running.one, "get", arguments.connections, arguments.seconds)
        until = time.monotonic() + arguments.seconds - SETTLE_SECONDS
        time.sleep(SETTLE_SECONDS)
        waves: dict[int, list[Wave]] = {}
        while time.monotonic() < until and not load.done():
            for count in arguments.sockets:
                waves.setdefault(count, []).append(uvloop.run(_wave(running, count)))
                time.sleep(PAUSE_SECONDS)
        p99_ms = load.result().p99_ms
    return Round(p99_ms, {count: _median(of_count) for count, of_count in waves.items()})


def _median(waves: list[Wave]) -> Wave:
    return Wave(statistics.median(wave.median_ms for wave in waves), statistics.median(wave.last_ms for wave in waves))


async def _wave(running: Running, count: int) -> Wave:
    address = urllib.parse.urlsplit(running.url)
    assert address.hostname is not None
    assert address.port is not None
    request = REQUEST.format(running.orders[0], address.netloc, running.seeded["access_token"]).encode()
    began = time.perf_counter()

    async def answered_ms(host: str, port: int) -> float:
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(request)
        answer = await reader.readuntil(b"\r\n\r\n")
        seconds = time.perf_counter() - began
        writer.close()
        if not answer.startswith(b"HTTP/1.1 200"):
            raise BenchError(f"A new connection was answered otherwise than it should be: {answer!r}")
        return seconds * 1000

    async with asyncio.timeout(ANSWER_SECONDS_MAX):
        times = await asyncio.gather(*(answered_ms(address.hostname, address.port) for _ in range(count)))
    return Wave(statistics.median(times), max(times))


def _show(rounds: dict[str, list[Round]], arguments: argparse.Namespace) -> None:
    title = f"first answers beside {arguments.connections} busy connections, ms"
    table = Table("", "connections", "median", "last", "busy p99", "last / p99", title=title)
    for name, made in rounds.items():
        p99_ms = statistics.median(one.p99_ms for one in made)
        for count in arguments.sockets:
            wave = _median([one.waves[count] for one in made if count in one.waves])
            ratio = wave.last_ms / p99_ms
            table.add_row(
                name, f"{count}", f"{wave.median_ms:.0f}", f"{wave.last_ms:.0f}", f"{p99_ms:.0f}", f"{ratio:.1f}"
            )
    Console().print(table)


if __name__ == "__main__":
    main()
