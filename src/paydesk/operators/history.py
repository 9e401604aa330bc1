"""The history of an order with its notifications, the list of deliveries, and operator events."""

from __future__ import annotations

from typing import Any

import msgspec

from paydesk.core import ids
from paydesk.core.clock import rfc3339
from paydesk.operation import Answer, Call
from paydesk.operators import lists
from paydesk.orders import store as orders
from paydesk.orders.errors import ORDER_NOT_FOUND
from paydesk.orders.presentation import OrderDocument, order_document
from paydesk.orders.status_labels import Labels, labels_of
from paydesk.storage.database import Row, Transaction
from paydesk.webhooks import schedule
from paydesk.webhooks.schemas import CONNECT_TOPIC, TOPIC

DELIVERY_STATUSES = schedule.DELIVERIES.names

# Operators send only the order's id: one primary key lookup per seller instead of a scan of all orders.
OWNER = """
SELECT sellers.seller_id FROM sellers
JOIN orders ON orders.seller_id = sellers.seller_id AND orders.order_id = $1"""

MOVES = """
SELECT version, event_id, action, move, status, status_detail, payment_status_detail, created_ms
FROM order_events WHERE seller_id = $1 AND order_id = $2 ORDER BY version"""

# An attempt in progress is not counted: it has not failed yet.
_DELIVERY = f"""
seller_id, delivery_id, subscription_id, order_id, version, status,
attempts - CASE WHEN {schedule.PENDING} AND claimed_until_ms > 0 THEN 1 ELSE 0 END,
next_ms, created_ms, ended_ms"""

DELIVERIES_OF_ORDER = f"""
SELECT {_DELIVERY} FROM deliveries WHERE seller_id = $1 AND order_id = $2 ORDER BY version, subscription_id"""

DELIVERIES = f"""
SELECT {_DELIVERY} FROM deliveries
WHERE (seller_id, delivery_id) > ($1, $2) AND seller_id <= $4 AND ($5 = '' OR status = $5)
ORDER BY seller_id, delivery_id LIMIT $3"""

EVENTS = """
SELECT event_id, kind, seller_id, subject, message, body, created_ms, occurrences
FROM operator_events WHERE event_id > $1 ORDER BY event_id LIMIT $2"""


class InspectedOrder(OrderDocument, frozen=True, kw_only=True):
    """An order as applications see it, with its history."""

    events: list[dict[str, Any]]
    deliveries: list[dict[str, Any]]


async def get_order(call: Call) -> Answer:
    """Return an order with all its status changes and notifications."""
    seller_id = await owner_of(call.tx, call.path)
    order = await orders.find(call.tx, seller_id, call.path)
    assert order is not None, "the owner was found in the same transaction"
    moves = await call.tx.all(MOVES, seller_id, call.path)
    deliveries = await call.tx.all(DELIVERIES_OF_ORDER, seller_id, call.path)
    labels = labels_of(call.settings)
    return Answer(
        200,
        InspectedOrder(
            **msgspec.structs.asdict(order_document(order, labels)),
            events=[_move(row, labels) for row in moves],
            deliveries=[_delivery(row) for row in deliveries],
        ),
    )


async def find_deliveries(call: Call) -> Answer:
    """List the deliveries of one order, or a page of all of them."""
    order_id = call.query.get("order")
    if order_id is not None:
        order_id = order_id.upper()
        seller_id = await owner_of(call.tx, order_id)
        rows = await call.tx.all(DELIVERIES_OF_ORDER, seller_id, order_id)
        return Answer(200, {"data": [_delivery(row) for row in rows]})
    status = lists.choice(call.query, "status", DELIVERY_STATUSES)
    first, last = lists.sellers(call.query)
    return await lists.page(call.tx, call, DELIVERIES, (first, ""), _delivery, last, status)


async def find_events(call: Call) -> Answer:
    """List the operator events, oldest first."""
    return await lists.page(call.tx, call, EVENTS, ("",), _event)


async def owner_of(tx: Transaction, order_id: str) -> int:
    """Return the id of the seller who has this order. Raises `ORDER_NOT_FOUND`."""
    # An invalid id may contain characters that PostgreSQL refuses.
    row = await tx.one(OWNER, order_id) if ids.ORDER_ID.fullmatch(order_id) else None
    if row is None:
        raise ORDER_NOT_FOUND.with_reason("no seller has this order")
    return int(row[0])


def _move(row: Row, labels: Labels) -> dict[str, Any]:
    version, event_id, action, move, status, status_detail, payment_status_detail, created_ms = row
    return {
        "id": event_id,
        "version": version,
        "move": move,
        "action": action,
        "status": labels.of_status(status, status_detail),
        "status_detail": status_detail,
        "payment_status_detail": payment_status_detail,
        "created_date": rfc3339(created_ms),
    }


def _delivery(row: Row) -> dict[str, Any]:
    seller_id, delivery_id, subscription_id, order_id, version, status, attempts, next_ms, created_ms, ended_ms = row
    document = {
        "id": delivery_id,
        "seller_id": seller_id,
        "subscription_id": subscription_id,
        **_subject(order_id),
        "version": version,
        "status": status,
        "attempts": attempts,
        "created_date": rfc3339(created_ms),
    }
    return document | ({"next_date": rfc3339(next_ms)} if ended_ms is None else {"ended_date": rfc3339(ended_ms)})


def _subject(subject: str) -> dict[str, Any]:
    """Return the topic and id of what a notification is about: an order, or an application's authorization."""
    if subject.isdigit():
        return {"topic": CONNECT_TOPIC, "client_id": subject}
    return {"topic": TOPIC, "order_id": subject}


def _event(row: Row) -> dict[str, Any]:
    event_id, kind, seller_id, subject, message, body, created_ms, occurrences = row
    document = {
        "id": event_id,
        "kind": kind,
        "subject": subject,
        "message": message,
        "body": _body(body),
        "occurrences": occurrences,
        "created_date": rfc3339(created_ms),
    }
    return document if seller_id is None else {**document, "seller_id": seller_id}


def _body(body: str) -> msgspec.Raw | str:
    """Return the event's body as raw JSON, or as text when a terminal sent something else."""
    try:
        msgspec.json.decode(body)
    except (msgspec.MsgspecError, RecursionError):
        return body
    return msgspec.Raw(body.encode())
