"""The service of a kit: the whole of Paydesk in this process, on a database that is deleted afterwards."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from paydesk.core import keys
from paydesk.core.clock import MovableClock
from paydesk.core.keys import Keys
from paydesk.core.secrets import Secret
from paydesk.engine.oauth import authorizations
from paydesk.engine.oauth.tokens import Lifetimes
from paydesk.engine.terminals import store as terminals
from paydesk.engine.terminals import stores
from paydesk.engine.terminals.schemas import Kind
from paydesk.operators.accounts.credentials import add_operator, new_token
from paydesk.platform.http.server import server
from paydesk.platform.process import node
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database, Transaction
from paydesk.service.compose import compose
from paydesk.service.workers import run_all
from paydesk_dev.dev.demo import Demo, find_or_create
from paydesk_dev.dev.service import prepare
from paydesk_dev.parts import parts

TERMINAL_ID = "CONFORMANCE__KIT"
OFFER_AGAIN_SECONDS = 3
TOKEN_SECONDS = 365 * 86_400
"""However far the clock is moved, the kit's tokens are valid."""
KEYS_FILE = "keys.json"


@dataclass(frozen=True, slots=True)
class RunningService:
    """The running service: its address, its seller, and the tokens of the terminal, application and operator."""

    base_url: str
    seller_id: int
    device_token: Secret
    access_token: Secret
    operator_token: Secret


@asynccontextmanager
async def running(folder: Path, kind: Kind) -> AsyncIterator[RunningService]:
    """Run the service on loopback with its data in the folder, and a terminal of that kind. Raises `StartRefused`."""
    settings = Settings(
        database_url=database_url(folder), acquirer="simulator", offer_again_seconds=OFFER_AGAIN_SECONDS
    )
    with node.listen("127.0.0.1", 0) as listener:
        async with node.database_of(settings) as database:
            ready = await prepared(database, folder, listener, kind)
            async with serving(settings, database, folder, MovableClock(), listener):
                yield ready


def database_url(folder: Path) -> str:
    """Return the URL of the database in the folder."""
    return f"sqlite:{folder / 'paydesk.db'}"


async def prepared(
    database: Database, folder: Path, listener: socket.socket, kind: Kind, *, live: bool = False
) -> RunningService:
    """Create the tables, the keys and the accounts of a service that will serve this listener."""
    keys.add(folder / KEYS_FILE, activate=True)
    server_keys, base_url = keys.read(folder / KEYS_FILE), f"http://127.0.0.1:{listener.getsockname()[1]}"
    now_ms = MovableClock().now_ms()
    await prepare(database, now_ms)
    demo = await database.write(lambda tx: find_or_create(tx, base_url, server_keys, now_ms))
    tokens = await database.write(lambda tx: _add_terminal(tx, demo, kind, server_keys, now_ms, live=live))
    return RunningService(base_url, demo.seller.seller_id, *tokens)


@asynccontextmanager
async def serving(
    settings: Settings, database: Database, folder: Path, clock: MovableClock, listener: socket.socket, *objects: object
) -> AsyncIterator[None]:
    """Serve on the listener, with further objects or others in place of the service's own."""
    stop, ready, server_keys = asyncio.Event(), asyncio.Event(), keys.read(folder / KEYS_FILE)
    settings = settings.model_copy(update={"public_url": f"http://127.0.0.1:{listener.getsockname()[1]}"})
    service = compose(settings, database, server_keys, clock, parts(settings, server_keys, *objects))
    tasks = [
        asyncio.create_task(server.serve(service.app(), listener, settings, ready.set, stop)),
        asyncio.create_task(run_all(service.context, stop)),
    ]
    try:
        await ready.wait()
        yield
    finally:
        stop.set()
        await asyncio.gather(*tasks)


async def _add_terminal(
    tx: Transaction, demo: Demo, kind: Kind, server_keys: Keys, now_ms: int, *, live: bool
) -> tuple[Secret, Secret, Secret]:
    """Add the terminal under test at a point of sale of its own.

    Return the tokens of the terminal, of the application, and of an operator.
    """
    seller_id, store_id = demo.seller.seller_id, demo.terminals[0].store_id
    pos = await stores.create_pos(tx, seller_id, store_id, "CONFORMANCE", "Conformance", now_ms)
    assert pos is not None, "the database is new"
    await terminals.create(
        tx,
        seller_id=seller_id,
        pos_id=pos.pos_id,
        terminal_id=TERMINAL_ID,
        live=live,
        now_ms=now_ms,
        kind=kind,
        operating_mode="PDV",
    )
    device = await terminals.mint_token(tx, seller_id, TERMINAL_ID, now_ms)
    pair = await authorizations.mint_family(
        tx,
        server_keys,
        application_id=demo.application.application_id,
        seller_id=seller_id,
        scope=demo.application.scopes,
        live=live,
        now_ms=now_ms,
        lifetimes=Lifetimes(TOKEN_SECONDS, TOKEN_SECONDS),
    )
    operator = new_token()
    await add_operator(tx, operator, "conformance kit", "owner", now_ms)
    return device, Secret(pair.access_token), operator
