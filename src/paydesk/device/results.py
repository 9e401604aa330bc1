"""Results: a result becomes the order's outcome, or is recorded as evidence. No approval is lost.

Every answer follows the insert into the table `results`; a 409 says so with `recorded`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import msgspec

from paydesk.core.errors import TOO_MANY_REQUESTS, ErrorKind, Refusal
from paydesk.core.keys import Keys
from paydesk.core.money import CURRENCIES, minor_units
from paydesk.device import store
from paydesk.device.errors import ORDER_FINISHED, RESULT_CONFLICT
from paydesk.device.leases import lock_order, order_body, take
from paydesk.device.reports import Received, Report, keyed_digest, parse
from paydesk.device.schemas import UUID_PATTERN
from paydesk.device.store import Processing, StoredResult
from paydesk.operation import Answer, Call, Handled
from paydesk.orders import status
from paydesk.orders import store as orders
from paydesk.orders.order import Order
from paydesk.orders.status import ORIGINS
from paydesk.payments import inquiry_store, outcomes, reversal_store
from paydesk.payments.outcomes import Paid, alert
from paydesk.terminals import store as terminals

_UUID = re.compile(UUID_PATTERN)

_CONFLICTS: dict[str, ErrorKind] = {kind.code: kind for kind in (ORDER_FINISHED, RESULT_CONFLICT)}

# An approval counts if authorization was permitted, or could still be permitted.
PERMITTED_OR_PERMISSIBLE = "(permitted_ms IS NOT NULL OR (payment_status_detail = 'at_terminal' AND expires_ms > $3))"


async def report(call: Call) -> Handled:
    """Process a result. Earlier sessions and revoked tokens may report too."""
    # The lease is checked first: a result for an unknown one is neither parsed nor recorded.
    order = await lock_order(call, call.paths[0])
    result_id = _result_id(call.paths[1], call.keys)
    received = parse(call.body, call.keys, card_numbers_refused=call.settings.card_numbers_refused_in_references)
    stored = await store.find_result(call.tx, order, result_id)
    if stored is not None:
        if stored.digest == received.digest:
            return _repeat(stored)
        # The first content keeps its id; different content is evidence under a derived id.
        result_id = f"{result_id}#{received.digest.hex()[:16]}"
        repeated = await store.find_result(call.tx, order, result_id)
        if repeated is not None:
            return _repeat(repeated)
    order = await orders.expire_overdue(call.tx, order, call.now_ms)
    if received.report is None:
        return await _unreadable(call, order, result_id, received)
    if stored is not None:
        return await _contradiction(call, order, result_id, received, received.report)
    if order.status not in status.LIVE:
        return await _after_end(call, order, result_id, received, received.report)
    if order.state == status.CREATED:
        order = await _take_unacknowledged(call, order)
    return await _at_terminal(call, order, result_id, received, received.report)


def _result_id(text: str, keys: Keys) -> str:
    """Return the UUID, or a digest of anything else, so that its result is recorded and the text is not."""
    return text.lower() if _UUID.fullmatch(text) else f"digest:{keyed_digest(keys, text.encode())[:32]}"


async def _at_terminal(call: Call, order: Order, result_id: str, received: Received, report: Report) -> Handled:
    """Process the result of an order at its terminal."""
    if order.detached_ms is not None:
        return await _after_end(call, order, result_id, received, report, kind=RESULT_CONFLICT)
    if report.outcome == "unknown":
        await _check(call, order, "the terminal knows no outcome", origin="network")
        current = await lock_order(call, order.ulid)
        return await _accept(call, current, result_id, received, bounded=True)
    if report.outcome == "approved" and await _is_being_reversed(call, order):
        return await _late_approval(call, order, result_id, received, report, RESULT_CONFLICT)
    ended = await _end(call, order, received, report)
    if ended is None:
        return await _contradiction(call, order, result_id, received, report)
    return await _accept(call, ended, result_id, received, prints=_prints_receipt(ended))


async def _end(call: Call, order: Order, received: Received, report: Report) -> Order | None:
    """End the order with the reported outcome; None if the result contradicts the order."""
    tx, now_ms = call.tx, call.now_ms
    if report.outcome == "declined":
        assert report.status_detail is not None, "a decline has a detail"
        detail = report.status_detail
        return await outcomes.decline(tx, order, now_ms, by="result", detail=detail, origin=ORIGINS[detail])
    if report.outcome == "canceled":
        canceled = await orders.move(tx, status.CANCEL_ON_TERMINAL, order, now_ms, origin="customer")
        if canceled is not None:
            await orders.end_lease(tx, canceled, "result", now_ms)
        return canceled
    if not matches_order(order, report) or not await _claim_reference(call, order, received, report):
        return None
    assert report.payment_method is not None, "an approval has a payment method"
    paid = Paid(
        report.reference_id,
        report.authorization_code,
        report.payment_method.model_dump(),
        report.card.model_dump(exclude_none=True) if report.card is not None else None,
    )
    approved = await outcomes.approve(tx, order, now_ms, paid, by="result", where=PERMITTED_OR_PERMISSIBLE)
    if approved is None and report.reference_id is not None:
        await outcomes.release_reference(tx, order, report.reference_id)
    return approved


async def _claim_reference(call: Call, order: Order, received: Received, report: Report) -> bool:
    """Claim the reported reference for the order; if another order has it, alert operators and return False."""
    if report.reference_id is None or await outcomes.claim_reference(call.tx, order, report.reference_id):
        return True
    message = "An approval has another payment's reference."
    await alert(call.tx, order, "reference_repeated", message, call.now_ms, received.recorded)
    return False


def matches_order(order: Order, report: Report) -> bool:
    """Return whether an approval has the order's amount and no tip and, if paid by card, the card."""
    decimals = CURRENCIES[order.currency].decimals
    paid = minor_units(report.paid_amount or "", decimals)
    tip = minor_units(report.tip_amount or "0", decimals)
    with_card = report.payment_method is not None and report.payment_method.type.endswith("_card")
    return paid == order.amount_minor and tip == 0 and (report.card is not None or not with_card)


async def _take_unacknowledged(call: Call, order: Order) -> Order:
    """Move the order to its terminal: a result shows that the terminal had it, though it never acknowledged."""
    terminal = await terminals.find(call.tx, order.seller_id, order.terminal_id)
    assert terminal is not None, "an order has a terminal"
    return await take(call, order, terminal.session)


async def _contradiction(call: Call, order: Order, result_id: str, received: Received, report: Report) -> Refusal:
    """Record and refuse a contradicting result. A live order is put under inquiry; a late approval is reversed."""
    if order.status not in status.LIVE:
        return await _after_end(call, order, result_id, received, report, kind=RESULT_CONFLICT)
    await _check(call, order, "the terminal's result contradicts the order", origin="terminal")
    return await _refuse(call, order, result_id, received, "conflict", RESULT_CONFLICT)


async def _after_end(
    call: Call, order: Order, result_id: str, received: Received, report: Report, kind: ErrorKind = ORDER_FINISHED
) -> Refusal:
    """Record and refuse a result of an order that has ended or was detached; another approval is reversed."""
    if report.outcome == "unknown":
        await _inquire_ended(call, order, "the terminal knows no outcome, and the order had ended")
    if report.outcome != "approved" or await _is_the_payment(call, order, report):
        return await _refuse(call, order, result_id, received, "finished", kind)
    return await _late_approval(call, order, result_id, received, report, kind)


async def _late_approval(
    call: Call, order: Order, result_id: str, received: Received, report: Report, kind: ErrorKind
) -> Refusal:
    """Record an approval that is not the order's payment, and begin its reversal."""
    refusal = await _refuse(call, order, result_id, received, "late_approval", kind)
    amount_minor = minor_units(report.paid_amount or "", CURRENCIES[order.currency].decimals)
    await reversal_store.begin(
        call.tx,
        order,
        call.now_ms,
        result_id=result_id,
        amount_minor=order.amount_minor if amount_minor is None else amount_minor,
        reference_id=report.reference_id or "",
    )
    message = "An approval came after the order had ended. It is being reversed."
    await alert(call.tx, order, "late_approval", message, call.now_ms, received.recorded)
    return refusal


async def _is_being_reversed(call: Call, order: Order) -> bool:
    """Return whether the inquiry is reversing the payment at the acquirer."""
    return order.state == status.CHECK_ON_TERMINAL and await inquiry_store.status_of(call.tx, order) == "reversing"


async def _is_the_payment(call: Call, order: Order, report: Report) -> bool:
    """Return whether the approval is the payment that the order already has.

    If an operator resolved the order as approved, the first approval supplies the reference.
    """
    if order.paid_ms is None or not matches_order(order, report):
        return False
    if order.reference_id is None and await inquiry_store.outcome(call.tx, order) == "operator":
        await store.set_reference(call.tx, order, report.reference_id)
        return True
    return report.reference_id == order.reference_id


async def _unreadable(call: Call, order: Order, result_id: str, received: Received) -> Refusal:
    """Record the readable part of an unreadable result, and inquire: it may be an approval."""
    if order.state == status.CREATED:
        order = await _take_unacknowledged(call, order)
    if order.status in status.LIVE:
        await _check(call, order, "the terminal's result is unreadable", origin="terminal")
    await _inquire_ended(call, order, "the terminal's result is unreadable, and the order had ended")
    refusal = await _refuse(call, order, result_id, received, "unreadable", RESULT_CONFLICT)
    message = "A terminal's result could not be read."
    await alert(call.tx, order, "unreadable_result", message, call.now_ms, received.recorded)
    return refusal


async def _check(call: Call, order: Order, reason: str, origin: str) -> None:
    await orders.move(call.tx, status.CHECK, order, call.now_ms, origin=origin)
    await orders.inquire(call.tx, order, reason, call.now_ms)


async def _inquire_ended(call: Call, order: Order, reason: str) -> None:
    """Inquire if the order ended without a payment: a charge would have to be reversed."""
    if order.status in status.FINAL and order.paid_ms is None:
        await orders.inquire(call.tx, order, reason, call.now_ms)


async def _refuse(
    call: Call, order: Order, result_id: str, received: Received, processing: Processing, kind: ErrorKind
) -> Refusal:
    """Record the result and return its refusal. The handler returns it too, so that the record is committed."""
    await _record(call, order, result_id, received, processing, 409, kind.code, bounded=True)
    return _conflict(kind, f"{processing}: the order is {order.state}")


async def _accept(
    call: Call, order: Order, result_id: str, received: Received, *, prints: bool = False, bounded: bool = False
) -> Answer:
    body: dict[str, Any] = {**order_body(order), "print": prints}
    await _record(call, order, result_id, received, "taken", 200, _json(body), bounded=bounded)
    return Answer(200, body)


async def _record(
    call: Call,
    order: Order,
    result_id: str,
    received: Received,
    processing: Processing,
    answer_status: int,
    answer: str,
    *,
    bounded: bool,
) -> None:
    """Insert the result. Raises `too_many_requests` for a `bounded` one if the lease has the maximum of results."""
    if bounded and await store.count_results(call.tx, order) >= call.settings.results_per_lease_max:
        raise TOO_MANY_REQUESTS.with_reason(
            "the lease has the maximum number of results", headers=(("retry-after", "5"),)
        )
    stored = StoredResult(received.digest, answer_status, answer)
    outcome = received.report.outcome if received.report is not None else ""
    await store.insert_result(call.tx, order, result_id, stored, outcome, processing, received.recorded, call.now_ms)


def _repeat(stored: StoredResult) -> Handled:
    """Return the stored answer."""
    if stored.answer_status == 409:
        return _conflict(_CONFLICTS[stored.answer], "a repeated result")
    return Answer(stored.answer_status, msgspec.Raw(stored.answer.encode()))


def _conflict(kind: ErrorKind, reason: str) -> Refusal:
    return replace(kind.with_reason(reason), extra={"recorded": True})


def _prints_receipt(order: Order) -> bool:
    point = msgspec.json.decode(order.config).get("point", {})
    return order.status == "processed" and point.get("print_on_terminal") != "no_ticket"


def _json(document: dict[str, Any]) -> str:
    return msgspec.json.encode(document).decode()
