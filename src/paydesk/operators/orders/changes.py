"""Cancels and refunds by an operator: as the application would, by the same rules, with a reason.

The audit trail records the request with its reason; a refund's outcome is in the list of refunds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from paydesk.core.errors import PROPERTY_VALUE, Refusal
from paydesk.core.money import CURRENCIES, minor_units
from paydesk.engine.orders import handlers, store
from paydesk.engine.orders.order import Order
from paydesk.engine.payments.refunds import handlers as refunds
from paydesk.engine.payments.refunds.attempts import Attempt
from paydesk.operators import audit
from paydesk.operators.orders.fields import RefundOrderRequest
from paydesk.operators.owners import owner_of
from paydesk.operators.schemas import ReasonRequest
from paydesk.platform.operation import Answer, Call, Caller, Handled, ThreePhase
from paydesk.platform.storage.database import Transaction


async def as_seller(call: Call) -> Caller:
    """Return the operator as a caller for the seller of the order. Raises `ORDER_NOT_FOUND`."""

    async def find(tx: Transaction) -> Order:
        order = await store.find(tx, await owner_of(tx, call.path), call.path)
        assert order is not None, "its owner was found in this transaction"
        return order

    order = await call.database.read(find)
    call.logged_seller_id = order.seller_id
    return replace(call.caller, seller_id=order.seller_id, live=bool(order.live))


async def cancel(call: Call) -> Handled:
    """Cancel an order as an operator: at once, or by a request to its terminal; record who did and why."""
    body: ReasonRequest = call.body
    before = await handlers.requested_order(call)
    answer = await handlers.cancel(call)
    if isinstance(answer, Answer):
        after = {**_state(await handlers.requested_order(call)), "reason": body.reason}
        await audit.record(call, call.tx, "orders.cancel", call.path, before=_state(before), after=after)
    return answer


async def begin_refund(call: Call) -> Attempt | Refusal:
    """Refund an order as an operator, whole or in part: reserve the amount, and record who refunds it and why."""
    body: RefundOrderRequest = call.body
    before = await handlers.requested_order(call)
    currency = CURRENCIES[before.currency]
    for part in body.transactions or ():
        if part.amount is not None and minor_units(part.amount, currency.decimals) is None:
            raise PROPERTY_VALUE.with_reason(
                f"an amount in {currency.code}",
                f"'$.transactions[0].amount' - must have at most {currency.decimals} decimals, as {currency.code} has",
            )
    begun = await refunds.begin(call)
    if isinstance(begun, Attempt):
        after = {"refund_id": begun.refund.refund_id, "amount": begun.refund.amount, "reason": body.reason}
        await audit.record(call, call.tx, "orders.refund", call.path, before=_state(before), after=after)
    return begun


REFUND = ThreePhase(begin_refund, refunds.ask, refunds.end)


def _state(order: Order) -> dict[str, Any]:
    return {"status": order.status, "payment_status_detail": order.payment_status_detail, "version": order.version}
