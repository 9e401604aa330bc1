"""Results: a result becomes the order's outcome, or is recorded as evidence. No approval is lost.

`decisions` says what a result means; this module applies it. Every answer follows the insert into the table `results`;
a 409 says so with `recorded`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from paydesk.core.errors import TOO_MANY_REQUESTS, ErrorKind, Refusal
from paydesk.core.ids import UUID
from paydesk.core.money import CURRENCIES, minor_units
from paydesk.engine.device import store
from paydesk.engine.device.errors import LEASE_NOT_FOUND, ORDER_FINISHED, RESULT_CONFLICT
from paydesk.engine.device.gateway import Gateway
from paydesk.engine.device.leases import lock_order, order_body, take
from paydesk.engine.device.rules.chip_data import decoded
from paydesk.engine.device.rules.decisions import (
    CLAIMING,
    TABLE,
    Decision,
    Reported,
    Situation,
    error_of,
    reported_of,
    situation_of,
    tip_of,
)
from paydesk.engine.device.rules.reports import Received, Report, keyed_digest, parse
from paydesk.engine.device.schemas import ReportedOrder
from paydesk.engine.device.store import Processing, StoredResult
from paydesk.engine.orders import status
from paydesk.engine.orders import store as orders
from paydesk.engine.orders.change import Change, change_of
from paydesk.engine.orders.order import Order
from paydesk.engine.orders.status import ORIGINS
from paydesk.engine.payments import confirmation_store, inquiry_store, outcomes, reversal_store, terms
from paydesk.engine.payments.confirmation_store import Confirmation
from paydesk.engine.payments.outcomes import Paid, alert
from paydesk.engine.payments.terms import Terms
from paydesk.engine.terminals import store as terminals
from paydesk.platform.operation import Answer, Call, Handled

_CONFLICTS: dict[str, ErrorKind] = {kind.code: kind for kind in (ORDER_FINISHED, RESULT_CONFLICT)}


@dataclass(frozen=True, slots=True)
class Result:
    """A result as it is recorded. `contradicts`: other content was reported under its id before."""

    result_id: str
    received: Received
    contradicts: bool
    per_lease_max: int

    @property
    def report(self) -> Report:
        """Return the report of a readable result."""
        assert self.received.report is not None, "the result is readable"
        return self.received.report


async def report(call: Call) -> Handled:
    """Report a payment's outcome. Earlier sessions and revoked tokens may report too."""
    change = change_of(call)
    # The lease is checked first: a result for an unknown one is neither parsed nor recorded.
    order = await lock_order(call.tx, call.caller, call.paths[0])
    # The clocks of two nodes may differ, each from the database's in either direction.
    revoked_ms, difference_ms = call.caller.revoked_ms, 2 * call.settings.clock_difference_seconds_max * 1000
    if revoked_ms is not None and order.created_ms > revoked_ms + difference_ms:
        raise LEASE_NOT_FOUND.with_reason("the order was created after the device token was revoked")
    received = parse(call.body, call.keys, card_numbers_refused=call.settings.card_numbers_refused_in_references)
    # Anything but a UUID is recorded as a digest, with the result.
    sent_id = call.paths[1]
    is_uuid = UUID.fullmatch(sent_id) is not None
    result_id = sent_id.lower() if is_uuid else f"digest:{keyed_digest(call.keys, sent_id.encode())[:32]}"
    stored = await store.find_result(call.tx, order, result_id)
    contradicts = stored is not None and stored.digest != received.digest
    if contradicts:
        # The first content keeps its id; other content is evidence under a derived id.
        result_id = f"{result_id}#{received.digest.hex()[:16]}"
        stored = await store.find_result(call.tx, order, result_id)
    if stored is not None and stored.answer_status == 409:
        return _conflict(_CONFLICTS[stored.answer], "a repeated result")
    if stored is not None:
        return Answer(stored.answer_status, msgspec.Raw(stored.answer.encode()))
    order = await orders.expire_overdue(change, order)
    if order.state == status.CREATED:
        # The result shows that the terminal had the order, though it never acknowledged.
        terminal = await terminals.find(call.tx, order.seller_id, order.terminal_id)
        assert terminal is not None, "an order has a terminal"
        offered_ms = call.shared.objects[Gateway].offered_ms(order.terminal_id, order.ulid)
        order = await take(change, order, terminal.session, offered_ms)
    result = Result(result_id, received, contradicts, call.settings.results_per_lease_max)
    return await _process(change, order, result)


async def _process(change: Change, order: Order, result: Result) -> Handled:
    """Read the facts, decide, and apply the decision."""
    tx, report = change.tx, result.received.report
    inquiry = await inquiry_store.status_of(tx, order) if order.state == status.CHECK_ON_TERMINAL else ""
    is_by_operator = (
        order.paid_ms is not None
        and order.reference_id is None
        and await inquiry_store.outcome(tx, order) == "operator"
    )
    waits = order.permitted_ms is not None and order.status in status.LIVE
    approval = await confirmation_store.provisional(tx, order) if waits else None
    situation = situation_of(
        order,
        is_being_reversed=inquiry == "reversing",
        contradicts=result.contradicts,
        is_provisional=approval is not None,
    )
    is_approval = report is not None and report.outcome == "approved"
    allowed = await terms.find(tx, order) if is_approval and order.paid_ms is None else Terms()
    if situation != "provisional":
        approval = None
    reported = reported_of(order, report, is_by_operator=is_by_operator, terms=allowed, approval=approval)
    reference_id = report.reference_id if reported == "approved" and situation in CLAIMING and report else None
    if reference_id is not None and not await outcomes.claim_reference(tx, order, reference_id):
        reported, reference_id = "other_payment", None
        message = "An approval has another payment's reference."
        await alert(change, order, "reference_repeated", message, result.received.recorded)
    decision = TABLE[reported, situation]
    if reference_id is not None and decision != "end":
        await outcomes.release_reference(tx, order, reference_id)
    if approval is not None and decision in ("confirm", "undo"):
        return await _decide(change, order, result, approval)
    return await _apply(change, order, result, reported, situation, decision)


async def _decide(change: Change, order: Order, result: Result, approval: Confirmation) -> Handled:
    """Apply a result that decides on the acquirer's approval: process the order and confirm it, or fail and undo it."""
    report, chip_data = result.report, decoded(result.report.chip_data)
    if chip_data is None:
        message = (
            "The chip's data in a terminal's result were dropped: they are unreadable, or have card data in clear."
        )
        await alert(change, order, "chip_data_refused", message)
    if report.outcome == "approved":
        decided = await confirmation_store.begin_confirming(change, order, chip_data or b"")
        tip_minor = approval.amount_minor - order.amount_minor
        ended = await outcomes.approve(change, order, approval.paid(tip_minor), by="result")
    else:
        decided = await confirmation_store.undo(change, order, chip_data or b"")
        detail = report.status_detail if report.outcome == "declined" else "processing_error"
        assert detail is not None, "a decline has a detail"
        origin = ORIGINS[detail] if report.outcome == "declined" else "customer"
        digits = report.card.last_digits if report.card is not None else None
        ended = await outcomes.decline(change, order, by="result", detail=detail, origin=origin, last_digits=digits)
        undone = approval.amount_minor, approval.reference_id
        await reversal_store.begin(change, order, *undone, confirmed="approved", chip_data=chip_data or b"")
    assert decided, "the order's row is locked, and the approval was read as provisional"
    assert ended is not None, "the row is locked, and the order was live"
    return await _answer(change, ended, result, "taken", bounded=False)


async def _apply(
    change: Change, order: Order, result: Result, reported: Reported, situation: Situation, decision: Decision
) -> Handled:
    if decision == "end":
        ended = await _end(change, order, result.report)
        return await _answer(change, ended, result, "taken", bounded=False)
    if decision == "check":
        checked = await _check(change, order, "the terminal knows no outcome", origin="network")
        return await _answer(change, checked, result, "taken")
    error = error_of(reported, situation, contradicts=result.contradicts)
    match decision:
        case "conflict":
            await _check(change, order, "the terminal's result contradicts the order", origin="terminal")
            return await _answer(change, order, result, "conflict", error)
        case "inquire":
            await orders.inquire(change, order, "the terminal knows no outcome, and the order had ended")
        case "late_approval":
            return await _reverse(change, order, result, error)
        case "unreadable":
            # It may be an approval.
            reason = "the terminal's result is unreadable"
            if order.status in status.LIVE:
                order = await _check(change, order, reason, origin="terminal")
            elif order.paid_ms is None:
                await orders.inquire(change, order, f"{reason}, and the order had ended")
            refusal = await _answer(change, order, result, "unreadable", error)
            message = "A terminal's result could not be read."
            await alert(change, order, "unreadable_result", message, result.received.recorded)
            return refusal
    return await _finish(change, order, result, reported, error)


async def _finish(change: Change, order: Order, result: Result, reported: Reported, error: ErrorKind) -> Handled:
    """Record a result that changes nothing. It is accepted if it repeats the acquirer's answer to the service."""
    if reported == "payment" and order.reference_id is None:
        await store.set_reference(change.tx, order, result.report.reference_id)
    is_same = reported == "payment" or (reported == "declined" and order.status == "failed")
    is_repetition = is_same and not result.contradicts and (await terms.find(change.tx, order)).requested is not None
    return await _answer(change, order, result, "finished", None if is_repetition else error)


async def _end(change: Change, order: Order, report: Report) -> Order:
    """End the order with the reported outcome."""
    match report.outcome:
        case "approved":
            assert report.payment_method is not None, "an approval has a payment method"
            card = report.card.model_dump(exclude_none=True) if report.card is not None else None
            method, tip_minor = report.payment_method.model_dump(), tip_of(order, report) or 0
            paid = Paid(report.reference_id, report.authorization_code, method, card, tip_minor)
            ended = await outcomes.approve(change, order, paid, by="result")
        case "declined":
            detail = report.status_detail
            assert detail is not None, "a decline has a detail"
            digits = report.card.last_digits if report.card is not None else None
            ended = await outcomes.decline(
                change, order, by="result", detail=detail, origin=ORIGINS[detail], last_digits=digits
            )
            if order.permitted_ms is not None and (await terms.find(change.tx, order)).requested is not None:
                # The service asked the acquirer for the terminal, and its answer may be lost with its node.
                await orders.inquire(change, order, "the terminal declined before the acquirer answered the service")
        case _:
            ended = await orders.end(change, status.CANCEL_ON_TERMINAL, order, "result", origin="customer")
    assert ended is not None, "the row is locked, and the table has the guards of the moves"
    return ended


async def _check(change: Change, order: Order, reason: str, origin: str) -> Order:
    """Inquire about the outcome of an order at its terminal; return its current row."""
    checked = await orders.move(change, status.CHECK, order, origin=origin)
    await orders.inquire(change, order, reason)
    return checked or order


async def _reverse(change: Change, order: Order, result: Result, error: ErrorKind) -> Handled:
    """Record an approval that is not the order's payment, and begin its reversal."""
    refusal = await _answer(change, order, result, "late_approval", error)
    # Where the service asked the acquirer, all approvals are of that one payment, and one reversal undoes it.
    is_by_service = (await terms.find(change.tx, order)).requested is not None
    amount_minor = minor_units(result.report.paid_amount or "", CURRENCIES[order.currency].decimals)
    await reversal_store.begin(
        change,
        order,
        order.amount_minor if amount_minor is None else amount_minor,
        result.report.reference_id or "",
        result_id=reversal_store.BY_ACQUIRER if is_by_service else result.result_id,
    )
    message = "An approval came after the order had ended. It is being reversed."
    await alert(change, order, "late_approval", message, result.received.recorded)
    return refusal


async def _answer(
    change: Change,
    order: Order,
    result: Result,
    processing: Processing,
    error: ErrorKind | None = None,
    *,
    bounded: bool = True,
) -> Handled:
    """Record the result and return its answer: the order, or the refusal with an `error`, returned to be committed.

    Raises `too_many_requests` for a `bounded` result if the lease has the maximum of results.
    """
    if bounded and await store.count_results(change.tx, order) >= result.per_lease_max:
        raise TOO_MANY_REQUESTS.with_reason(
            "the lease has the maximum number of results", headers=(("retry-after", "5"),)
        )
    received = result.received
    if error is None:
        point = msgspec.json.decode(order.config).get("point", {})
        prints = order.status == "processed" and point.get("print_on_terminal") != "no_ticket"
        body = ReportedOrder(order_body(order).order, prints)
        stored = StoredResult(received.digest, 200, msgspec.json.encode(body).decode())
        reply: Handled = Answer(200, body)
    else:
        stored = StoredResult(received.digest, 409, error.code)
        reply = _conflict(error, f"{processing}: the order is {order.state}")
    outcome = received.report.outcome if received.report is not None else ""
    await store.insert_result(
        change.tx, order, result.result_id, stored, outcome, processing, received.recorded, change.now_ms
    )
    return reply


def _conflict(kind: ErrorKind, reason: str) -> Refusal:
    return replace(kind.with_reason(reason), extra={"recorded": True})
