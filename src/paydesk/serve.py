"""`paydesk serve`: a node in production. It refuses to start with anything that is for development only."""

from __future__ import annotations

import asyncio
from contextlib import closing
from functools import partial
from pathlib import Path

from paydesk import keys, logs, node
from paydesk.app import acquirers_of, build_app
from paydesk.doors import Doors
from paydesk.health.clock import WatchedClock
from paydesk.health.readiness import Readiness
from paydesk.http import server
from paydesk.node import StartRefused
from paydesk.operation import Surface
from paydesk.settings import Settings
from paydesk.storage.database import Database, Transaction
from paydesk.storage.migrate import pending
from paydesk.workers import WorkerContext, run_all

CLIENT_SURFACES: tuple[Surface, ...] = ("application", "token", "device", "page", "public")
OPERATOR_SURFACES: tuple[Surface, ...] = ("operator", "public")

MOVED_CLOCK = "SELECT 1 FROM clock_settings WHERE offset_ms <> 0 OR frozen_ms IS NOT NULL"


async def run(settings: Settings, *, beside: bool = False, inherited: Doors | None = None) -> None:
    """Run until SIGTERM. Raises `StartRefused`, `UnsafeDatabase`, `Unavailable` or `KeysError`.

    `beside`: another `serve` may be listening there already. `inherited`: what a parent of several processes gave.
    """
    number = inherited.number if inherited is not None else None
    logs.configure(settings.log_format, level=settings.log_level, process=number)
    check_settings(settings)
    node.allow_open_files(settings.connections_max)
    server_keys = keys.read(Path(settings.keys_file))
    async with node.database_of(settings) as database:
        await check_database(database)
        clock, stop = WatchedClock(), asyncio.Event()
        readiness = Readiness(database, server_keys, clock)
        acquirers = acquirers_of(settings, database, clock)
        build = partial(
            build_app,
            database=database,
            keys=server_keys,
            clock=clock,
            development=False,
            state={"readiness": readiness, "acquirers": acquirers},
        )
        with closing(inherited or Doors.made(settings, beside=beside)) as doors:
            node.stop_on_signals(stop, partial(_drain, readiness, settings.drain_seconds, stop))
            doors.end_with_the_parent(stop)
            clients = build(settings, surfaces=CLIENT_SURFACES)
            operators = build(for_operators(settings), surfaces=OPERATOR_SURFACES)
            await node.run_together(
                stop,
                server.serve(clients, doors.clients, settings, doors.opened, stop),
                server.serve(operators, doors.operators, settings, doors.opened, stop),
                run_all(WorkerContext(database, settings, clock, server_keys, acquirers=acquirers), stop),
            )


def _drain(readiness: Readiness, seconds: float, stop: asyncio.Event) -> None:
    """Not ready any more; whoever asks in time sends nobody here, and then the doors close."""
    if readiness.draining or not seconds:
        stop.set()
    readiness.draining = True
    asyncio.get_running_loop().call_later(seconds, stop.set)


def for_operators(settings: Settings) -> Settings:
    """The operators' listener answers to its own names, not to the clients' address."""
    host = settings.operator_listen.rpartition(":")[0]
    return settings.model_copy(update={"public_url": None, "host_names": (*settings.host_names, host)})


def check_settings(settings: Settings) -> None:
    """Refuse what is missing or for development only. Raises `StartRefused`."""
    if settings.public_url is None:
        raise StartRefused("public_url is not set: clients need one address; set PAYDESK_PUBLIC_URL=https://…")
    if settings.acquirer == "simulator":
        raise StartRefused(
            "acquirer is `simulator`: live orders would be paid with play money; unset PAYDESK_ACQUIRER."
        )
    if settings.listen == settings.operator_listen:
        raise StartRefused("listen and operator_listen are the same: operators need a listener of their own.")


async def check_database(database: Database) -> None:
    """Refuse a database of another version, or one that `paydesk dev` moved the clock of. Raises `StartRefused`."""
    missing = await pending(database)
    if missing:
        raise StartRefused(f"The database lacks {', '.join(missing)}: run `paydesk migrate`.")

    async def work(tx: Transaction) -> bool:
        return await tx.one(MOVED_CLOCK) is not None

    if await database.read(work):
        raise StartRefused("The clock of this database was moved by `paydesk dev`: it is not fit for production.")
