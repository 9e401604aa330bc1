"""An order's event: recorded with every move, delivered to webhooks, and announced to its terminal and to pollers."""

from __future__ import annotations

from paydesk.core import ids
from paydesk.orders.change import Change
from paydesk.orders.order import Order
from paydesk.orders.presentation import notification_data
from paydesk.orders.status import Move
from paydesk.webhooks import outbox
from paydesk.webhooks.schemas import notification

RECORD_EVENT = """
INSERT INTO order_events (seller_id, order_id, version, event_id, action, move, status, status_detail,
                          payment_status_detail, body, created_ms, application_id, live)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)"""


def record(change: Change, move: Move, order: Order) -> None:
    """Record the move that brought the order to its state, and its deliveries, in the move's transaction."""
    tx, now_ms = change.tx, change.now_ms
    event_id, action = ids.uuid(), change.labels.action_of(move, order)
    body = notification(
        event_id=event_id,
        action=action,
        application_id=order.application_id,
        user_id=order.seller_id,
        live=bool(order.live),
        now_ms=now_ms,
        data=notification_data(order, change.labels),
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
