"""Seed the database for a run: a terminal for every create, a token family for every connection."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from functools import partial
from typing import Any

from paydesk.core.keys import Keys
from paydesk.engine.device import store as device
from paydesk.engine.oauth import authorizations
from paydesk.engine.oauth.clients import applications
from paydesk.engine.oauth.tokens import Lifetimes, Pair
from paydesk.engine.sellers import store as sellers
from paydesk.engine.terminals import store as terminals
from paydesk.engine.terminals import stores
from paydesk.platform.storage.database import Database, Transaction

KEYS = Keys(1, {1: b"bench" * 7})
SCOPE = "offline_access read write"
LIFETIMES = Lifetimes(15_552_000, 15_552_000)
TERMINAL_PREFIX = "NEWLAND_N950__N"
FIRST_SERIAL = 100_000_000
TERMINALS_PER_STEP = 50_000
FAMILIES_PER_STEP = 64

# One column per digit: all rows between the bounds in one statement, for both databases.
_DIGITS = "(SELECT 0 AS d UNION ALL " + " UNION ALL ".join(f"SELECT {digit}" for digit in range(1, 10)) + ")"
_NUMBERS = "SELECT a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d AS n FROM " + ", ".join(
    f"{_DIGITS} AS {name}" for name in "abcef"
)

INSERT_TERMINALS = f"""
INSERT INTO terminals (seller_id, terminal_id, live, store_id, pos_id, kind, is_virtual, operating_mode, session,
                       created_ms)
SELECT CAST($1 AS bigint), '{TERMINAL_PREFIX}' || CAST(n + CAST($4 AS bigint) AS text), 0, CAST($2 AS bigint),
       CAST($3 AS bigint), 'terminal', 0, 'PDV', 0, 0
  FROM ({_NUMBERS}) AS numbers WHERE n < CAST($5 AS bigint)"""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The number of rows to seed. The last `pollers` terminals poll and get no orders."""

    terminals: int = 400_000
    families: int = 4_096
    pollers: int = 512


ENOUGH = Sizes()


async def seed(database: Database, now_ms: int, sizes: Sizes = ENOUGH) -> dict[str, Any]:
    """Seed, and return the data that the load needs."""
    seeded = await database.write(lambda tx: _parties(tx, now_ms))
    for first in range(0, sizes.terminals, TERMINALS_PER_STEP):
        count = min(TERMINALS_PER_STEP, sizes.terminals - first)
        await database.write(partial(_terminals, seeded=seeded, first=first, count=count))
    family = {**seeded["family"], "now_ms": now_ms}
    families: list[Pair] = []
    while len(families) < sizes.families:
        count = min(FAMILIES_PER_STEP, sizes.families - len(families))
        families += await database.write(partial(_families, family=family, count=count))
    seller_id = seeded["family"]["seller_id"]
    devices = await database.write(lambda tx: _devices(tx, seller_id, now_ms, sizes))
    return {
        "client_id": str(seeded["family"]["application_id"]),
        "client_secret": seeded["client_secret"],
        "seller_id": seller_id,
        "access_token": families[0].access_token,
        "refresh_tokens": [pair.refresh_token for pair in families],
        "devices": devices,
    }


async def _parties(tx: Transaction, now_ms: int) -> dict[str, Any]:
    application, secret = await applications.create(
        tx, name="Bench", redirect_uris=("https://bench.example/callback",), scopes=SCOPE, now_ms=now_ms
    )
    seller = await sellers.create(
        tx,
        email=f"{uuid.uuid4()}@bench.example",
        name="Bench",
        country="BRA",
        currency="BRL",
        password_hash="none",  # noqa: S106 - not used to sign in
        now_ms=now_ms,
    )
    assert seller is not None
    store = await stores.create_store(tx, seller.seller_id, "Store", now_ms)
    pos = await stores.create_pos(tx, seller.seller_id, store.store_id, "POS", "Till", now_ms)
    assert pos is not None
    family = {"application_id": application.application_id, "seller_id": seller.seller_id, "scope": SCOPE}
    return {"family": family, "client_secret": secret.reveal(), "store_id": store.store_id, "pos_id": pos.pos_id}


async def _families(tx: Transaction, family: dict[str, Any], count: int) -> list[Pair]:
    return [await authorizations.mint_family(tx, KEYS, live=False, lifetimes=LIFETIMES, **family) for _ in range(count)]


async def _devices(tx: Transaction, seller_id: int, now_ms: int, sizes: Sizes) -> list[dict[str, str]]:
    """Insert sessions for the last terminals, which poll and get no orders."""
    devices = []
    for number in range(sizes.terminals - sizes.pollers, sizes.terminals):
        terminal_id, boot_id = f"{TERMINAL_PREFIX}{FIRST_SERIAL + number}", str(uuid.uuid4())
        token = await terminals.mint_token(tx, seller_id, terminal_id, now_ms)
        await device.begin_session(tx, seller_id, terminal_id, boot_id, "1", 1, now_ms)
        devices.append({"token": token.reveal(), "boot_id": boot_id})
    return devices


async def _terminals(tx: Transaction, seeded: dict[str, Any], first: int, count: int) -> None:
    places_of = (seeded["store_id"], seeded["pos_id"])
    await tx.run(INSERT_TERMINALS, seeded["family"]["seller_id"], *places_of, FIRST_SERIAL + first, count)
