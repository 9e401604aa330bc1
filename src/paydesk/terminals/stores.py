"""Stores and their points of sale: where terminals stand. Small and seldom changed."""

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
    """A point of sale in a store; `external_pos_id` is the seller's own name for it."""

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

# In: a new point of sale, where the store is the seller's and the external id is not taken.
INSERT_POS = f"""INSERT INTO pos ({_POS})
    SELECT seller_id, CAST($2 AS bigint), store_id, CAST($4 AS text), CAST($5 AS text), CAST($6 AS bigint)
      FROM stores WHERE seller_id = $1 AND store_id = $3
    ON CONFLICT DO NOTHING RETURNING {_POS}"""

POINTS_OF_SALE = f"SELECT {_POS} FROM pos WHERE seller_id = $1 ORDER BY created_ms, pos_id"

FIND_POS = f"SELECT {_POS} FROM pos WHERE seller_id = $1 AND pos_id = $2"

# The row is the lock on the rule of one PDV terminal for each point of sale.
LOCK_POS = "SELECT pos_id FROM pos WHERE seller_id = $1 AND pos_id = $2 FOR UPDATE"


async def create_store(tx: Transaction, seller_id: int, name: str, now_ms: int) -> Store:
    """A new store of the seller."""
    store = Store(seller_id, _number(), name, now_ms)
    await tx.run(INSERT_STORE, seller_id, store.store_id, name, now_ms)
    return store


async def stores(tx: Transaction, seller_id: int) -> list[Store]:
    """The seller's stores, the oldest first."""
    return [Store(*row) for row in await tx.all(STORES, seller_id)]


async def create_pos(
    tx: Transaction, seller_id: int, store_id: int, external_pos_id: str, name: str, now_ms: int
) -> Pos | None:
    """A new point of sale; None where the seller has no such store or the external id is taken."""
    row = await tx.one(INSERT_POS, seller_id, _number(), store_id, external_pos_id, name, now_ms)
    return Pos(*row) if row else None


async def points_of_sale(tx: Transaction, seller_id: int) -> list[Pos]:
    """The seller's points of sale, the oldest first."""
    return [Pos(*row) for row in await tx.all(POINTS_OF_SALE, seller_id)]


async def find_pos(tx: Transaction, seller_id: int, pos_id: int) -> Pos | None:
    """The point of sale, or None."""
    row = await tx.one(FIND_POS, seller_id, pos_id)
    return Pos(*row) if row else None


async def lock_pos(tx: Transaction, seller_id: int, pos_id: int) -> None:
    """Hold the point of sale until the end of the transaction."""
    await tx.one(LOCK_POS, seller_id, pos_id)


def _number() -> int:
    return 10_000_000 + secrets.randbelow(990_000_000)
