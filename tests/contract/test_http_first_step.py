"""A request runs at once up to where it waits; only the rest of it has a task. On uvloop and on asyncio's own loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextvars import ContextVar
from typing import Any

import pytest

from event_loops import LOOPS, turns
from paydesk.platform.http.asgi import Receive, Scope, Send
from paydesk.platform.http.reply import Reply, send_reply
from paydesk.platform.http.server import server
from paydesk.platform.http.server.connection import Rest
from paydesk.platform.http.server.gauges import Gauges
from paydesk.platform.settings import Settings
from raw_http import head
from waiting import until

Run = Callable[[Awaitable[None]], None]
Handle = Callable[[str], Awaitable[None]]
Connected = tuple[asyncio.StreamReader, asyncio.StreamWriter, asyncio.Event, Gauges]
GET = head("GET", "/")


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Run a coroutine on one of the two loops."""
    with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
        yield runner.run  # type: ignore[misc]  # a coroutine is an awaitable


@contextlib.asynccontextmanager
async def connected(handle: Handle) -> AsyncIterator[Connected]:
    """Serve an application that answers 204 after `handle`, which gets the path, until `stop`; connect to it."""

    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        await handle(scope["path"])
        await send_reply(scope, send, Reply(204), "id")

    ready, stop, gauges, listener = asyncio.Event(), asyncio.Event(), Gauges(), server.bind("127.0.0.1", 0)
    serving = asyncio.create_task(server.serve(app, listener, Settings(), ready.set, stop, gauges=gauges))
    await ready.wait()
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    yield reader, writer, stop, gauges
    writer.close()
    stop.set()
    await serving


async def status(reader: asyncio.StreamReader) -> int:
    """Read the head of the next answer."""
    return int((await reader.readuntil(b"\r\n\r\n"))[9:12])


def test_only_a_request_that_waits_has_a_task(run: Run) -> None:
    """The task is counted until the answer, and a timeout works in it."""

    async def body() -> None:
        tasks: list[Any] = []
        go_on = asyncio.Event()

        async def handle(path: str) -> None:
            tasks.append(asyncio.current_task())
            if path == "/waits":
                await go_on.wait()
                async with asyncio.timeout(60):
                    await asyncio.sleep(0)
                tasks.append(asyncio.current_task())

        async with connected(handle) as (reader, writer, _, gauges):
            writer.write(GET)
            assert await status(reader) == 204
            writer.write(head("GET", "/waits"))
            await until(lambda: gauges.requests_running == 1)
            go_on.set()
            assert await status(reader) == 204
            await until(lambda: gauges.requests_running == 0)
        assert tasks[:2] == [None, None]
        assert isinstance(tasks[2], asyncio.Task)

    run(body())


def test_only_the_first_of_many_requests_runs_at_once(run: Run) -> None:
    """A client that sends hundreds in one piece keeps no other one waiting; each is answered, in order."""
    count = 500

    async def body() -> None:
        seen: list[tuple[str, bool]] = []

        async def handle(path: str) -> None:
            seen.append((path, asyncio.current_task() is None))

        async with connected(handle) as (reader, writer, _, _):
            paths = [f"/{number}" for number in range(count)]
            writer.write(b"".join(head("GET", path) for path in paths))
            assert [await status(reader) for _ in paths] == [204] * count
        assert [path for path, _ in seen] == paths
        # uvloop reads up to 256 KiB at once, and asyncio's loop too.
        assert sum(at_once for _, at_once in seen) <= 2

    run(body())


def test_nothing_runs_after_the_last_request_of_a_connection(run: Run) -> None:
    """Another request in the same piece, small or large, is dropped: it could not be answered.

    The request is the last one because it says so, or because the service ends.
    """

    async def body() -> None:
        seen: list[str] = []

        async def handle(path: str) -> None:
            seen.append(path)

        for last in ("Connection: close",), ():
            for fields, content in ((), b""), (("Content-Length: 70000",), b"x" * 1000):
                async with connected(handle) as (reader, writer, stop, _):
                    if not last:
                        stop.set()
                        await turns()
                    writer.write(head("GET", "/last", *last) + head("POST", "/more", *fields) + content)
                    assert await status(reader) == 204
                    assert await reader.read() == b""
                    await turns()
        assert seen == ["/last"] * 4

    run(body())


@pytest.mark.parametrize("error", [ValueError, asyncio.CancelledError])
@pytest.mark.parametrize("waits", [False, True])
def test_an_exception_is_answered_500(run: Run, *, waits: bool, error: type[BaseException]) -> None:
    """Before the first wait as after it; the service and its other connections go on."""

    async def body() -> None:
        async def handle(path: str) -> None:
            if waits:
                await asyncio.sleep(0)
            if path == "/fails":
                raise error

        async with connected(handle) as (reader, writer, _, gauges):
            writer.write(head("GET", "/fails"))
            assert await status(reader) == 500
            assert gauges.requests_running == 0
        async with connected(handle) as (reader, writer, _, _):
            writer.write(GET)
            assert await status(reader) == 204

    run(body())


def test_each_request_has_its_own_context(run: Run) -> None:
    """A variable that it sets is still set after it has waited, and never in the next request of the connection."""
    variable: ContextVar[str] = ContextVar("variable", default="unset")

    async def body() -> None:
        seen: list[str] = []

        async def handle(path: str) -> None:
            seen.append(variable.get())
            token = variable.set(path)
            if path == "/waits":
                await asyncio.sleep(0)
                seen.append(variable.get())
                variable.reset(token)

        async with connected(handle) as (reader, writer, _, _):
            for path in ("/", "/waits", "/", "/waits"):
                writer.write(head("GET", path))
                assert await status(reader) == 204
        assert seen == ["unset", "unset", "/waits"] * 2

    run(body())


def test_the_rest_is_canceled_where_it_waits(run: Run) -> None:
    """Also before its task has begun, and while it cleans up."""

    async def body() -> None:
        for turns_before in range(4):
            cleaned = list[str]()

            async def steps(cleaned: list[str] = cleaned) -> None:
                try:
                    await asyncio.get_running_loop().create_future()
                except asyncio.CancelledError:
                    await asyncio.sleep(0)
                    cleaned.append("done")
                    raise

            coroutine = steps()
            task = asyncio.get_running_loop().create_task(Rest(coroutine, coroutine.send(None)))
            await turns(turns_before)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert cleaned == ["done"]

    run(body())
