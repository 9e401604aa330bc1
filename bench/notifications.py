"""Events of orders for measurements of webhooks: written with their deliveries, as moves of orders write them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from itertools import islice

import msgspec

from paydesk.core.clock import rfc3339
from paydesk.core.keys import Keys
from paydesk.engine.webhooks import outbox
from paydesk.engine.webhooks.schemas import TOPIC, TYPES, Notification
from paydesk.engine.webhooks.subscriptions import store as subscriptions
from paydesk.platform.storage.database import Database, Transaction

SELLER_ID = 1160535239
APPLICATION_ID = 3676047501096810
KEYS = Keys(1, {1: b"bench" * 8})
EVENTS_PER_TRANSACTION = 250
VERSIONS = 4
"""Events of one order, as of a payment: created, at the terminal, processed, refunded."""
PAYMENT = {
    "id": "PAY01JQ4S4KY8HWQ6NA5PXB65B3D3",
    "amount": "24.90",
    "paid_amount": "24.90",
    "status": "processed",
    "status_detail": "accredited",
    "reference": {"id": "123456789012"},
    "payment_method": {"type": "credit_card", "id": "visa", "installments": 1},
}


def orders_of(events: int) -> list[tuple[str, int]]:
    """Return `events` pairs of an order and a version; versions of one order are far apart, as in a shop."""
    orders = max(1, -(-events // VERSIONS))
    return [(order_id(number % orders), number // orders + 1) for number in range(events)]


def order_id(number: int) -> str:
    """Return the id of an order."""
    return f"ORD01JQ4S4KY8{number:016}"


async def subscribe(
    database: Database, urls: Sequence[str], now_ms: int, application_id: int = APPLICATION_ID
) -> list[str]:
    """Subscribe the application with each of the URLs; return the subscriptions' ids."""

    async def work(tx: Transaction) -> list[str]:
        made = [
            await subscriptions.create(
                tx, KEYS, application_id=application_id, live=False, url=url, actions=(), now_ms=now_ms
            )
            for url in urls
        ]
        return [subscription.subscription_id for subscription, _ in made]

    return await database.write(work)


async def announce(database: Database, events: Iterable[tuple[str, int]], now_ms: int) -> int:
    """Insert events, each an order and a version, with their deliveries; return their number."""
    remaining, written = iter(events), 0
    while batch := list(islice(remaining, EVENTS_PER_TRANSACTION)):

        async def work(tx: Transaction, batch: list[tuple[str, int]] = batch) -> None:
            for order, version in batch:
                outbox.announce(tx, event(order, version, now_ms))

        await database.write(work)
        written += len(batch)
    return written


def event(order: str, version: int, now_ms: int) -> outbox.OrderEvent:
    """Return an event with a body of the usual size."""
    event_id = str(uuid.uuid4())
    body = Notification(
        id=event_id,
        action="order.processed",
        api_version="v1",
        application_id=str(APPLICATION_ID),
        type=TYPES[TOPIC],
        user_id=str(SELLER_ID),
        live_mode=False,
        date_created=rfc3339(now_ms),
        data={
            "id": order,
            "type": "point",
            "external_reference": "ext_ref_1234",
            "status": "processed",
            "status_detail": "accredited",
            "version": version,
            "total_paid_amount": "24.90",
            "transactions": {"payments": [PAYMENT]},
        },
    )
    return outbox.OrderEvent(
        seller_id=SELLER_ID,
        order_id=order,
        version=version,
        event_id=event_id,
        action="order.processed",
        move="process",
        status="processed",
        status_detail="accredited",
        payment_status_detail="accredited",
        body=msgspec.json.encode(body).decode(),
        created_ms=now_ms,
        application_id=APPLICATION_ID,
        live=0,
    )
