"""`paydesk serve`: a node in production. It refuses to start with anything that is for development only."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import structlog

from paydesk import keys, logs, node
from paydesk.app import build_app
from paydesk.health.clock import WatchedClock
from paydesk.health.readiness import Readiness
from paydesk.http import server
from paydesk.node import StartRefused
from paydesk.operation import Surface
from paydesk.settings import Settings
from paydesk.storage.database import Database, Transaction
from paydesk.storage.migrate import pending
from paydesk.workers import WorkerContext, run_all

log = structlog.get_logger("serve")

CLIENT_SURFACES: tuple[Surface, ...] = ("application", "token", "device", "public")
OPERATOR_SURFACES: tuple[Surface, ...] = ("operator", "public")

MOVED_CLOCK = "SELECT 1 FROM clock_settings WHERE offset_ms <> 0 OR frozen_ms IS NOT NULL"


async def run(settings: Settings) -> None:
    """Run until SIGTERM. Raises `StartRefused`, `UnsafeDatabase`, `Unavailable` or `KeysError`."""
    logs.configure(settings.log_format, level=settings.log_level)
    check_settings(settings)
    server_keys = keys.read(Path(settings.keys_file))
    async with node.database_of(settings) as database:
        await check_database(database)
        clock, stop = WatchedClock(), asyncio.Event()
        node.stop_on_signals(stop)
        state = {"readiness": Readiness(database, server_keys, clock)}
        clients = build_app(
            settings, database, server_keys, clock, development=False, state=state, surfaces=CLIENT_SURFACES
        )
        operators = build_app(
            for_operators(settings),
            database,
            server_keys,
            clock,
            development=False,
            state=state,
            surfaces=OPERATOR_SURFACES,
        )
        await node.run_together(
            stop,
            _listen(clients, settings.listen, settings, stop),
            _listen(operators, settings.operator_listen, settings, stop),
            run_all(WorkerContext(database, settings, clock, server_keys), stop),
        )


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


async def _listen(app: Any, address: str, settings: Settings, stop: asyncio.Event) -> None:
    host, _, port = address.rpartition(":")
    with node.listen(host, int(port)) as listener:
        await server.serve(app, listener, settings, lambda: log.info("listening", address=address), stop)
