"""`python -m bench.instructions`: count the instructions per request of a node with cachegrind.

Counts hardly depend on other load, so they show changes of a few percent that rates do not. A node and client run in
one process: each operation runs twice with different numbers of requests, and the difference excludes the start. The
client's instructions are included and equal on both sides of a comparison; the row `noop` shows them with those
of the HTTP server.

`--against FOLDER` also counts another checkout, in turns, and prints the ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import uvloop
from rich.console import Console
from rich.table import Table

from bench.load import BenchError
from bench.postgres import Postgres
from bench.seed import FIRST_SERIAL, KEYS, TERMINAL_PREFIX, Sizes, seed

ROOT = Path(__file__).parent.parent
OPERATIONS = ("noop", "get", "poll", "create", "create-unwatched", "create-watched", "refresh")
DATABASES = ("sqlite", "postgresql")
WARM_UP, FEW, MANY = 100, 200, 1_200
"""Number of requests of the warm-up, the short run and the long run."""

VIEWERS, CREATES_PER_MESSAGE, CREATES_PER_CHECK = 50, 625, 150
"""`create-watched`: pages of the console are open. 40 messages a second in all at 500 creates/s are one in 625 creates.

Each page's session is checked every 15 s, which is one check in 150 creates. Neither is timed, because cachegrind makes
a request 30 times slower, but not a timer. `create-unwatched` is the same service, of which no page is open.
"""

SIZES = Sizes(terminals=WARM_UP + MANY + 100, families=64, pollers=16)
_COUNTED = re.compile(r"I\s+refs:\s+([\d,]+)")


def main() -> None:
    """Count, and print the table."""
    arguments = _arguments()
    if arguments.inside:
        uvloop.run(_inside(*arguments.inside))
        return
    if shutil.which("valgrind") is None:
        sys.exit("valgrind is missing. Debian, Ubuntu: apt-get install valgrind")
    sources = [ROOT] if arguments.against is None else [arguments.against.resolve(), ROOT]
    try:
        with _databases(arguments.databases) as fresh:
            counts = _count(sources, fresh, arguments)
    except BenchError as error:
        sys.exit(str(error))
    _show(counts, sources)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.instructions", description=__doc__)
    parser.add_argument("--databases", nargs="+", default=["sqlite"], choices=DATABASES)
    parser.add_argument("--operations", nargs="+", default=list(OPERATIONS), choices=OPERATIONS)
    parser.add_argument("--against", type=Path, metavar="FOLDER", help="another checkout of Paydesk")
    parser.add_argument("--inside", nargs=3, metavar=("OPERATION", "COUNT", "DATABASE_URL"), help=argparse.SUPPRESS)
    return parser.parse_args()


Fresh = dict[str, Callable[[], str]]
Counts = dict[tuple[str, str], list[float]]


@contextlib.contextmanager
def _databases(names: list[str]) -> Iterator[Fresh]:
    """Yield, for each kind of database, a function that creates an empty one and returns its URL."""
    with tempfile.TemporaryDirectory(prefix="paydesk-bench-") as folder, contextlib.ExitStack() as stack:
        numbers = iter(range(1_000_000))
        fresh: Fresh = {"sqlite": lambda: f"sqlite:{folder}/{next(numbers)}.db"}
        if "postgresql" in names:
            server = Postgres(1)
            stack.callback(server.end)
            fresh["postgresql"] = lambda: server.create_database(f"instructions_{next(numbers)}")
        yield fresh


def _count(sources: list[Path], fresh: Fresh, arguments: argparse.Namespace) -> Counts:
    console, counts = Console(stderr=True), Counts()
    for database in arguments.databases:
        for operation in arguments.operations:
            for source in sources:
                console.print(f"{database}, {operation}, {source.name} …")
                few, many = (_instructions(source, operation, count, fresh[database]()) for count in (FEW, MANY))
                counts.setdefault((database, operation), []).append((many - few) / (MANY - FEW))
    return counts


def _instructions(source: Path, operation: str, count: int, database_url: str) -> int:
    """Return the instructions of a process that makes that many requests. Raises `BenchError`."""
    program = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", sys.executable]
    finished = subprocess.run(
        [*program, "-m", "bench.instructions", "--inside", operation, str(count), database_url],
        env={**os.environ, "PYTHONPATH": f"{source / 'src'}:{ROOT}", "PYTHONHASHSEED": "0"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    counted = _COUNTED.search(finished.stderr)
    if finished.returncode or counted is None:
        raise BenchError(f"{operation} with {source}: {finished.stderr[-2000:]}")
    return int(counted[1].replace(",", ""))


def _show(counts: Counts, sources: list[Path]) -> None:
    columns = ["instructions a request"] if len(sources) == 1 else [f"{sources[0].name}", "this one", "ratio"]
    table = Table("database", "operation", *columns)
    for (database, operation), row in counts.items():
        cells = [f"{count:,.0f}" for count in row]
        table.add_row(database, operation, *cells, *([] if len(row) == 1 else [f"{row[1] / row[0]:.4f}"]))
    Console(width=110).print(table)


async def _inside(operation: str, count: str, database_url: str) -> None:
    """Serve and call in this process, which cachegrind runs."""
    from starlette.routing import Route

    from bench.service import NoOp
    from paydesk import logs, node, settings
    from paydesk.app import build_app, create_shared
    from paydesk.core.clock import SystemClock
    from paydesk.http import server
    from paydesk.serve import CLIENT_SURFACES
    from paydesk.storage.migrate import migrate

    chosen = settings.load(database_url=database_url, order_expiration_default="PT3H", **settings.UNTHROTTLED)
    logs.configure("json", sys.stderr, level="warning")
    async with node.database_of(chosen) as database:
        clock, stop, ready = SystemClock(), asyncio.Event(), asyncio.Event()
        await migrate(database, clock.now_ms())
        seeded = await seed(database, clock.now_ms(), SIZES)
        shared = create_shared(chosen, database, KEYS, clock)
        surfaces: tuple[Any, ...] = CLIENT_SURFACES
        viewers = VIEWERS if operation == "create-watched" else 0
        if operation.endswith("watched"):
            from paydesk.operators import sessions
            from paydesk.web import hints as live

            vars(live)["COMMENT_SECONDS"] = 3600
            hints = live.Hints(database.signals, streams_max=VIEWERS, per_reader_max=VIEWERS, spacing_seconds=3600)
            shared, surfaces = replace(shared, hints=hints), (*CLIENT_SURFACES, "console")
        app = build_app(shared, surfaces)
        app.routes.insert(0, Route("/noop", NoOp()))
        listener = server.bind("127.0.0.1", 0)
        host, port = listener.getsockname()
        serving = asyncio.create_task(server.serve(app, listener, chosen, ready.set, stop))
        await ready.wait()
        async with _Client(host, port, seeded) as client:
            calls = {"noop": client.noop, "get": client.get, "poll": client.poll, "refresh": client.refresh}
            creates = dict.fromkeys(("create", "create-unwatched", "create-watched"), client.create)
            call: Callable[[], Awaitable[Any]] = {**calls, **creates}[operation]
            tokens = [await _sign_in(database, clock.now_ms()) for _ in range(viewers)]
            viewing = [asyncio.create_task(_view(host, port, token)) for token in tokens]
            while viewers and len(hints) < viewers:  # noqa: ASYNC110 - the streams are opened by requests
                await asyncio.sleep(0.01)
            # As a node does: collect garbage seldom, and not in what is there from the start.
            gc.collect()
            gc.freeze()
            gc.set_threshold(node.YOUNG_OBJECTS_MAX)
            for number in range(WARM_UP + int(count)):
                await call()
                if viewers and number % CREATES_PER_MESSAGE == 0:
                    hints.flush()
                if viewers and number % CREATES_PER_CHECK == 0:
                    await sessions.opened(database, tokens[0], clock.now_ms(), idle_ms=3_600_000, is_use=False)
            for task in viewing:
                task.cancel()
        database.signals.stop()
        stop.set()
        await serving


async def _sign_in(database: Any, now_ms: int) -> str:
    """Begin a session of a new operator and return its token."""
    from paydesk.operators import credentials, sessions

    async def work(tx: Any) -> str:
        operator_id = await credentials.add_operator(tx, credentials.new_token(), "viewer", "support", now_ms)
        token = await sessions.begin(
            tx,
            operator_id,
            address="127.0.0.1",
            user_agent="",
            now_ms=now_ms,
            expires_ms=now_ms + 3_600_000,
        )
        assert token is not None, "the operator is valid"
        return token.reveal()

    token: str = await database.write(work)
    return token


async def _view(host: str, port: int, token: str) -> None:
    """Read the stream of an open page."""
    reader, writer = await asyncio.open_connection(host, port)
    cookie = f"Cookie: paydesk_operator_{port}={token}"
    writer.write(f"GET /console/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{cookie}\r\n\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head
    while await reader.read(65_536):
        pass


class _Client:
    """Send one request after the other on one connection, and check the status of each response."""

    def __init__(self, host: str, port: int, seeded: dict[str, Any]) -> None:
        self._host, self._port, self._seeded = host, port, seeded
        self._numbers, self._order_id, self._families = iter(range(SIZES.terminals)), "", seeded["refresh_tokens"]

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
        self._order_id = (await self.create())["id"]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def noop(self) -> None:
        """Call the no-op route."""
        await self._call("GET", "/noop", 200)

    async def get(self) -> None:
        """Get one order repeatedly."""
        await self._call("GET", f"/v1/orders/{self._order_id}", 200, self._bearer())

    async def poll(self) -> None:
        """Poll as a terminal without an order."""
        device = self._seeded["devices"][0]
        path = f"/device/v1/next?wait=0&boot_id={device['boot_id']}"
        await self._call("GET", path, None, f"Authorization: Bearer {device['token']}\r\n")

    async def create(self) -> Any:
        """Create an order on another terminal each time."""
        number = next(self._numbers)
        point = {"terminal_id": f"{TERMINAL_PREFIX}{FIRST_SERIAL + number}", "print_on_terminal": "no_ticket"}
        body = {
            "type": "point",
            "external_reference": "ext_ref_1234",
            "description": "Smartphone",
            "transactions": {"payments": [{"amount": "24.90"}]},
            "config": {"point": point},
        }
        headers = f"{self._bearer()}X-Idempotency-Key: key-{number}\r\n"
        return await self._call("POST", "/v1/orders", 201, headers, body)

    async def refresh(self) -> None:
        """Refresh one token family repeatedly."""
        token = self._families.pop(0)
        body = {name: self._seeded[name] for name in ("client_id", "client_secret")}
        body |= {"grant_type": "refresh_token", "refresh_token": token}
        self._families.append((await self._call("POST", "/oauth/token", 200, "", body))["refresh_token"])

    def _bearer(self) -> str:
        return f"Authorization: Bearer {self._seeded['access_token']}\r\n"

    async def _call(self, method: str, path: str, status: int | None, headers: str = "", body: Any = None) -> Any:
        content = b"" if body is None else json.dumps(body).encode()
        if content:
            headers += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
        self._writer.write(f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}\r\n".encode() + content)
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        answer = await self._reader.readexactly(int(length[1])) if length else b""
        assert status is None or int(head[9:12]) == status, (head, answer)
        return json.loads(answer) if answer.startswith(b"{") else None


if __name__ == "__main__":
    main()
