"""The SQL of orders. A move is one conditional UPDATE, and with it its event and its deliveries, or nothing at all."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from paydesk.core import ids
from paydesk.orders import status, status_labels
from paydesk.orders.order import Order
from paydesk.orders.presentation import notified
from paydesk.orders.status import Move, State
from paydesk.storage.database import Transaction
from paydesk.webhooks import outbox
from paydesk.webhooks.schemas import notification

COLUMNS = ", ".join(Order.__struct_fields__)
LIVE_STATUSES = ", ".join(f"'{name}'" for name in status.LIVE)

FIND = f"SELECT {COLUMNS} FROM orders WHERE seller_id = $1 AND order_id = $2"

LOCK = f"{FIND} FOR UPDATE"

TRY_LOCK = f"{FIND} FOR UPDATE SKIP LOCKED"

LIVE_ON_TERMINAL = f"""
SELECT {COLUMNS} FROM orders WHERE seller_id = $1 AND terminal_id = $2 AND status IN ({LIVE_STATUSES})"""

# What a new order has no value for yet is left to the columns' own NULL.
_NEW = Order.__struct_fields__[: -len(Order.__struct_defaults__)]

CREATE = f"""
INSERT INTO orders ({", ".join(_NEW)}, refunded_minor)
VALUES ({", ".join(f"${place}" for place in range(1, len(_NEW) + 1))}, 0)
ON CONFLICT DO NOTHING"""

RECORD_EVENT = """
INSERT INTO order_events (seller_id, order_id, version, event_id, action, move, status, status_detail,
                          payment_status_detail, body, created_ms, application_id, live)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)"""

END_LEASE = """
UPDATE leases SET ended_ms = $3, ended_by = $4 WHERE seller_id = $1 AND lease_id = $2 AND ended_ms IS NULL"""

# The index is on what is live; the move's own guard leaves out what no longer expires, or it would be due for ever.
_CAN_EXPIRE = f"status IN ({LIVE_STATUSES}) AND {status.EXPIRE.guard}"

OVERDUE = f"""
SELECT {COLUMNS} FROM orders WHERE {_CAN_EXPIRE} AND expires_ms <= $1 ORDER BY expires_ms LIMIT $2"""

NEXT_EXPIRY = f"SELECT MIN(expires_ms) FROM orders WHERE {_CAN_EXPIRE}"

SILENT = f"""
SELECT {COLUMNS} FROM orders
WHERE status = 'at_terminal' AND permitted_ms <= $1 AND payment_status_detail <> 'check_on_terminal'
ORDER BY permitted_ms LIMIT $2"""

# The wish comes too late to win, or again: the first one stays.
RECORD_CANCEL_REQUEST = f"""
UPDATE orders SET cancel_requested_ms = COALESCE(cancel_requested_ms, $3)
WHERE seller_id = $1 AND order_id = $2 AND status = 'at_terminal' AND payment_status_detail <> 'check_on_terminal'
RETURNING {COLUMNS}"""

NOT_RELEASED = f"""
SELECT {COLUMNS} FROM orders
WHERE payment_status_detail = 'cancellation_requested' AND permitted_ms IS NULL AND cancel_requested_ms <= $1
ORDER BY cancel_requested_ms LIMIT $2"""

# What a terminal still has to be told of, in steps along the index of live orders.
MISSED_WAKEUPS = f"""
SELECT seller_id, terminal_id FROM orders
WHERE status IN ({LIVE_STATUSES}) AND permitted_ms IS NULL
  AND (status = 'created' OR payment_status_detail = 'cancellation_requested')
  AND (seller_id, terminal_id) > ($1, $2)
ORDER BY seller_id, terminal_id LIMIT $3"""

INQUIRE = """
INSERT INTO inquiries (seller_id, order_id, live, reason, attempts, next_ms, created_ms)
VALUES ($1, $2, $3, $4, 0, $5, $5) ON CONFLICT DO NOTHING"""


@cache
def _move_sql(move: Move, changed: tuple[str, ...], where: str) -> str:
    changes = "".join(f", {column} = ${place}" for place, column in enumerate(changed, start=7))
    # A move without a target of its own leaves the state of the row as it is now, not as it was read.
    states = (
        f"{column} = COALESCE(CAST(${place} AS text), {column})"
        for place, column in enumerate(("status", "status_detail", "payment_status_detail"), start=4)
    )
    return (
        f"UPDATE orders SET version = version + 1, updated_ms = $3, {', '.join(states)}{changes}"
        f" WHERE seller_id = $1 AND order_id = $2 AND {move.guard}{where and f' AND {where}'} RETURNING {COLUMNS}"
    )


async def find(tx: Transaction, seller_id: int, order_id: str) -> Order | None:
    """The order, or None."""
    row = await tx.one(FIND, seller_id, order_id)
    return Order(*row) if row else None


async def lock(tx: Transaction, seller_id: int, order_id: str) -> Order | None:
    """The order, held until the end of the transaction, or None."""
    row = await tx.one(LOCK, seller_id, order_id)
    return Order(*row) if row else None


async def try_lock(tx: Transaction, seller_id: int, order_id: str) -> Order | None:
    """The order, held until the end of the transaction; None where another transaction holds it."""
    row = await tx.one(TRY_LOCK, seller_id, order_id)
    return Order(*row) if row else None


async def live_on_terminal(tx: Transaction, seller_id: int, terminal_id: str) -> Order | None:
    """The one order that is created or at_terminal there, or None."""
    row = await tx.one(LIVE_ON_TERMINAL, seller_id, terminal_id)
    return Order(*row) if row else None


async def create(tx: Transaction, order: Order, now_ms: int) -> bool:
    """Insert the order with its first event; False when its terminal has a live one already."""
    if not await tx.run(CREATE, *msgspec.structs.astuple(order)[: len(_NEW)]):
        return False
    _record(tx, status.CREATE, order, now_ms)
    return True


async def move(
    tx: Transaction,
    move: Move,
    order: Order,
    now_ms: int,
    *,
    to: State | None = None,
    where: str = "",
    **changes: Any,
) -> Order | None:
    """Make a move of the table, or None when its guard does not hold on the row as it is now.

    `to` may be left out where the move has one target. `where` narrows the guard further ($3 is `now_ms`); `changes`
    are columns set with it.
    """
    target = to or (move.targets[0] if move.targets else None)
    assert target is None or target in move.targets, f"{move.name} does not lead to {target}"
    row = await tx.one(
        _move_sql(move, tuple(changes), where),
        order.seller_id,
        order.order_id,
        now_ms,
        target and target.status,
        target and target.detail,
        target and target.payment_detail,
        *changes.values(),
    )
    if row is None:
        return None
    moved = Order(*row)
    _record(tx, move, moved, now_ms)
    return moved


async def expire_overdue(tx: Transaction, order: Order, now_ms: int) -> Order:
    """Move the order to expired when its time ran out; the row as it is now."""
    if not order.is_overdue(now_ms):
        return order
    expired = await move(tx, status.EXPIRE, order, now_ms, where="expires_ms <= $3")
    if expired is not None:
        await end_lease(tx, expired, "expiry", now_ms)
        return expired
    current = await find(tx, order.seller_id, order.order_id)
    assert current is not None, "orders are never deleted while they live"
    return current


async def end_lease(tx: Transaction, order: Order, by: str, now_ms: int) -> None:
    """The terminal's hold on the order ends, by `result`, `expiry`, `cancel` or `detached`."""
    await tx.run(END_LEASE, order.seller_id, order.ulid, now_ms, by)


async def overdue(tx: Transaction, now_ms: int, limit: int) -> list[Order]:
    """Orders of all sellers whose time ran out."""
    return [Order(*row) for row in await tx.all(OVERDUE, now_ms, limit)]


async def next_expiry_ms(tx: Transaction) -> int | None:
    """When the next live order runs out of time."""
    row = await tx.one(NEXT_EXPIRY)
    return row[0] if row else None


async def silent(tx: Transaction, granted_before_ms: int, limit: int) -> list[Order]:
    """Orders of all sellers that were granted before and whose outcome is still to come."""
    return [Order(*row) for row in await tx.all(SILENT, granted_before_ms, limit)]


async def record_cancel_request(tx: Transaction, order: Order, now_ms: int) -> Order | None:
    """Note that a cancel was asked for; None where the order is not at its terminal or its outcome is unknown."""
    row = await tx.one(RECORD_CANCEL_REQUEST, order.seller_id, order.order_id, now_ms)
    return Order(*row) if row else None


async def not_released(tx: Transaction, asked_before_ms: int, limit: int) -> list[Order]:
    """Orders of all sellers whose terminal was asked for them before and has not answered."""
    return [Order(*row) for row in await tx.all(NOT_RELEASED, asked_before_ms, limit)]


async def missed_wakeups(tx: Transaction, seller_id: int, terminal_id: str, limit: int) -> list[tuple[int, str]]:
    """Sellers and terminals behind this one whose order is to be taken by the terminal, or given back."""
    return [(row[0], row[1]) for row in await tx.all(MISSED_WAKEUPS, seller_id, terminal_id, limit)]


async def inquire(tx: Transaction, order: Order, reason: str, now_ms: int) -> None:
    """Note that the acquirer is to be asked for the truth; once is enough."""
    if await tx.run(INQUIRE, order.seller_id, order.order_id, order.live, reason, now_ms):
        tx.notify("money")


def _record(tx: Transaction, move: Move, order: Order, now_ms: int) -> None:
    event_id, action = ids.uuid(), status_labels.action_of(move, order)
    body = notification(
        event_id=event_id,
        action=action,
        application_id=order.application_id,
        user_id=order.seller_id,
        live=bool(order.live),
        now_ms=now_ms,
        data=notified(order),
    )
    tx.defer(
        RECORD_EVENT,
        order.seller_id,
        order.order_id,
        order.version,
        event_id,
        action,
        move.name,
        order.status,
        order.status_detail,
        order.payment_status_detail,
        body.decode(),
        now_ms,
        order.application_id,
        order.live,
    )
    outbox.announce(
        tx,
        seller_id=order.seller_id,
        order_id=order.order_id,
        version=order.version,
        event_id=event_id,
        application_id=order.application_id,
        live=bool(order.live),
        action=action,
        now_ms=now_ms,
    )
    tx.notify(f"terminal:{order.terminal_id}")
    tx.notify(f"events:{order.seller_id}.{order.application_id}.{order.live}")
