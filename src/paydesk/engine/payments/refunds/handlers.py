"""POST /v1/orders/{order_id}/refund in three phases: reserve, request at the acquirer (no transaction), respond.

One conditional UPDATE reserves the amount, so concurrent refunds never exceed the payment.
"""

from __future__ import annotations

from paydesk.core import ids
from paydesk.core.errors import Refusal
from paydesk.core.money import CURRENCIES, decimal_string, minor_units
from paydesk.engine.orders import store
from paydesk.engine.orders.change import Change, change_at, change_of
from paydesk.engine.orders.handlers import requested_order
from paydesk.engine.orders.order import Order
from paydesk.engine.payments import confirmation_store
from paydesk.engine.payments.acquirer import Approved, Declined, Outcome
from paydesk.engine.payments.acquirers import Acquirers, CheckedAcquirer
from paydesk.engine.payments.errors import (
    CANNOT_REFUND_ORDER,
    ORDER_ALREADY_REFUNDED,
    PARTIAL_REFUND_FORBIDDEN_WITH_TIPS,
    REFUND_AMOUNT_EXCEEDS,
    REFUND_IN_PROGRESS,
    REFUND_PERIOD_EXCEEDED,
    TRANSACTION_NOT_FOUND,
)
from paydesk.engine.payments.jobs import describe, log
from paydesk.engine.payments.lifecycles import CONFIRMING, REFUSED
from paydesk.engine.payments.refund import Refund, refund_response
from paydesk.engine.payments.refunds import store as refund_store
from paydesk.engine.payments.refunds.attempts import Attempt, RefundCalls, complete_request, request_key
from paydesk.engine.payments.refunds.schemas import RefundPartRequest, RefundRequest
from paydesk.engine.payments.refunds.store import PERIOD_MS
from paydesk.platform.operation import Answer, Call, Handled, ThreePhase
from paydesk.platform.storage import conflict_keys
from paydesk.platform.storage.database import Transaction

LEASE_MARGIN_SECONDS = 2
"""Time after the response is due in which no worker may claim the refund."""


async def begin(call: Call) -> Attempt | Refusal:
    """Refund an order, whole or in part: reserve the amount and insert the refund, or return why it is refused."""
    request: RefundRequest = call.body
    # Without a part or without its amount, all that remains is requested.
    change, part = change_of(call), request.transactions[0] if request.transactions else None
    order = await store.expire_overdue(change, await requested_order(call))
    if part is not None and part.id != order.payment_id:
        return TRANSACTION_NOT_FOUND.with_reason(
            f"{part.id} is not of this order", f"{part.id} is not the order's payment"
        )
    confirmation = await confirmation_store.find(call.tx, order)
    if confirmation is not None and confirmation.status == REFUSED.name:
        return CANNOT_REFUND_ORDER.with_reason(
            "is not confirmed", "the acquirer refused to confirm the payment, so that it has not been paid"
        )
    acquirer = call.shared.objects[Acquirers].of(order)
    amount_minor = _minor(part, order)
    is_possible = acquirer is not None and _inability(acquirer, order, amount_minor) is None
    reserved = await refund_store.reserve(change, order, amount_minor) if is_possible else None
    if reserved is None or acquirer is None:
        return _refusal(change, await requested_order(call), part, acquirer)
    is_sent = confirmation is None or confirmation.status != CONFIRMING.name
    refund = add(
        change,
        reserved,
        part,
        application_id=call.caller.application_id,
        key=call.headers["x-idempotency-key"],
        claimed_until_ms=claimed_until_ms(call, acquirer) if is_sent else 0,
        is_sent=is_sent,
    )
    return Attempt(refund, reserved, acquirer, call.settings)


def add(
    change: Change,
    reserved: Order,
    part: RefundPartRequest | None,
    *,
    application_id: int,
    key: str,
    claimed_until_ms: int,
    is_sent: bool = True,
) -> Refund:
    """Insert the refund of the reserved amount, and return it.

    `key` is the idempotency key of the request that the refund answers, or "". No worker claims the refund before
    `claimed_until_ms`. It `is_sent` by the request, unless it waits for the payment's confirmation.
    """
    amount, amount_minor = part.amount if part is not None else None, _minor(part, reserved)
    if amount is None or amount_minor is None:
        # All that remains was requested, so nothing else is reserved. The whole amount is spelled as in the order.
        amount_minor = reserved.refunding_minor
        amount = reserved.amount if amount_minor == reserved.amount_minor else _decimal(reserved, amount_minor)
    refund = Refund(
        seller_id=reserved.seller_id,
        refund_id=f"REF{ids.ulid(change.now_ms)}",
        order_id=reserved.order_id,
        application_id=application_id,
        live=reserved.live,
        idempotency_key=key,
        amount=amount,
        amount_minor=amount_minor,
        status="processing",
        created_ms=change.now_ms,
        attempts=int(is_sent),
        payment_reference_id=reserved.reference_id or "",
    )
    refund_store.add(change.tx, reserved, refund, claimed_until_ms)
    return refund


def claimed_until_ms(call: Call, acquirer: CheckedAcquirer) -> int:
    """Return until when a refund is claimed by its request: until its call at the acquirer has ended."""
    return call.wall_ms + (acquirer.capabilities.answer_seconds + LEASE_MARGIN_SECONDS) * 1000


async def ask(call: Call, attempt: Attempt) -> Outcome | None:
    """Request the refund; None if the acquirer does not decide within `refund_answer_seconds`, and still may.

    None too if the refund waits for the payment's confirmation.
    """
    if not attempt.refund.attempts:
        return None

    async def apply_late(outcome: Outcome) -> None:
        now_ms, refund = call.clock.now_ms(), attempt.refund
        facts = {**attempt.refund_facts, "request_id": call.request_id}
        log.info("refund_answered", **facts, attempt=refund.attempts, outcome=describe(outcome))

        async def work(tx: Transaction) -> None:
            # The request may have ended without a response, and nothing would store it later.
            await complete_request(tx, refund)
            await attempt.apply(change_at(tx, now_ms, call.settings), outcome)

        keys = conflict_keys.order(refund.order_id), conflict_keys.idempotency(request_key(refund))
        await call.database.write(work, conflict_keys=keys)

    calls, seconds_max = call.shared.objects[RefundCalls], call.settings.refund_answer_seconds
    return await calls.outcome(attempt, seconds_max, apply_late)


async def end(call: Call, attempt: Attempt, outcome: Outcome | None, *, late: bool) -> Handled:
    """Commit the acquirer's decision, or respond `processing` without one; a `late` decline is sent as an event."""
    change, refund = change_of(call), attempt.refund
    if isinstance(outcome, Approved):
        confirmed = await refund_store.confirm(change, refund, outcome)
        if confirmed is not None:
            return Answer(201, refund_response(*confirmed))
    elif isinstance(outcome, Declined):
        if late:
            await refund_store.fail(change, refund)
        else:
            await refund_store.discard(change, refund)
        return CANNOT_REFUND_ORDER.with_reason(
            f"declined: {outcome.detail}", f"the acquirer declined the refund: {outcome.detail}"
        )
    elif outcome is not None:
        await attempt.postpone(change, outcome)
    return Answer(201, refund_response(await requested_order(call), refund))


PHASES = ThreePhase(begin, ask, end)


def _minor(part: RefundPartRequest | None, order: Order) -> int | None:
    if part is None or part.amount is None:
        return None
    return minor_units(part.amount, CURRENCIES[order.currency].decimals)


def _no_acquirer(order: Order) -> Refusal:
    if order.acquirer is None:
        return CANNOT_REFUND_ORDER.with_reason(
            "no acquirer", message="No acquirer is configured for live orders. Set `acquirer`."
        )
    return CANNOT_REFUND_ORDER.with_reason(
        "its acquirer is gone",
        f"the order's acquirer, `{order.acquirer}`, is no longer configured; add it to the `acquirers_file`",
    )


def _inability(acquirer: CheckedAcquirer, order: Order, amount_minor: int | None) -> Refusal | None:
    """Return why the acquirer makes no such refund, or None if it may."""
    capabilities = acquirer.capabilities
    if not capabilities.supports(order.currency):
        return CANNOT_REFUND_ORDER.with_reason("its currency", f"the order's acquirer does not accept {order.currency}")
    is_whole = order.refunded_minor == 0 and amount_minor in (None, order.paid_minor)
    if not (capabilities.partial_refunds or is_whole):
        return CANNOT_REFUND_ORDER.with_reason(
            "no parts", "the order's acquirer refunds a payment only as a whole: send no body"
        )
    return None


def _decimal(order: Order, amount_minor: int) -> str:
    return decimal_string(amount_minor, CURRENCIES[order.currency].decimals)


def _refusal(change: Change, order: Order, part: RefundPartRequest | None, acquirer: CheckedAcquirer | None) -> Refusal:
    """Return why nothing could be reserved."""
    if order.status == "refunded":
        return ORDER_ALREADY_REFUNDED.with_reason("is refunded")
    if order.paid_ms is None:
        return CANNOT_REFUND_ORDER.with_reason(
            f"is {order.status}", f"the order is {change.labels.of(order)}, not processed"
        )
    if acquirer is None:
        return _no_acquirer(order)
    if order.paid_ms < change.now_ms - PERIOD_MS:
        return REFUND_PERIOD_EXCEEDED.with_reason("paid more than 90 days ago")
    return _amount_refusal(order, _minor(part, order), acquirer)


def _amount_refusal(order: Order, requested_minor: int | None, acquirer: CheckedAcquirer) -> Refusal:
    assert order.paid_minor is not None, "the order is paid"
    remaining_minor = order.paid_minor - order.refunded_minor
    if requested_minor is not None and order.tip_minor and requested_minor != order.paid_minor:
        return PARTIAL_REFUND_FORBIDDEN_WITH_TIPS.with_reason("a part of an order with a tip")
    if (inability := _inability(acquirer, order, requested_minor)) is not None:
        return inability
    if requested_minor is not None and requested_minor > remaining_minor:
        return REFUND_AMOUNT_EXCEEDS.with_reason(
            "more than remains", f"'$.transactions[0].amount' - must be at most {_decimal(order, remaining_minor)}"
        )
    return REFUND_IN_PROGRESS.with_reason(
        "reserved by another",
        f"{_decimal(order, order.refunding_minor)} of the remaining {_decimal(order, remaining_minor)} is being"
        " refunded",
    )
