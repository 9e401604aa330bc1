"""The program whose instructions `bench.instructions` counts: a node and its clients in one process.

`python -m bench.counted OPERATION CLIENTS ROUNDS DATABASE_URL` prints the mean number of writes that shared a commit.
In a round every client sends a request, and then all wait for their responses. Nothing runs by the clock while
instructions are counted: valgrind makes a request 30 times slower, but not a timer.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import importlib
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import uvloop
from starlette.routing import Route

from bench.seed import FIRST_SERIAL, KEYS, TERMINAL_PREFIX, Sizes, seed
from bench.service import NoOp
from paydesk.console.sessions import OPERATORS
from paydesk.core.clock import SystemClock
from paydesk.operators.accounts import credentials
from paydesk.platform import logs, settings, traces
from paydesk.platform.http.asgi import ASGIApp
from paydesk.platform.http.server import server
from paydesk.platform.process import node
from paydesk.platform.storage.migrate import migrate
from paydesk.platform.web import hints
from paydesk.platform.web.hints import Hints
from paydesk.service.compose import Composition, Parts, compose
from paydesk.service.serve import CLIENT_SURFACES

OPERATIONS = {
    "noop": "noop",
    "get": "get",
    "get-logged": "get",
    "poll": "poll",
    "create": "create",
    "create-notified": "create",
    "create-unwatched": "create",
    "create-watched": "create",
    "refresh": "refresh",
    "get-traced": "get",
    "get-recorded": "get",
    "create-traced": "create",
    "create-recorded": "create",
}
"""What is counted, and the request that it makes.

`create-notified`, on PostgreSQL, also notifies another node, once for each round; in the others no node is there to be
notified. At 200 creates a second and more, creates share notifications. `create-unwatched` is the service with a
console, of which no page is open; `create-watched` has 50 open pages. Requests of `traced` have a `traceparent`; of
`recorded` a collector gets the spans too.
"""
SPANS_PER_MESSAGE, TRACED = 120, "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n"
"""Four messages in the counted requests; by default a message has up to 512 spans, or those of 5 s."""

WARM_UP_REQUESTS = 128
VIEWERS, CREATES_PER_MESSAGE, CREATES_PER_CHECK = 50, 625, 150
"""`create-watched`: 40 messages a second in all at 500 creates a second are one in 625 creates. Each page's session is
checked every 15 s, which is one check in 150 creates."""

HOUR = 3600.0
TIMERS = {
    "paydesk.platform.http.server.server": ("SWEEP_SECONDS", "TICK_SECONDS"),
    "paydesk.platform.storage.postgres.notify": ("HEARTBEAT_SECONDS",),
    "paydesk.platform.web.event_streams": ("COMMENT_SECONDS",),
    "paydesk.platform.web.hints": ("COMMENT_SECONDS", "ANNOUNCE_SECONDS", "INTEREST_SECONDS"),
}
RECORDED = {"paydesk.platform.http.recording.recorder": ("SUCCEEDED_PER_SECOND", "FAILED_PER_SECOND")}
"""Requests are recorded at a rate per second, which is next to nothing under load."""


async def run(operation: str, clients: int, rounds: int, database_url: str, switch: Callable[[bool], None]) -> float:
    """Serve and call. `switch` turns the counting on and off. Return the mean number of writes that shared a commit."""
    _set(TIMERS, HOUR)
    _set(RECORDED, 1 / HOUR / 1000)
    warm_up = -(-WARM_UP_REQUESTS // clients)
    sizes = Sizes(terminals=(warm_up + rounds + 2) * clients, families=clients, pollers=clients)
    chosen = settings.load(database_url=database_url, order_expiration_default="PT3H", **settings.UNTHROTTLED)
    async with node.database_of(chosen) as database, contextlib.AsyncExitStack() as stack:
        now_ms = SystemClock().now_ms()
        await migrate(database, now_ms)
        seeded = await seed(database, now_ms, sizes)
        if operation == "create-notified":
            await _add_another_node(database_url)
        else:
            database.signals.publish_remote = None
        parts = Parts()
        surfaces: tuple[Any, ...] = CLIENT_SURFACES
        if operation.endswith("watched"):
            pages = hints.Hints(database.signals, streams_max=VIEWERS, per_reader_max=VIEWERS, spacing_seconds=HOUR)
            parts, surfaces = Parts(objects=(pages,)), (*CLIENT_SURFACES, "console")
        composed = compose(chosen, database, KEYS, SystemClock(), parts)
        address = await stack.enter_async_context(served(composed, surfaces))
        load = Load(seeded, [await asyncio.open_connection(*address) for _ in range(clients)])
        if operation.endswith(("traced", "recorded")):
            load.bearer += TRACED
        if operation.endswith("recorded"):
            await stack.enter_async_context(_recorded())
        stack.callback(load.close)
        viewing = Viewing(database, composed.shared.objects[Hints])
        stack.callback(viewing.end)
        if operation == "create-watched":
            await viewing.begin(*address)
        await load.create()
        send = getattr(load, OPERATIONS[operation])
        await _rounds(warm_up, send, viewing, clients)
        # As a node does: collect garbage seldom, and not in what is there from the start.
        gc.collect()
        gc.freeze()
        gc.set_threshold(node.YOUNG_OBJECTS_MAX)
        batches = _noted_batches(database)
        switch(True)
        await _rounds(rounds, send, viewing, clients)
        switch(False)
    return sum(batches) / len(batches) if batches else 0.0


@contextlib.asynccontextmanager
async def _recorded() -> AsyncIterator[None]:
    """Record spans for a collector that takes all of them."""
    os.environ["OTEL_BSP_MAX_EXPORT_BATCH_SIZE"], os.environ["OTEL_BSP_SCHEDULE_DELAY"] = (
        str(SPANS_PER_MESSAGE),
        "1000000",
    )

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        await reader.readexactly(int(length[1]) if length else 0)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(take, "127.0.0.1", 0) as collector:
        port = collector.sockets[0].getsockname()[1]
        async with traces.recorded(settings.Settings(trace_endpoint=f"http://127.0.0.1:{port}/v1/traces")):
            yield


@contextlib.asynccontextmanager
async def served(
    composed: Composition, surfaces: tuple[Any, ...], around: Callable[[ASGIApp], ASGIApp] | None = None
) -> AsyncIterator[tuple[str, int]]:
    """Serve until the end of the block; yield the address. `around` makes the application that is served."""
    app: Any = composed.app(surfaces)
    app.routes.insert(0, Route("/noop", NoOp()))
    app = around(app) if around is not None else app
    stop, ready, listener = asyncio.Event(), asyncio.Event(), server.bind("127.0.0.1", 0)
    serving = asyncio.create_task(server.serve(app, listener, composed.shared.settings, ready.set, stop))
    await ready.wait()
    yield listener.getsockname()[:2]
    composed.shared.database.signals.stop()
    stop.set()
    await serving


def _set(names: Mapping[str, tuple[str, ...]], value: float) -> None:
    for module, constants in names.items():
        variables = vars(importlib.import_module(module))
        variables.update({name: value for name in constants if name in variables})


async def _rounds(count: int, send: Callable[[], Awaitable[object]], viewing: Viewing, clients: int) -> None:
    for number in range(count):
        await send()
        await viewing.follow(number * clients, clients)


async def _add_another_node(database_url: str) -> None:
    """Send what another node would send; it is heard as a node that is there for the next hour."""
    import asyncpg

    other = await asyncpg.connect(database_url)
    await other.execute("SELECT pg_notify('paydesk', 'the other node')")
    await other.close()


def _noted_batches(database: Any) -> list[int]:
    """Return a list to which every batch of writes will add its size."""
    sizes: list[int] = []

    def note(owner: Any, name: str) -> None:
        run_batch = getattr(owner, name)

        def noted(units: list[Any]) -> Any:
            sizes.append(len(units))
            return run_batch(units)

        setattr(owner, name, noted)

    if hasattr(database, "_run_all"):  # SQLite
        note(database, "_run_all")
    elif hasattr(database, "_writes"):
        note(database._writes, "_run")  # noqa: SLF001 - the batches of PostgreSQL
    return sizes


class Viewing:
    """The pages of the console that are open: none, or `VIEWERS` after `begin`."""

    def __init__(self, database: Any, live_hints: hints.Hints) -> None:
        self._database, self._hints = database, live_hints
        self._tasks: list[asyncio.Task[None]] = []
        self._token = ""

    async def begin(self, host: str, port: int) -> None:
        """Open the pages."""
        tokens = [await self._sign_in() for _ in range(VIEWERS)]
        self._token = tokens[0]
        self._tasks = [asyncio.create_task(_view(host, port, token)) for token in tokens]
        while len(self._hints) < VIEWERS:  # noqa: ASYNC110 - the streams are opened by requests
            await asyncio.sleep(0.01)

    async def follow(self, first: int, count: int) -> None:
        """Send the messages and check the sessions that creates from `first` on bring with them."""
        if not self._tasks:
            return
        if -first % CREATES_PER_MESSAGE < count:
            self._hints.flush()
        if -first % CREATES_PER_CHECK < count:
            now_ms = SystemClock().now_ms()
            await OPERATORS.opened(self._database, self._token, now_ms, idle_ms=3_600_000, is_use=False)

    def end(self) -> None:
        """Close the pages."""
        for task in self._tasks:
            task.cancel()

    async def _sign_in(self) -> str:
        """Begin a session of a new operator and return its token."""
        now_ms = SystemClock().now_ms()

        async def work(tx: Any) -> str:
            operator_id = await credentials.add_operator(tx, credentials.new_token(), "viewer", "support", now_ms)
            token = await OPERATORS.begin(
                tx,
                operator_id,
                password_hash="",
                details=OPERATORS.details(now_ms, "127.0.0.1", ""),
                now_ms=now_ms,
                expires_ms=now_ms + 3_600_000,
            )
            assert token is not None, "the operator is valid"
            return token.reveal()

        token: str = await self._database.write(work)
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


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Load:
    """Clients that send one request each, all in one turn of the event loop, and check the responses' statuses."""

    def __init__(self, seeded: dict[str, Any], connections: list[Connection]) -> None:
        self._seeded, self._connections = seeded, connections
        self._numbers = iter(range(1_000_000))
        self._orders: list[str] = []
        self.bearer = f"Authorization: Bearer {seeded['access_token']}\r\n"

    def close(self) -> None:
        """Close the connections."""
        for _, writer in self._connections:
            writer.close()

    async def noop(self) -> None:
        """Call the no-op route."""
        await self._all(200, [request("GET", "/noop")] * len(self._connections))

    async def get(self) -> None:
        """Get an order, the same for a client each time."""
        await self._all(200, [request("GET", f"/v1/orders/{order}", self.bearer) for order in self._orders])

    async def poll(self) -> None:
        """Poll as a terminal without an order."""
        paths = ((one["token"], f"/device/v1/next?wait=0&boot_id={one['boot_id']}") for one in self._seeded["devices"])
        await self._all(None, [request("GET", path, f"Authorization: Bearer {token}\r\n") for token, path in paths])

    async def create(self) -> None:
        """Create an order on another terminal each time."""
        made = await self._all(201, [self._order(next(self._numbers)) for _ in self._connections])
        self._orders = self._orders or [order["id"] for order in made]

    async def refresh(self) -> None:
        """Refresh the token family of each client."""
        body = {name: self._seeded[name] for name in ("client_id", "client_secret")}
        tokens = self._seeded["refresh_tokens"]
        bodies = [{**body, "grant_type": "refresh_token", "refresh_token": token} for token in tokens]
        answers = await self._all(200, [request("POST", "/oauth/token", "", body) for body in bodies])
        self._seeded["refresh_tokens"] = [answer["refresh_token"] for answer in answers]

    def _order(self, number: int) -> bytes:
        point = {"terminal_id": f"{TERMINAL_PREFIX}{FIRST_SERIAL + number}", "print_on_terminal": "no_ticket"}
        body = {
            "type": "point",
            "external_reference": "ext_ref_1234",
            "description": "Smartphone",
            "transactions": {"payments": [{"amount": "24.90"}]},
            "config": {"point": point},
        }
        return request("POST", "/v1/orders", f"{self.bearer}X-Idempotency-Key: key-{number}\r\n", body)

    async def _all(self, status: int | None, requests: list[bytes]) -> list[Any]:
        for (_, writer), one in zip(self._connections, requests, strict=True):
            writer.write(one)
        answers = []
        for reader, _ in self._connections:
            answered, head, answer = await read_answer(reader)
            assert status in (None, answered), (head, answer)
            answers.append(json.loads(answer) if answer.startswith(b"{") else None)
        return answers


def request(method: str, path: str, headers: str = "", body: Any = None) -> bytes:
    """Return the bytes of a request; the body is JSON, or bytes as they are."""
    content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    if content:
        headers += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
    return f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}\r\n".encode() + content


async def read_answer(reader: asyncio.StreamReader) -> tuple[int, bytes, bytes]:
    """Return the status, the head and the body of the next answer."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head)
    return int(head[9:12]), head, await reader.readexactly(int(length[1])) if length else b""


def _valgrinds_switch() -> Callable[[bool], None]:
    """Return what turns valgrind's counting on and off, from the library that `bench.instructions` compiles."""
    library = ctypes.CDLL(os.environ["BENCH_SWITCH"])
    return lambda is_on: library.start() if is_on else library.stop()


def main(operation: str, clients: str, rounds: str, database_url: str) -> None:
    """Run the program, and print the mean number of writes that shared a commit."""
    switch = _valgrinds_switch() if "BENCH_SWITCH" in os.environ else lambda _: None
    with Path(os.devnull).open("w") as discarded:
        if operation == "get-logged":
            logs.configure("json", discarded)
        else:
            logs.configure("json", level="warning")
        print(uvloop.run(run(operation, int(clients), int(rounds), database_url, switch)))  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
