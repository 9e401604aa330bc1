"""POST /v1/orders/{order_id}/refund in its three steps: reserved, asked for outside any transaction, answered.

What is left of a payment is decided by one conditional UPDATE, so refunds that race never exceed it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from paydesk.core import ids
from paydesk.core.clock import SystemClock
from paydesk.core.errors import Refusal
from paydesk.core.money import CURRENCIES, decimal_string, minor_units
from paydesk.operation import Answer, Call, Handled, ThreePhase
from paydesk.orders import status_labels, store
from paydesk.orders.handlers import found
from paydesk.orders.order import Order
from paydesk.orders.presentation import refund_answered
from paydesk.orders.schemas import RefundPartRequest, RefundRequest
from paydesk.payments import refund_outcomes, refund_store
from paydesk.payments.acquirer import Approved, Declined, Outcome, Payment
from paydesk.payments.errors import (
    CANNOT_REFUND_ORDER,
    ORDER_ALREADY_REFUNDED,
    PARTIAL_REFUND_FORBIDDEN_WITH_TIPS,
    REFUND_AMOUNT_EXCEEDS,
    REFUND_IN_PROGRESS,
    REFUND_PERIOD_EXCEEDED,
    TRANSACTION_NOT_FOUND,
)
from paydesk.payments.refund import Refund
from paydesk.payments.requests import payment_of

if TYPE_CHECKING:
    from paydesk.payments.acquirer import Acquirer

PERIOD_MS = 90 * 86_400_000
CLAIM_MARGIN_SECONDS = 2
"""A refund is its request's own until so long after its answer is due; then a worker takes it up."""
WALL = SystemClock()
"""Claims are by the machine's clock: the other one may be moved in development."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A refund whose intent is committed, and the payment that it is of."""

    refund: Refund
    payment: Payment


async def begin(call: Call) -> Begun | Refusal:
    """Reserve what is to go back, and write the refund down; or say why it can't be had."""
    order = await store.expire_overdue(call.tx, await found(call), call.now_ms)
    part = _part(call.body)
    if part is not None and part.id != order.payment_id:
        return TRANSACTION_NOT_FOUND.with_reason(f"{part.id} is not of this order", f"{part.id} is not its payment")
    if _acquirer(call) is None:
        return _not_refunded(call, order)
    begun = await reserve(call, order, part, key=call.headers["x-idempotency-key"])
    return _not_refunded(call, await found(call)) if begun is None else begun


async def reserve(call: Call, order: Order, part: RefundPartRequest | None, *, key: str) -> Begun | None:
    """Reserve a part, or all that is left, and write the refund down; None where that can't be had.

    `key` is that of the request whose answer the refund is, if it is one's.
    """
    reserved = await refund_store.reserve(call.tx, order, _minor(part, order), call.now_ms - PERIOD_MS)
    if reserved is None:
        return None
    refund = _new(call, reserved, part, key)
    # Whether the machine's clock is off by now: a claim of such a clock could last for days.
    call.clock.now_ms()
    claimed_seconds = call.settings.refund_answer_seconds + CLAIM_MARGIN_SECONDS
    refund_store.add(call.tx, reserved, refund, WALL.now_ms() + claimed_seconds * 1000)
    return Begun(refund, payment_of(reserved))


async def ask(call: Call, begun: Begun) -> Outcome:
    """Ask the acquirer, which has a few seconds for its decision."""
    seconds_max = call.settings.refund_answer_seconds
    return await refund_outcomes.ask(_acquirer(call), begun.payment, begun.refund, seconds_max)


async def end(call: Call, begun: Begun, outcome: Outcome, *, late: bool) -> Handled:
    """The acquirer's decision, or `processing` where there is none yet; a decline that comes late is told as news."""
    tx, refund, now_ms = call.tx, begun.refund, call.now_ms
    if isinstance(outcome, Approved):
        confirmed = await refund_outcomes.confirm(tx, refund, outcome, now_ms)
        if confirmed is not None:
            return Answer(201, refund_answered(*confirmed))
    elif isinstance(outcome, Declined):
        if late:
            await refund_outcomes.fail(tx, refund, now_ms)
        else:
            await refund_outcomes.take_back(tx, refund, now_ms)
        return CANNOT_REFUND_ORDER.with_reason(
            f"declined: {outcome.detail}", f"the acquirer declined the refund: {outcome.detail}"
        )
    else:
        await refund_outcomes.postpone(tx, refund, outcome, now_ms)
    return Answer(201, refund_answered(await found(call), refund))


STEPS = ThreePhase(begin, ask, end)


def _acquirer(call: Call) -> Acquirer | None:
    acquirer: Acquirer | None = call.state["acquirers"].of(live=call.caller.live)
    return acquirer


def _part(request: RefundRequest) -> RefundPartRequest | None:
    """The part that is asked for; None: all that is left."""
    return request.transactions[0] if request.transactions else None


def _minor(part: RefundPartRequest | None, order: Order) -> int | None:
    return minor_units(part.amount, CURRENCIES[order.currency].decimals) if part is not None else None


def _new(call: Call, reserved: Order, part: RefundPartRequest | None, key: str) -> Refund:
    """The refund of what was just reserved; nothing else is where all that is left was asked for."""
    amount_minor = _minor(part, reserved)
    if amount_minor is None:
        amount_minor = reserved.refunding_minor
    return Refund(
        seller_id=reserved.seller_id,
        refund_id=f"REF{ids.ulid(call.now_ms)}",
        order_id=reserved.order_id,
        application_id=call.caller.application_id,
        live=reserved.live,
        idempotency_key=key,
        amount=part.amount if part is not None else _whole_amount(reserved, amount_minor),
        amount_minor=amount_minor,
        status="processing",
        created_ms=call.now_ms,
        attempts=1,
    )


def _whole_amount(order: Order, amount_minor: int) -> str:
    """As the order had it, where it is all of the order."""
    return order.amount if amount_minor == order.amount_minor else _shown(order, amount_minor)


def _shown(order: Order, amount_minor: int) -> str:
    return decimal_string(amount_minor, CURRENCIES[order.currency].decimals)


def _not_refunded(call: Call, order: Order) -> Refusal:
    """Why nothing could be reserved; the checks stand in their order."""
    if order.status == "refunded":
        return ORDER_ALREADY_REFUNDED.with_reason("is refunded")
    if order.paid_ms is None:
        return CANNOT_REFUND_ORDER.with_reason(
            f"is {order.status}", f"the order is {status_labels.status_of(order)}, not processed"
        )
    if _acquirer(call) is None:
        return CANNOT_REFUND_ORDER.with_reason(
            "no acquirer", message="No acquirer is configured for live orders: the setting `acquirer` names one."
        )
    if order.paid_ms < call.now_ms - PERIOD_MS:
        return REFUND_PERIOD_EXCEEDED.with_reason("paid more than 90 days ago")
    return _not_so_much(order, _minor(_part(call.body), order))


def _not_so_much(order: Order, asked_minor: int | None) -> Refusal:
    assert order.paid_minor is not None, "it is paid"
    left_minor = order.paid_minor - order.refunded_minor
    if asked_minor is not None and order.tip_minor and asked_minor != order.paid_minor:
        return PARTIAL_REFUND_FORBIDDEN_WITH_TIPS.with_reason("a part of an order with a tip")
    if asked_minor is not None and asked_minor > left_minor:
        return REFUND_AMOUNT_EXCEEDS.with_reason(
            "more than is left", f"'$.transactions[0].amount' - must be at most {_shown(order, left_minor)}"
        )
    under_way = f"{_shown(order, order.refunding_minor)} of the {_shown(order, left_minor)} left is under way"
    return REFUND_IN_PROGRESS.with_reason("reserved by another", under_way)
