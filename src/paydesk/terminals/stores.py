"""Stores and their points of sale, where terminals are installed."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from paydesk.storage.database import Transaction


@dataclass(frozen=True, slots=True)
class Store:
    """A shop of a seller."""

    seller_id: int
    store_id: int
    name: str
    created_ms: int


@dataclass(frozen=True, slots=True)
class Pos:
    """A point of sale in a store; `external_pos_id` is the seller's own id for it."""

    seller_id: int
    pos_id: int
    store_id: int
    external_pos_id: str
    name: str
    created_ms: int


_STORE = "seller_id, store_id, name, created_ms"
_POS = "seller_id, pos_id, store_id, external_pos_id, name, created_ms"

INSERT_STORE = f"INSERT INTO stores ({_STORE}) VALUES ($1, $2, $3, $4)"

STORES = f"SELECT {_STORE} FROM stores WHERE seller_id = $1 ORDER BY created_ms, store_id"

# Inserts nothing if the store is not the seller's or the external id is taken.
INSERT_POS = f"""INSERT INTO pos ({_POS})
    SELECT seller_id, CAST($2 AS bigint), store_id, CAST($4 AS text), CAST($5 AS text), CAST($6 AS bigint)
      FROM stores WHERE seller_id = $1 AND store_id = $3
    ON CONFLICT DO NOTHING RETURNING {_POS}"""

FIND_POS = f"SELECT {_POS} FROM pos WHERE seller_id = $1 AND pos_id = $2"

BY_EXTERNAL_ID = f"SELECT {_POS} FROM pos WHERE seller_id = $1 AND external_pos_id = $2"

# The lock that protects the rule of one PDV terminal per point of sale, and a used point of sale from deletion.
LOCK_POS = f"{FIND_POS} FOR UPDATE"

LOCK_STORE = f"SELECT {_STORE} FROM stores WHERE seller_id = $1 AND store_id = $2 FOR UPDATE"


async def create_store(tx: Transaction, seller_id: int, name: str, now_ms: int) -> Store:
    """Insert a store of the seller."""
    store = Store(seller_id, _new_id(), name, now_ms)
    await tx.run(INSERT_STORE, seller_id, store.store_id, name, now_ms)
    return store


async def stores(tx: Transaction, seller_id: int) -> list[Store]:
    """Return the seller's stores, oldest first."""
    return [Store(*row) for row in await tx.all(STORES, seller_id)]


async def create_pos(
    tx: Transaction, seller_id: int, store_id: int, external_pos_id: str, name: str, now_ms: int
) -> Pos | None:
    """Insert a point of sale; return None if the seller has no such store or the external id is taken."""
    if await lock_store(tx, seller_id, store_id) is None:
        return None
    row = await tx.one(INSERT_POS, seller_id, _new_id(), store_id, external_pos_id, name, now_ms)
    return Pos(*row) if row else None


async def find_pos(tx: Transaction, seller_id: int, pos_id: int) -> Pos | None:
    """Return the point of sale, or None."""
    row = await tx.one(FIND_POS, seller_id, pos_id)
    return Pos(*row) if row else None


async def by_external_id(tx: Transaction, seller_id: int, external_pos_id: str) -> Pos | None:
    """Return the point of sale with the seller's own id for it, or None."""
    row = await tx.one(BY_EXTERNAL_ID, seller_id, external_pos_id)
    return Pos(*row) if row else None


async def lock_pos(tx: Transaction, seller_id: int, pos_id: int) -> Pos | None:
    """Return the point of sale, locked until the transaction ends, or None."""
    row = await tx.one(LOCK_POS, seller_id, pos_id)
    return Pos(*row) if row else None


async def lock_store(tx: Transaction, seller_id: int, store_id: int) -> Store | None:
    """Return the store, locked until the transaction ends, or None."""
    row = await tx.one(LOCK_STORE, seller_id, store_id)
    return Store(*row) if row else None


def _new_id() -> int:
    return 10_000_000 + secrets.randbelow(990_000_000)
