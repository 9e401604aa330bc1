"""The history of an order with its notifications, the list of deliveries, and operator events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from paydesk.core import ids
from paydesk.core.clock import rfc3339
from paydesk.core.response import Closed, Time, one_of, time_or_none
from paydesk.device import store as leases
from paydesk.device.store import Lease
from paydesk.operation import Answer, Call, Handled, Query
from paydesk.operator_events import Kind
from paydesk.operators.lists import BY_SELLER, Page, Pages, of_status, pages
from paydesk.orders import status
from paydesk.orders import store as orders
from paydesk.orders.errors import ORDER_NOT_FOUND
from paydesk.orders.order import Order
from paydesk.orders.presentation import OrderDocument, order_document
from paydesk.orders.status_labels import Labels
from paydesk.storage.database import Row, Transaction
from paydesk.webhooks import schedule
from paydesk.webhooks.schemas import ACTIONS_OF, CONNECT_TOPIC, TOPIC

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


class Retried(Closed, frozen=True, kw_only=True):
    """The last fields of work that is retried: `next_date` until its end, then `ended_date`."""

    attempts: int
    created_date: Time
    next_date: Time | None = None
    ended_date: Time | None = None


class DeliveryDocument(Retried, frozen=True):
    """The delivery of a notification about an order, or about an application's authorization."""

    id: str
    seller_id: int
    subscription_id: str
    topic: Annotated[str, one_of(ACTIONS_OF)]
    version: int
    status: Annotated[str, one_of(schedule.DELIVERIES.names)]
    order_id: str | None = None
    client_id: str | None = None


class MoveDocument(Closed, frozen=True):
    """A status change of an order."""

    id: str
    version: int
    move: str
    action: str
    status: str
    status_detail: str
    payment_status_detail: str
    created_date: Time


class EventDocument(Closed, frozen=True):
    """An event for operators."""

    id: str
    kind: Kind
    subject: str
    message: str
    body: Any
    occurrences: Annotated[int, Meta(description="The number of occurrences within one hour.")]
    created_date: Time
    seller_id: int | None = None


class OrderTimes(Closed, frozen=True):
    """When an order reached each step; steps that it has not reached are absent."""

    created_date: Time
    offered_date: (
        Annotated[Time, Meta(description="The first offer, if the node that made it took the acknowledgement.")] | None
    ) = None
    acknowledged_date: Time | None = None
    permitted_date: Annotated[Time, Meta(description="When authorization was permitted.")] | None = None
    ended_date: Annotated[Time, Meta(description="When it left its terminal, or was canceled before.")] | None = None


class InspectedOrder(OrderDocument, frozen=True, kw_only=True):
    """An order as applications see it, with its history."""

    times: OrderTimes
    events: list[MoveDocument]
    deliveries: list[DeliveryDocument]


async def get_order(call: Call) -> Answer:
    """Return an order with all its status changes and notifications."""
    seller_id = await owner_of(call.tx, call.path)
    order = await orders.find(call.tx, seller_id, call.path)
    assert order is not None, "the owner was found in the same transaction"
    moves = await call.tx.all(MOVES, seller_id, call.path)
    deliveries = await call.tx.all(DELIVERIES_OF_ORDER, seller_id, call.path)
    lease = await leases.find_lease(call.tx, seller_id, order.ulid)
    labels = call.shared.labels
    return Answer(
        200,
        InspectedOrder.of(
            order_document(order, labels),
            times=_times(order, lease, moves),
            events=[_move(row, labels) for row in moves],
            deliveries=[_delivery(row) for row in deliveries],
        ),
    )


async def find_deliveries(call: Call) -> Handled:
    """List the deliveries of one order, or a page of all of them."""
    order_id = call.query.get("order")
    if order_id is not None:
        order_id = order_id.upper()
        seller_id = await owner_of(call.tx, order_id)
        rows = await call.tx.all(DELIVERIES_OF_ORDER, seller_id, order_id)
        return Answer(200, Page([_delivery(row) for row in rows]))
    return await _ALL_DELIVERIES.handler(call)


async def owner_of(tx: Transaction, order_id: str) -> int:
    """Return the id of the seller who has this order. Raises `ORDER_NOT_FOUND`."""
    # An invalid id may contain characters that PostgreSQL refuses.
    row = await tx.one(OWNER, order_id) if ids.ORDER_ID.fullmatch(order_id) else None
    if row is None:
        raise ORDER_NOT_FOUND.with_reason("no seller has this order")
    return int(row[0])


def times(attempts: int, next_ms: int, created_ms: int, ended_ms: int | None) -> dict[str, Any]:
    """Return the fields of `Retried`."""
    end = {"next_date": rfc3339(next_ms)} if ended_ms is None else {"ended_date": rfc3339(ended_ms)}
    return {"attempts": attempts, "created_date": rfc3339(created_ms), **end}


def _times(order: Order, lease: Lease | None, moves: Sequence[Row]) -> OrderTimes:
    ended = (created_ms for *_, order_status, _, _, created_ms in moves if order_status not in status.LIVE)
    return OrderTimes(
        rfc3339(order.created_ms),
        time_or_none(lease.offered_ms) if lease is not None else None,
        time_or_none(lease.acknowledged_ms) if lease is not None else None,
        time_or_none(order.permitted_ms),
        time_or_none(next(ended, None)),
    )


def _move(row: Row, labels: Labels) -> MoveDocument:
    version, event_id, action, move, status, detail, payment_detail, created_ms = row
    label = labels.of_status(status, detail)
    return MoveDocument(event_id, version, move, action, label, detail, payment_detail, rfc3339(created_ms))


def _delivery(row: Row) -> DeliveryDocument:
    seller_id, delivery_id, subscription_id, subject, version, status, *rest = row
    # Digits are the application of an authorization.
    topic, name = (CONNECT_TOPIC, "client_id") if subject.isdigit() else (TOPIC, "order_id")
    about = {name: subject, **times(*rest)}
    return DeliveryDocument(delivery_id, seller_id, subscription_id, topic, version, status, **about)


def _event(row: Row) -> EventDocument:
    event_id, kind, seller_id, subject, message, body, created_ms, occurrences = row
    date = rfc3339(created_ms)
    return EventDocument(event_id, kind, subject, message, _body(body), occurrences, date, seller_id)


def _body(body: str) -> msgspec.Raw | str:
    """Return the event's body as raw JSON, or as text when a terminal sent something else."""
    try:
        msgspec.json.decode(body)
    except (msgspec.MsgspecError, RecursionError):
        return body
    return msgspec.Raw(body.encode())


_ALL_DELIVERIES = pages(DeliveryDocument, DELIVERIES, _delivery, BY_SELLER, of_status(schedule.DELIVERIES))
_OF_ORDER = Query("order", {"type": "string"}, "Only deliveries of this order, unpaged.")
DELIVERY_PAGES = Pages(_ALL_DELIVERIES.answer, find_deliveries, (_OF_ORDER, *_ALL_DELIVERIES.query))
EVENT_PAGES = pages(EventDocument, EVENTS, _event, ("",))
