"""The extension `paydesk.break`: a fault breaks the connection of its request, on uvloop and on asyncio's own loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from event_loops import LOOPS, passes_until, turns
from paydesk.platform.http.asgi import BREAK, DISCONNECTED, Receive, Scope, Send
from paydesk.platform.http.server import server
from paydesk.platform.http.server.evictable import LINGER_SECONDS
from paydesk.platform.http.server.gauges import Gauges
from paydesk.platform.settings import Settings
from raw_http import head
from waiting import until


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Iterator[Callable[[Any], None]]:
    """Run a coroutine on one of the two loops."""
    with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
        yield runner.run


@pytest.mark.parametrize("unread_bytes", [0, 32 * 1024 * 1024])
def test_the_connection_ends_though_the_client_has_gone_or_does_not_read(
    run: Callable[[Any], None], unread_bytes: int
) -> None:
    """A reset after a hang-up raises nothing; a close with unsent bytes is an abort after its deadline."""

    async def body() -> None:
        broken = asyncio.Event()

        async def app(scope: Scope, _receive: Receive, send: Send) -> None:
            if unread_bytes:
                await send({"type": "http.response.start", "status": 200, "headers": []})
                sending = asyncio.ensure_future(
                    send({"type": "http.response.body", "body": bytes(unread_bytes), "more_body": True})
                )
                await turns()
                scope["extensions"][BREAK](False)
                await sending
            else:
                await until(scope["extensions"][DISCONNECTED])
                scope["extensions"][BREAK](True)
            broken.set()

        ready, stop, gauges, listener = asyncio.Event(), asyncio.Event(), Gauges(), server.bind("127.0.0.1", 0)
        serving = asyncio.create_task(server.serve(app, listener, Settings(), ready.set, stop, gauges=gauges))
        await ready.wait()
        reader, writer = await asyncio.open_connection(*listener.getsockname(), limit=1)
        try:
            writer.write(head("GET", "/"))
            if unread_bytes:
                await passes_until(broken.is_set, LINGER_SECONDS)
            else:
                await until(lambda: gauges.requests_running == 1)
                writer.transport.abort()
            await until(lambda: broken.is_set() and not gauges.connections_open)
        finally:
            reader.feed_eof()
            writer.transport.abort()
            stop.set()
            await serving

    run(body())
