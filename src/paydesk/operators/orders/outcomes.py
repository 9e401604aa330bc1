"""Inquiries, reversals and refunds: their lists, and how an operator resolves an order, a reversal or a refund."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from paydesk.core.response import one_of
from paydesk.engine.orders import store as orders
from paydesk.engine.orders.change import change_at, change_of
from paydesk.engine.orders.order import Order
from paydesk.engine.orders.presentation import order_document
from paydesk.engine.payments import lifecycles, resolving, terms
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.engine.payments.errors import CANNOT_RESOLVE_ORDER, REFUND_NOT_FOUND, REVERSAL_NOT_FOUND
from paydesk.engine.payments.jobs import NEVER_MS
from paydesk.engine.payments.lifecycles import CONFIRMING, INQUIRIES, REFUNDS, REVERSALS, InquiryOutcome
from paydesk.engine.payments.outcomes import Paid, claim_reference
from paydesk.engine.payments.refunds import resolving as refund_resolving
from paydesk.operators import audit
from paydesk.operators.deliveries.retried import TIMES, Retried, times
from paydesk.operators.lists import of_status
from paydesk.operators.newest import BY_ID, newest, pages
from paydesk.operators.orders.fields import ResolveRefundRequest, ResolveRequest, ResolveReversalRequest
from paydesk.operators.owners import owner_of
from paydesk.operators.words import Shown
from paydesk.platform.operation import Answer, Call, Query
from paydesk.platform.storage.database import Row, Transaction

_CURRENCY = """
(SELECT o.currency FROM orders o WHERE o.seller_id = {0}.seller_id AND o.order_id = {0}.order_id)"""

_REVERSAL = f"""
reversal_id, seller_id, order_id, live, {_CURRENCY.format("reversals")}, amount_minor, reference_id, confirmed, status,
refunding_ms, {TIMES.format(lifecycles.PENDING)}"""

_INQUIRY = f"""
order_id, seller_id, live, reason, reversing_ms, outcome,
{TIMES.format(lifecycles.INQUIRIES.open)}"""

_REFUND = f"""
refund_id, seller_id, order_id, live, {_CURRENCY.format("refunds")}, amount, status, reference_id,
EXISTS (SELECT 1 FROM confirmations c
         WHERE c.seller_id = refunds.seller_id AND c.order_id = refunds.order_id AND c.{CONFIRMING}),
{TIMES.format(lifecycles.PROCESSING)}"""

LIST_REVERSALS = newest("reversals", _REVERSAL, BY_ID, "$5 = '' OR status = $5")

REVERSAL = f"SELECT {_REVERSAL} FROM reversals WHERE seller_id = $1 AND reversal_id = $2"

REFUND = f"SELECT {_REFUND} FROM refunds WHERE seller_id = $1 AND refund_id = $2"

OWNER = """
SELECT sellers.seller_id, reversals.order_id FROM sellers
  JOIN reversals ON reversals.seller_id = sellers.seller_id AND reversals.reversal_id = $1"""

OWNER_OF_REFUND = """
SELECT sellers.seller_id FROM sellers
  JOIN refunds ON refunds.seller_id = sellers.seller_id AND refunds.refund_id = $1"""

LIST_INQUIRIES = newest("inquiries", _INQUIRY, BY_ID, f"$5 <> '1' OR {lifecycles.INQUIRIES.open}")

LIST_REFUNDS = newest("refunds", _REFUND, BY_ID, "$5 = '' OR status = $5")


ReversalWaitsFor = Literal["reversal", "refund", "person"]
RefundWaitsFor = Literal["refund", "confirmation", "person"]
_NO_ATTEMPT = "No further attempt is made if it waits for a person."
OfReversal = Annotated[ReversalWaitsFor, Meta(description=f"While it is pending. {_NO_ATTEMPT}")]
OfRefund = Annotated[RefundWaitsFor, Meta(description=f"While it is processing. {_NO_ATTEMPT}")]


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
    waits_for: OfReversal | None = None


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
    reference_id: str | None = None
    waits_for: OfRefund | None = None


async def resolve(call: Call) -> Answer:
    """Set the outcome of an order whose outcome is unknown; the audit trail records the operator and the reason."""
    body: ResolveRequest = call.body
    change, before = change_of(call), await orders.lock(call.tx, await owner_of(call.tx, call.path), call.path)
    assert before is not None, "its owner was found in this transaction"
    paid = await _paid(call.tx, before, body)
    if paid.reference_id is not None and not await claim_reference(call.tx, before, paid.reference_id):
        raise CANNOT_RESOLVE_ORDER.with_reason(
            "reference of another order", f"{paid.reference_id} is the reference of another order's payment"
        )
    resolved = await resolving.resolve(
        change,
        before,
        body.outcome,
        paid,
        settings=call.settings,
        acquirer=call.shared.objects[Acquirers].of(before),
    )
    after = {**_state(resolved), **body.model_dump(exclude_none=True)}
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


async def resolve_refund(call: Call) -> Answer:
    """Set the outcome of a refund that the acquirer has not decided; the audit trail records operator and reason."""
    call.read_wall_clock()
    body: ResolveRefundRequest = call.body

    async def work(tx: Transaction) -> RefundDocument:
        row = await tx.one(OWNER_OF_REFUND, call.path)
        if row is None:
            raise REFUND_NOT_FOUND.with_reason("no seller has this refund")
        await refund_resolving.resolve(
            change_at(tx, call.now_ms, call.settings),
            row[0],
            call.path,
            body.outcome,
            reference_id=body.reference_id or "",
            wall_ms=call.wall_ms,
            after_seconds=call.settings.resolve_after_seconds,
        )
        said = body.model_dump(exclude_none=True, exclude={"outcome"})
        before = {"status": lifecycles.PROCESSING.name}
        await audit.record(
            call, tx, "refunds.resolve", call.path, before=before, after={"status": body.outcome, **said}
        )
        ended = await tx.one(REFUND, row[0], call.path)
        assert ended is not None, "it was resolved in this transaction"
        return _refund(ended)

    return Answer(200, await call.database.write(work))


async def _paid(tx: Transaction, order: Order, body: ResolveRequest) -> Paid:
    """Return what the operator knows of an approval; the number of installments is that of the request."""
    method, card = None, None
    if body.payment_method_id is not None:
        requested = (await terms.find(tx, order)).requested
        asked = {} if requested is None else msgspec.json.decode(requested.payment_method)
        installments = asked.get("installments", 1)
        method = {"id": body.payment_method_id, "type": body.payment_method_type, "installments": installments}
    if body.first_digits is not None:
        card = {"first_digits": body.first_digits, "last_digits": body.last_digits}
    return Paid(body.reference_id, body.authorization_code, method, card)


def reversal_waits_for(status: str, refunding_ms: int | None, next_ms: int) -> ReversalWaitsFor | None:
    """Return what a reversal waits for; None after its end."""
    if status != lifecycles.PENDING.name:
        return None
    return "person" if next_ms == NEVER_MS else "reversal" if refunding_ms is None else "refund"


def refund_waits_for(status: str, next_ms: int, *, is_unconfirmed: bool) -> RefundWaitsFor | None:
    """Return what a refund waits for; None after its end. `is_unconfirmed`: its payment is not confirmed yet."""
    if status != lifecycles.PROCESSING.name:
        return None
    return "person" if next_ms == NEVER_MS else "confirmation" if is_unconfirmed else "refund"


def _state(order: Order) -> dict[str, Any]:
    return {"status": order.status, "status_detail": order.status_detail, "version": order.version}


def _reversal(row: Row) -> ReversalDocument:
    reversal_id, seller_id, order_id, live, currency, amount_minor, reference_id, confirmed, status, *rest = row
    refunding_ms, *retried = rest
    about = reversal_id, seller_id, order_id, bool(live), amount_minor, reference_id, status, confirmed
    waits_for = reversal_waits_for(status, refunding_ms, retried[1])
    return ReversalDocument(*about, currency, waits_for, **times(*retried))


def _inquiry(row: Row) -> InquiryDocument:
    order_id, seller_id, live, reason, reversing_ms, outcome, *rest = row
    status = lifecycles.inquiry_status(reversing_ms, outcome)
    return InquiryDocument(seller_id, order_id, bool(live), reason, status, outcome, **times(*rest))


def _refund(row: Row) -> RefundDocument:
    refund_id, seller_id, order_id, live, currency, amount, status, reference_id, is_unconfirmed, *rest = row
    about = refund_id, seller_id, order_id, bool(live), amount, status, currency, reference_id
    waits_for = refund_waits_for(status, rest[1], is_unconfirmed=bool(is_unconfirmed))
    return RefundDocument(*about, waits_for, **times(*rest))


_OPEN = Query(
    "open",
    {"type": "boolean"},
    "Only inquiries that have not ended.",
    shown=Shown("Open", option="--all", default="true", help="Include inquiries that have ended."),
)

REVERSAL_PAGES = pages(ReversalDocument, LIST_REVERSALS, _reversal, BY_ID, of_status(REVERSALS))
REFUND_PAGES = pages(RefundDocument, LIST_REFUNDS, _refund, BY_ID, of_status(REFUNDS))
INQUIRY_PAGES = pages(InquiryDocument, LIST_INQUIRIES, _inquiry, BY_ID, _OPEN)
