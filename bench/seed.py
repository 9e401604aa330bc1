"""What a run of the load finds in the database: a terminal for every create, a chain of tokens for every connection."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any

from paydesk.keys import Keys
from paydesk.oauth import applications, issuing, sellers
from paydesk.oauth.tokens import Lifetimes, Pair
from paydesk.storage.database import Database, Transaction
from paydesk.terminals import leases, places
from paydesk.terminals import store as terminals

KEYS = Keys(1, {1: b"bench" * 7})
TERMINALS = 400_000
POLLERS = 512
CHAINS_PER_RUN = 256
REFRESH_RUNS = 16
SCOPE = "offline_access read write"
LIFETIMES = Lifetimes(15_552_000, 15_552_000)

# A digit a column: as many rows as the bounds ask for in one statement, the same on both databases.
_DIGITS = "(SELECT 0 AS d UNION ALL " + " UNION ALL ".join(f"SELECT {digit}" for digit in range(1, 10)) + ")"
_NUMBERS = "SELECT a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d + 100000 * g.d AS n FROM " + ", ".join(
    f"{_DIGITS} AS {name}" for name in "abcefg"
)

INSERT_TERMINALS = f"""
INSERT INTO terminals (seller_id, terminal_id, live, store_id, pos_id, kind, is_virtual, operating_mode, session,
                       created_ms)
SELECT CAST($1 AS bigint), 'NEWLAND_N950__N' || CAST(n + 100000000 AS text), 0, CAST($2 AS bigint), CAST($3 AS bigint),
       'terminal', 0, 'PDV', 0, 0
  FROM ({_NUMBERS}) AS numbers WHERE n >= CAST($4 AS bigint) AND n < CAST($5 AS bigint)"""


async def seed(database: Database, now_ms: int) -> dict[str, Any]:
    """Seed, and say what the load needs to know."""
    seeded = await database.write(lambda tx: _parties(tx, now_ms))
    for first in range(0, TERMINALS, 50_000):
        await database.write(partial(_terminals, seeded=seeded, first=first))
    chain = {**seeded["chain"], "now_ms": now_ms}
    chains = [await database.write(lambda tx: _chain(tx, chain)) for _ in range(CHAINS_PER_RUN * REFRESH_RUNS)]
    seller_id = seeded["chain"]["seller_id"]
    devices = await database.write(lambda tx: _devices(tx, seller_id, now_ms))
    return {
        "client_id": str(seeded["chain"]["application_id"]),
        "client_secret": seeded["client_secret"],
        "access_token": chains[0].access_token,
        "refresh_tokens": [pair.refresh_token for pair in chains],
        "refresh_runs": REFRESH_RUNS,
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
        password_hash="none",  # noqa: S106 - nobody signs in
        now_ms=now_ms,
    )
    assert seller is not None
    store = await places.create_store(tx, seller.seller_id, "Store", now_ms)
    pos = await places.create_pos(tx, seller.seller_id, store.store_id, "POS", "Till", now_ms)
    assert pos is not None
    chain = {"application_id": application.application_id, "seller_id": seller.seller_id, "scope": SCOPE}
    return {"chain": chain, "client_secret": secret.reveal(), "store_id": store.store_id, "pos_id": pos.pos_id}


async def _chain(tx: Transaction, chain: dict[str, Any]) -> Pair:
    return await issuing.mint_chain(tx, KEYS, live=False, lifetimes=LIFETIMES, **chain)


async def _devices(tx: Transaction, seller_id: int, now_ms: int) -> list[dict[str, str]]:
    """The last terminals have said hello: they poll, and no order is made for them."""
    devices = []
    for number in range(TERMINALS - POLLERS, TERMINALS):
        terminal_id, boot_id = f"NEWLAND_N950__N{100_000_000 + number}", str(uuid.uuid4())
        token = await terminals.mint_token(tx, seller_id, terminal_id, now_ms)
        await leases.begin_session(tx, seller_id, terminal_id, boot_id, "1", 1, now_ms)
        devices.append({"token": token.reveal(), "boot_id": boot_id})
    return devices


async def _terminals(tx: Transaction, seeded: dict[str, Any], first: int) -> None:
    places_of = (seeded["store_id"], seeded["pos_id"])
    await tx.run(INSERT_TERMINALS, seeded["chain"]["seller_id"], *places_of, first, min(first + 50_000, TERMINALS))
