"""The money of a test order that is brought to a status: the simulated acquirer's book is made to agree.

The book is written between two transactions. What a crash in between leaves is ended by the ordinary workers: an order
without an outcome by an inquiry, which finds what the book says, and a refund under its own key.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from paydesk.core.crash_points import reached
from paydesk.core.errors import SERVICE_UNAVAILABLE, Refusal
from paydesk.operation import Answer, Call, Handled
from paydesk.orders import status, store
from paydesk.orders.handlers import order_key, requested_order
from paydesk.orders.order import Order
from paydesk.payments import inquiry_store, outcomes, refund_store, refunds
from paydesk.payments.acquirer import Approved, Card, Declined, Outcome, payment_of
from paydesk.payments.outcomes import Paid
from paydesk.payments.refund import Refund
from paydesk.sandbox import simulated_orders
from paydesk.sandbox.schemas import SimulatedRequest
from paydesk.sandbox.simulated_orders import Step, illegal, opened
from paydesk.sandbox.simulator.acquirer import Simulator
from paydesk.sandbox.simulator.cards import CARDS
from paydesk.storage.database import T, Transaction

METHODS = {"credit_card": "visa", "debit_card": "debvisa", "qr": "account_money"}
"""What is paid with where nothing else is asked for."""


async def bring(call: Call) -> Handled:
    """Bring the order to the status; every move on the way is committed, with its notification, before the answer."""
    request: SimulatedRequest = call.body
    if request.status == "processed":
        return await _pay(call)
    if request.status == "refunded":
        return await _refund(call)
    begun = await _write(call, _walked)
    return await _fail(call, begun) if isinstance(begun, Order) else begun


async def _walked(call: Call) -> Order | Answer | Refusal:
    """The moves that need no acquirer; the order where it may know of a payment that is to have failed."""
    request: SimulatedRequest = call.body
    order = await opened(call)
    if request.status != "failed" or order.state != status.CHECK_ON_TERMINAL:
        return await simulated_orders.walk(call)
    await store.detach(call.tx, order, call.now_ms)
    # An answer that is under way to an inquiry comes too late.
    await inquiry_store.end(call.tx, order, "simulated", call.now_ms)
    return order


async def _pay(call: Call) -> Handled:
    """Granted to whoever asks, in place of the terminal; approved by the book; processed."""
    begun = await _write(call, _granted)
    if not isinstance(begun, Order):
        return begun
    reached("intent_committed")
    method = _method(begun, call.body)
    outcome = await _simulator(call).settle(payment_of(begun, installments=method["installments"]), _card(method))
    reached("asked")

    async def end(call: Call) -> Handled:
        return await _paid(call, outcome, method)

    return await _write(call, end)


async def _granted(call: Call) -> Order | Refusal:
    request: SimulatedRequest = call.body
    order = await opened(call)
    if order.state == status.CHECK_ON_TERMINAL:
        if await inquiry_store.status_of(call.tx, order) == "reversing":
            # It is being undone at the acquirer, and fails.
            return illegal(order, request)
        await store.detach(call.tx, order, call.now_ms)
        return order
    if order.state == status.AT_TERMINAL and order.detached_ms is not None:
        # An earlier request came so far and no further: this one goes on.
        return order
    if order.state not in (status.CREATED, status.AT_TERMINAL) or simulated_orders.is_granted(order):
        return illegal(order, request)
    at_terminal = await simulated_orders.go(call, order, simulated_orders.to_terminal(order))
    assert at_terminal is not None, "the order is held and was created a moment ago"
    if not await store.permit_authorization(call.tx, order, call.now_ms):
        raise illegal(order, request)
    await store.detach(call.tx, order, call.now_ms)
    return at_terminal


async def _paid(call: Call, outcome: Approved | Declined, method: dict[str, Any]) -> Handled:
    order = await opened(call)
    if isinstance(outcome, Declined):
        # The acquirer has declined it before: an inquiry will say so.
        await store.reattach(call.tx, order)
        return illegal(order, call.body)
    card = _card(method)
    digits = outcomes.card_digits(card) if card is not None else None
    paid = Paid(outcome.reference_id, outcome.authorization_code, method, digits)
    approve = Step(status.APPROVE, None, outcomes.approval_changes(paid, order, call.now_ms))
    if await simulated_orders.go(call, order, [approve]) is None and order.reference_id != outcome.reference_id:
        return illegal(order, call.body)
    await outcomes.claim_reference(call.tx, order, outcome.reference_id)
    await inquiry_store.end(call.tx, order, "simulated", call.now_ms)
    return Answer(204)


async def _fail(call: Call, order: Order) -> Handled:
    """Of an unknown outcome the acquirer may know an approval: it is undone, or forbidden, before the order fails."""
    reached("intent_committed")
    payment = payment_of(order)
    key = f"{order.payment_id}.failed"
    undone = await _simulator(call).reverse(payment, key=key, amount_minor=order.amount_minor)
    reached("asked")
    if not isinstance(undone, Approved):
        return _undecided(undone)

    async def end(call: Call) -> Handled:
        current = await opened(call)
        if await simulated_orders.go(call, current, simulated_orders.way(current, call.body, call.now_ms)) is None:
            return illegal(current, call.body)
        return Answer(204)

    return await _write(call, end)


async def _refund(call: Call) -> Handled:
    """All that is left goes back, as a refund that was asked for."""
    refund = await _write(call, _reserved)
    if not isinstance(refund, Refund):
        return refund
    reached("intent_committed")
    order = await _write(call, requested_order)
    seconds_max = call.settings.refund_answer_seconds
    outcome = await refunds.request_refund(_simulator(call), payment_of(order), refund, seconds_max)
    reached("asked")

    async def end(call: Call) -> Handled:
        return await _refunded(call, refund, outcome)

    return await _write(call, end)


async def _reserved(call: Call) -> Refund | Refusal:
    """Reserve all that is left; what cannot be refunded is as it was."""
    order = await opened(call)
    if order.refunding_minor:
        return illegal(order, call.body)
    reserved = await refunds.reserve(call, order, None, key="")
    return illegal(order, call.body) if reserved is None else reserved.refund


async def _refunded(call: Call, refund: Refund, outcome: Outcome) -> Handled:
    if isinstance(outcome, Approved):
        await refund_store.confirm(call.tx, refund, outcome, call.now_ms)
        return Answer(204)
    if isinstance(outcome, Declined):
        await refund_store.discard(call.tx, refund, call.now_ms)
        return illegal(await requested_order(call), call.body)
    await refund_store.postpone(call.tx, refund, outcome, call.now_ms)
    return _undecided(outcome)


def _undecided(outcome: Outcome) -> Refusal:
    return SERVICE_UNAVAILABLE.with_reason(
        f"the acquirer: {outcome}", message="The simulated acquirer gave no answer, as it was told to; ask again."
    )


def _write(call: Call, work: Callable[[Call], Awaitable[T]]) -> Awaitable[T]:
    """Run a handler's part as a unit of work of its own."""

    async def in_transaction(tx: Transaction) -> T:
        call.begin(tx)
        return await work(call)

    return call.database.write(in_transaction, conflict_keys=order_key(call))


def _simulator(call: Call) -> Simulator:
    simulator = call.state["acquirers"].of(live=False)
    assert isinstance(simulator, Simulator), "test orders have the simulated acquirer"
    return simulator


def _method(order: Order, request: SimulatedRequest) -> dict[str, Any]:
    """What it is paid with: as is asked for, else as the order wished, else by a credit card at once."""
    wished = msgspec.json.decode(order.config).get("payment_method", {})
    kind = request.payment_method_type or ("credit_card" if request.installments else None)
    kind = kind or wished.get("default_type", "credit_card")
    installments = request.installments or (wished.get("default_installments", 1) if kind == "credit_card" else 1)
    return {"id": request.payment_method_id or METHODS[kind], "type": kind, "installments": installments}


def _card(method: dict[str, Any]) -> Card | None:
    """A test card of the brand that is always approved, or one of another brand with its digits."""
    if not method["type"].endswith("_card"):
        return None
    approved = [card for card in CARDS.values() if not card.script]
    card = next((card for card in approved if card.brand == method["id"]), approved[0])
    return Card(method["id"], method["type"], card.first_digits, card.last_digits, "contactless")
