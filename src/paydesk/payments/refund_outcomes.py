"""What becomes of a refund once the acquirer was asked: confirmed, refused, or asked for again under the same key.

A request and the worker come here alike. Of each refund one outcome is taken, and its order moves with it.
"""

from __future__ import annotations

import msgspec

from paydesk.orders import status, store
from paydesk.orders.order import Order
from paydesk.orders.presentation import with_refund
from paydesk.payments import refund_store
from paydesk.payments.acquirer import Acquirer, Approved, NotSent, Outcome, Payment, Unknown
from paydesk.payments.refund import Refund
from paydesk.payments.requests import answer_of, next_ms
from paydesk.storage.database import Transaction

PAUSES_SECONDS = (0, 10, 30, 60, 120, 300, 600)
"""After the first attempt, the second, …; after every later one as after the last."""


async def ask(acquirer: Acquirer | None, payment: Payment, refund: Refund, seconds_max: float) -> Outcome:
    """Ask for the refund under its own key; whoever does not answer in time may have given the money back."""
    if acquirer is None:
        return NotSent("no acquirer is configured")
    asked = acquirer.refund(payment, key=refund.refund_id, amount_minor=refund.amount_minor)
    return await answer_of(asked, seconds_max)


async def confirm(tx: Transaction, refund: Refund, approved: Approved, now_ms: int) -> tuple[Order, Refund] | None:
    """The money is back: the order is refunded, in part or as a whole. None where the refund had ended before."""
    refund = msgspec.structs.replace(refund, status="processed", reference_id=approved.reference_id)
    if not await refund_store.end(tx, refund, now_ms):
        return None
    order = await _held(tx, refund)
    refunded_minor = order.refunded_minor + refund.amount_minor
    moved = await store.move(
        tx,
        status.REFUND_WHOLE if refunded_minor == order.paid_minor else status.REFUND_PART,
        order,
        now_ms,
        refunded_minor=refunded_minor,
        refunding_minor=order.refunding_minor - refund.amount_minor,
        refunds=with_refund(order.refunds, refund),
    )
    assert moved is not None, "an order with money reserved is processed"
    return moved, refund


async def fail(tx: Transaction, refund: Refund, now_ms: int) -> Order | None:
    """The money stays, after its refund was answered: the order says so. None where the refund had ended before."""
    refund = msgspec.structs.replace(refund, status="failed")
    if not await refund_store.end(tx, refund, now_ms):
        return None
    order = await _held(tx, refund)
    moved = await store.move(
        tx,
        status.REFUND_FAILED,
        order,
        now_ms,
        refunding_minor=order.refunding_minor - refund.amount_minor,
        refunds=with_refund(order.refunds, refund),
    )
    assert moved is not None, "an order with money reserved is processed"
    return moved


async def take_back(tx: Transaction, refund: Refund, now_ms: int) -> None:
    """The money stays, before anybody was told of the refund: the order is as it was."""
    if await refund_store.end(tx, msgspec.structs.replace(refund, status="failed"), now_ms):
        await refund_store.release(tx, await _held(tx, refund), refund)


async def postpone(tx: Transaction, refund: Refund, outcome: Unknown | NotSent, now_ms: int) -> None:
    """Nobody knows, or it never left: the worker asks again."""
    again_ms = next_ms(refund.attempts, now_ms, PAUSES_SECONDS)
    await refund_store.postpone(tx, refund, again_ms, unsent=isinstance(outcome, NotSent))
    tx.notify("money")


def was_never_sent(refund: Refund) -> bool:
    """Whether, with the attempt that is under way, none of all attempts left."""
    return refund.attempts == refund.unsent + 1


async def _held(tx: Transaction, refund: Refund) -> Order:
    order = await store.lock(tx, refund.seller_id, refund.order_id)
    assert order is not None, "a refund has an order"
    return order
