"""Virtual terminals in the database: create one at a point of sale of its own, find it and its place, delete both."""

from __future__ import annotations

from dataclasses import dataclass

from paydesk.core.errors import IN_USE, SELLER_NOT_FOUND
from paydesk.engine.orders import status
from paydesk.engine.orders import store as orders
from paydesk.engine.orders.change import Change
from paydesk.engine.sellers import store as sellers
from paydesk.engine.terminals import own_pos, registry, stores
from paydesk.engine.terminals import store as terminals
from paydesk.engine.terminals.print_actions import store as action_store
from paydesk.engine.terminals.print_actions.action import RELEASE as RELEASE_ACTION
from paydesk.engine.terminals.schemas import SettableMode
from paydesk.engine.terminals.store import Terminal
from paydesk.platform.storage.database import Transaction
from paydesk_dev.virtual.errors import TOO_MANY_TERMINALS

TERMINALS_MAX = 200
"""Virtual terminals of a seller. Each holds a connection and a journal."""

# Terminal ids are unique over all sellers.
FIND_PLACE = """SELECT t.seller_id, p.name, s.country, s.currency
    FROM terminal_owners o
    JOIN terminals t ON t.seller_id = o.seller_id AND t.terminal_id = o.terminal_id
    JOIN pos p ON p.seller_id = t.seller_id AND p.pos_id = t.pos_id
    JOIN sellers s ON s.seller_id = t.seller_id
    WHERE o.terminal_id = $1"""

# The application that the seller authorized first, of those that may create orders.
FIND_APPLICATION = """SELECT a.application_id FROM authorizations a
    JOIN applications p ON p.application_id = a.application_id
    JOIN sellers s ON s.seller_id = a.seller_id
    WHERE a.seller_id = $1 AND a.withdrawn_ms IS NULL AND p.suspended_ms IS NULL AND s.suspended_ms IS NULL
      AND ' ' || a.scope || ' ' LIKE '% write %' AND ' ' || p.scopes || ' ' LIKE '% write %'
    ORDER BY a.created_ms, a.authorization_id LIMIT 1"""

COUNT = "SELECT COUNT(*) FROM terminals WHERE seller_id = $1 AND is_virtual = 1"


@dataclass(frozen=True, slots=True)
class Place:
    """The seller and the point of sale of a terminal."""

    seller_id: int
    name: str
    """That of the point of sale."""
    country: str
    currency: str


async def find_seller(tx: Transaction, seller_id: int | None) -> int:
    """Return the id of this seller, or of the first one. Raises `SELLER_NOT_FOUND`."""
    if seller_id is None:
        existing = await sellers.find_all(tx)
        if existing:
            return existing[0].seller_id
    elif await sellers.lock_shared(tx, seller_id) is not None:
        return seller_id
    raise SELLER_NOT_FOUND.with_reason("unknown seller")


async def create(
    tx: Transaction,
    seller_id: int,
    *,
    script: str,
    operating_mode: SettableMode,
    now_ms: int,
    pos_id: int | None = None,
) -> Terminal:
    """Insert a virtual terminal, at a new point of sale unless the caller has locked one for it.

    Raises `TOO_MANY_TERMINALS`.
    """
    terminal_id = terminals.virtual_id()
    if pos_id is None:
        # In the seller's first store, which is created if needed and locked.
        existing = await stores.stores(tx, seller_id)
        store = existing[0] if existing else await stores.create_store(tx, seller_id, "Store", now_ms)
        name = f"Virtual {own_pos.serial(terminal_id)}"
        pos = await stores.create_pos(tx, seller_id, store.store_id, own_pos.external_id_of(terminal_id), name, now_ms)
        assert pos is not None, "its name contains the new terminal's id"
        pos_id = pos.pos_id
    row = await tx.one(COUNT, seller_id)
    if row is not None and row[0] >= TERMINALS_MAX:
        raise TOO_MANY_TERMINALS.with_reason(
            "too many virtual terminals",
            f"the seller has {row[0]} virtual terminals, the most are {TERMINALS_MAX};"
            " delete one with `DELETE /virtual/v1/terminals/{terminal_id}`",
        )
    terminal = await terminals.create(
        tx,
        seller_id=seller_id,
        pos_id=pos_id,
        terminal_id=terminal_id,
        live=False,
        now_ms=now_ms,
        is_virtual=True,
        operating_mode=operating_mode,
        script=script,
    )
    assert terminal is not None, "the id is random and the point of sale is locked"
    return terminal


async def find(tx: Transaction, seller_id: int | None, terminal_id: str) -> Terminal | None:
    """Return the seller's virtual terminal, or that of any seller; None if there is no such virtual terminal."""
    owner = await registry.owner_of(tx, terminal_id) if seller_id is None else seller_id
    terminal = None if owner is None else await terminals.find(tx, owner, terminal_id)
    return terminal if terminal is not None and terminal.is_virtual else None


async def find_place(tx: Transaction, terminal_id: str) -> Place | None:
    """Return where the terminal is, or None if it was removed."""
    row = await tx.one(FIND_PLACE, terminal_id)
    return Place(*row) if row else None


async def find_application(tx: Transaction, seller_id: int) -> int | None:
    """Return an application that may create orders for the seller, or None."""
    row = await tx.one(FIND_APPLICATION, seller_id)
    return row[0] if row else None


async def of_seller(tx: Transaction, seller_id: int) -> list[Terminal]:
    """Return the virtual terminals of the seller."""
    return [terminal for terminal in await terminals.of_seller(tx, seller_id) if terminal.is_virtual]


async def delete(tx: Transaction, terminal: Terminal, now_ms: int) -> bool:
    """Delete the terminal and the point of sale that was made for it; return False if it is deleted already.

    Raises `IN_USE` while it has a live order or an open print action.
    """
    seller_id, terminal_id = terminal.seller_id, terminal.terminal_id
    await stores.lock_pos(tx, seller_id, terminal.pos_id)
    locked = await terminals.lock(tx, seller_id, terminal_id)
    if locked is None:
        return False
    order = await orders.live_on_terminal(tx, seller_id, terminal_id)
    if order is not None:
        raise IN_USE.with_reason(
            "a live order",
            f"{terminal_id} has the live order {order.order_id} ({order.status}); wait for its end, cancel"
            f" it with `POST /v1/orders/{order.order_id}/cancel` (at_terminal: with `X-Allow-Cancelable-Status:"
            " at_terminal`), or delete the terminal with `?cancel=true`",
        )
    action = await action_store.open_on_terminal(tx, seller_id, terminal_id)
    if action is not None:
        raise IN_USE.with_reason(
            "an open print action",
            f"{terminal_id} has the print action {action.action_id} ({action.status}); wait for its end, cancel"
            f" it with `POST /terminals/v1/actions/{action.action_id}/cancel` (on_terminal: `paydesk terminals"
            " release`), or delete the terminal with `?cancel=true`",
        )
    await own_pos.remove(tx, locked, now_ms)
    return True


async def release(change: Change, terminal: Terminal) -> bool:
    """Cancel what holds the terminal; return False if its order may be charged, and let it take no other order then."""
    tx, seller_id, terminal_id = change.tx, terminal.seller_id, terminal.terminal_id
    await stores.lock_pos(tx, seller_id, terminal.pos_id)
    await terminals.lock(tx, seller_id, terminal_id)
    action = await action_store.open_on_terminal(tx, seller_id, terminal_id)
    if action is not None:
        await action_store.end(tx, action, RELEASE_ACTION, change.now_ms)
    found = await orders.live_on_terminal(tx, seller_id, terminal_id)
    order = None if found is None else await orders.lock(tx, seller_id, found.order_id)
    if order is None or (await orders.expire_overdue(change, order)).status not in status.LIVE:
        return True
    if await orders.end(change, status.RELEASE, order, "detached") is not None:
        return True
    await terminals.set_mode(tx, seller_id, terminal_id, "STANDALONE")
    return False
