"""Deliveries of notifications: their list, one with its attempts, and how an operator resends or replays them."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from paydesk.core.clock import rfc3339
from paydesk.core.errors import TOO_MANY_REQUESTS
from paydesk.core.ids import UUID_PATTERN
from paydesk.core.limits.rates import Buckets
from paydesk.core.response import Closed, JsonObject, Time, named, one_of
from paydesk.core.text.redaction import redacted_url
from paydesk.engine.orders.search.query import DATE, instant_of
from paydesk.engine.webhooks import schedule
from paydesk.engine.webhooks.delivery import resend_store, store
from paydesk.engine.webhooks.delivery.store import Target
from paydesk.engine.webhooks.schemas import CONNECT_TOPIC, OPERATORS, OPERATORS_TOPIC, TOPIC, TYPES
from paydesk.operators import audit, lists, owners
from paydesk.operators.deliveries.retried import ATTEMPTS_ENDED, Retried, times
from paydesk.operators.errors import DELIVERY_NOT_FOUND, SUBSCRIPTION_ENDED, SUBSCRIPTION_PAUSED
from paydesk.operators.newest import BY_TIME, DESCRIPTION, newest, page
from paydesk.operators.words import Shown
from paydesk.platform.filters import Filters
from paydesk.platform.operation import Answer, Call, Query
from paydesk.platform.storage.database import Row, Transaction

ID_PATTERN = f"^[0-9A-Fa-f-]{{1,36}}[.]{UUID_PATTERN[1:]}"
SINCE_MS_MIN = -(2**62)

OWNER = owners.statement("deliveries", "delivery_id")

_ACTION = f"""CASE WHEN order_id LIKE 'ORD%' OR seller_id IN ({OPERATORS}) THEN
       (SELECT e.action FROM order_events e
         WHERE e.seller_id = deliveries.seller_id AND e.order_id = deliveries.order_id
           AND e.version = deliveries.version)
  ELSE (SELECT e.action FROM application_events e
         WHERE e.seller_id = deliveries.seller_id AND e.application_id = CAST(deliveries.order_id AS bigint)
           AND e.version = deliveries.version) END"""

_ATTEMPTS = ATTEMPTS_ENDED.format(f"({schedule.PENDING} OR resend_ms IS NOT NULL)")
_DELIVERY = f"""
created_ms, seller_id, delivery_id, subscription_id, order_id, version, {_ACTION},
(SELECT s.url FROM subscriptions s WHERE s.subscription_id = deliveries.subscription_id), status, resend_ms,
{_ATTEMPTS},
next_ms, ended_ms"""

DELIVERY = f"SELECT {_DELIVERY} FROM deliveries WHERE seller_id = $1 AND delivery_id = $2"

OF_ORDER = f"""
SELECT {_DELIVERY} FROM deliveries
WHERE seller_id = $1 AND order_id = $2 AND ($3 = '' OR status = $3) AND ($4 = '' OR subscription_id = $4)
  AND created_ms >= $5
ORDER BY version, subscription_id"""

_SELECTED = "($6 = '' OR status = $6) AND ($7 = '' OR subscription_id = $7)"

DELIVERIES = newest("deliveries", _DELIVERY, BY_TIME, _SELECTED, "deliveries.created_ms >= $8")

# Those that wait behind a failed one have no attempt.
FAILED = newest(
    "deliveries",
    _DELIVERY,
    BY_TIME,
    f"{_SELECTED} AND ({schedule.EXHAUSTED} OR {_ATTEMPTS} > 0)",
    f"deliveries.created_ms >= $8 AND {schedule.FAILED}",
)

NOTIFICATION = {
    topic: f"SELECT {body} FROM deliveries WHERE seller_id = $1 AND delivery_id = $2"
    for topic, body in store.BODY.items()
}

ATTEMPTS = """
SELECT attempt, started_ms, duration_ms, request, answer_status, answer_body, error
FROM attempts WHERE seller_id = $1 AND delivery_id = $2 ORDER BY attempt"""


class DeliveryDocument(Retried, frozen=True):
    """The delivery of a notification about an order, or about an application's authorization."""

    id: str
    seller_id: Annotated[int, Meta(description="1 if it is for operators.")]
    subscription_id: str
    topic: Annotated[str, one_of(TYPES)]
    version: int
    action: Annotated[str, Meta(description="The notification's `action`.")]
    url: Annotated[str, Meta(description="The subscription's, with the values of secret parameters masked.")]
    status: Annotated[str, one_of(schedule.DELIVERIES.names)]
    order_id: str | None = None
    client_id: str | None = None
    paused: Annotated[bool, Meta(description="Whether it waits until its subscription is resumed.")] = False
    resend_date: (
        Annotated[Time, Meta(description="When the resend was requested that has not been attempted yet.")] | None
    ) = None


class AttemptRequest(Closed, frozen=True):
    """The request of an attempt, without its body, which is the notification."""

    url: Annotated[str, Meta(description="With the values of parameters masked whose names are those of secrets.")]
    headers: dict[str, str]


class AttemptResponse(Closed, frozen=True):
    """The receiver's response to an attempt."""

    status: int
    body: Annotated[str, Meta(description="Its first 4 KiB, without values that may be card data or secrets.")]


class AttemptDocument(Closed, frozen=True, kw_only=True):
    """One attempt of a delivery, with the receiver's answer or the error."""

    number: int
    date: Time
    duration_ms: int
    resend: Annotated[bool, Meta(description="Whether an operator requested it, outside the schedule.")] = False
    request: AttemptRequest | None = None
    answer: AttemptResponse | None = None
    error: str | None = None


class InspectedDelivery(DeliveryDocument, frozen=True, kw_only=True):
    """A delivery with the notification's body and all attempts."""

    notification: JsonObject
    history: Annotated[list[AttemptDocument], Meta(description="All attempts that have ended, oldest first.")]


async def find_deliveries(call: Call, filters: Filters) -> Answer:
    """List the deliveries of one order, or a page of all of them, newest first."""
    order_id, is_failed = filters.get("order"), "failed" in filters
    if order_id is not None and is_failed:
        filters.fault("failed", "must not be given with 'order'")
    since_ms, _ = filters.get("since", (SINCE_MS_MIN, 0))
    chosen = filters.get("status", ""), filters.get("subscription", "").lower(), since_ms
    if order_id is None:
        return await page(call, filters, FAILED if is_failed else DELIVERIES, BY_TIME, _present, *chosen)
    filters.refuse_faults()
    order_id = order_id.upper()
    deliveries = await of_order(call.tx, await owners.owner_of(call.tx, order_id), order_id, *chosen)
    return Answer(200, lists.Page(deliveries[::-1]))


async def of_order(
    tx: Transaction,
    seller_id: int,
    order_id: str,
    status: str = "",
    subscription_id: str = "",
    since_ms: int = SINCE_MS_MIN,
) -> list[DeliveryDocument]:
    """Return the deliveries of an order by version. Empty filters select all."""
    return [_present(row) for row in await tx.all(OF_ORDER, seller_id, order_id, status, subscription_id, since_ms)]


async def get(call: Call) -> Answer:
    """Get a delivery with the notification and all attempts."""
    delivery = await of_path(call.tx, call.path)
    key = delivery.seller_id, delivery.id
    body = await notification(call.tx, delivery)
    history = []
    for row in await call.tx.all(ATTEMPTS, *key):
        one = named("number started_ms duration_ms request answer_status answer_body error", row)
        # Attempts made before the upgrade to this version have no request.
        sent = msgspec.json.decode(one.request) if one.request else None
        attempt = AttemptDocument.of(
            one,
            date=rfc3339(one.started_ms),
            resend=sent is not None and resend_store.IS_RESEND in sent,
            request=AttemptRequest(redacted_url(sent["url"]), sent["headers"]) if sent is not None else None,
            answer=AttemptResponse(one.answer_status, one.answer_body) if one.answer_status is not None else None,
        )
        history.append(attempt)
    return Answer(200, InspectedDelivery.of(delivery, notification=msgspec.Raw(body.encode()), history=history))


async def resend(call: Call) -> Answer:
    """Send a notification again: request one attempt at once, outside the order and the schedule.

    Raises `TOO_MANY_REQUESTS`, `SUBSCRIPTION_PAUSED`.
    """
    # Once for all tries of its transaction.
    if not call.throttle_counted:
        call.throttle_counted = True
        seconds = call.shared.objects[Resends].take(call.caller.operator_id)
        if seconds:
            raise TOO_MANY_REQUESTS.with_reason(
                "operator resends too often",
                message="You have sent too many notifications again. Wait, or replay those of a subscription.",
                headers=(("retry-after", str(seconds)),),
            )
    before = await of_path(call.tx, call.path)
    target = await target_of(call.tx, before)
    if target.paused_ms is not None:
        resume = f"Resume it first: paydesk subscriptions resume {before.subscription_id}"
        raise SUBSCRIPTION_PAUSED.with_reason("the subscription is paused", resume)
    await resend_store.request(call.tx, before.seller_id, before.id, call.now_ms)
    after = await of_path(call.tx, call.path)
    await audit.record(call, call.tx, "deliveries.resend", after.id, before=before, after=after)
    return Answer(202, after)


class Resends(Buckets[str]):
    """The rates at which operators send notifications again."""


async def find(tx: Transaction, delivery_id: str) -> DeliveryDocument | None:
    """Return the delivery of an id in lower case, or None."""
    owner = await tx.one(OWNER, delivery_id)
    row = await tx.one(DELIVERY, OPERATORS if owner is None else owner[0], delivery_id)
    return None if row is None else _present(row)


async def notification(tx: Transaction, delivery: DeliveryDocument) -> str:
    """Return the body of the delivery's notification."""
    row = await tx.one(NOTIFICATION[delivery.topic], delivery.seller_id, delivery.id)
    assert row is not None, "events are not deleted"
    return str(row[0])


async def target_of(tx: Transaction, delivery: DeliveryDocument) -> Target:
    """Return the target of the delivery. Raises `SUBSCRIPTION_ENDED`."""
    target = await store.target(tx, delivery.seller_id, delivery.subscription_id)
    if target is None or target.ended:
        raise SUBSCRIPTION_ENDED.with_reason("the subscription has ended for the seller")
    return target


async def of_path(tx: Transaction, path: str) -> DeliveryDocument:
    """Return the delivery of the path. Raises `DELIVERY_NOT_FOUND`."""
    delivery = await find(tx, path.lower())
    if delivery is None:
        raise DELIVERY_NOT_FOUND.with_reason("no seller has this delivery")
    return delivery


def _present(row: Row) -> DeliveryDocument:
    created_ms, seller_id, delivery_id, subscription_id, subject, version, action, url, *more = row
    status, resend_ms, attempts, next_ms, ended_ms = more
    # Digits are the application of an authorization, or a thread of operators' notifications.
    topic, name = (CONNECT_TOPIC, "client_id") if subject.isdigit() else (TOPIC, "order_id")
    fields: dict[str, Any] = times(attempts, next_ms, created_ms, ended_ms)
    if seller_id == OPERATORS:
        topic = OPERATORS_TOPIC
    else:
        fields[name] = subject
    if next_ms == schedule.PARKED_MS and ended_ms is None:
        fields["paused"] = True
    if resend_ms is not None:
        fields["resend_date"] = rfc3339(resend_ms)
    sent = topic, version, action, redacted_url(url)
    return DeliveryDocument(delivery_id, seller_id, subscription_id, *sent, status, **fields)


PAGES = lists.Pages(
    lists.Page[DeliveryDocument],
    find_deliveries,
    (
        Query(
            "order",
            {"type": "string"},
            "Only deliveries of this order, unpaged.",
            shown=Shown("Order", metavar="ORDER_ID", checked="order_id"),
        ),
        lists.of_status(schedule.DELIVERIES),
        Query(
            "failed",
            {"enum": ["true"]},
            "Only deliveries that are `exhausted`, or have failed and wait for a retry; not with `order`.",
            shown=Shown("Failed"),
        ),
        Query(
            "since",
            DATE,
            "Only deliveries created at this time or later: RFC 3339, or a date.",
            check=instant_of,
            shown=Shown("From", metavar="TIME"),
        ),
        Query(
            "subscription",
            {"type": "string", "pattern": UUID_PATTERN},
            "Only deliveries to this subscription.",
            rule="must be a subscription's id",
            shown=Shown("Subscription", metavar="ID"),
        ),
        lists.OF_SELLER,
        *lists.paging(BY_TIME),
    ),
    DESCRIPTION,
)
