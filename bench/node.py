"""One node of several: the application of `paydesk serve` on a seeded database.

`python -m bench.node DATABASE_URL PORT` serves until SIGTERM.
"""

from __future__ import annotations

import asyncio
import logging
import sys

import structlog
import uvloop

from bench import seed
from paydesk import logs, node, settings
from paydesk.app import build_app, create_shared
from paydesk.core.clock import SystemClock
from paydesk.core.worker import WorkerContext
from paydesk.http import server
from paydesk.workers import run_all


async def serve(database_url: str, port: int) -> None:
    """Serve until SIGTERM."""
    chosen = settings.load(database_url=database_url, **settings.UNTHROTTLED)
    logs.configure("json", sys.stderr)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    async with node.database_of(chosen) as database:
        clock, stop = SystemClock(), asyncio.Event()
        shared = create_shared(chosen, database, seed.KEYS, clock)
        node.stop_on_signals(stop)
        await node.run_together(
            stop,
            server.serve(build_app(shared), server.bind("127.0.0.1", port), chosen, lambda: None, stop),
            run_all(WorkerContext(database, chosen, clock, seed.KEYS, acquirers=shared.acquirers), stop),
        )


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1], int(sys.argv[2])))
