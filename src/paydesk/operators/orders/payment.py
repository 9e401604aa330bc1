"""The history of an order's payment: the terminal's steps and results, and what the acquirer confirms or refunds."""

from __future__ import annotations

from typing import Annotated, Any, get_args

import msgspec
from msgspec import Meta

from paydesk.core.clock import rfc3339
from paydesk.core.money import CURRENCIES, decimal_string
from paydesk.core.response import Closed, JsonObject, Time, named, one_of, time_or_none
from paydesk.engine.device.rules.reports import Outcome
from paydesk.engine.device.store import Processing
from paydesk.engine.orders.order import Order
from paydesk.engine.payments.lifecycles import INQUIRIES, REFUNDS, REVERSALS, InquiryOutcome
from paydesk.operators.deliveries.retried import Retried
from paydesk.operators.orders import outcomes
from paydesk.operators.orders.outcomes import ConfirmationDocument, Confirmed, OfRefund, OfReversal
from paydesk.platform.storage.database import Row, Transaction

STEPS = "SELECT step, created_ms FROM lease_steps WHERE seller_id = $1 AND lease_id = $2 ORDER BY seq"

RESULTS = """
SELECT created_ms, outcome, verdict, body FROM results
 WHERE seller_id = $1 AND lease_id = $2 ORDER BY created_ms, result_id"""

AUTHORIZATION = """
SELECT created_ms, repeated_ms, tip_minor, payment_method, card FROM lease_authorizations
 WHERE seller_id = $1 AND lease_id = $2"""

REFUNDS_OF_ORDER = outcomes.REFUND.select("seller_id = $1 AND order_id = $2 ORDER BY refund_id")

# Reversals begin with a result of the lease, or with the acquirer's own answer: the index has the lease first.
REVERSALS_OF_ORDER = outcomes.REVERSAL.select("seller_id = $1 AND lease_id = $2 ORDER BY reversal_id")

# Changes of the order itself, of its refunds and reversals, and the release of its terminal at the instant when the
# order was canceled by it.
CHANGES = """
WITH subjects(subject) AS (
  SELECT CAST($1 AS text) UNION ALL SELECT CAST($2 AS text)
   UNION ALL SELECT refund_id FROM refunds WHERE seller_id = $4 AND order_id = $1
   UNION ALL SELECT reversal_id FROM reversals WHERE seller_id = $4 AND lease_id = $5)
SELECT a.entry_id, a.action, a.operator_id, o.name, a.subject, a.after, a.created_ms
  FROM subjects s JOIN operator_audit a ON a.subject = s.subject
  LEFT JOIN operators o ON o.operator_id = a.operator_id
 WHERE a.subject <> $2 OR (a.action = 'terminals.release' AND a.created_ms = $3)
 ORDER BY a.entry_id"""
ENDED = ("refunds.resolve", "reversals.resolve")
"""Changes whose outcome is the status that they set."""


class StepDocument(Closed, frozen=True):
    """A step of the payment that the terminal reported."""

    step: str
    date: Annotated[Time, Meta(description="When the service received it.")]


class RecordedResult(Closed, frozen=True):
    """A result that the terminal reported."""

    date: Annotated[Time, Meta(description="When the service received it.")]
    outcome: Annotated[str, one_of((*get_args(Outcome), "unreadable"))]
    verdict: Annotated[str, one_of(get_args(Processing), "How it was processed; only a `taken` one changed the order.")]
    status_detail: str | None = None
    payment_method: JsonObject | None = None
    card: Annotated[JsonObject, Meta(description="The first six and the last four digits.")] | None = None


class OrderAuthorization(Closed, frozen=True):
    """The authorization that the service requested at the acquirer, for a terminal of kind `service`."""

    date: Time
    payment_method: JsonObject
    card: Annotated[JsonObject, Meta(description="The first six and the last four digits.")]
    tip_amount: str | None = None
    repeated_date: Annotated[Time, Meta(description="When it was first requested again.")] | None = None


class OrderInquiry(Retried, frozen=True):
    """The inquiry about the outcome at the acquirer."""

    reason: str
    status: Annotated[str, one_of(INQUIRIES.names)]
    outcome: InquiryOutcome | None = None
    reversing_date: (
        Annotated[Time, Meta(description="From then on the payment is reversed, and never approved.")] | None
    ) = None


class OrderRefund(Retried, frozen=True):
    """A refund of the order at the acquirer."""

    id: str
    amount: str
    status: Annotated[str, one_of(REFUNDS.names)]
    waits_for: OfRefund | None = None
    resolvable_date: (
        Annotated[Time, Meta(description="From then on, an operator can set the outcome, if it was sent.")] | None
    ) = None


class OrderReversal(Retried, frozen=True):
    """The reversal of an approval that is not the order's payment."""

    id: str
    amount: str
    status: Annotated[str, one_of(REVERSALS.names)]
    reference_id: str | None = None
    confirmed: Confirmed | None = None
    resolvable_date: (
        Annotated[Time, Meta(description="From then on, an operator can set the outcome, unless the order is live.")]
        | None
    ) = None
    waits_for: OfReversal | None = None
    refunding_date: (
        Annotated[Time, Meta(description="Since then it came too late, and is refunded instead.")] | None
    ) = None


class ChangeDocument(Closed, frozen=True, kw_only=True):
    """A change by an operator, from the audit trail: of the order, or of its refunds and reversals."""

    id: str
    date: Time
    action: str
    operator_id: str
    operator: Annotated[str, Meta(description="The operator's name.")] | None = None
    subject: Annotated[str, Meta(description="What was changed: the order, its terminal, a refund or a reversal.")]
    reason: str | None = None
    outcome: str | None = None
    refund_id: str | None = None


async def of_order(
    tx: Transaction, order: Order, released_ms: int | None, *, resolve_after_seconds: int
) -> dict[str, Any]:
    """Return what happened to the order's payment, by the names of `InspectedOrder`.

    `released_ms`: when an operator released it, or None.
    """
    seller_id, key, lease = order.seller_id, order.order_id, (order.seller_id, order.ulid)
    changes = await tx.all(CHANGES, key, order.terminal_id, -1 if released_ms is None else released_ms, *lease)
    inquiry = await outcomes.find(tx, outcomes.INQUIRY, seller_id, key)
    confirmation = await outcomes.find(tx, outcomes.CONFIRMATION, seller_id, key)
    refunds = [outcomes.REFUND.read(row) for row in await tx.all(REFUNDS_OF_ORDER, seller_id, key)]
    reversals = [outcomes.REVERSAL.read(row) for row in await tx.all(REVERSALS_OF_ORDER, *lease)]
    for one in (*refunds, *reversals):
        one.resolvable_ms = one.created_ms + resolve_after_seconds * 1000 if one.ended_ms is None else None
    authorization = None
    if row := await tx.one(AUTHORIZATION, *lease):
        created_ms, repeated_ms, tip_minor, payment_method, card = row
        authorization = OrderAuthorization(
            rfc3339(created_ms),
            msgspec.Raw(payment_method.encode()),
            msgspec.Raw(card.encode()),
            _decimal(order, tip_minor) if tip_minor else None,
            time_or_none(repeated_ms),
        )
    return {
        "steps": [StepDocument(step, rfc3339(created_ms)) for step, created_ms in await tx.all(STEPS, *lease)],
        "results": [_result(row) for row in await tx.all(RESULTS, *lease)],
        "authorization": authorization,
        "confirmation": None if confirmation is None else ConfirmationDocument.of(confirmation),
        "inquiry": None if inquiry is None else OrderInquiry.of(inquiry),
        "order_refunds": [OrderRefund.of(one) for one in refunds],
        "reversals": [
            OrderReversal.of(one, amount=_decimal(order, one.amount_minor), reference_id=one.reference_id or None)
            for one in reversals
        ],
        "changes": [_change(row) for row in changes],
    }


def _result(row: Row) -> RecordedResult:
    created_ms, outcome, verdict, body = row
    # An unreadable result was recorded as its well-formed part, which is not shown as an outcome.
    content: dict[str, Any] = msgspec.json.decode(body) if outcome else {}
    return RecordedResult(
        rfc3339(created_ms),
        outcome or "unreadable",
        verdict,
        content.get("status_detail"),
        _raw(content.get("payment_method")),
        _raw(content.get("card")),
    )


def _change(row: Row) -> ChangeDocument:
    one = named("id action operator_id operator subject after created_ms", row)
    content = msgspec.json.decode(one.after) if one.after else {}
    said = {name: content.get(name) for name in ("reason", "outcome", "refund_id")}
    if one.action in ENDED:
        said["outcome"] = content["status"]
    return ChangeDocument.of(one, date=rfc3339(one.created_ms), **said)


def _decimal(order: Order, minor: int) -> str:
    return decimal_string(minor, CURRENCIES[order.currency].decimals)


def _raw(value: Any) -> msgspec.Raw | None:
    return msgspec.Raw(msgspec.json.encode(value)) if value else None
