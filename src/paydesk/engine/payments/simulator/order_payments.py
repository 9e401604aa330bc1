"""POST /v1/orders/{order_id}/events: payments, failures and refunds that must also be in the simulator ledger.

The ledger is written between two transactions. After a crash in between, the workers finish the job: an inquiry finds
the outcome of the order in the ledger, and a refund is retried under its key.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec

from paydesk.core.crash_points import reached
from paydesk.core.errors import SERVICE_UNAVAILABLE, Refusal
from paydesk.engine.orders import status, store
from paydesk.engine.orders.change import change_of
from paydesk.engine.orders.errors import ORDER_NOT_FOUND
from paydesk.engine.orders.handlers import requested_order
from paydesk.engine.orders.order import Order
from paydesk.engine.payments import inquiry_store, outcomes
from paydesk.engine.payments.acquirer import Approved, Card, Declined, Outcome, Result
from paydesk.engine.payments.acquirers import Acquirers, CheckedAcquirer
from paydesk.engine.payments.lifecycles import REVERSING
from paydesk.engine.payments.outcomes import Paid
from paydesk.engine.payments.refunds import handlers as refunds
from paydesk.engine.payments.refunds import store as refund_store
from paydesk.engine.payments.refunds.attempts import Attempt
from paydesk.engine.payments.simulator import order_moves as simulated_orders
from paydesk.engine.payments.simulator.acquirer import Simulator
from paydesk.engine.payments.simulator.cards import CARDS
from paydesk.engine.payments.simulator.order_moves import Step, lock_test_order, unreachable
from paydesk.engine.payments.simulator.removals import OrderRemoved, Removals
from paydesk.engine.payments.simulator.schemas import SimulatedRequest
from paydesk.engine.payments.terms import payment_of
from paydesk.platform.operation import Answer, Call, Handled
from paydesk.platform.storage.database import T, Transaction

METHODS = {"credit_card": "visa", "debit_card": "debvisa", "qr": "account_money"}
"""The payment method id for each type, where the request has none."""


async def simulate(call: Call) -> Handled:
    """Move a test order to a status. Every move and its notification is committed before the answer."""
    request: SimulatedRequest = call.body
    result: Handled | Order | None
    try:
        if request.status == "processed":
            result = await _pay(call)
        elif request.status == "refunded":
            result = await _refund(call)
        else:
            result = await _write(call, _move)
            if isinstance(result, Order):
                result = await _fail(call, result)
    except OrderRemoved:
        result = None
    if result is None or (isinstance(result, Refusal) and call.shared.objects[Removals].has_removed(call.path)):
        # The simulated acquirer refuses a payment that it can no longer charge.
        raise ORDER_NOT_FOUND.with_reason("a reset has removed the order")
    return result


async def _move(call: Call) -> Order | Answer | Refusal:
    """Make the moves that need no acquirer, or return the order whose payment must be reversed before it fails."""
    request: SimulatedRequest = call.body
    order = await lock_test_order(call)
    if request.status != "failed" or order.state != status.CHECK_ON_TERMINAL:
        return await simulated_orders.move_order(call)
    change = change_of(call)
    await store.detach(change, order)
    # The answer to an inquiry in flight is ignored from now on.
    await inquiry_store.end(change, order, "simulated")
    return order


async def _pay(call: Call) -> Handled:
    """Permit the authorization in place of the terminal, have the acquirer approve it, and process the order."""
    order = await _write(call, _permit)
    if not isinstance(order, Order):
        return order
    reached("intent_committed")
    request: SimulatedRequest = call.body
    # The payment method of the request, else of the order, else a credit card in one installment.
    preferred = msgspec.json.decode(order.config).get("payment_method", {})
    default = "credit_card" if request.installments else preferred.get("default_type", "credit_card")
    kind = request.payment_method_type or default
    installments = int(preferred.get("default_installments", 1)) if kind == "credit_card" else 1
    installments = request.installments or installments
    method = {"id": request.payment_method_id or METHODS[kind], "type": kind, "installments": installments}
    outcome = await _simulator(call).approve(replace(payment_of(order), installments=installments), _card(method))
    reached("asked")
    return await _write(call, partial(_record_payment, outcome=outcome, method=method))


async def _permit(call: Call) -> Order | Refusal:
    change, order = change_of(call), await lock_test_order(call)
    if order.state == status.CHECK_ON_TERMINAL:
        if await inquiry_store.status_of(call.tx, order) == REVERSING.name:
            # It is being reversed at the acquirer, and will fail.
            return unreachable(call, order)
        await store.detach(change, order)
        return order
    if order.state == status.AT_TERMINAL and order.detached_ms is not None:
        # An earlier request was interrupted here; this one continues.
        return order
    if order.state not in (status.CREATED, status.AT_TERMINAL) or simulated_orders.is_authorization_permitted(order):
        return unreachable(call, order)
    at_terminal = await simulated_orders.make_moves(change, order, simulated_orders.step_to_terminal(order))
    assert at_terminal is not None, "the order is locked, and created or at its terminal"
    if not await store.permit_authorization(change, order):
        raise unreachable(call, order)
    await store.detach(change, order)
    return at_terminal


async def _record_payment(call: Call, outcome: Approved | Declined, method: dict[str, Any]) -> Handled:
    change, order = change_of(call), await lock_test_order(call)
    if isinstance(outcome, Declined):
        # The acquirer had declined the payment already; an inquiry will find that.
        await store.reattach(call.tx, order)
        return unreachable(call, order)
    card = _card(method)
    digits = outcomes.card_digits(card) if card is not None else None
    # The ledger may have the payment with a tip already.
    tip_minor = outcome.amount_minor - order.amount_minor
    paid = Paid(outcome.reference_id, outcome.authorization_code, method, digits, tip_minor)
    approve = Step(status.APPROVE, None, outcomes.approval_columns(paid, order, call.now_ms))
    moved = await simulated_orders.make_moves(change, order, [approve])
    if moved is None and order.reference_id != outcome.reference_id:
        return unreachable(call, order)
    await outcomes.claim_reference(call.tx, order, outcome.reference_id)
    await inquiry_store.end(change, order, "simulated")
    return Answer(204)


async def _fail(call: Call, order: Order) -> Handled:
    """Reverse the payment, which may be approved at the acquirer, then fail the order."""
    reached("intent_committed")
    key = f"{order.payment_id}.failed"
    reversal = await _simulator(call).reverse(payment_of(order), key=key, amount_minor=order.amount_minor)
    reached("asked")
    if not isinstance(reversal, Approved):
        return _unknown_outcome(reversal)
    return await _write(call, simulated_orders.move_order)


async def _refund(call: Call) -> Handled:
    """Refund what has not been refunded yet, like a requested refund."""
    call.read_wall_clock()
    attempt = await _write(call, _reserve)
    if not isinstance(attempt, Attempt):
        return attempt
    reached("intent_committed")
    outcome = await attempt.request()
    reached("asked")
    return await _write(call, partial(_record_refund, attempt=attempt, outcome=outcome))


async def _reserve(call: Call) -> Attempt | Refusal:
    """Reserve the full rest of the payment for the refund."""
    order = await lock_test_order(call)
    if order.refunding_minor:
        return unreachable(call, order)
    change = change_of(call)
    reserved = await refund_store.reserve(change, order, None)
    if reserved is None:
        return unreachable(call, order)
    acquirer = CheckedAcquirer(_simulator(call))
    until_ms, application_id = refunds.claimed_until_ms(call, acquirer), call.caller.application_id
    refund = refunds.add(change, reserved, None, application_id=application_id, key="", claimed_until_ms=until_ms)
    return Attempt(refund, reserved, acquirer, call.settings)


async def _record_refund(call: Call, attempt: Attempt, outcome: Outcome) -> Handled:
    change, refund = change_of(call), attempt.refund
    if isinstance(outcome, Approved):
        await refund_store.confirm(change, refund, outcome)
        return Answer(204)
    if isinstance(outcome, Declined):
        await refund_store.discard(change, refund)
        return unreachable(call, await requested_order(call))
    await attempt.postpone(change, outcome)
    return _unknown_outcome(outcome)


def _unknown_outcome(outcome: Result) -> Refusal:
    return SERVICE_UNAVAILABLE.with_reason(
        f"the acquirer: {outcome}",
        message="The simulated acquirer did not answer, as its faults say. Try again.",
    )


def _write(call: Call, work: Callable[[Call], Awaitable[T]]) -> Awaitable[T]:
    """Run a part of the handler in its own transaction, alone: it cannot name the terminal before it has the order."""

    async def in_transaction(tx: Transaction) -> T:
        call.begin(tx)
        return await work(call)

    return call.database.write(in_transaction)


def _simulator(call: Call) -> Simulator:
    simulator = call.shared.objects[Acquirers].test
    assert isinstance(simulator, Simulator), "test orders use the simulated acquirer"
    return simulator


def _card(method: dict[str, Any]) -> Card | None:
    """Return an approved test card of the brand; for other brands, one with the digits of an approved test card."""
    if not method["type"].endswith("_card"):
        return None
    approved = [card for card in CARDS.values() if not card.fault]
    card = next((card for card in approved if card.brand == method["id"]), approved[0])
    return Card(method["id"], method["type"], card.first_digits, card.last_digits, "contactless")
