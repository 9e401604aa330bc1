"""The SQL of orders. A move is one conditional UPDATE, with its event and deliveries in the same transaction."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

import msgspec

from paydesk.engine.orders import events, status
from paydesk.engine.orders.change import Change
from paydesk.engine.orders.order import Order
from paydesk.engine.orders.status import Move, State, in_states
from paydesk.engine.terminals import modes
from paydesk.platform.storage.database import Transaction

EndedBy = Literal["result", "authorization", "abort", "inquiry", "operator", "expiry", "cancel", "detached"]
"""The cause of a lease's end."""

COLUMNS = ", ".join(Order.__struct_fields__)
LIVE_STATUSES = ", ".join(f"'{name}'" for name in status.LIVE)

FIND = f"SELECT {COLUMNS} FROM orders WHERE seller_id = $1 AND order_id = $2"

LOCK = f"{FIND} FOR UPDATE"

TRY_LOCK = f"{FIND} FOR UPDATE SKIP LOCKED"

LIVE_ON_TERMINAL = f"""
SELECT {COLUMNS} FROM orders WHERE seller_id = $1 AND terminal_id = $2 AND status IN ({LIVE_STATUSES})"""

# A new order has the defaults of the other columns.
_NEW = Order.__struct_fields__[: -len(Order.__struct_defaults__)]
_PLACES = {column: place for place, column in enumerate(_NEW, start=1)}
_TYPES = {column: "bigint" if Order.__annotations__[column] in ("int", "int | None") else "text" for column in _NEW}

CREATE = f"""
INSERT INTO orders ({", ".join(_NEW)}, refunded_minor)
VALUES ({", ".join(f"${place}" for place in range(1, len(_NEW) + 1))}, 0)
ON CONFLICT DO NOTHING"""

# The terminal accepts orders and has no print action; it stays locked until the commit, so its mode cannot change.
CREATE_ON_FREE_TERMINAL = f"""
INSERT INTO orders ({", ".join(_NEW)}, refunded_minor)
SELECT {", ".join(f"CAST(${place} AS {_TYPES[column]})" for column, place in _PLACES.items())}, 0
  FROM terminals WHERE seller_id = $1 AND terminal_id = ${_PLACES["terminal_id"]} AND live = ${_PLACES["live"]}
   AND action_id IS NULL AND operating_mode IN ({", ".join(f"'{mode}'" for mode in modes.ORDER_MODES)}) FOR UPDATE
ON CONFLICT DO NOTHING"""

END_LEASE = """
UPDATE leases SET ended_ms = $3, ended_by = $4 WHERE seller_id = $1 AND lease_id = $2 AND ended_ms IS NULL"""

# The status condition matches the index on live orders. The guard excludes orders that can no longer expire, which
# would otherwise remain due.
_CAN_EXPIRE = f"status IN ({LIVE_STATUSES}) AND {status.EXPIRE.guard}"

OVERDUE = f"""
SELECT {COLUMNS} FROM orders WHERE {_CAN_EXPIRE} AND expires_ms <= $1 ORDER BY expires_ms LIMIT $2"""

NEXT_EXPIRY = f"SELECT MIN(expires_ms) FROM orders WHERE {_CAN_EXPIRE}"

# An approval that waits for its terminal has a time of its own.
AWAITING_OUTCOME = f"""
SELECT {COLUMNS} FROM orders WHERE {status.CHECK.guard} AND permitted_ms <= $1
   AND NOT EXISTS (SELECT 1 FROM confirmations c WHERE c.seller_id = orders.seller_id AND c.order_id = orders.order_id
                      AND c.status = 'provisional')
 ORDER BY permitted_ms LIMIT $2"""

# The request has no effect on the state; of several, the first time is kept.
RECORD_CANCEL_REQUEST = f"""
UPDATE orders SET cancel_requested_ms = COALESCE(cancel_requested_ms, $3)
WHERE seller_id = $1 AND order_id = $2 AND {in_states(*status.BEFORE_CHECK)}
RETURNING {COLUMNS}"""

AWAITING_RELEASE = f"""
SELECT {COLUMNS} FROM orders
WHERE {status.CONFIRM_CANCEL.guard} AND cancel_requested_ms <= $1 ORDER BY cancel_requested_ms LIMIT $2"""

# at_terminal, before authorization -> permitted: the point of no return. Cancel and expiry are guarded by this column.
PERMIT_AUTHORIZATION = f"""
UPDATE orders SET permitted_ms = $3
 WHERE seller_id = $1 AND order_id = $2 AND {in_states(status.AT_TERMINAL)}
   AND permitted_ms IS NULL AND expires_ms > $3"""

# A detached order's terminal gets no permit, and its results do not change the order.
DETACH = f"""
UPDATE orders SET detached_ms = $3
 WHERE seller_id = $1 AND order_id = $2 AND {in_states(*status.ALL_AT_TERMINAL)}"""

REATTACH = f"""
UPDATE orders SET detached_ms = NULL
 WHERE seller_id = $1 AND order_id = $2 AND {in_states(status.CHECK_ON_TERMINAL)}"""

# Terminals with an order to acknowledge or release, paged along the index of live orders.
AWAITING_TERMINAL = f"""
SELECT seller_id, terminal_id FROM orders
WHERE status IN ({LIVE_STATUSES}) AND permitted_ms IS NULL
  AND {in_states(status.CREATED, status.CANCELLATION_REQUESTED)}
  AND (seller_id, terminal_id) > ($1, $2)
ORDER BY seller_id, terminal_id LIMIT $3"""

STATUS_SINCE = """
SELECT MIN(created_ms) FROM order_events
WHERE seller_id = $1 AND order_id = $2 AND status = $3 AND status_detail = $4"""

INQUIRE = """
INSERT INTO inquiries (seller_id, order_id, live, reason, attempts, next_ms, created_ms)
VALUES ($1, $2, $3, $4, 0, $5, $5) ON CONFLICT DO NOTHING"""

# The first step of the inquiry reverses it.
UNDO_PROVISIONAL = """
UPDATE confirmations SET status = 'undone', claimed_until_ms = 0
 WHERE seller_id = $1 AND order_id = $2 AND status = 'provisional'"""


@cache
def _move_sql(move: Move, changed: tuple[str, ...], where: str) -> str:
    changes = "".join(f", {column} = ${place}" for place, column in enumerate(changed, start=7))
    # A move without a target keeps the state that the row has now, which may differ from the one that was read.
    states = (
        f"{column} = COALESCE(CAST(${place} AS text), {column})"
        for place, column in enumerate(("status", "status_detail", "payment_status_detail"), start=4)
    )
    return (
        f"UPDATE orders SET version = version + 1, updated_ms = $3, {', '.join(states)}{changes}"
        f" WHERE seller_id = $1 AND order_id = $2 AND {move.guard}{where and f' AND {where}'} RETURNING {COLUMNS}"
    )


async def find(tx: Transaction, seller_id: int, order_id: str) -> Order | None:
    """Return the order, or None."""
    row = await tx.one(FIND, seller_id, order_id)
    return Order(*row) if row else None


async def lock(tx: Transaction, seller_id: int, order_id: str) -> Order | None:
    """Return the order, locked until the transaction ends, or None."""
    row = await tx.one(LOCK, seller_id, order_id)
    return Order(*row) if row else None


async def try_lock(tx: Transaction, seller_id: int, order_id: str) -> Order | None:
    """Return the order, locked until the transaction ends; None if another transaction has locked it."""
    row = await tx.one(TRY_LOCK, seller_id, order_id)
    return Order(*row) if row else None


async def live_on_terminal(tx: Transaction, seller_id: int, terminal_id: str) -> Order | None:
    """Return the terminal's one live order, or None."""
    row = await tx.one(LIVE_ON_TERMINAL, seller_id, terminal_id)
    return Order(*row) if row else None


async def create(change: Change, order: Order) -> bool:
    """Insert the order with its first event; False if its terminal already has a live order."""
    if not await change.tx.run(CREATE, *_inserted(order)):
        return False
    events.record(change, status.CREATE, order)
    return True


def create_on_free_terminal(change: Change, order: Order) -> None:
    """Insert the order with its first event. If its terminal is not free for it, the work is overtaken."""
    change.tx.defer(CREATE_ON_FREE_TERMINAL, *_inserted(order), required=True)
    events.record(change, status.CREATE, order)


def _inserted(order: Order) -> tuple[Any, ...]:
    """Return the values that `CREATE` inserts."""
    values = msgspec.structs.astuple(order)
    assert values[len(_NEW) :] == Order.__struct_defaults__, (
        "in Order, a field that a new order sets stands before those with a default"
    )
    return values[: len(_NEW)]


async def move(
    change: Change,
    move: Move,
    order: Order,
    *,
    to: State | None = None,
    where: str = "",
    **columns: Any,
) -> Order | None:
    """Make a move of the table and return the order; None if the move's guard does not hold for the current row.

    `to` is required if the move has several targets. `where` is an additional condition ($3 is the time); `columns` are
    further columns to set.
    """
    target = to or (move.targets[0] if move.targets else None)
    assert target is None or target in move.targets, f"{move.name} does not lead to {target}"
    row = await change.tx.one(
        _move_sql(move, tuple(columns), where),
        order.seller_id,
        order.order_id,
        change.now_ms,
        target and target.status,
        target and target.detail,
        target and target.payment_detail,
        *columns.values(),
    )
    if row is None:
        return None
    moved = Order(*row)
    events.record(change, move, moved)
    return moved


async def end(
    change: Change,
    move_: Move,
    order: Order,
    by: EndedBy,
    *,
    to: State | None = None,
    where: str = "",
    **columns: Any,
) -> Order | None:
    """Make a move that ends the order at its terminal, and end the terminal's lease; None if the move is not made."""
    ended = await move(change, move_, order, to=to, where=where, **columns)
    if ended is not None:
        await end_lease(change, ended, by)
    return ended


async def confirm_cancel(change: Change, order: Order) -> Order | None:
    """Cancel an order that its terminal has released or does not answer for; None if no cancel was requested."""
    return await end(change, status.CONFIRM_CANCEL, order, "cancel")


async def expire_overdue(change: Change, order: Order) -> Order:
    """Expire the order if its time is over; return its current row."""
    if not order.is_overdue(change.now_ms):
        return order
    expired = await end(change, status.EXPIRE, order, "expiry", where="expires_ms <= $3")
    if expired is not None:
        return expired
    current = await find(change.tx, order.seller_id, order.order_id)
    assert current is not None, "live orders are never deleted"
    return current


async def end_lease(change: Change, order: Order, by: EndedBy) -> None:
    """End the terminal's lease of the order, if it has one."""
    await change.tx.run(END_LEASE, order.seller_id, order.ulid, change.now_ms, by)


async def permit_authorization(change: Change, order: Order) -> bool:
    """Permit the terminal to authorize; False if the order's state does not allow it or a permit was issued before."""
    return bool(await change.tx.run(PERMIT_AUTHORIZATION, order.seller_id, order.order_id, change.now_ms))


async def detach(change: Change, order: Order) -> None:
    """Detach the order from its terminal."""
    await change.tx.run(DETACH, order.seller_id, order.order_id, change.now_ms)


async def reattach(tx: Transaction, order: Order) -> None:
    """Attach the order to its terminal again."""
    await tx.run(REATTACH, order.seller_id, order.order_id)


async def due(tx: Transaction, sql: str, before_ms: int, limit: int) -> list[Order]:
    """Return orders of all sellers that are `OVERDUE`, `AWAITING_OUTCOME` or `AWAITING_RELEASE` since before a time."""
    return [Order(*row) for row in await tx.all(sql, before_ms, limit)]


async def next_expiry_ms(tx: Transaction) -> int | None:
    """Return when the next live order expires."""
    row = await tx.one(NEXT_EXPIRY)
    return row[0] if row else None


async def status_since_ms(tx: Transaction, order: Order) -> int:
    """Return since when the order has its status and detail."""
    row = await tx.one(STATUS_SINCE, order.seller_id, order.order_id, order.status, order.status_detail)
    assert row is not None, "an aggregate has a row"
    return int(row[0])


async def record_cancel_request(change: Change, order: Order) -> Order | None:
    """Record a cancel request; None if the order is not at its terminal or its outcome is unknown."""
    row = await change.tx.one(RECORD_CANCEL_REQUEST, order.seller_id, order.order_id, change.now_ms)
    return Order(*row) if row else None


async def awaiting_terminal(tx: Transaction, seller_id: int, terminal_id: str, limit: int) -> list[tuple[int, str]]:
    """Return up to `limit` sellers and terminals after this terminal with an order to acknowledge or release."""
    return [(row[0], row[1]) for row in await tx.all(AWAITING_TERMINAL, seller_id, terminal_id, limit)]


async def inquire(change: Change, order: Order, reason: str) -> None:
    """Start an inquiry about the order's outcome, unless it has one; an approval that waits for a result is undone."""
    await change.tx.run(UNDO_PROVISIONAL, order.seller_id, order.order_id)
    if await change.tx.run(INQUIRE, order.seller_id, order.order_id, order.live, reason, change.now_ms):
        change.tx.notify("money")
