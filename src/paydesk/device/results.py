"""What becomes of a result: the order's one outcome, or recorded evidence. No approval is ever lost.

Each rule answers after the result is in the table `results`; every 409 says so with `recorded`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import msgspec

from paydesk.core.errors import TOO_MANY_REQUESTS, ErrorKind, Refusal
from paydesk.core.keys import Keys
from paydesk.core.money import CURRENCIES, minor_units
from paydesk.device import result_store
from paydesk.device.errors import ORDER_FINISHED, RESULT_CONFLICT
from paydesk.device.leases import acknowledged, held, take
from paydesk.device.reports import Received, Report, keyed_digest, received
from paydesk.device.result_store import Stored, Verdict
from paydesk.device.schemas import UUID_PATTERN
from paydesk.operation import Answer, Call, Handled
from paydesk.orders import status, store
from paydesk.orders.order import Order
from paydesk.orders.status import ORIGINS
from paydesk.payments import inquiry_store, outcomes, reversal_store
from paydesk.payments.outcomes import Paid, alert
from paydesk.terminals import store as terminals

_UUID = re.compile(UUID_PATTERN)

_CONFLICTS: dict[str, ErrorKind] = {kind.code: kind for kind in (ORDER_FINISHED, RESULT_CONFLICT)}

# An approval counts within a grant, or takes it along while nothing stands against it.
GRANTED_OR_GRANTABLE = "(permitted_ms IS NOT NULL OR (payment_status_detail = 'at_terminal' AND expires_ms > $3))"


async def report(call: Call) -> Handled:
    """Take a result, or record it as what it is. Earlier sessions and revoked tokens may report too."""
    # The lease is looked up first: a result for an unknown one is neither read nor recorded.
    order = await held(call, call.paths[0])
    result_id = _result_id(call.paths[1], call.keys)
    came = received(call.body, call.keys, card_numbers_refused=call.settings.card_numbers_refused_in_references)
    stored = await result_store.find(call.tx, order, result_id)
    if stored is not None:
        if stored.digest == came.digest:
            return _again(stored)
        # The first content stays under its id; the other is evidence under an id of its own.
        result_id = f"{result_id}#{came.digest.hex()[:16]}"
        repeated = await result_store.find(call.tx, order, result_id)
        if repeated is not None:
            return _again(repeated)
    order = await store.expire_overdue(call.tx, order, call.now_ms)
    if came.report is None:
        return await _unreadable(call, order, result_id, came)
    if stored is not None:
        return await _contradicted(call, order, result_id, came, came.report)
    if order.status not in status.LIVE:
        return await _finished(call, order, result_id, came, came.report)
    if order.state == status.CREATED:
        order = await _taken_unasked(call, order)
    return await _decided(call, order, result_id, came, came.report)


def _result_id(text: str, keys: Keys) -> str:
    """Return the UUID; of anything else a digest, so that its result is not lost and nothing unknown is stored."""
    return text.lower() if _UUID.fullmatch(text) else f"digest:{keyed_digest(keys, text.encode())[:32]}"


async def _decided(call: Call, order: Order, result_id: str, came: Received, report: Report) -> Handled:
    """The rules for an order at its terminal."""
    if order.detached_ms is not None:
        return await _finished(call, order, result_id, came, report, kind=RESULT_CONFLICT)
    if report.outcome == "unknown":
        await _check(call, order, "the terminal knows no outcome", origin="network")
        current = await held(call, order.ulid)
        return await _answered(call, current, result_id, came, bounded=True)
    if report.outcome == "approved" and await _is_being_undone(call, order):
        return await _late(call, order, result_id, came, report, RESULT_CONFLICT)
    ended = await _ended(call, order, came, report)
    if ended is None:
        return await _contradicted(call, order, result_id, came, report)
    return await _answered(call, ended, result_id, came, prints=_prints(ended))


async def _ended(call: Call, order: Order, came: Received, report: Report) -> Order | None:
    """The order with its outcome; None where the result contradicts it."""
    tx, now_ms = call.tx, call.now_ms
    if report.outcome == "declined":
        assert report.status_detail is not None, "a decline has a detail"
        detail = report.status_detail
        return await outcomes.decline(tx, order, now_ms, by="result", detail=detail, origin=ORIGINS[detail])
    if report.outcome == "canceled":
        canceled = await store.move(tx, status.CANCEL_ON_TERMINAL, order, now_ms, origin="customer")
        if canceled is not None:
            await store.end_lease(tx, canceled, "result", now_ms)
        return canceled
    if not is_the_orders(order, report) or not await _claimed(call, order, came, report):
        return None
    assert report.payment_method is not None, "an approval says what was paid with"
    paid = Paid(
        report.reference_id,
        report.authorization_code,
        report.payment_method.model_dump(),
        report.card.model_dump(exclude_none=True) if report.card is not None else None,
    )
    approved = await outcomes.approve(tx, order, now_ms, paid, by="result", where=GRANTED_OR_GRANTABLE)
    if approved is None and report.reference_id is not None:
        await outcomes.release_reference(tx, order, report.reference_id)
    return approved


async def _claimed(call: Call, order: Order, came: Received, report: Report) -> bool:
    """Whether the acquirer's number, where the terminal knows it, is this order's; if not, operators are told."""
    if report.reference_id is None or await outcomes.claim_reference(call.tx, order, report.reference_id):
        return True
    message = "An approval has another payment's reference."
    await alert(call.tx, order, "reference_repeated", message, call.now_ms, came.kept)
    return False


def is_the_orders(order: Order, report: Report) -> bool:
    """Whether an approval is of the order's amount, without a tip, and shows the card where there was one."""
    decimals = CURRENCIES[order.currency].decimals
    paid = minor_units(report.paid_amount or "", decimals)
    tip = minor_units(report.tip_amount or "0", decimals)
    with_card = report.payment_method is not None and report.payment_method.type.endswith("_card")
    return paid == order.amount_minor and tip == 0 and (report.card is not None or not with_card)


async def _taken_unasked(call: Call, order: Order) -> Order:
    """A result of an order that was never acknowledged: the terminal had it all the same."""
    terminal = await terminals.find(call.tx, order.seller_id, order.terminal_id)
    assert terminal is not None, "an order has a terminal"
    return await take(call, order, terminal.session)


async def _contradicted(call: Call, order: Order, result_id: str, came: Received, report: Report) -> Refusal:
    """Recorded and refused. What is open waits for the acquirer's word; an approval of what is over is given back."""
    if order.status not in status.LIVE:
        return await _finished(call, order, result_id, came, report, kind=RESULT_CONFLICT)
    await _check(call, order, "the terminal's result contradicts the order", origin="terminal")
    return await _refused(call, order, result_id, came, "conflict", RESULT_CONFLICT)


async def _finished(
    call: Call, order: Order, result_id: str, came: Received, report: Report, kind: ErrorKind = ORDER_FINISHED
) -> Refusal:
    """A further result of an order that has ended; one that approves is a late approval, to be given back."""
    if report.outcome == "unknown":
        await _ask_of_ended(call, order, "the terminal knows no outcome, and the order had ended")
    if report.outcome != "approved" or await _is_the_payment(call, order, report):
        return await _refused(call, order, result_id, came, "finished", kind)
    return await _late(call, order, result_id, came, report, kind)


async def _late(call: Call, order: Order, result_id: str, came: Received, report: Report, kind: ErrorKind) -> Refusal:
    """An approval that is not the order's payment: recorded, and from now on being given back."""
    refusal = await _refused(call, order, result_id, came, "late_approval", kind)
    amount_minor = minor_units(report.paid_amount or "", CURRENCIES[order.currency].decimals)
    await reversal_store.begin(
        call.tx,
        order,
        call.now_ms,
        result_id=result_id,
        amount_minor=order.amount_minor if amount_minor is None else amount_minor,
        reference_id=report.reference_id or "",
    )
    message = "An approval came after the order had ended: it is being given back."
    await alert(call.tx, order, "late_approval", message, call.now_ms, came.kept)
    return refusal


async def _is_being_undone(call: Call, order: Order) -> bool:
    """Whether the acquirer, who did not know the payment, is about to be told that it is void."""
    return order.state == status.CHECK_ON_TERMINAL and await inquiry_store.status_of(call.tx, order) == "reversing"


async def _is_the_payment(call: Call, order: Order, report: Report) -> bool:
    """Whether the approval is the very payment that the order has.

    Of one that an operator said was approved the first approval is told here: it brings the reference along.
    """
    if order.paid_ms is None or not is_the_orders(order, report):
        return False
    if order.reference_id is None and await inquiry_store.outcome(call.tx, order) == "operator":
        await result_store.adopt(call.tx, order, report.reference_id)
        return True
    return report.reference_id == order.reference_id


async def _unreadable(call: Call, order: Order, result_id: str, came: Received) -> Refusal:
    """Record what is known of a result that can't be read, and inquire: it may be an approval."""
    if order.state == status.CREATED:
        order = await _taken_unasked(call, order)
    if order.status in status.LIVE:
        await _check(call, order, "the terminal's result is unreadable", origin="terminal")
    await _ask_of_ended(call, order, "the terminal's result is unreadable, and the order had ended")
    refusal = await _refused(call, order, result_id, came, "unreadable", RESULT_CONFLICT)
    await alert(call.tx, order, "unreadable_result", "A terminal's result could not be read.", call.now_ms, came.kept)
    return refusal


async def _check(call: Call, order: Order, reason: str, origin: str) -> None:
    await store.move(call.tx, status.CHECK, order, call.now_ms, origin=origin)
    await store.inquire(call.tx, order, reason, call.now_ms)


async def _ask_of_ended(call: Call, order: Order, reason: str) -> None:
    """Where an order has ended without a payment the buyer may be charged all the same: that would be given back."""
    if order.status in status.FINAL and order.paid_ms is None:
        await store.inquire(call.tx, order, reason, call.now_ms)


async def _refused(
    call: Call, order: Order, result_id: str, came: Received, verdict: Verdict, kind: ErrorKind
) -> Refusal:
    """Recorded, then refused: returned by the handler, so that it stays recorded."""
    await _record(call, order, result_id, came, verdict, 409, kind.code, bounded=True)
    return _conflict(kind, f"{verdict}: the order is {order.state}")


async def _answered(
    call: Call, order: Order, result_id: str, came: Received, *, prints: bool = False, bounded: bool = False
) -> Answer:
    answer: dict[str, Any] = {**acknowledged(order), "print": prints}
    await _record(call, order, result_id, came, "taken", 200, _json(answer), bounded=bounded)
    return Answer(200, answer)


async def _record(
    call: Call,
    order: Order,
    result_id: str,
    came: Received,
    verdict: Verdict,
    answer_status: int,
    answer: str,
    *,
    bounded: bool,
) -> None:
    """Write the result down. Raises `too_many_requests` where the lease has its fill of what changes nothing."""
    if bounded and await result_store.count(call.tx, order) >= call.settings.results_per_lease_max:
        raise TOO_MANY_REQUESTS.with_reason(
            "the lease has as many results as are kept", headers=(("retry-after", "5"),)
        )
    stored = Stored(came.digest, answer_status, answer)
    outcome = came.report.outcome if came.report is not None else ""
    await result_store.record(call.tx, order, result_id, stored, outcome, verdict, came.kept, call.now_ms)


def _again(stored: Stored) -> Handled:
    """The stored answer."""
    if stored.answer_status == 409:
        return _conflict(_CONFLICTS[stored.answer], "the same result again")
    return Answer(stored.answer_status, msgspec.Raw(stored.answer.encode()))


def _conflict(kind: ErrorKind, reason: str) -> Refusal:
    return replace(kind.with_reason(reason), extra={"recorded": True})


def _prints(order: Order) -> bool:
    """Whether a receipt is wanted: of a payment, unless the order asked for none."""
    point = msgspec.json.decode(order.config).get("point", {})
    return order.status == "processed" and point.get("print_on_terminal") != "no_ticket"


def _json(document: dict[str, Any]) -> str:
    return msgspec.json.encode(document).decode()
