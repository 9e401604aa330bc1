"""The invariants: a consistent database has no findings, and each rule finds the violation made for it."""

from __future__ import annotations

from typing import Any

import pytest

from paydesk.engine.events import store as feeds
from paydesk.engine.invariants import check
from paydesk.engine.payments.jobs import NEVER_MS
from paydesk.platform.storage.database import Database, Transaction

NOW = 1_800_000_000_000
DAY = 86_400_000
ULID = "01JQ4S4KY8HWQ6NA5PXB65B3D3"
ORDER = f"ORD{ULID}"
SUBSCRIPTION = "6a1c0e34-7d2b-4d5e-8c07-3b4f7b1f5a10"
FEED = feeds.Feed(1, 7, 0)
WHERE = f"WHERE order_id = '{ORDER}'"

STEPS = (
    ("create", "created", "created", "created"),
    ("acknowledge", "at_terminal", "at_terminal", "at_terminal"),
    ("approve", "processed", "processed", "accredited"),
    ("refund_part", "processed", "partially_refunded", "partially_refunded"),
)
STATE = ("status", "status_detail", "payment_status_detail")


async def _insert(tx: Transaction, table: str, **columns: Any) -> None:
    places = ", ".join(f"${place}" for place in range(1, len(columns) + 1))
    await tx.run(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})", *columns.values())


async def _order(tx: Transaction, order_id: str, steps: tuple[tuple[str, ...], ...], **columns: Any) -> None:
    described = {
        "seller_id": 1,
        "order_id": order_id,
        "application_id": 7,
        "live": 0,
        "terminal_id": "PAYDESK_VIRTUAL__1",
        "version": len(steps),
        "currency": "CLP",
        "country": "CHL",
        "amount": "1000",
        "amount_minor": 1000,
        "expiration_time": "PT15M",
        "config": "{}",
        "integration_data": "{}",
        "created_ms": NOW - 1000,
        "updated_ms": NOW,
        "expires_ms": NOW + 1000,
        "refunded_minor": 0,
    }
    await _insert(tx, "orders", **{**described, **dict(zip(STATE, steps[-1][1:], strict=True)), **columns})
    for version, (move, *state) in enumerate(steps, start=1):
        await _event(tx, order_id, version, move, tuple(state))


async def _event(tx: Transaction, order_id: str, version: int, move: str, state: tuple[str, ...]) -> None:
    event_id = f"{order_id}/{version}"
    common = {"seller_id": 1, "order_id": order_id, "version": version, "created_ms": NOW}
    event = {
        "event_id": event_id,
        "action": "order.created",
        "move": move,
        "body": "{}",
        "application_id": 7,
        "live": 0,
    }
    await _insert(tx, "order_events", **common, **event, **dict(zip(STATE, state, strict=True)))
    sent = {"status": "delivered", "attempts": 1, "next_ms": NOW, "claimed_until_ms": 0}
    delivery = {"delivery_id": f"{event_id}.{SUBSCRIPTION}", "subscription_id": SUBSCRIPTION}
    await _insert(tx, "deliveries", **common, **delivery, **sent)


async def _result(tx: Transaction, result_id: str, verdict: str, outcome: str = "approved") -> None:
    names = {"seller_id": 1, "lease_id": ULID, "result_id": result_id, "digest": b"", "created_ms": NOW}
    await _insert(tx, "results", **names, outcome=outcome, verdict=verdict, body="{}", answer_status=200, answer="{}")


async def _refund(tx: Transaction, refund_id: str, amount_minor: int, status: str) -> None:
    ended_ms = None if status == "processing" else NOW
    names = {"seller_id": 1, "refund_id": refund_id, "order_id": ORDER, "application_id": 7, "idempotency_key": "k2"}
    amounts = {"amount": str(amount_minor), "amount_minor": amount_minor}
    job = {"live": 0, "status": status, "attempts": 0, "unsent": 0, "next_ms": NOW, "claimed_until_ms": 0}
    await _insert(tx, "refunds", **names, **amounts, **job, created_ms=NOW, ended_ms=ended_ms)


async def _reversal(tx: Transaction, **columns: Any) -> None:
    names = {"seller_id": 1, "reversal_id": "v1", "order_id": ORDER, "lease_id": ULID, "result_id": "r9", "live": 0}
    rest = {"amount_minor": 1000, "reference_id": "9", "status": "pending", "attempts": 0, "next_ms": NOW}
    await _insert(tx, "reversals", **{**names, **rest, "created_ms": NOW, **columns})


async def _confirmation(tx: Transaction, status: str, **columns: Any) -> None:
    """Insert the approval of the order, and that the acquirer was asked for one that needs a confirmation."""
    asked = {"digest": b"", "key_version": 1, "tip_minor": 0, "payment_method": "{}", "card": "{}", "created_ms": NOW}
    await _insert(tx, "lease_authorizations", seller_id=1, lease_id=ULID, **asked, needs_confirmation=1)
    if status:
        names = {"seller_id": 1, "order_id": ORDER, "live": 0, "currency": "CLP", "reference_id": "7"}
        times = {"approved_ms": NOW, "decide_by_ms": NOW, "next_ms": NOW, "created_ms": NOW}
        await _insert(tx, "confirmations", **{**names, **times, "amount_minor": 1000, "status": status, **columns})


async def _token(tx: Transaction, generation: int) -> None:
    names = {"seller_id": 1, "family_id": b"c", "generation": generation, "key_version": 1, "created_ms": NOW}
    await _insert(tx, "access_tokens", **names, digest=b"a%d" % generation, scope="read", expires_ms=NOW)
    await _insert(tx, "refresh_tokens", **names, digest=b"r%d" % generation, expires_ms=NOW)


async def _key(tx: Transaction, **columns: Any) -> None:
    names = {"seller_id": 1, "application_id": 7, "live": 0, "operation": "create", "object_id": "", "digest": b""}
    await _insert(tx, "idempotency_keys", **names, idempotency_key="k1", replays=0, created_ms=NOW - DAY, **columns)


async def _subscribe(tx: Transaction, subscription_id: str, **columns: Any) -> None:
    named = {"subscription_id": subscription_id, "application_id": 7, "live": 0, "topic": "orders", "actions": "[]"}
    rest = {"url": "https://shop.example", "secret_generation": 1, "created_ms": NOW - DAY}
    await _insert(tx, "subscriptions", **{**named, **rest, **columns})


async def _consents(tx: Transaction) -> None:
    """Two authorizations, one withdrawal, and their deliveries to the application."""
    await _subscribe(tx, "connect", topic="mp-connect", live=1)
    await _subscribe(tx, "withdrawals", topic="mp-connect", actions='["application.deauthorized"]')
    await _subscribe(tx, "late", topic="mp-connect", created_ms=NOW + 1)
    await _subscribe(tx, "late-consents", topic="mp-connect", actions_ms=NOW + 1)
    for authorization_id, withdrawn_ms in (("g1", None), ("g2", NOW)):
        named = {"seller_id": 1, "authorization_id": authorization_id, "application_id": 7, "scope": "read"}
        await _insert(tx, "authorizations", **named, created_ms=NOW, withdrawn_ms=withdrawn_ms)
    for version, action in enumerate(("authorized", "authorized", "deauthorized"), start=1):
        event = {"application_id": 7, "action": f"application.{action}", "body": "{}"}
        await _insert(tx, "application_events", seller_id=1, version=version, created_ms=NOW, **event)
        for subscription_id in ("connect", "withdrawals") if version == 3 else ("connect",):
            delivery = {
                "delivery_id": f"{version}.{subscription_id}",
                "subscription_id": subscription_id,
                "order_id": "7",
            }
            open_ = {"status": "pending", "attempts": 0, "next_ms": NOW, "claimed_until_ms": 0, "created_ms": NOW}
            await _insert(tx, "deliveries", seller_id=1, version=version, **delivery, **open_)


async def _consistent(tx: Transaction) -> None:
    """Insert consistent rows.

    A paid and partly refunded order with its deliveries and its idempotency key, a token family at generation 2, and
    the seller's consents.
    """
    await _consents(tx)
    await _subscribe(tx, SUBSCRIPTION)
    await _subscribe(tx, "later", created_ms=NOW + 1)
    await _subscribe(tx, "widened", actions_ms=NOW + 1)
    await _subscribe(tx, "live", live=1)
    await _subscribe(tx, "filtered", actions='["order.failed"]')
    await _order(tx, ORDER, STEPS, paid_ms=NOW, paid_minor=1000, refunded_minor=300, refunding_minor=700)
    await _order(tx, "ORD2", STEPS[:2])
    assert len(await feeds.number(tx, FEED, 5)) == 5
    await _result(tx, "r1", "taken")
    await _refund(tx, "REF1", 300, "processed")
    await _refund(tx, "REF2", 700, "processing")
    await _refund(tx, "REF3", 700, "failed")
    await _key(tx, status=201, answer=b"{}")
    authorized = {"seller_id": 1, "authorization_id": "g1", "application_id": 7, "scope": "read"}
    await _insert(tx, "token_families", **authorized, family_id=b"c", live=0, generation=2, created_ms=NOW)
    await _token(tx, 1)
    await _token(tx, 2)
    code = {"digest": b"d", "redirect_uri": "https://shop.example", "created_ms": NOW, "expires_ms": NOW}
    await _insert(tx, "codes", **authorized, **code, exchanged_ms=NOW, family_id=b"c")


async def _violated(database: Database) -> set[str]:
    return {finding.rule for finding in await check.check(database, NOW)}


@pytest.mark.on_postgres
async def test_a_consistent_database_has_no_findings(database: Database) -> None:
    """Neither with rows nor without."""
    assert await check.check(database, NOW) == []
    await database.write(_consistent)
    assert await check.check(database, NOW) == []
    assert await check.integrity(database) == []


@pytest.mark.on_postgres
async def test_violations_are_found_on_every_page(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each once."""
    monkeypatch.setattr(check, "PAGE_ROWS", 10)

    async def work(tx: Transaction) -> None:
        for number in range(25):
            await _order(tx, f"ORD{number:04}", STEPS[:1], terminal_id=f"A__{number}", version=2)

    await database.write(work)
    found = await check.check(database, NOW)
    assert [finding.subject for finding in found] == [f"seller 1, ORD{number:04}" for number in range(25)]


VIOLATIONS = {
    "version_gap": f"DELETE FROM order_events {WHERE} AND version = 2",
    "illegal_transition": f"UPDATE order_events SET move = 'cancel' {WHERE} AND version = 3",
    "order_differs_from_last_event": f"UPDATE orders SET version = 5 {WHERE}",
    "order_without_event": f"DELETE FROM order_events {WHERE}",
    "event_without_order": f"DELETE FROM orders {WHERE}",
    "refund_without_order": f"DELETE FROM orders {WHERE}",
    "payment_status_mismatch": f"UPDATE orders SET paid_minor = NULL {WHERE}",
    "refund_totals_mismatch": f"UPDATE orders SET refunded_minor = 400 {WHERE}",
    "paid_amount_mismatch": f"UPDATE orders SET tip_minor = 1 {WHERE}",
    "refund_without_end": "UPDATE refunds SET ended_ms = NULL WHERE status = 'processed'",
    "approval_unaccounted": "UPDATE results SET verdict = 'late_approval'",
    "event_without_delivery": f"DELETE FROM deliveries {WHERE} AND version = 4",
    "application_event_gap": "DELETE FROM application_events WHERE version = 2",
    "withdrawn_without_event": "UPDATE authorizations SET withdrawn_ms = 1",
    "application_event_without_delivery": "DELETE FROM deliveries WHERE order_id = '7' AND version = 2",
    "application_delivery_without_event": "DELETE FROM application_events WHERE version = 3",
    "event_number_gap": "UPDATE order_events SET number = NULL WHERE number = 3",
    "event_numbers_missing": "UPDATE order_events SET number = NULL",
    "event_out_of_order": f"UPDATE order_events SET number = 9 {WHERE} AND version = 1",
    "event_in_wrong_feed": f"UPDATE order_events SET live = 1 {WHERE} AND version = 1",
    "event_stuck": f"UPDATE order_events SET created_ms = {NOW - DAY - 1} WHERE number IS NULL",
    "delivery_overdue": f"UPDATE deliveries SET status = 'pending', created_ms = {NOW - 32 * DAY}, next_ms = 0",
    "superseded_without_newer": "UPDATE deliveries SET status = 'superseded' WHERE version = 2",
    "pause_without_actor": "UPDATE subscriptions SET paused_ms = 1",
    "key_without_response": "UPDATE idempotency_keys SET answer = NULL",
    "code_without_family": "UPDATE codes SET family_id = NULL",
    "access_tokens_generations": "DELETE FROM access_tokens WHERE generation = 2",
    "refresh_tokens_generations": "UPDATE token_families SET generation = 3",
    "family_without_tokens": "DELETE FROM access_tokens",
}


@pytest.mark.parametrize(("rule", "sql"), VIOLATIONS.items(), ids=VIOLATIONS)
async def test_each_rule_finds_its_violation(database: Database, rule: str, sql: str) -> None:
    """One statement violates the invariant; its rule reports it."""
    await database.write(_consistent)
    await database.write(lambda tx: tx.run(sql))
    assert rule in await _violated(database)


@pytest.mark.on_postgres
async def test_refunds_above_the_payment_are_found(database: Database) -> None:
    """A reserved amount counts as refunded."""

    async def work(tx: Transaction) -> None:
        await _consistent(tx)
        await _refund(tx, "REF4", 1, "processing")

    await database.write(work)
    assert await _violated(database) == {"refund_totals_mismatch"}


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("number = 4 WHERE number = 5", "5 events have 4 numbers, from 1 to 4; the counter is at 5"),
        ("number = 6 WHERE number = 5", "5 events have 5 numbers, from 1 to 6; the counter is at 5"),
        ("number = 0 WHERE number = 1", "5 events have 5 numbers, from 0 to 5; the counter is at 5"),
        ("number = NULL WHERE number = 5", "4 events have 4 numbers, from 1 to 4; the counter is at 5"),
    ],
)
async def test_a_feed_has_each_number_once(database: Database, change: str, found: str) -> None:
    """No number is used twice, left out, or counted without an event. An index prevents the first; it is dropped."""
    await database.write(_consistent)
    await database.write(lambda tx: tx.run("DROP INDEX order_events_numbered"))
    await database.write(lambda tx: tx.run(f"UPDATE order_events SET {change}"))
    assert f"event_number_gap: seller 1, feed of application 7, test: {found}" in [
        str(finding) for finding in await check.check(database, NOW)
    ]


async def test_a_later_event_has_a_later_number(database: Database) -> None:
    """Otherwise a client would read an order's events in the wrong order."""
    await database.write(_consistent)

    async def work(tx: Transaction) -> None:
        await tx.run(f"UPDATE order_events SET number = 0 {WHERE} AND version = 3")
        await tx.run(f"UPDATE order_events SET number = 3 {WHERE} AND version = 4")
        await tx.run(f"UPDATE order_events SET number = 4 {WHERE} AND version = 3")

    await database.write(work)
    assert await _violated(database) == {"event_out_of_order"}


@pytest.mark.parametrize("change", ["refunding_minor = 699", "refunding_minor = 0, refunded_minor = 1000"])
async def test_reserved_amount_equals_refunds_in_progress(database: Database, change: str) -> None:
    """With less reserved, too much could be refunded."""
    await database.write(_consistent)
    await database.write(lambda tx: tx.run(f"UPDATE orders SET {change} {WHERE}"))
    assert await _violated(database) == {"refund_totals_mismatch"}


@pytest.mark.parametrize(("status", "found"), [("pending", {"payment_reversed"}), ("not_found", set())])
async def test_a_reversal_of_the_orders_payment_is_found(database: Database, status: str, found: set[str]) -> None:
    """Unless the acquirer has no such payment."""

    async def work(tx: Transaction) -> None:
        await _consistent(tx)
        await _reversal(tx, result_id="r1", status=status)

    await database.write(work)
    assert await _violated(database) == found


@pytest.mark.parametrize(("status", "found"), [(None, {"approval_unaccounted"}), ("pending", set())])
async def test_a_late_approval_without_a_reversal_is_found(
    database: Database, status: str | None, found: set[str]
) -> None:
    """An approval of a canceled order needs a reversal."""
    steps = (STEPS[0], ("cancel", "canceled", "canceled", "canceled_by_api"))

    async def work(tx: Transaction) -> None:
        await _order(tx, ORDER, steps)
        await _result(tx, "r1", "late_approval")
        if status is not None:
            await _reversal(tx, result_id="r1", status=status)

    await database.write(work)
    assert await _violated(database) == found


async def test_a_conflicting_approval_needs_an_inquiry(database: Database) -> None:
    """While an inquiry is open, the approval is undecided."""
    steps = (*STEPS[:2], ("check", "at_terminal", "check_on_terminal", "check_on_terminal"))

    async def work(tx: Transaction) -> None:
        await _order(tx, ORDER, steps)
        await _result(tx, "r1", "conflict")

    await database.write(work)
    assert await _violated(database) == {"approval_unaccounted", "unknown_without_inquiry"}
    await database.write(_inquiry)
    assert await _violated(database) == set()


async def _inquiry(tx: Transaction, **columns: Any) -> None:
    names = {"seller_id": 1, "order_id": ORDER, "live": 0, "reason": "unknown", "attempts": 0, "next_ms": NOW}
    await _insert(tx, "inquiries", **{**names, "created_ms": NOW, **columns})


async def test_an_unknown_outcome_without_an_inquiry_is_found(database: Database) -> None:
    """An order with an unknown outcome has an inquiry, even if that was skipped."""
    steps = (*STEPS[:2], ("check", "at_terminal", "check_on_terminal", "check_on_terminal"))
    await database.write(lambda tx: _order(tx, ORDER, steps))
    assert await _violated(database) == {"unknown_without_inquiry"}
    await database.write(lambda tx: _inquiry(tx, ended_ms=NOW, outcome="forgone"))
    assert await _violated(database) == set()


@pytest.mark.parametrize("reference_id", ["9", "1", ""])
async def test_a_reversal_with_the_payments_reference_is_found(database: Database, reference_id: str) -> None:
    """A reversal of a late approval has a reference other than the payment's."""

    async def work(tx: Transaction) -> None:
        await _consistent(tx)
        await tx.run(f"UPDATE orders SET reference_id = '1' {WHERE}")
        await _reversal(tx, reference_id=reference_id, status="reversed", ended_ms=NOW)

    await database.write(work)
    assert await _violated(database) == (set() if reference_id == "9" else {"payment_reversed"})


async def test_a_paid_order_with_a_reversing_inquiry_is_found(database: Database) -> None:
    """A payment that is being reversed is not an order's payment."""

    async def work(tx: Transaction) -> None:
        await _consistent(tx)
        await _inquiry(tx, reversing_ms=NOW)

    await database.write(work)
    assert await _violated(database) == {"approved_while_reversing"}


async def test_overdue_jobs_are_found(database: Database) -> None:
    """An inquiry, a reversal and a refund that were due more than a day ago."""

    async def work(tx: Transaction) -> None:
        await _consistent(tx)
        await _inquiry(tx, next_ms=NOW - DAY - 1)
        await _reversal(tx, next_ms=NOW - DAY - 1)
        await tx.run(f"UPDATE refunds SET next_ms = {NOW - DAY - 1}")

    await database.write(work)
    assert await _violated(database) == {"inquiry_stuck", "reversal_stuck", "refund_stuck"}


async def test_jobs_that_wait_are_not_overdue(database: Database) -> None:
    """A refund waits for its payment's confirmation, and a reversal that is due at the end of time for a person."""

    async def work(tx: Transaction) -> None:
        await _order(tx, ORDER, STEPS[:3], paid_ms=NOW, paid_minor=1000, refunding_minor=700)
        await _refund(tx, "REF1", 700, "processing")
        await tx.run(f"UPDATE refunds SET next_ms = {NOW - DAY - 1}")
        await _confirmation(tx, "confirming")
        await _reversal(tx, next_ms=NEVER_MS)

    await database.write(work)
    assert await _violated(database) == set()


UNPAID = (STEPS[0], STEPS[1], ("decline", "failed", "failed", "processing_error"))
PAYMENT_WITHOUT = {"payment_without_confirmation"}


@pytest.mark.parametrize(
    ("steps", "status", "found"),
    [
        (STEPS[:3], "confirming", set()),
        (STEPS[:3], "confirmed", set()),
        (STEPS[:3], "refused", set()),
        (STEPS[:3], "", PAYMENT_WITHOUT),
        (STEPS[:3], "provisional", {*PAYMENT_WITHOUT, "approval_undecided"}),
        (STEPS[:3], "undone", {*PAYMENT_WITHOUT, "undone_without_reversal"}),
        (UNPAID, "", set()),
        (UNPAID, "confirming", {"confirmation_without_payment"}),
        (UNPAID, "confirmed", {"confirmation_without_payment"}),
        (UNPAID, "refused", {"confirmation_without_payment"}),
        (UNPAID, "provisional", {"approval_undecided"}),
        (UNPAID, "undone", {"undone_without_reversal"}),
        (STEPS[:2], "provisional", set()),
    ],
)
async def test_a_payment_follows_the_decision_on_its_approval(
    database: Database, steps: tuple[tuple[str, ...], ...], status: str, found: set[str]
) -> None:
    """An order is paid if its approval is confirmed, and else its approval is reversed."""

    async def work(tx: Transaction) -> None:
        paid = {"paid_ms": NOW, "paid_minor": 1000, "refunding_minor": 0} if steps == STEPS[:3] else {}
        await _order(tx, ORDER, steps, **paid)
        await _confirmation(tx, status)

    await database.write(work)
    assert await _violated(database) == found


@pytest.mark.parametrize(("by", "found"), [("authorization", set()), ("operator", set()), ("inquiry", PAYMENT_WITHOUT)])
async def test_a_payment_may_need_no_confirmation(database: Database, by: str, found: set[str]) -> None:
    """If the acquirer approved finally at once, or an operator resolved the order; an inquiry's approval is undone."""

    async def work(tx: Transaction) -> None:
        await _order(tx, ORDER, STEPS[:3], paid_ms=NOW, paid_minor=1000, refunding_minor=0)
        await _confirmation(tx, "")
        lease = {"terminal_id": "PAYDESK_VIRTUAL__1", "session": 1, "acknowledged_ms": NOW, "seq": 0, "step": "none"}
        await _insert(tx, "leases", seller_id=1, lease_id=ULID, order_id=ORDER, **lease, ended_ms=NOW, ended_by=by)

    await database.write(work)
    assert await _violated(database) == found


@pytest.mark.parametrize(
    ("inquiry", "found"),
    [
        ({}, set()),
        ({"reversing_ms": NOW}, set()),
        ({"reversing_ms": NOW, "ended_ms": NOW, "outcome": "not_found"}, set()),
        ({"ended_ms": NOW, "outcome": "operator"}, set()),
        ({"ended_ms": NOW, "outcome": "result"}, {"undone_without_reversal"}),
    ],
)
async def test_an_inquiry_reverses_an_undone_approval(
    database: Database, inquiry: dict[str, Any], found: set[str]
) -> None:
    """Unless it has ended because of something else."""

    async def work(tx: Transaction) -> None:
        await _order(tx, ORDER, UNPAID)
        await _confirmation(tx, "undone")
        await _inquiry(tx, **inquiry)

    await database.write(work)
    assert await _violated(database) == found


async def test_a_reversal_reverses_an_undone_approval(database: Database) -> None:
    """In place of an inquiry."""

    async def work(tx: Transaction) -> None:
        await _order(tx, ORDER, UNPAID)
        await _confirmation(tx, "undone")
        await _reversal(tx, confirmed="approved")

    await database.write(work)
    assert await _violated(database) == set()


@pytest.mark.parametrize("status", ["confirming", "confirmed"])
@pytest.mark.parametrize(
    ("reversal", "found"),
    [
        ({"reference_id": "7", "status": "reversed"}, {"confirmed_and_reversed"}),
        ({"reference_id": "", "status": "reversed"}, {"confirmed_and_reversed", "payment_reversed"}),
        ({"reference_id": "7", "status": "not_found"}, set()),
        ({"reference_id": "8", "status": "reversed"}, set()),
    ],
)
async def test_a_confirmed_approval_that_is_reversed_is_found(
    database: Database, status: str, reversal: dict[str, Any], found: set[str]
) -> None:
    """By its own reference, or as the whole payment."""

    async def work(tx: Transaction) -> None:
        await _order(tx, ORDER, STEPS[:3], paid_ms=NOW, paid_minor=1000, refunding_minor=0)
        await _confirmation(tx, status)
        await _reversal(tx, ended_ms=NOW, **reversal)

    await database.write(work)
    assert await _violated(database) == found


async def test_a_confirmed_approval_that_an_inquiry_reverses_is_found(database: Database) -> None:
    """The order's outcome was approved meanwhile."""

    async def work(tx: Transaction) -> None:
        await _order(tx, ORDER, STEPS[:3], paid_ms=NOW, paid_minor=1000, refunding_minor=0)
        await _confirmation(tx, "confirmed")
        await _inquiry(tx, reversing_ms=NOW)

    await database.write(work)
    assert await _violated(database) == {"approved_while_reversing", "confirmed_and_reversed"}


async def test_an_approval_that_is_undecided_for_a_day_is_found(database: Database) -> None:
    """Its order still waits for the terminal."""

    async def work(tx: Transaction) -> None:
        await _order(tx, ORDER, STEPS[:2])
        await _confirmation(tx, "provisional", approved_ms=NOW - DAY - 1)

    await database.write(work)
    assert await _violated(database) == {"approval_undecided"}


@pytest.mark.parametrize(
    ("approval", "refund", "found"),
    [
        ("confirmed", "status = 'processed', ended_ms = 1, attempts = 1", set()),
        ("confirming", "attempts = 0", set()),
        ("confirming", "attempts = 1", {"refund_before_confirmation"}),
        ("refused", "attempts = 1", set()),
        ("refused", "status = 'processed', ended_ms = 1, attempts = 1", {"refund_before_confirmation"}),
        ("refused", "status = 'processed', ended_ms = 1, recorded_by = 'ana'", set()),
    ],
)
async def test_a_refund_before_its_payments_confirmation_is_found(
    database: Database, approval: str, refund: str, found: set[str]
) -> None:
    """Unless an operator recorded one that was made at the acquirer."""
    is_processed = "processed" in refund

    async def work(tx: Transaction) -> None:
        minor = {"refunded_minor": 300 * is_processed, "refunding_minor": 300 * (not is_processed)}
        await _order(tx, ORDER, STEPS if is_processed else STEPS[:3], paid_ms=NOW, paid_minor=1000, **minor)
        await _confirmation(tx, approval)
        await _refund(tx, "REF1", 300, "processing")
        await tx.run(f"UPDATE refunds SET {refund}")

    await database.write(work)
    assert await _violated(database) == found


async def test_two_approvals_of_one_order_are_found(database: Database) -> None:
    """An order has one payment."""

    async def work(tx: Transaction) -> None:
        await _consistent(tx)
        await _result(tx, "r2", "taken")

    await database.write(work)
    assert await _violated(database) == {"approved_twice"}


async def test_a_reference_of_two_payments_is_found(database: Database) -> None:
    """The reference belongs to one order, and another order has it."""

    async def work(tx: Transaction) -> None:
        await _order(tx, "ORD1", STEPS)
        await tx.run("UPDATE orders SET reference_id = '7' WHERE order_id = 'ORD1'")
        await tx.run(
            "INSERT INTO payment_references (seller_id, live, reference_id, order_id)"
            " SELECT seller_id, live, reference_id, 'ORD2' FROM orders WHERE order_id = 'ORD1'"
        )

    await database.write(work)
    assert "duplicate_reference" in await _violated(database)


async def test_two_live_orders_on_a_terminal_are_found(database: Database) -> None:
    """An index prevents it; it is dropped."""

    async def work(tx: Transaction) -> None:
        await tx.run("DROP INDEX orders_live_on_terminal")
        await _order(tx, "ORD1", STEPS[:1])
        await _order(tx, "ORD2", STEPS[:2])

    await database.write(work)
    assert [str(finding) for finding in await check.check(database, NOW)] == [
        "live_orders_per_terminal: seller 1, PAYDESK_VIRTUAL__1: has 2 live orders"
    ]


async def test_print_actions_that_break_an_invariant_are_found(database: Database) -> None:
    """Two on a terminal, one beside an order, slots that differ from the actions, and a content that was not deleted.

    Constraints prevent some of them; these are dropped.
    """

    async def action(tx: Transaction, action_id: str, terminal_id: str, status: str, content: str | None = "x") -> None:
        await tx.run(
            "INSERT INTO print_actions (seller_id, action_id, application_id, live, terminal_id, external_reference,"
            " subtype, status, created_ms, updated_ms, expires_ms, content)"
            " VALUES (1, $1, 7, 0, $2, 'r', 'custom', $3, 0, 0, 0, $4)",
            action_id,
            terminal_id,
            status,
            content,
        )

    async def terminal(tx: Transaction, terminal_id: str, action_id: str | None) -> None:
        await tx.run(
            "INSERT INTO terminals (seller_id, terminal_id, live, store_id, pos_id, kind, is_virtual, operating_mode,"
            " session, created_ms, action_id) VALUES (1, $1, 0, 1, 1, 'terminal', 0, 'PDV', 0, 0, $2)",
            terminal_id,
            action_id,
        )

    async def work(tx: Transaction) -> None:
        await tx.run("DROP INDEX print_actions_open")
        await terminal(tx, "A__1", "a1")
        await action(tx, "a1", "A__1", "created")
        await action(tx, "a2", "A__1", "on_terminal")
        await terminal(tx, "PAYDESK_VIRTUAL__1", "b")
        await action(tx, "b", "PAYDESK_VIRTUAL__1", "created")
        await _order(tx, "ORD1", STEPS[:1])
        await terminal(tx, "C__1", "c")
        await action(tx, "c", "C__1", "processed", None)

    await database.write(work)
    assert [str(finding) for finding in await check.check(database, NOW)] == [
        "print_actions_per_terminal: seller 1, A__1: has 2 open print actions",
        "print_action_beside_order: seller 1, PAYDESK_VIRTUAL__1: has the print action b and the live order ORD1",
        "print_action_without_slot: seller 1, A__1: has the open print action a2, but its row has a1",
        "slot_without_print_action: seller 1, C__1: has the print action c in its row, which is not open",
    ]


@pytest.mark.on_postgres
async def test_the_database_keeps_no_content_of_an_ended_print_action(database: Database) -> None:
    """A constraint refuses it; without the constraint the check finds it."""
    insert = (
        "INSERT INTO print_actions (seller_id, action_id, application_id, live, terminal_id, external_reference,"
        " subtype, status, created_ms, updated_ms, expires_ms, content)"
        " VALUES (1, 'a', 7, 0, 'T', 'r', 'custom', 'processed', 0, 0, 0, 'x')"
    )
    with pytest.raises(Exception, match="print_actions_content"):
        await database.write(lambda tx: tx.run(insert))
    if database.name == "postgres":
        await database.write(lambda tx: tx.run("ALTER TABLE print_actions DROP CONSTRAINT print_actions_content"))
        await database.write(lambda tx: tx.run(insert))
        assert [str(finding) for finding in await check.check(database, NOW)] == [
            "ended_print_action_with_content: seller 1, a: processed, but its content is not deleted"
        ]
