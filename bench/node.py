"""One node of several: the application of `paydesk serve` on a seeded database.

`python -m bench.node DATABASE_URL PORT [COUNTS_FILE]` serves until SIGTERM. With a file, SIGUSR1 writes to it how many
statements the node has asked its database for.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys
from pathlib import Path

import structlog
import uvloop

from bench import seed
from bench.statements import CountingDatabase
from paydesk.core.clock import SystemClock
from paydesk.platform import logs, settings
from paydesk.platform.http.server import server
from paydesk.platform.process import node
from paydesk.platform.storage.database import Database
from paydesk.service.compose import compose
from paydesk.service.workers import run_all


async def serve(database_url: str, port: int, counts_file: Path | None = None) -> None:
    """Serve until SIGTERM."""
    chosen = settings.load(database_url=database_url, **settings.UNTHROTTLED)
    logs.configure("json", sys.stderr)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    node.allow_open_files(chosen.connections_max)
    async with node.database_of(chosen) as opened:
        database: Database = opened
        if counts_file is not None:
            database = counting = CountingDatabase(opened)
            _write_on_signal(counting, counts_file)
        clock, stop = SystemClock(), asyncio.Event()
        composed = compose(chosen, database, seed.KEYS, clock)
        node.stop_on_signals(stop)
        await node.run_together(
            stop,
            server.serve(composed.app(), server.bind("127.0.0.1", port), chosen, lambda: None, stop),
            run_all(composed.context, stop),
        )


def _write_on_signal(counting: CountingDatabase, file: Path) -> None:
    def write() -> None:
        draft = file.with_suffix(".new")
        draft.write_text(json.dumps(counting.counts))
        draft.replace(file)

    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, write)


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1], int(sys.argv[2]), *map(Path, sys.argv[3:4])))
