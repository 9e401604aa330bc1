"""The measured service: the application of `paydesk serve` with a no-op route, seeded for the load.

`python -m bench.service DATABASE_URL PORT SEED_FILE [TERMINALS FAMILIES]` serves until SIGTERM; if SEED_FILE exists,
the database is already seeded. The no-op route has the same server and router, and the results are ratios to it.
SIGUSR1 turns the request log on, into SEED_FILE with the suffix `.log`; SIGUSR2 turns it off and removes the file.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import TextIO

import uvloop
from starlette.routing import Route, Router

from bench import seed
from bench.seed import Sizes
from paydesk.platform import logs, settings
from paydesk.platform.health.clock import WatchedClock
from paydesk.platform.http.asgi import Receive, Scope, Send
from paydesk.platform.http.reply import Reply, send_reply
from paydesk.platform.http.server import server
from paydesk.platform.process import node
from paydesk.platform.storage.migrate import migrate
from paydesk.service.compose import compose
from paydesk.service.serve import CLIENT_SURFACES
from paydesk.service.workers import run_all


class NoOp:
    """A route that does nothing."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer at once."""
        del receive
        await send_reply(scope, send, Reply(200, b"{}"), "noop")


class RequestLog:
    """The request log, initially off, because its cost is measured separately."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._stream: TextIO | None = None
        self.turn_off()

    def turn_on(self) -> None:
        """Log every request as JSON, as in production."""
        self._stream = self._file.open("w")
        logs.configure("json", self._stream)

    def turn_off(self) -> None:
        """Log only warnings and errors, to standard error."""
        logs.configure("json", sys.stderr, level="warning")
        if self._stream is not None:
            self._stream.close()
            self._file.unlink()
            self._stream = None


async def serve(database_url: str, port: int, seed_file: Path, sizes: Sizes = seed.ENOUGH) -> None:
    """Migrate, seed, serve."""
    # Orders do not expire during the run.
    chosen = settings.load(database_url=database_url, order_expiration_default="PT3H", **settings.UNTHROTTLED)
    log = RequestLog(seed_file.with_suffix(".log"))
    async with node.database_of(chosen) as database:
        clock, stop = WatchedClock(), asyncio.Event()
        await migrate(database, clock.now_ms())
        if not seed_file.exists():
            seed_file.write_text(json.dumps(await seed.seed(database, clock.now_ms(), sizes)))
        composed = compose(chosen, database, seed.KEYS, clock)
        app = composed.app(CLIENT_SURFACES)
        assert isinstance(app, Router), "no wire is before it"
        app.routes.insert(0, Route("/noop", NoOp()))
        node.stop_on_signals(stop)
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, log.turn_on)
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, log.turn_off)
        await node.run_together(
            stop,
            server.serve(app, server.bind("127.0.0.1", port), chosen, lambda: None, stop),
            run_all(composed.context, stop),
        )


def _sizes(arguments: list[str]) -> Sizes:
    return Sizes(terminals=int(arguments[0]), families=int(arguments[1])) if arguments else seed.ENOUGH


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), _sizes(sys.argv[4:])))
