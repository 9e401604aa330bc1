"""An order's event: recorded with every move, delivered to webhooks, and announced to its terminal and to pollers."""

from __future__ import annotations

import msgspec

from paydesk.core import ids
from paydesk.core.clock import rfc3339
from paydesk.engine.orders.change import Change
from paydesk.engine.orders.order import Order
from paydesk.engine.orders.presentation import notified_order
from paydesk.engine.orders.status import Move
from paydesk.engine.orders.status_labels import Labels
from paydesk.engine.webhooks import outbox
from paydesk.engine.webhooks.outbox import OrderEvent
from paydesk.engine.webhooks.schemas import TOPIC, TYPES, Notification


def record(change: Change, move: Move, order: Order) -> None:
    """Record the move that brought the order to its state, and its deliveries, in the move's transaction."""
    outbox.announce(change.tx, event_of(move, order, change.now_ms, change.labels))
    change.tx.notify(f"terminal:{order.terminal_id}")
    change.tx.notify(f"events:{order.seller_id}.{order.application_id}.{order.live}")


def event_of(move: Move, order: Order, now_ms: int, labels: Labels, *, event_id: str | None = None) -> OrderEvent:
    """Return the event of a move that brought the order to its state, with its notification.

    Without `event_id` it gets a random one.
    """
    event_id, action = event_id or ids.uuid(), labels.action_of(move, order)
    notification = Notification(
        id=event_id,
        action=action,
        api_version="v1",
        application_id=str(order.application_id),
        type=TYPES[TOPIC],
        user_id=str(order.seller_id),
        live_mode=bool(order.live),
        date_created=rfc3339(now_ms),
        data=notified_order(order, labels),
    )
    return OrderEvent(
        seller_id=order.seller_id,
        order_id=order.order_id,
        version=order.version,
        event_id=event_id,
        action=action,
        move=move.name,
        status=order.status,
        status_detail=order.status_detail,
        payment_status_detail=order.payment_status_detail,
        body=msgspec.json.encode(notification).decode(),
        created_ms=now_ms,
        application_id=order.application_id,
        live=order.live,
    )
