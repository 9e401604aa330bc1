"""What becomes of a result: the order's one outcome, or recorded evidence. No approval is ever lost.

Each rule answers after the result is in the table `results`; every 409 says so with `recorded`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Literal

import msgspec

from paydesk import ids
from paydesk.errors import TOO_MANY_REQUESTS, ErrorKind, Refusal
from paydesk.money import CURRENCIES, minor_units
from paydesk.operation import Answer, Call, Handled
from paydesk.orders import references, status, store
from paydesk.orders.device import acknowledged, held, take
from paydesk.orders.reports import Received, Report, masked, received
from paydesk.orders.store import Order
from paydesk.terminals import store as terminals
from paydesk.terminals.errors import ORDER_FINISHED, RESULT_CONFLICT
from paydesk.terminals.schemas import UUID_PATTERN

RESULT_ID_CHARACTERS_MAX = 64
_UUID = re.compile(UUID_PATTERN)

Verdict = Literal["taken", "conflict", "finished", "late_approval", "unreadable"]
_CONFLICTS: dict[str, ErrorKind] = {kind.code: kind for kind in (ORDER_FINISHED, RESULT_CONFLICT)}

ORIGINS: dict[str, str] = {
    "rejected_by_issuer": "acquirer",
    "insufficient_amount": "acquirer",
    "bad_filled_card_data": "customer",
    "required_call_for_authorize": "acquirer",
    "card_disabled": "acquirer",
    "high_risk": "acquirer",
    "max_attempts_exceeded": "customer",
    "amount_limit_exceeded": "acquirer",
    "invalid_installments": "customer",
    "processing_error": "terminal",
    "rejected_other_reason": "acquirer",
}

# An approval counts within a grant, or takes it along while nothing stands against it.
GRANTED_OR_GRANTABLE = "(granted_ms IS NOT NULL OR (payment_status_detail = 'at_terminal' AND expires_ms > $3))"

FIND = """SELECT digest, answer_status, answer FROM results
    WHERE seller_id = $1 AND lease_id = $2 AND result_id = $3"""

COUNT = "SELECT COUNT(*) FROM results WHERE seller_id = $1 AND lease_id = $2"

RECORD = """INSERT INTO results (seller_id, lease_id, result_id, digest, outcome, verdict, body, answer_status, answer,
                     created_ms)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING"""

REVERSE = """INSERT INTO reversals (seller_id, reversal_id, order_id, lease_id, result_id, live, amount_minor,
                       reference_id, status, attempts, next_ms, created_ms)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'pending', 0, $9, $9) ON CONFLICT DO NOTHING"""

TELL_OPERATORS = """INSERT INTO operator_events (event_id, kind, seller_id, subject, message, body, created_ms)
    VALUES ($1, $2, $3, $4, $5, $6, $7)"""


async def report(call: Call) -> Handled:
    """Take a result, or record it as what it is. Earlier sessions and revoked tokens may report too."""
    lease_id, result_id = call.paths[0], _result_id(call.paths[1])
    came = received(call.body)
    order = await held(call, lease_id)
    stored = await call.tx.one(FIND, order.seller_id, order.ulid, result_id)
    if stored is not None:
        if bytes(stored[0]) == came.digest:
            return _again(stored[1], stored[2])
        # The first content stays under its id; the other is evidence under an id of its own.
        result_id = f"{result_id}#{came.digest.hex()[:16]}"
        repeated = await call.tx.one(FIND, order.seller_id, order.ulid, result_id)
        if repeated is not None:
            return _again(repeated[1], repeated[2])
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


def _result_id(text: str) -> str:
    """A UUID; anything else is kept as far as it may be, so that its result is not lost."""
    return text.lower() if _UUID.fullmatch(text) else masked(text)[:RESULT_ID_CHARACTERS_MAX]


async def _decided(call: Call, order: Order, result_id: str, came: Received, report: Report) -> Handled:
    """The rules for an order at its terminal."""
    if order.taken_over_ms is not None:
        return await _finished(call, order, result_id, came, report, kind=RESULT_CONFLICT)
    if report.outcome == "unknown":
        await _check(call, order, "the terminal knows no outcome", origin="network")
        current = await held(call, order.ulid)
        return await _answered(call, current, result_id, came, bounded=True)
    ended = await _ended(call, order, came, report)
    if ended is None:
        return await _contradicted(call, order, result_id, came, report)
    await store.end_lease(call.tx, ended, "result", call.now_ms)
    return await _answered(call, ended, result_id, came, prints=_prints(ended))


async def _ended(call: Call, order: Order, came: Received, report: Report) -> Order | None:
    """The order with its outcome; None where the result contradicts it."""
    tx, now_ms = call.tx, call.now_ms
    if report.outcome == "declined":
        assert report.status_detail is not None, "a decline has a detail"
        detail = report.status_detail
        return await store.move(tx, status.DECLINE, order, now_ms, to=status.FAILED[detail], origin=ORIGINS[detail])
    if report.outcome == "canceled":
        return await store.move(tx, status.CANCEL_ON_TERMINAL, order, now_ms, origin="customer")
    if not is_the_orders(order, report) or not await _claimed(call, order, came, report):
        return None
    assert report.payment_method is not None, "an approval says what was paid with"
    approved = await store.move(
        tx,
        status.APPROVE,
        order,
        now_ms,
        where=GRANTED_OR_GRANTABLE,
        granted_ms=order.granted_ms or now_ms,
        paid_ms=now_ms,
        paid_minor=order.amount_minor,
        tip_minor=0,
        reference_id=report.reference_id,
        authorization_code=report.authorization_code,
        payment_method=_json(report.payment_method.model_dump()),
        card=_json(report.card.model_dump(exclude_none=True)) if report.card is not None else None,
        origin=None,
    )
    if approved is None and report.reference_id is not None:
        await references.release(tx, order, report.reference_id)
    return approved


async def _claimed(call: Call, order: Order, came: Received, report: Report) -> bool:
    """Whether the acquirer's number, where the terminal knows it, is this order's; if not, operators are told."""
    if report.reference_id is None or await references.claim(call.tx, order, report.reference_id):
        return True
    await _tell_operators(call, order, "reference_repeated", "An approval has another payment's reference.", came)
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
    if report.outcome != "approved" or _is_the_payment(order, report):
        return await _refused(call, order, result_id, came, "finished", kind)
    refusal = await _refused(call, order, result_id, came, "late_approval", kind)
    decimals = CURRENCIES[order.currency].decimals
    amount_minor = minor_units(report.paid_amount or "", decimals)
    await call.tx.run(
        REVERSE,
        order.seller_id,
        ids.ulid(call.now_ms),
        order.order_id,
        order.ulid,
        result_id,
        order.live,
        order.amount_minor if amount_minor is None else amount_minor,
        report.reference_id or "",
        call.now_ms,
    )
    await _tell_operators(call, order, "late_approval", "An approval came after the order had ended.", came)
    return refusal


def _is_the_payment(order: Order, report: Report) -> bool:
    """Whether the approval is the very payment that the order has."""
    return order.paid_ms is not None and report.reference_id == order.reference_id and is_the_orders(order, report)


async def _unreadable(call: Call, order: Order, result_id: str, came: Received) -> Refusal:
    """What nobody can read may be an approval: recorded as it is, and the acquirer is asked."""
    if order.state == status.CREATED:
        order = await _taken_unasked(call, order)
    if order.status in status.LIVE:
        await _check(call, order, "the terminal's result is unreadable", origin="terminal")
    refusal = await _refused(call, order, result_id, came, "unreadable", RESULT_CONFLICT)
    await _tell_operators(call, order, "unreadable_result", "A terminal's result could not be read.", came)
    return refusal


async def _check(call: Call, order: Order, reason: str, origin: str) -> None:
    await store.move(call.tx, status.CHECK, order, call.now_ms, origin=origin)
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
    counted = await call.tx.one(COUNT, order.seller_id, order.ulid) if bounded else None
    if counted is not None and counted[0] >= call.settings.results_per_lease_max:
        raise TOO_MANY_REQUESTS.because("the lease has as many results as are kept", headers=(("retry-after", "5"),))
    outcome = came.report.outcome if came.report is not None else ""
    await call.tx.run(
        RECORD,
        order.seller_id,
        order.ulid,
        result_id,
        came.digest,
        outcome,
        verdict,
        came.kept,
        answer_status,
        answer,
        call.now_ms,
    )


async def _tell_operators(call: Call, order: Order, kind: str, message: str, came: Received) -> None:
    await call.tx.run(
        TELL_OPERATORS, ids.ulid(call.now_ms), kind, order.seller_id, order.order_id, message, came.kept, call.now_ms
    )


def _again(answer_status: int, answer: str) -> Handled:
    """The stored answer."""
    if answer_status == 409:
        return _conflict(_CONFLICTS[answer], "the same result again")
    return Answer(answer_status, msgspec.Raw(answer.encode()))


def _conflict(kind: ErrorKind, reason: str) -> Refusal:
    return replace(kind.because(reason), extra={"recorded": True})


def _prints(order: Order) -> bool:
    """Whether a receipt is wanted: of a payment, unless the order asked for none."""
    point = msgspec.json.decode(order.config).get("point", {})
    return order.status == "processed" and point.get("print_on_terminal") != "no_ticket"


def _json(document: dict[str, Any]) -> str:
    return msgspec.json.encode(document).decode()
