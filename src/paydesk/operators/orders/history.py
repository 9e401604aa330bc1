"""The history of an order with its notifications, and operator events."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from paydesk.core.clock import rfc3339
from paydesk.core.response import Closed, Time, named, time_or_none
from paydesk.engine.device import store as leases
from paydesk.engine.orders import status
from paydesk.engine.orders import store as orders
from paydesk.engine.orders.presentation import OrderDocument, order_document
from paydesk.engine.orders.status_labels import Labels
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.engine.payments.capabilities import NO_CAPABILITIES
from paydesk.operators.lists import pages
from paydesk.operators.newest import BY_ID
from paydesk.operators.orders import deliveries, payment
from paydesk.operators.orders.deliveries import OrderDelivery
from paydesk.operators.orders.outcomes import ConfirmationDocument
from paydesk.operators.orders.payment import (
    ChangeDocument,
    OrderAuthorization,
    OrderInquiry,
    OrderRefund,
    OrderReversal,
    RecordedResult,
    StepDocument,
)
from paydesk.operators.orders.waiting import WaitDocument, periods_of, waiting
from paydesk.operators.owners import owner_of
from paydesk.platform.operation import Answer, Call
from paydesk.platform.operator_events import Kind
from paydesk.platform.storage.database import Row

MOVES = """
SELECT version, event_id, action, move, status, status_detail, payment_status_detail, created_ms
FROM order_events WHERE seller_id = $1 AND order_id = $2 ORDER BY version"""

# An order outlives its terminal and its application.
PLACE = """
SELECT s.name, (SELECT a.name FROM applications a WHERE a.application_id = $3), p.name, b.name
  FROM sellers s
  LEFT JOIN terminals t ON t.seller_id = s.seller_id AND t.terminal_id = $2
  LEFT JOIN pos p ON p.seller_id = s.seller_id AND p.pos_id = t.pos_id
  LEFT JOIN stores b ON b.seller_id = s.seller_id AND b.store_id = t.store_id
 WHERE s.seller_id = $1"""

EVENTS = """
SELECT event_id, kind, seller_id, subject, message, body, created_ms, occurrences
FROM operator_events WHERE event_id < $1 ORDER BY event_id DESC LIMIT $2"""

_MOVE = "version id action move status status_detail payment_status_detail created_ms"


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


class OperatorEvent(Closed, frozen=True):
    """An event for operators."""

    id: str
    kind: Kind
    subject: str
    message: str
    body: Annotated[Any, Meta(description="Its facts, by kind; a text if a terminal sent no JSON.")]
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


class OrderPlace(Closed, frozen=True):
    """The order's terminal and application, and names; the name of an object that no longer exists is absent."""

    terminal_id: str
    application_id: str
    seller: str | None = None
    application: str | None = None
    pos: str | None = None
    store: str | None = None


class OrderAcquirer(Closed, frozen=True):
    """The acquirer of an order, and what it can do. Without a name it is that of test orders, or of all."""

    is_configured: Annotated[bool, Meta(description="If not, nothing can be refunded until it is.")]
    accepts_currency: Annotated[bool, Meta(description="Whether it accepts the order's currency.")]
    partial_refunds: Annotated[bool, Meta(description="Whether it refunds parts of a payment.")]
    name: str | None = None


class InspectedOrder(OrderDocument, frozen=True, kw_only=True):
    """An order as applications see it, with its history."""

    place: OrderPlace
    times: OrderTimes
    events: list[MoveDocument]
    waiting: Annotated[WaitDocument, Meta(description="What a live order waits for.")] | None = None
    steps: Annotated[list[StepDocument], Meta(description="In the order in which the terminal made them.")]
    results: list[RecordedResult]
    authorization: OrderAuthorization | None = None
    acquirer: OrderAcquirer
    confirmation: ConfirmationDocument | None = None
    inquiry: OrderInquiry | None = None
    order_refunds: Annotated[list[OrderRefund], Meta(description="Also those that failed, oldest first.")]
    reversals: list[OrderReversal]
    changes: list[ChangeDocument]
    deliveries: list[OrderDelivery]


async def get_order(call: Call) -> Answer:
    """Get an order with its history and notifications."""
    seller_id = await owner_of(call.tx, call.path)
    order = await orders.find(call.tx, seller_id, call.path)
    assert order is not None, "the owner was found in the same transaction"
    moves = await call.tx.all(MOVES, seller_id, call.path)
    lease = await leases.find_lease(call.tx, seller_id, order.ulid)
    labels, after_seconds = call.shared.objects[Labels], call.settings.resolve_after_seconds
    released = (created_ms for _, _, _, move, *_, created_ms in moves if move == status.RELEASE.name)
    ended = (created_ms for *_, order_status, _, _, created_ms in moves if order_status not in status.LIVE)
    paid = await payment.of_order(call.tx, order, next(released, None), resolve_after_seconds=after_seconds)
    acquirers = call.shared.objects[Acquirers]
    acquirer = acquirers.of(order)
    capabilities = NO_CAPABILITIES if acquirer is None else acquirer.capabilities
    names = await call.tx.one(PLACE, seller_id, order.terminal_id, order.application_id)
    return Answer(
        200,
        InspectedOrder.of(
            order_document(order, labels),
            place=OrderPlace(order.terminal_id, str(order.application_id), *(names or ())),
            times=OrderTimes.of(
                lease,
                created_date=rfc3339(order.created_ms),
                permitted_date=time_or_none(order.permitted_ms),
                ended_date=time_or_none(next(ended, None)),
            ),
            events=[
                MoveDocument.of(one, status=labels.of_status(one.status, one.status_detail))
                for one in (named(_MOVE, row) for row in moves)
            ],
            waiting=await waiting(call.tx, order, periods_of(call.settings), acquirers)
            if order.status in status.LIVE
            else None,
            acquirer=OrderAcquirer(
                acquirer is not None,
                capabilities.supports(order.currency),
                capabilities.partial_refunds,
                order.acquirer,
            ),
            **paid,
            deliveries=await deliveries.of_order(call.tx, seller_id, call.path),
        ),
    )


def _event(row: Row) -> OperatorEvent:
    one = named("id kind seller_id subject message body created_ms occurrences", row)
    body: msgspec.Raw | str = one.body  # A text when a terminal sent something else than JSON.
    with suppress(msgspec.MsgspecError, RecursionError):
        msgspec.json.decode(one.body)
        body = msgspec.Raw(one.body.encode())
    return OperatorEvent.of(one, body=body)


EVENT_PAGES = pages(OperatorEvent, EVENTS, _event, BY_ID[:1], description="Newest first.")
