"""Inquiries, reversals and refunds: their lists, and how an operator resolves an order or a reversal."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from paydesk.core.response import one_of
from paydesk.engine.orders import store as orders
from paydesk.engine.orders.change import change_at, change_of
from paydesk.engine.orders.order import Order
from paydesk.engine.orders.presentation import order_document
from paydesk.engine.payments import lifecycles, resolving
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.engine.payments.errors import REVERSAL_NOT_FOUND
from paydesk.engine.payments.lifecycles import INQUIRIES, REFUNDS, REVERSALS, InquiryOutcome
from paydesk.engine.payments.outcomes import Paid
from paydesk.operators import audit
from paydesk.operators.deliveries.retried import TIMES, Retried, times
from paydesk.operators.lists import of_status
from paydesk.operators.newest import BY_ID, newest, pages
from paydesk.operators.orders.fields import ResolveRequest, ResolveReversalRequest
from paydesk.operators.owners import owner_of
from paydesk.operators.words import Shown
from paydesk.platform.operation import Answer, Call, Query
from paydesk.platform.storage.database import Row, Transaction

_CURRENCY = """
(SELECT o.currency FROM orders o WHERE o.seller_id = {0}.seller_id AND o.order_id = {0}.order_id)"""

_REVERSAL = f"""
reversal_id, seller_id, order_id, live, {_CURRENCY.format("reversals")}, amount_minor, reference_id, confirmed, status,
{TIMES.format(lifecycles.PENDING)}"""

_INQUIRY = f"""
order_id, seller_id, live, reason, reversing_ms, outcome,
{TIMES.format(lifecycles.INQUIRIES.open)}"""

_REFUND = f"""
refund_id, seller_id, order_id, live, {_CURRENCY.format("refunds")}, amount, status,
{TIMES.format(lifecycles.PROCESSING)}"""

LIST_REVERSALS = newest("reversals", _REVERSAL, BY_ID, "$5 = '' OR status = $5")

REVERSAL = f"SELECT {_REVERSAL} FROM reversals WHERE seller_id = $1 AND reversal_id = $2"

OWNER = """
SELECT sellers.seller_id, reversals.order_id FROM sellers
  JOIN reversals ON reversals.seller_id = sellers.seller_id AND reversals.reversal_id = $1"""

LIST_INQUIRIES = newest("inquiries", _INQUIRY, BY_ID, f"$5 <> '1' OR {lifecycles.INQUIRIES.open}")

LIST_REFUNDS = newest("refunds", _REFUND, BY_ID, "$5 = '' OR status = $5")


class ReversalDocument(Retried, frozen=True):
    """The reversal of a late approval."""

    id: str
    seller_id: int
    order_id: str
    live_mode: bool
    amount_minor: int
    reference_id: str
    status: Annotated[str, one_of(REVERSALS.names)]
    confirmed: (
        Annotated[Literal["approved", "not_found"], Meta(description="The acquirer's inquiry result.")] | None
    ) = None
    currency: str | None = None


class InquiryDocument(Retried, frozen=True):
    """An inquiry about an order whose outcome is or was unknown."""

    seller_id: int
    order_id: str
    live_mode: bool
    reason: str
    status: Annotated[str, one_of(INQUIRIES.names)]
    outcome: InquiryOutcome | None = None


class RefundDocument(Retried, frozen=True):
    """A refund at the acquirer."""

    id: str
    seller_id: int
    order_id: str
    live_mode: bool
    amount: str
    status: Annotated[str, one_of(REFUNDS.names)]
    currency: str | None = None


async def resolve(call: Call) -> Answer:
    """Set the outcome of an order whose outcome is unknown; the audit trail records the operator and the reason."""
    body: ResolveRequest = call.body
    change, before = change_of(call), await orders.lock(call.tx, await owner_of(call.tx, call.path), call.path)
    assert before is not None, "its owner was found in this transaction"
    resolved = await resolving.resolve(
        change,
        before,
        body.outcome,
        Paid(),
        settings=call.settings,
        acquirer=call.shared.objects[Acquirers].of(before),
    )
    after = {**_state(resolved), "outcome": body.outcome, "reason": body.reason}
    await audit.record(call, call.tx, "orders.resolve", resolved.order_id, before=_state(before), after=after)
    return Answer(200, order_document(resolved, change.labels))


async def resolve_reversal(call: Call) -> Answer:
    """Set the outcome of an unconfirmed reversal; the audit trail records the operator and the reason."""
    call.read_wall_clock()
    body: ResolveReversalRequest = call.body

    async def work(tx: Transaction) -> ReversalDocument:
        row = await tx.one(OWNER, call.path)
        if row is None:
            raise REVERSAL_NOT_FOUND.with_reason("no seller has this reversal")
        seller_id, order_id = row
        order = await orders.lock(tx, seller_id, order_id)
        assert order is not None, "a reversal has an order"
        await resolving.resolve_reversal(
            change_at(tx, call.now_ms, call.settings),
            order,
            call.path,
            body.outcome,
            wall_ms=call.wall_ms,
            after_seconds=call.settings.resolve_after_seconds,
        )
        after = {"status": body.outcome, "reason": body.reason}
        before = {"status": lifecycles.PENDING.name}
        await audit.record(call, tx, "reversals.resolve", call.path, before=before, after=after)
        ended = await tx.one(REVERSAL, seller_id, call.path)
        assert ended is not None, "it was resolved in this transaction"
        return _reversal(ended)

    return Answer(200, await call.database.write(work))


def _state(order: Order) -> dict[str, Any]:
    return {"status": order.status, "status_detail": order.status_detail, "version": order.version}


def _reversal(row: Row) -> ReversalDocument:
    reversal_id, seller_id, order_id, live, currency, amount_minor, reference_id, confirmed, status, *rest = row
    about = reversal_id, seller_id, order_id, bool(live), amount_minor, reference_id, status, confirmed
    return ReversalDocument(*about, currency, **times(*rest))


def _inquiry(row: Row) -> InquiryDocument:
    order_id, seller_id, live, reason, reversing_ms, outcome, *rest = row
    status = lifecycles.inquiry_status(reversing_ms, outcome)
    return InquiryDocument(seller_id, order_id, bool(live), reason, status, outcome, **times(*rest))


def _refund(row: Row) -> RefundDocument:
    refund_id, seller_id, order_id, live, currency, amount, status, *rest = row
    return RefundDocument(refund_id, seller_id, order_id, bool(live), amount, status, currency, **times(*rest))


_OPEN = Query(
    "open",
    {"type": "boolean"},
    "Only inquiries that have not ended.",
    shown=Shown("Open", option="--all", default="true", help="Include inquiries that have ended."),
)

REVERSAL_PAGES = pages(ReversalDocument, LIST_REVERSALS, _reversal, BY_ID, of_status(REVERSALS))
REFUND_PAGES = pages(RefundDocument, LIST_REFUNDS, _refund, BY_ID, of_status(REFUNDS))
INQUIRY_PAGES = pages(InquiryDocument, LIST_INQUIRIES, _inquiry, BY_ID, _OPEN)
