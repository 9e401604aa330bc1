"""Confirmations of provisional approvals: their list, their part of an order's page, and how one is resolved."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from paydesk.core.errors import Refusal
from paydesk.core.money import CURRENCIES, decimal_string
from paydesk.core.response import Time, named, one_of
from paydesk.engine.orders import store as orders
from paydesk.engine.orders.order import Order
from paydesk.engine.payments import confirmation_store
from paydesk.engine.payments.errors import CANNOT_RESOLVE_CONFIRMATION
from paydesk.engine.payments.lifecycles import CONFIRMATIONS, CONFIRMING, PROVISIONAL
from paydesk.operators import audit
from paydesk.operators.deliveries.retried import TIMES, Retried, times
from paydesk.operators.lists import of_status
from paydesk.operators.newest import BY_ID, newest, pages
from paydesk.operators.orders.fields import ResolveConfirmationRequest
from paydesk.operators.owners import owner_of
from paydesk.platform.operation import Answer, Call
from paydesk.platform.storage.database import Row, Transaction

# Neither the issuer's data nor the chip's.
_NAMES = (
    "order_id seller_id live status amount_minor currency reference_id authorization_code approved_ms decide_by_ms"
    " deadline_ms resolution alerted_ms"
)
_COLUMNS = f"{_NAMES.replace(' ', ', ')}, {TIMES.format(CONFIRMING)}"

LIST_CONFIRMATIONS = newest("confirmations", _COLUMNS, BY_ID, "$5 = '' OR status = $5")

CONFIRMATION = f"SELECT {_COLUMNS} FROM confirmations WHERE seller_id = $1 AND order_id = $2"


class ConfirmationDocument(Retried, frozen=True):
    """A provisional approval of the acquirer, which is confirmed or undone."""

    order_id: str
    seller_id: int
    live_mode: bool
    status: Annotated[str, one_of(CONFIRMATIONS.names)]
    amount: str
    currency: str
    reference_id: str
    approved_date: Time
    decide_by_date: Annotated[Time, Meta(description="Without the terminal's result by then, it is undone.")]
    authorization_code: str | None = None
    deadline_date: Annotated[Time, Meta(description="The acquirer's, for the confirmation.")] | None = None
    alerted_date: Annotated[Time, Meta(description="When operators were alerted.")] | None = None
    resolution: Annotated[str, Meta(description="What an operator says of a refused one.")] | None = None


async def resolve(call: Call) -> Answer:
    """Record how an operator has settled a payment that the acquirer refused to confirm."""
    body: ResolveConfirmationRequest = call.body
    order = await orders.lock(call.tx, await owner_of(call.tx, call.path), call.path)
    assert order is not None, "its owner was found in this transaction"
    is_resolved = await confirmation_store.resolve(call.tx, order, body.reason)
    confirmation = await of_order(call.tx, order)
    if not is_resolved or confirmation is None:
        raise _refusal(confirmation)
    before, after = {"status": confirmation.status}, {"status": confirmation.status, "reason": body.reason}
    await audit.record(call, call.tx, "confirmations.resolve", order.order_id, before=before, after=after)
    return Answer(200, confirmation)


async def of_order(tx: Transaction, order: Order) -> ConfirmationDocument | None:
    """Return the confirmation of the order's payment, None if its acquirer needed none."""
    row = await tx.one(CONFIRMATION, order.seller_id, order.order_id)
    return _confirmation(row) if row is not None else None


def _refusal(confirmation: ConfirmationDocument | None) -> Refusal:
    if confirmation is None:
        return CANNOT_RESOLVE_CONFIRMATION.with_reason("has none", "the payment needed no confirmation")
    if confirmation.resolution is not None:
        return CANNOT_RESOLVE_CONFIRMATION.with_reason("is resolved", f"it is resolved: {confirmation.resolution}")
    return CANNOT_RESOLVE_CONFIRMATION.with_reason(
        f"is {confirmation.status}", f"the confirmation is {confirmation.status}, not refused"
    )


def _confirmation(row: Row) -> ConfirmationDocument:
    *columns, attempts, next_ms, created_ms, ended_ms = row
    one = named(_NAMES, columns)
    dates = times(attempts, next_ms, created_ms, ended_ms)
    if one.status not in (PROVISIONAL.name, CONFIRMING.name):
        # The reversal of an undone approval is a job of its own.
        dates.pop("next_date", None)
    amount = decimal_string(one.amount_minor, CURRENCIES[one.currency].decimals)
    return ConfirmationDocument.of(one, live_mode=bool(one.live), amount=amount, **dates)


PAGES = pages(ConfirmationDocument, LIST_CONFIRMATIONS, _confirmation, BY_ID, of_status(CONFIRMATIONS))
