"""Inquiries and reversals at acquirers of less ability: none can be asked, blocked, or reversed after a time."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from device_scene import APPROVED, DECLINED, START_MS, Desk, answered, open_desk, refused
from jobs_scene import (
    REFERENCE,
    SAID,
    UNDONE,
    FakeAcquirer,
    alert_kinds,
    inquire,
    inquiry,
    process_reversals,
    reversals_of,
    unknown,
)
from paydesk.engine.invariants import check
from paydesk.engine.orders import status
from paydesk.engine.orders import store as orders
from paydesk.engine.orders.change import Change
from paydesk.engine.orders.order import Order
from paydesk.engine.orders.status_labels import PLAIN
from paydesk.engine.payments import inquiries, reversals
from paydesk.engine.payments.acquirer import (
    Approved,
    Declined,
    InquiryResult,
    NotFound,
    NotSent,
    Outcome,
    ReverseResult,
    TooLate,
    Unknown,
)
from paydesk.engine.payments.capabilities import Capabilities
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database

SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000
UNDER_WAY_MS = (Settings().grant_seconds + Capabilities().answer_seconds) * SECOND
"""After the permit: until then a call may be under way."""
NOT_FOUND_MS = Settings().inquiry_not_found_seconds * SECOND
CHARGED = "UPDATE inquiries SET charged_minor = $3 WHERE seller_id = $1 AND order_id = $2"
LOST, PROVISIONAL = Unknown("the answer was lost"), replace(SAID, needs_confirmation=True)
BLIND, BLIND_BLOCKING = Capabilities(can_inquire=False), Capabilities(can_inquire=False, reversal_blocks=True)
UNBLOCKING = Capabilities()
REFUNDING = Capabilities(reverse_until=HOUR // SECOND, after_reverse_until="refund", needs_confirmation=True)
TO_PERSON = Capabilities(reverse_until=HOUR // SECOND)
REFUND = Approved("115019989899", 2490)


async def ledgers_agree(desk: Desk) -> None:
    """Check all invariants but the numbering of events, whose worker does not run here."""
    findings = await check.check(desk.database, desk.clock.now_ms())
    assert [finding for finding in findings if finding.rule != "event_stuck"] == []


async def run(desk: Desk, acquirer: FakeAcquirer, *, until_ms: int, step_ms: int = SECOND) -> list[tuple[int, str]]:
    """Run the inquiries and the reversals until an instant; return when what was asked, after the start."""
    asked: list[tuple[int, str]] = []
    while True:
        before = len(acquirer.asked)
        while await inquire(desk, acquirer) + await process_reversals(desk, acquirer):
            pass
        asked += [(desk.clock.now_ms() - START_MS, operation) for operation in acquirer.asked_for[before:]]
        if desk.clock.now_ms() - START_MS >= until_ms:
            return asked
        # In whole steps; before the next job is due there is nothing to do.
        now_ms = desk.clock.now_ms()
        due_ms = [
            await desk.database.read(partial(job.next_ms, now_ms=now_ms)) for job in (inquiries.JOB, reversals.JOB)
        ]
        next_ms = min([START_MS + until_ms, *filter(None, due_ms)])
        desk.clock.advance(-(-(next_ms - now_ms) // step_ms) * step_ms)


async def approved_late(desk: Desk) -> Order:
    """A failed order whose terminal reported an approval afterwards."""
    order = await desk.granted()
    answered(await desk.report(order, DECLINED))
    assert refused(await desk.report(order, APPROVED)) == "order_finished"
    return await desk.now(order)


async def ended_with_an_open_inquiry(desk: Desk) -> Order:
    """An order that its terminal failed while the acquirer's answer was missing."""
    order = await desk.granted()
    answered(await desk.report(order, DECLINED))
    failed = await desk.now(order)
    await desk.database.write(lambda tx: orders.inquire(Change(tx, desk.clock.now_ms(), PLAIN), failed, "no answer"))
    return failed


@pytest.fixture
async def desk(database: Database) -> Desk:
    """A terminal that has sent hello."""
    return await open_desk(database)


@pytest.fixture
def acquirer() -> FakeAcquirer:
    """An acquirer that has no payment yet."""
    return FakeAcquirer()


# Without inquiries


@pytest.mark.on_postgres
async def test_an_unknown_payment_that_a_reversal_blocks_is_reversed_at_once(
    desk: Desk, acquirer: FakeAcquirer
) -> None:
    """No inquiry is made, and the order fails with the reversal."""
    acquirer.can = BLIND_BLOCKING
    order = await unknown(desk)
    assert await run(desk, acquirer, until_ms=0) == [(0, "reverse")]
    assert acquirer.asked == [("reverse", f"PAY{order.ulid}", f"PAY{order.ulid}", "2490", "")]
    failed = await desk.now(order)
    assert (failed.state, failed.origin) == (status.FAILED["processing_error"], "network")
    assert await inquiry(desk, order) == (1, "not_found")
    await ledgers_agree(desk)


@pytest.mark.parametrize("answer", [UNDONE, NotFound()], ids=["reversed", "not found"])
async def test_an_unknown_payment_that_nothing_blocks_is_reversed_when_no_call_is_under_way(
    desk: Desk, acquirer: FakeAcquirer, answer: ReverseResult
) -> None:
    """After the permit, and the time of an answer; and never declined before. There is nothing to look at again."""
    acquirer.can = BLIND
    acquirer.answer(answer)
    order = await unknown(desk)
    assert await run(desk, acquirer, until_ms=UNDER_WAY_MS - SECOND) == []
    assert (await desk.now(order)).state == status.CHECK_ON_TERMINAL
    assert await run(desk, acquirer, until_ms=UNDER_WAY_MS) == [(UNDER_WAY_MS, "reverse")]
    assert (await desk.now(order)).state == status.FAILED["processing_error"]
    assert await run(desk, acquirer, until_ms=HOUR, step_ms=MINUTE) == []
    assert (await inquiry(desk, order))[1] == "not_found"
    await ledgers_agree(desk)


async def test_an_unknown_reversal_is_repeated_under_one_key(desk: Desk, acquirer: FakeAcquirer) -> None:
    """However often; the order ends when the acquirer has answered."""
    acquirer.can = BLIND
    acquirer.answer(LOST, NotSent("away"), LOST, UNDONE)
    order = await unknown(desk)
    asked = await run(desk, acquirer, until_ms=20 * MINUTE, step_ms=5 * SECOND)
    assert [operation for _, operation in asked] == ["reverse"] * 4
    assert set(acquirer.reversed_keys) == {f"PAY{order.ulid}"}
    assert (await desk.now(order)).state == status.FAILED["processing_error"]
    await ledgers_agree(desk)


@pytest.mark.on_postgres
async def test_an_unknown_payment_of_an_ended_order_is_reversed_unasked(desk: Desk, acquirer: FakeAcquirer) -> None:
    """The terminal declined, and the acquirer may have approved without an answer."""
    acquirer.can = BLIND
    order = await ended_with_an_open_inquiry(desk)
    asked = await run(desk, acquirer, until_ms=20 * MINUTE, step_ms=5 * SECOND)
    assert [operation for _, operation in asked] == ["reverse"]
    assert asked[0][0] >= UNDER_WAY_MS
    assert await desk.now(order) == order
    await ledgers_agree(desk)


async def test_a_late_approval_is_reversed_by_the_terminals_report(desk: Desk, acquirer: FakeAcquirer) -> None:
    """It is all that is known of it."""
    acquirer.can = BLIND_BLOCKING
    order = await approved_late(desk)
    assert [operation for _, operation in await run(desk, acquirer, until_ms=MINUTE)] == ["reverse"]
    assert [row[3] for row in await reversals_of(desk, order)] == ["reversed"]
    await ledgers_agree(desk)


# Without blocking


@pytest.mark.on_postgres
@pytest.mark.parametrize(
    ("seen", "ends", "alerts"),
    [
        ((NotFound(),), "not_found", []),
        ((Declined("rejected_other_reason"),), "declined", []),
        ((LOST, NotSent("away"), NotFound()), "not_found", []),
        ((SAID,), "approved", ["late_approval", "late_approval_reversed"]),
    ],
    ids=["not found", "declined", "not answered", "approved"],
)
async def test_a_payment_that_nothing_blocks_is_looked_for_once_more(
    desk: Desk, acquirer: FakeAcquirer, seen: tuple[InquiryResult, ...], ends: str, alerts: list[str]
) -> None:
    """Ten minutes after the order has failed: an approval then is a late one."""
    acquirer.can = UNBLOCKING
    acquirer.answer(NotFound())
    order = await unknown(desk)
    asked = await run(desk, acquirer, until_ms=NOT_FOUND_MS)
    assert asked[-1] == (NOT_FOUND_MS, "reverse")
    assert [operation for _, operation in asked].count("reverse") == 1
    failed = await desk.now(order)
    assert failed.state == status.FAILED["processing_error"]
    assert (await inquiry(desk, order))[1] is None
    await ledgers_agree(desk)
    acquirer.say(*seen)
    acquirer.answer(UNDONE)
    later = await run(desk, acquirer, until_ms=NOT_FOUND_MS + 10 * MINUTE)
    assert later[0] == (NOT_FOUND_MS + 10 * MINUTE, "inquire")
    await run(desk, acquirer, until_ms=NOT_FOUND_MS + 2 * HOUR, step_ms=MINUTE)
    assert (await inquiry(desk, order))[1] == ends
    assert await desk.now(order) == failed
    assert await alert_kinds(desk) == alerts
    assert [row[3] for row in await reversals_of(desk, order)] == ["reversed"] * (ends == "approved")
    await ledgers_agree(desk)


async def test_a_reversal_of_nothing_is_repeated_until_not_found_counts(desk: Desk, acquirer: FakeAcquirer) -> None:
    """The acquirer's final "not found" at the inquiry comes early, and its answers to the reversal are not final."""
    acquirer.can = UNBLOCKING
    acquirer.say(NotFound(is_final=True))
    acquirer.answer(NotFound())
    order = await unknown(desk)
    asked = await run(desk, acquirer, until_ms=NOT_FOUND_MS)
    assert asked[:2] == [(0, "inquire"), (0, "reverse")]
    assert {operation for _, operation in asked[2:]} == {"reverse"}
    assert asked[-1][0] == NOT_FOUND_MS
    assert set(acquirer.reversed_keys) == {f"PAY{order.ulid}"}
    assert (await desk.now(order)).state == status.FAILED["processing_error"]
    await ledgers_agree(desk)


@pytest.mark.parametrize("can", [UNBLOCKING, Capabilities(reversal_blocks=True)], ids=["plain", "blocks"])
async def test_a_final_not_found_counts_at_once(desk: Desk, acquirer: FakeAcquirer, can: Capabilities) -> None:
    """The acquirer has blocked the payment itself."""
    acquirer.can = can
    acquirer.say(NotFound(is_final=True))
    acquirer.answer(NotFound(is_final=True))
    order = await unknown(desk)
    assert await run(desk, acquirer, until_ms=0) == [(0, "inquire"), (0, "reverse")]
    assert (await desk.now(order)).state == status.FAILED["processing_error"]
    await ledgers_agree(desk)


@pytest.mark.parametrize("charged_minor", [None, 2490], ids=["unknown", "kept"])
async def test_an_ended_order_gets_its_second_look_too(
    desk: Desk, acquirer: FakeAcquirer, charged_minor: int | None
) -> None:
    """The acquirer's answer was missing when its terminal declined, or was of another amount."""
    acquirer.can = UNBLOCKING
    acquirer.answer(NotFound())
    order = await ended_with_an_open_inquiry(desk)
    key = order.seller_id, order.order_id
    await desk.database.write(lambda tx: tx.run(CHARGED, *key, charged_minor))
    asked = await run(desk, acquirer, until_ms=NOT_FOUND_MS)
    assert asked[-1] == (NOT_FOUND_MS, "reverse")
    acquirer.say(SAID)
    acquirer.answer(UNDONE)
    later = await run(desk, acquirer, until_ms=NOT_FOUND_MS + 10 * MINUTE)
    assert [operation for _, operation in later] == ["inquire", "inquire", "reverse"]
    assert await desk.now(order) == order
    assert [row[3] for row in await reversals_of(desk, order)] == ["reversed"]
    await ledgers_agree(desk)


async def test_a_reversal_goes_on_after_an_answer_that_is_not_its_own(desk: Desk, acquirer: FakeAcquirer) -> None:
    """It may have been delayed or crossed: the order has ended, and the buyer is still charged."""
    acquirer.can = UNBLOCKING
    acquirer.answer(NotFound())
    order = await ended_with_an_open_inquiry(desk)
    await desk.database.write(lambda tx: tx.run(CHARGED, order.seller_id, order.order_id, 2490))
    await run(desk, acquirer, until_ms=NOT_FOUND_MS)
    acquirer.say(replace(SAID, amount_minor=2491))
    undone = replace(UNDONE, amount_minor=2491)
    acquirer.answer(replace(undone, currency="USD"), undone)
    later = await run(desk, acquirer, until_ms=NOT_FOUND_MS + 30 * MINUTE)
    assert [operation for _, operation in later] == ["inquire", "reverse", "reverse"]


@pytest.mark.parametrize(
    ("declared_seconds", "counts_ms"), [(90, 90 * SECOND), (300, 300 * SECOND), (10, UNDER_WAY_MS)]
)
async def test_not_found_counts_by_the_acquirers_declaration(
    desk: Desk, acquirer: FakeAcquirer, declared_seconds: int, counts_ms: int
) -> None:
    """It may be shorter or longer than the setting, but not than a call can be under way."""
    acquirer.can = Capabilities(not_found_final_seconds=declared_seconds, reversal_blocks=True)
    order = await unknown(desk)
    asked = await run(desk, acquirer, until_ms=counts_ms)
    assert [when for when, operation in asked if operation == "reverse"] == [counts_ms]
    assert (await desk.now(order)).state == status.FAILED["processing_error"]
    await ledgers_agree(desk)


# Reversals that come too late


async def too_late(desk: Desk, acquirer: FakeAcquirer, can: Capabilities, *refunds: Outcome) -> Order:
    """An order that failed while its payment could no longer be reversed."""
    acquirer.can = can
    acquirer.say(NotFound(is_final=True))
    acquirer.answer(TooLate("closed"))
    acquirer.refunds.extend(refunds)
    order = await unknown(desk)
    assert await inquire(desk, acquirer) == 1
    failed = await desk.now(order)
    assert failed.state == status.FAILED["processing_error"]
    assert [row[3] for row in await reversals_of(desk, order)] == ["pending"]
    acquirer.asked.clear()
    return failed


@pytest.mark.on_postgres
async def test_a_reversal_that_comes_too_late_becomes_a_refund(desk: Desk, acquirer: FakeAcquirer) -> None:
    """Of the whole amount under the reversal's id, once the acquirer calls the payment final."""
    order = await too_late(desk, acquirer, REFUNDING, REFUND)
    acquirer.say(SAID)
    await run(desk, acquirer, until_ms=MINUTE)
    ((reversal_id, *_, how_far),) = await reversals_of(desk, order)
    refunded = ("refund", f"PAY{order.ulid}", reversal_id, "2490", REFERENCE)
    assert acquirer.asked_for == ["reverse", "inquire", "refund"]
    assert acquirer.asked[-1] == refunded
    assert how_far == "reversed"
    assert await alert_kinds(desk) == ["late_approval_reversed", "reversal_became_refund"]
    assert await run(desk, acquirer, until_ms=DAY, step_ms=HOUR) == []
    await ledgers_agree(desk)


@pytest.mark.parametrize("first", [PROVISIONAL, LOST, NotSent("away")], ids=["provisional", "unknown", "not sent"])
async def test_a_refund_in_place_of_a_reversal_waits_for_a_final_approval(
    desk: Desk, acquirer: FakeAcquirer, first: InquiryResult
) -> None:
    """Nothing is refunded that may not be paid."""
    await too_late(desk, acquirer, REFUNDING, REFUND)
    acquirer.say(first)
    asked = await run(desk, acquirer, until_ms=5 * MINUTE)
    assert "refund" not in [operation for _, operation in asked]
    acquirer.say(SAID)
    asked = await run(desk, acquirer, until_ms=20 * MINUTE)
    assert [operation for _, operation in asked] == ["inquire", "refund"]
    await ledgers_agree(desk)


@pytest.mark.parametrize("answer", [Declined("rejected_other_reason"), NotFound()], ids=["declined", "not found"])
async def test_a_reversal_that_worked_unheard_is_not_refunded(
    desk: Desk, acquirer: FakeAcquirer, answer: InquiryResult
) -> None:
    """The acquirer has no approval any more."""
    order = await too_late(desk, acquirer, REFUNDING)
    acquirer.say(answer)
    asked = await run(desk, acquirer, until_ms=MINUTE)
    assert [operation for _, operation in asked] == ["reverse", "inquire"]
    assert [row[3] for row in await reversals_of(desk, order)] == ["reversed"]
    await ledgers_agree(desk)


@pytest.mark.on_postgres
async def test_an_unanswered_refund_in_place_of_a_reversal_is_repeated_under_its_key(
    desk: Desk, acquirer: FakeAcquirer
) -> None:
    """With the same body; the acquirer is inquired before each attempt."""
    order = await too_late(desk, acquirer, REFUNDING, LOST, NotSent("away"), REFUND)
    acquirer.say(SAID)
    asked = await run(desk, acquirer, until_ms=20 * MINUTE, step_ms=5 * SECOND)
    assert [operation for _, operation in asked] == ["reverse", *["inquire", "refund"] * 3]
    assert len({call for call in acquirer.asked if call[0] == "refund"}) == 1
    assert [row[3] for row in await reversals_of(desk, order)] == ["reversed"]
    await ledgers_agree(desk)


@pytest.mark.parametrize(
    ("can", "refunds"),
    [
        (TO_PERSON, ()),
        (replace(TO_PERSON, can_inquire=False, reversal_blocks=True), ()),
        (replace(REFUNDING, idempotent=frozenset({"authorize", "confirm", "reverse"})), ()),
        (REFUNDING, (Declined("rejected_other_reason"),)),
    ],
    ids=["as declared", "not inquired", "refunded twice", "declined"],
)
async def test_what_can_not_be_undone_waits_for_a_person(
    desk: Desk, acquirer: FakeAcquirer, can: Capabilities, refunds: tuple[Outcome, ...]
) -> None:
    """Operators are alerted once, and nothing is attempted again: it could refund twice, or never would."""
    order = await too_late(desk, acquirer, can, *refunds)
    acquirer.say(SAID)
    await run(desk, acquirer, until_ms=MINUTE)
    assert acquirer.asked_for.count("refund") == len(refunds)
    asked = len(acquirer.asked)
    await run(desk, acquirer, until_ms=3 * DAY, step_ms=HOUR)
    assert len(acquirer.asked) == asked
    assert (await alert_kinds(desk)).count("reversal_needs_person") == 1
    assert [row[3] for row in await reversals_of(desk, order)] == ["pending"]
    await ledgers_agree(desk)


async def test_an_approval_beside_the_orders_payment_is_never_refunded(desk: Desk, acquirer: FakeAcquirer) -> None:
    """What an inquiry finds is the order's own payment."""
    order = await desk.granted()
    answered(await desk.report(order, APPROVED))
    refused(await desk.report(order, {**APPROVED, "reference_id": "115019989862"}))
    acquirer.can = REFUNDING
    acquirer.say(replace(SAID, reference_id=str(APPROVED["reference_id"])))
    acquirer.answer(TooLate())
    await run(desk, acquirer, until_ms=MINUTE)
    assert acquirer.asked_for == ["inquire", "reverse"]
    assert "reversal_needs_person" in await alert_kinds(desk)
    await ledgers_agree(desk)


@pytest.mark.on_postgres
async def test_two_reversals_of_one_payment_become_one_refund(desk: Desk, acquirer: FakeAcquirer) -> None:
    """The terminal reported its approval twice, under two ids, and neither can be reversed any more."""
    order = await approved_late(desk)
    refused(await desk.report(order, APPROVED))
    assert len(await reversals_of(desk, order)) == 2
    acquirer.can = REFUNDING
    acquirer.say(SAID)
    acquirer.answer(TooLate())
    acquirer.refunds.append(REFUND)
    await run(desk, acquirer, until_ms=10 * MINUTE, step_ms=5 * SECOND)
    assert acquirer.asked_for.count("refund") == 1
    assert sorted(row[3] for row in await reversals_of(desk, order)) == ["pending", "reversed"]
    assert "reversal_needs_person" in await alert_kinds(desk)
    await ledgers_agree(desk)


@pytest.mark.parametrize("answer", [LOST, NotSent("away")], ids=["unknown", "not sent"])
async def test_a_reversal_without_an_answer_is_too_late_a_day_after_its_time(
    desk: Desk, acquirer: FakeAcquirer, answer: ReverseResult
) -> None:
    """Until then it is repeated."""
    await approved_late(desk)
    acquirer.can = TO_PERSON
    acquirer.say(SAID)
    acquirer.answer(answer)
    before: list[Any] = await run(desk, acquirer, until_ms=HOUR + DAY - 10 * MINUTE, step_ms=10 * MINUTE)
    assert len(before) > 100
    assert (await alert_kinds(desk)).count("reversal_needs_person") == 1
    last = await run(desk, acquirer, until_ms=HOUR + DAY + HOUR, step_ms=10 * MINUTE)
    assert len(last) == 1
    assert await run(desk, acquirer, until_ms=HOUR + 3 * DAY, step_ms=HOUR) == []
    await ledgers_agree(desk)


# Answers that are not those of the requests


@pytest.mark.on_postgres
async def test_answers_that_differ_move_no_money(desk: Desk, acquirer: FakeAcquirer) -> None:
    """An inquiry with another currency and a reversal with another amount are unknown; one event an hour."""
    order = await unknown(desk)
    acquirer.can = Capabilities(reversal_blocks=True)
    acquirer.say(replace(SAID, currency="CLP"))
    await run(desk, acquirer, until_ms=30 * MINUTE, step_ms=10 * SECOND)
    assert (await desk.now(order)).state == status.CHECK_ON_TERMINAL
    assert acquirer.reversed_keys == []
    differing = [kind for kind in await alert_kinds(desk) if kind == "acquirer_answer_differs"]
    hours = (START_MS + 30 * MINUTE) // HOUR - START_MS // HOUR + 1
    assert len(differing) == hours
    acquirer.say(replace(SAID, currency="BRL", key=f"PAY{order.ulid}"))
    await run(desk, acquirer, until_ms=HOUR, step_ms=MINUTE)
    assert (await desk.now(order)).state == status.PROCESSED
    await ledgers_agree(desk)


@pytest.mark.parametrize("change", [{"currency": "CLP"}, {"key": "REV0"}, {"needs_confirmation": True}])
async def test_a_reversal_is_not_confirmed_by_another_answer(
    desk: Desk, acquirer: FakeAcquirer, change: dict[str, Any]
) -> None:
    """It is asked for again, under the same key."""
    order = await approved_late(desk)
    acquirer.say(SAID)
    acquirer.answer(replace(UNDONE, **change), UNDONE)
    assert await process_reversals(desk, acquirer) == 1
    assert [row[3] for row in await reversals_of(desk, order)] == ["pending"]
    assert "acquirer_answer_differs" in await alert_kinds(desk)
    await run(desk, acquirer, until_ms=5 * MINUTE)
    assert [row[3] for row in await reversals_of(desk, order)] == ["reversed"]
    assert len(set(acquirer.reversed_keys)) == 1
    await ledgers_agree(desk)
