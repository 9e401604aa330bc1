"""Stores and their points of sale, where terminals are installed."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from paydesk.platform.storage.database import Transaction

NAMED_MAX = 10
"""Maximum number of users of a store or a point of sale that a refusal names."""


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

INSERT_STORE = f"INSERT INTO stores ({_STORE}) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING"

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


CHANGE_STORE = "UPDATE stores SET name = $3 WHERE seller_id = $1 AND store_id = $2"

CHANGE_POS = "UPDATE pos SET name = $3, external_pos_id = $4 WHERE seller_id = $1 AND pos_id = $2"

# A row of the seller's own that no list shows: it has the external id until the commit, or until it is deleted.
CLAIM_EXTERNAL_ID = f"INSERT INTO pos ({_POS}) VALUES ($1, $2, 0, $3, '', 0) ON CONFLICT DO NOTHING"

DELETE_POS = "DELETE FROM pos WHERE seller_id = $1 AND pos_id = $2"

DELETE_STORE = "DELETE FROM stores WHERE seller_id = $1 AND store_id = $2"

ON_POS = "SELECT terminal_id FROM terminals WHERE seller_id = $1 AND pos_id = $2 ORDER BY terminal_id LIMIT $3"

IN_STORE = "SELECT pos_id FROM pos WHERE seller_id = $1 AND store_id = $2 ORDER BY pos_id LIMIT $3"


async def create_store(tx: Transaction, seller_id: int, name: str, now_ms: int) -> Store:
    """Insert a store of the seller."""
    while True:
        store = Store(seller_id, _new_id(), name, now_ms)
        # A seller with thousands of stores may draw an id twice.
        if await tx.run(INSERT_STORE, seller_id, store.store_id, name, now_ms):
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


async def change_store(tx: Transaction, seller_id: int, store_id: int, *, name: str) -> None:
    """Rename the store."""
    await tx.run(CHANGE_STORE, seller_id, store_id, name)


async def change_pos(tx: Transaction, pos: Pos, *, name: str, external_pos_id: str) -> bool:
    """Change the name and the external id; return False if another point of sale of the seller has that id."""
    if external_pos_id != pos.external_pos_id and not await _claim_external_id(tx, pos, external_pos_id):
        return False
    return bool(await tx.run(CHANGE_POS, pos.seller_id, pos.pos_id, name, external_pos_id))


async def _claim_external_id(tx: Transaction, pos: Pos, external_pos_id: str) -> bool:
    """Return whether the external id is free; if so, no other transaction can take it before the commit."""
    placeholder_id = -pos.pos_id
    claimed = await tx.run(CLAIM_EXTERNAL_ID, pos.seller_id, placeholder_id, external_pos_id)
    return bool(claimed and await tx.run(DELETE_POS, pos.seller_id, placeholder_id))


async def delete_pos(tx: Transaction, seller_id: int, pos_id: int) -> None:
    """Delete a point of sale, which the caller has locked and found unused."""
    await tx.run(DELETE_POS, seller_id, pos_id)


async def delete_store(tx: Transaction, seller_id: int, store_id: int) -> None:
    """Delete a store, which the caller has locked and found empty."""
    await tx.run(DELETE_STORE, seller_id, store_id)


async def terminals_on(tx: Transaction, seller_id: int, pos_id: int) -> list[str]:
    """Return the ids of terminals at the point of sale, at most `NAMED_MAX`."""
    return [row[0] for row in await tx.all(ON_POS, seller_id, pos_id, NAMED_MAX)]


async def points_of_sale_in(tx: Transaction, seller_id: int, store_id: int) -> list[int]:
    """Return the ids of points of sale in the store, at most `NAMED_MAX`."""
    return [row[0] for row in await tx.all(IN_STORE, seller_id, store_id, NAMED_MAX)]


def _new_id() -> int:
    return 10_000_000 + secrets.randbelow(990_000_000)
