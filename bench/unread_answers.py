"""`python -m bench.unread_answers`: measure the effect of 200 sockets that pipeline requests and read no answer.

The node allows 100 connections. Other clients send a get every 20 ms, half of them on persistent connections, half on
new ones; an answer within 2 s counts. A closed socket reconnects at once. `--other FOLDER` also measures another
checkout, with its own .venv, in turns.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import uvloop
from rich.console import Console
from rich.table import Table

from bench.load import BenchError
from bench.running import Running, service
from bench.seed import Sizes
from paydesk.platform.process import node

SIZES = Sizes(terminals=600, families=1, pollers=1)
REQUESTS = b"GET /v1/orders/ORD01J67CQQH5904WDBVZEM4JMEP3 HTTP/1.1\r\nHost: %s\r\n\r\n" * 1_000
GET = "GET /v1/orders/{} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\r\n"
CLIENTS = 8
PAUSE_SECONDS = 0.02
ANSWER_SECONDS_MAX = 2.0
AGAIN_SECONDS = 0.05
SETTLE_SECONDS = 2.0


@dataclass(slots=True)
class Served:
    """The results of the other clients."""

    tried: int = 0
    answered_ms: list[float] = field(default_factory=list)


def main() -> None:
    """Measure, and print the share of answered requests."""
    arguments = _arguments()
    node.allow_open_files(arguments.sockets)
    if arguments.send_to:
        with contextlib.suppress(KeyboardInterrupt):
            pipeline_and_never_read(arguments.send_to, arguments.sockets)
        return
    checkouts = {"this checkout": Path.cwd()}
    if arguments.other:
        checkouts["the other one"] = arguments.other.resolve()
    try:
        rows = {name: _measure(checkout, arguments) for name, checkout in checkouts.items()}
    except BenchError as error:
        sys.exit(str(error))
    _show(rows, arguments)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.unread_answers", description=__doc__)
    parser.add_argument("--sockets", type=int, default=200, help="that pipeline and never read")
    parser.add_argument("--connections-max", type=int, default=100, help="that the node takes")
    parser.add_argument("--seconds", type=float, default=15, help="of one run")
    parser.add_argument("--other", type=Path, metavar="FOLDER", help="another checkout, to compare with")
    parser.add_argument("--send-to", metavar="URL", help=argparse.SUPPRESS)
    return parser.parse_args()


def _measure(checkout: Path, arguments: argparse.Namespace) -> list[Served]:
    """Measure without and with these sockets."""
    variables = {"PAYDESK_CONNECTIONS_MAX": str(arguments.connections_max)}
    with (
        tempfile.TemporaryDirectory(prefix="paydesk-bench-") as folder,
        service(f"sqlite:{folder}/bench.db", SIZES, 1, checkout=checkout, variables=variables) as running,
    ):
        without = uvloop.run(_serve_others(running, arguments.seconds))
        with pipelining(running.url, arguments.sockets):
            time.sleep(SETTLE_SECONDS)
            return [without, uvloop.run(_serve_others(running, arguments.seconds))]


async def _serve_others(running: Running, seconds: float) -> Served:
    address = urllib.parse.urlsplit(running.url)
    request = GET.format(running.orders[0], address.netloc, running.seeded["access_token"]).encode()
    served, until = Served(), time.monotonic() + seconds
    every = [_client(running.url, request, served, until, kept=number % 2 == 0) for number in range(CLIENTS)]
    await asyncio.gather(*every)
    return served


async def _client(url: str, request: bytes, served: Served, until: float, *, kept: bool) -> None:
    address = urllib.parse.urlsplit(url)
    writer: asyncio.StreamWriter | None = None
    while time.monotonic() < until:
        served.tried += 1
        began = time.perf_counter()
        with contextlib.suppress(OSError, EOFError, TimeoutError):
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                if writer is None:
                    reader, writer = await asyncio.open_connection(address.hostname, address.port)
                writer.write(request)
                head = await reader.readuntil(b"\r\n\r\n")
                length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(length))
            if head.startswith(b"HTTP/1.1 200"):
                served.answered_ms.append((time.perf_counter() - began) * 1000)
                if kept:
                    await asyncio.sleep(PAUSE_SECONDS)
                    continue
        if writer is not None:
            writer.close()
            writer = None
        await asyncio.sleep(PAUSE_SECONDS)


@contextlib.contextmanager
def pipelining(url: str, sockets: int) -> Iterator[None]:
    """Run a separate process with that many sockets that pipeline and never read, until the end of the block."""
    command = [sys.executable, "-m", "bench.unread_answers", "--send-to", url, "--sockets", str(sockets)]
    process = subprocess.Popen(command)
    try:
        yield
        if process.poll() is not None:
            raise BenchError("The sockets that pipeline have ended.")
    finally:
        process.kill()
        process.wait()


def pipeline_and_never_read(url: str, sockets: int) -> None:
    """Write requests to each socket while it accepts them; reconnect a closed one."""
    address = urllib.parse.urlsplit(url)
    assert address.hostname is not None
    assert address.port is not None
    target = (address.hostname, address.port)
    requests = REQUESTS.replace(b"%s", address.netloc.encode())
    selector = selectors.DefaultSelector()
    for _ in range(sockets):
        _begin(selector, target)
    while True:
        for key, _ in selector.select():
            connection = key.fileobj
            assert isinstance(connection, socket.socket)
            try:
                connection.send(requests)
            except BlockingIOError:
                continue
            except OSError:
                selector.unregister(connection)
                connection.close()
                time.sleep(AGAIN_SECONDS / sockets)
                _begin(selector, target)


def _begin(selector: selectors.BaseSelector, target: tuple[str, int]) -> None:
    connection = socket.socket()
    connection.setblocking(False)
    connection.connect_ex(target)
    selector.register(connection, selectors.EVENT_WRITE)


def _show(rows: dict[str, list[Served]], arguments: argparse.Namespace) -> None:
    title = f"other clients beside {arguments.sockets} sockets that never read, {arguments.connections_max} connections"
    table = Table("", "", "answered / tried", "median ms", "p99 ms", title=title)
    for name, runs in rows.items():
        for how, served in zip(("without them", "beside them"), runs, strict=True):
            times = sorted(served.answered_ms) or [float("nan")]
            p99 = times[len(times) * 99 // 100]
            table.add_row(
                name,
                how,
                f"{len(served.answered_ms):,} / {served.tried:,}",
                f"{statistics.median(times):.1f}",
                f"{p99:.1f}",
            )
    Console().print(table)


if __name__ == "__main__":
    main()
