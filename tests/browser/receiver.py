"""The application that redirects sellers to Paydesk and back: a small server at its own origin."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from aiohttp import web

PAGE = '<!doctype html><html lang="en"><title>Back at the application</title><link rel="icon" href="data:,">'


@dataclass(frozen=True, slots=True)
class Receiver:
    """Where it takes sellers back, and with which parameters they came."""

    redirect_uri: str
    received: list[Mapping[str, str]]


@contextlib.asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    """A receiver at `localhost`, which to a browser is another site than the service at 127.0.0.1."""
    received: list[Mapping[str, str]] = []

    async def callback(request: web.Request) -> web.Response:
        received.append(dict(request.query))
        return web.Response(text=PAGE, content_type="text/html")

    application = web.Application()
    application.router.add_get("/callback", callback)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield Receiver(f"http://localhost:{runner.addresses[0][1]}/callback", received)
    finally:
        await runner.cleanup()
