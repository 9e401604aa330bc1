"""The service that is measured: the application of `paydesk serve`, with a no-op route beside it, seeded for the load.

`python -m bench.service DATABASE_URL PORT SEED_FILE` serves until SIGTERM. The no-op route goes through the same server
and the same router and does nothing: what the service costs is told as a ratio to it.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from pathlib import Path

import structlog
import uvloop
from starlette.routing import Route, Router

from bench import seed
from paydesk import node, settings
from paydesk.app import build_app
from paydesk.clock import SystemClock
from paydesk.http import server
from paydesk.http.reply import Receive, Reply, Scope, Send, send_reply
from paydesk.storage.migrate import migrate
from paydesk.workers import WorkerContext, run_all


class NoOp:
    """A route that does nothing."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer at once."""
        del receive
        await send_reply(scope, send, Reply(200, b"{}"), "noop")


async def serve(database_url: str, port: int, seed_file: Path) -> None:
    """Migrate, seed, serve."""
    chosen = settings.load(database_url=database_url)
    # Only what goes wrong: one line a request is measured apart.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    async with node.database_of(chosen) as database:
        clock, stop = SystemClock(), asyncio.Event()
        await migrate(database, clock.now_ms())
        seeded = await seed.seed(database, clock.now_ms())
        seed_file.write_text(json.dumps(seeded))
        app = build_app(chosen, database, seed.KEYS, clock, development=False, state={})
        measured = Router([Route("/noop", NoOp()), *app.routes], redirect_slashes=False, default=app.default)
        node.stop_on_signals(stop)
        gc.collect()
        gc.freeze()
        await node.run_together(
            stop,
            server.serve(measured, server.bind("127.0.0.1", port), chosen, lambda: None, stop),
            run_all(WorkerContext(database, chosen, clock, seed.KEYS), stop),
        )


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])))
