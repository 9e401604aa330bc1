"""`paydesk dev`: everything on one machine, in one process, seeded once and kept from one start to the next."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from paydesk import logs, node
from paydesk.app import acquirers_of, build_app
from paydesk.core import keys
from paydesk.core.clock import MovableClock
from paydesk.core.keys import Keys
from paydesk.core.worker import WorkerContext
from paydesk.dev import demo
from paydesk.dev.credentials import Minting, NewPassword, spare_password
from paydesk.http import server
from paydesk.node import StartRefused
from paydesk.sandbox.dev_clock import restore_clock
from paydesk.sandbox.terminals.fleet import Fleet
from paydesk.settings import Settings
from paydesk.storage import mark
from paydesk.storage.database import Database
from paydesk.storage.migrate import migrate
from paydesk.terminals import store as terminals
from paydesk.terminals.store import Terminal
from paydesk.workers import run_all

EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - whoever says so on the command line means it


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the command."""

    host: str
    port: int
    data: Path
    credentials: Path


def overrides(given: Settings, options: Options) -> dict[str, Any]:
    """What development sets where neither the environment nor a file did."""
    defaults = {
        "database_url": f"sqlite:{options.data / 'paydesk.db'}",
        "keys_file": str(options.data / "keys.json"),
        "acquirer": "simulator",
        # Failed authentications alone are throttled.
        "client_requests_per_second": 0,
        "token_requests_per_second": 0,
        "device_requests_per_second": 0,
    }
    return {name: value for name, value in defaults.items() if name not in given.model_fields_set}


async def run(options: Options, settings: Settings) -> None:
    """Run until SIGTERM or Ctrl-C. Raises `StartRefused`, `UnsafeDatabase`, `Unavailable` or `KeysError`."""
    logs.configure(settings.log_format, level=settings.log_level)
    make_folder(options.data)
    with node.listen(options.host, options.port) as listener:
        base_url = _base_url(options.host, listener.getsockname()[1])
        if settings.public_url is None:
            settings = settings.model_copy(update={"public_url": base_url})
        server_keys = _keys(Path(settings.keys_file))
        password = asyncio.create_task(_meanwhile(options.credentials))
        async with node.database_of(settings) as database, node.reporter_of(database, settings) as reporter:
            await prepare(database, MovableClock().now_ms())
            clock = await restore_clock(database)
            demo = await _demo(options, settings, database, server_keys, clock, base_url, password)
            # A folder of the seller's own: what another database's terminals wrote down is not for this one.
            fleet = Fleet(base_url, options.data / "terminals" / str(demo.seller.seller_id))
            stop, ready = asyncio.Event(), asyncio.Event()
            node.stop_on_signals(stop)
            acquirers = acquirers_of(settings, database, clock)
            state: dict[str, Any] = {
                "fleet": fleet,
                "loopback_allowed": True,
                "acquirers": acquirers,
                "reporter": reporter,
            }
            app = build_app(settings, database, server_keys, clock, development=True, state=state)
            context = WorkerContext(database, settings, clock, server_keys, loopback_allowed=True, acquirers=acquirers)
            await node.run_together(
                stop,
                server.serve(app, listener, settings, ready.set, stop),
                run_all(context, stop),
                _play(fleet, context, greeting(options, base_url), ready, stop),
            )


async def prepare(database: Database, now_ms: int) -> None:
    """Bring the database to this version's tables and mark it. Raises `StartRefused` for one of production.

    One that has its mark is refused before anything in it is changed; one that another command marks meanwhile, after.
    """
    kind = await mark.find(database)
    if kind != "production":
        await migrate(database, now_ms)
        kind = await mark.find_or_set(database, "development", now_ms)
    if kind == "production":
        raise StartRefused(
            "This database is for production: `paydesk dev` would add a demo seller and move its clock. Set"
            " PAYDESK_DATABASE_URL to another one, or unset it for one in the data folder."
        )


async def _meanwhile(credentials: Path) -> NewPassword | None:
    """What takes long and needs no database: a new password where one is needed, and the terminals' large library."""
    password, _ = await asyncio.gather(spare_password(credentials), asyncio.to_thread(import_module, "aiohttp"))
    return password


async def _demo(
    options: Options,
    settings: Settings,
    database: Database,
    server_keys: Keys,
    clock: MovableClock,
    base_url: str,
    password: Awaitable[NewPassword | None],
) -> demo.Demo:
    """The demo data and the credentials file, each made or brought up to date."""
    now_ms = clock.now_ms()
    found = await database.write(lambda tx: demo.find_or_create(tx, base_url, server_keys, now_ms))
    minting = Minting(database, server_keys, settings, found, base_url, now_ms, password)
    try:
        await minting.refresh(options.credentials)
    except OSError as error:
        raise StartRefused(f"{options.credentials} cannot be written: {error.strerror}.") from None
    return found


def greeting(options: Options, base_url: str) -> str:
    """The line that others wait for; a person is told in further ones what a seller sees."""
    line = f"paydesk ready {base_url}"
    if not sys.stdout.isatty():
        return line
    return (
        f"{line}\n`paydesk authorize-url` prints where a seller signs in and agrees: {demo.EMAIL}, with the"
        f" password in {options.credentials}"
    )


async def _play(fleet: Fleet, context: WorkerContext, told: str, ready: asyncio.Event, stop: asyncio.Event) -> None:
    """Once the service answers, start the virtual terminals and say so; end them before the service ends."""
    await fleet.start()
    starting = asyncio.create_task(_start(fleet, context, told, ready))
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            await stopping
    finally:
        starting.cancel()
        stopping.cancel()
        await asyncio.gather(starting, stopping, return_exceptions=True)
        await fleet.stop()


async def _start(fleet: Fleet, context: WorkerContext, told: str, ready: asyncio.Event) -> None:
    await ready.wait()
    every = await context.database.read(terminals.virtual)
    # Terminals that the fleet's folder doesn't know get a new token: they are new, or the folder was lost.
    new = [one for one in every if one.terminal_id not in fleet.terminals()]
    await asyncio.gather(*(_add(fleet, context, one) for one in new))
    print(told, flush=True)  # noqa: T201 - others wait for it


async def _add(fleet: Fleet, context: WorkerContext, one: Terminal) -> None:
    mint = partial(
        terminals.mint_token,
        seller_id=one.seller_id,
        terminal_id=one.terminal_id,
        now_ms=context.clock.now_ms(),
    )
    token = await context.database.write(mint)
    await fleet.add(one.terminal_id, token.reveal(), one.script or demo.SCRIPT)


def make_folder(folder: Path) -> None:
    """The data folder, there and writable. Raises `StartRefused`."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StartRefused(f"{folder} cannot be made: {error.strerror}. --data takes another folder.") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StartRefused(f"{folder} cannot be written to. --data takes another folder.")


def _keys(file: Path) -> Keys:
    if not file.exists():
        keys.add(file, activate=True)
    return keys.read(file)


def _base_url(host: str, port: int) -> str:
    name = "127.0.0.1" if host in EVERYWHERE else f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}"
