"""The point of sale of a new terminal: one that a request names, or one of the terminal's own."""

from __future__ import annotations

from paydesk.core.errors import PROPERTY_VALUE
from paydesk.engine.terminals import stores
from paydesk.engine.terminals.stores import Pos
from paydesk.operators.errors import POS_NOT_FOUND, STORE_NOT_FOUND
from paydesk.platform.storage.database import Transaction

SAME_NAME_MAX = 20


async def find(
    tx: Transaction, seller_id: int, terminal_id: str, *, store_id: int | None, pos_id: int | None, now_ms: int
) -> Pos:
    """Return the point of sale, locked until the transaction ends.

    Without `pos_id` it is one named after the terminal, created if needed, in the store or the seller's first one.
    Raises `STORE_NOT_FOUND`, `POS_NOT_FOUND`, and `PROPERTY_VALUE` for a point of sale of another store.
    """
    if pos_id is None:
        existing = await stores.stores(tx, seller_id)
        if store_id is None:
            first = existing[0] if existing else await stores.create_store(tx, seller_id, "Store", now_ms)
            store_id = first.store_id
        elif not any(one.store_id == store_id for one in existing):
            raise STORE_NOT_FOUND.with_reason("not a store of this seller")
        return await _own_pos(tx, seller_id, store_id, terminal_id, now_ms)
    pos = await stores.lock_pos(tx, seller_id, pos_id)
    if pos is None:
        raise POS_NOT_FOUND.with_reason("not a point of sale of this seller")
    if store_id not in (None, pos.store_id):
        raise PROPERTY_VALUE.with_reason(
            "store_id is not the point of sale's",
            f"'$.store_id' - must be {pos.store_id}, the store of the point of sale, or omitted",
        )
    return pos


async def _own_pos(tx: Transaction, seller_id: int, store_id: int, terminal_id: str, now_ms: int) -> Pos:
    """Return the store's point of sale of the terminal's name; a number follows if another store has that name."""
    for number in range(1, SAME_NAME_MAX + 1):
        name = terminal_id if number == 1 else f"{terminal_id}-{number}"
        pos = await stores.create_pos(tx, seller_id, store_id, name, name, now_ms)
        if pos is not None:
            return pos
        existing = await stores.by_external_id(tx, seller_id, name)
        if existing is not None and existing.store_id == store_id:
            locked = await stores.lock_pos(tx, seller_id, existing.pos_id)
            if locked is not None:
                return locked
    # The store was deleted meanwhile, or every name is taken.
    raise STORE_NOT_FOUND.with_reason("no point of sale could be created in the store")
