"""The ledger's checker: it finds nothing in what is sound, and each rule sees what was broken on purpose."""

from __future__ import annotations

from typing import Any

import pytest

from paydesk.events import store as feeds
from paydesk.invariants import check
from paydesk.storage.database import Database, Transaction

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
    said = {"event_id": event_id, "action": "order.created", "move": move, "body": "{}", "application_id": 7, "live": 0}
    await _insert(tx, "order_events", **common, **said, **dict(zip(STATE, state, strict=True)))
    sent = {"status": "delivered", "attempts": 1, "next_ms": NOW, "claimed_until_ms": 0}
    delivery = {"delivery_id": f"{event_id}.{SUBSCRIPTION}", "subscription_id": SUBSCRIPTION}
    await _insert(tx, "deliveries", **common, **delivery, **sent)


async def _result(tx: Transaction, result_id: str, verdict: str, outcome: str = "approved") -> None:
    names = {"seller_id": 1, "lease_id": ULID, "result_id": result_id, "digest": b"", "created_ms": NOW}
    await _insert(tx, "results", **names, outcome=outcome, verdict=verdict, body="{}", answer_status=200, answer="{}")


async def _refund(tx: Transaction, refund_id: str, amount_minor: int, status: str) -> None:
    ended_ms = None if status == "processing" else NOW
    names = {"seller_id": 1, "refund_id": refund_id, "order_id": ORDER, "created_ms": NOW, "ended_ms": ended_ms}
    await _insert(
        tx, "refunds", **names, next_ms=NOW, amount=str(amount_minor), amount_minor=amount_minor, status=status
    )


async def _reversal(tx: Transaction, **columns: Any) -> None:
    names = {"seller_id": 1, "reversal_id": "v1", "order_id": ORDER, "lease_id": ULID, "result_id": "r9", "live": 0}
    rest = {"amount_minor": 1000, "reference_id": "9", "status": "pending", "attempts": 0, "next_ms": NOW}
    await _insert(tx, "reversals", **{**names, **rest, "created_ms": NOW, **columns})


async def _token(tx: Transaction, generation: int) -> None:
    names = {"seller_id": 1, "family_id": b"c", "generation": generation, "key_version": 1, "created_ms": NOW}
    await _insert(tx, "access_tokens", **names, digest=b"a%d" % generation, scope="read", expires_ms=NOW)
    await _insert(tx, "refresh_tokens", **names, digest=b"r%d" % generation, expires_ms=NOW)


async def _key(tx: Transaction, **columns: Any) -> None:
    names = {"seller_id": 1, "application_id": 7, "live": 0, "operation": "create", "object_id": "", "digest": b""}
    await _insert(tx, "idempotency_keys", **names, idempotency_key="k1", replays=0, created_ms=NOW - DAY, **columns)


async def _subscribe(tx: Transaction, subscription_id: str, **columns: Any) -> None:
    named = {"subscription_id": subscription_id, "application_id": 7, "live": 0, "topic": "orders", "actions": "[]"}
    rest = {"url": "https://shop.example", "secret_generation": 1, "key_version": 1, "created_ms": NOW - DAY}
    await _insert(tx, "subscriptions", **{**named, **rest, **columns})


async def _consents(tx: Transaction) -> None:
    """A seller agreed twice and withdrew once; the application is to be told of all that."""
    await _subscribe(tx, "connect", topic="mp-connect", live=1)
    await _subscribe(tx, "picky", topic="mp-connect", actions='["application.deauthorized"]')
    await _subscribe(tx, "late", topic="mp-connect", created_ms=NOW + 1)
    for authorization_id, withdrawn_ms in (("g1", None), ("g2", NOW)):
        named = {"seller_id": 1, "authorization_id": authorization_id, "application_id": 7, "scope": "read"}
        await _insert(tx, "authorizations", **named, created_ms=NOW, withdrawn_ms=withdrawn_ms)
    for version, action in enumerate(("authorized", "authorized", "deauthorized"), start=1):
        said = {"application_id": 7, "action": f"application.{action}", "body": "{}"}
        await _insert(tx, "application_events", seller_id=1, version=version, created_ms=NOW, **said)
        for subscription_id in ("connect", "picky") if version == 3 else ("connect",):
            told = {"delivery_id": f"{version}.{subscription_id}", "subscription_id": subscription_id, "order_id": "7"}
            open_ = {"status": "pending", "attempts": 0, "next_ms": NOW, "claimed_until_ms": 0, "created_ms": NOW}
            await _insert(tx, "deliveries", seller_id=1, version=version, **told, **open_)


async def _sound(tx: Transaction) -> None:
    """An order that was paid and partly refunded, its notifications, its key, and a family at its second generation.

    And the consents between the seller and the application.
    """
    await _consents(tx)
    await _subscribe(tx, SUBSCRIPTION)
    await _subscribe(tx, "later", created_ms=NOW + 1)
    await _subscribe(tx, "elsewhere", live=1)
    await _subscribe(tx, "choosy", actions='["order.failed"]')
    await _order(tx, ORDER, STEPS, paid_ms=NOW, paid_minor=1000, refunded_minor=300, refunding_minor=700)
    await _order(tx, "ORD2", STEPS[:2])
    assert await feeds.number(tx, FEED, 5) == 5
    await _result(tx, "r1", "taken")
    await _refund(tx, "REF1", 300, "processed")
    await _refund(tx, "REF2", 700, "processing")
    await _refund(tx, "REF3", 700, "failed")
    await _key(tx, status=201, answer=b"{}")
    grant = {"seller_id": 1, "authorization_id": "g1", "application_id": 7, "scope": "read"}
    await _insert(tx, "token_families", **grant, family_id=b"c", live=0, generation=2, created_ms=NOW)
    await _token(tx, 1)
    await _token(tx, 2)
    code = {"digest": b"d", "redirect_uri": "https://shop.example", "created_ms": NOW, "expires_ms": NOW}
    await _insert(tx, "codes", **grant, **code, exchanged_ms=NOW, family_id=b"c")


async def _rules_broken(database: Database) -> set[str]:
    return {finding.rule for finding in await check.check(database, NOW)}


async def test_a_sound_ledger_has_no_findings(database: Database) -> None:
    """Nothing is found where nothing is wrong, also where nothing is."""
    assert await check.check(database, NOW) == []
    await database.write(_sound)
    assert await check.check(database, NOW) == []
    assert await check.integrity(database) == []


async def test_a_ledger_is_read_in_pages(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wrong is found on every page, once."""
    monkeypatch.setattr(check, "PAGE_ROWS", 10)

    async def work(tx: Transaction) -> None:
        for number in range(25):
            await _order(tx, f"ORD{number:04}", STEPS[:1], terminal_id=f"A__{number}", version=2)

    await database.write(work)
    found = await check.check(database, NOW)
    assert [finding.subject for finding in found] == [f"seller 1, ORD{number:04}" for number in range(25)]


BREAKS = {
    "version_gap": f"DELETE FROM order_events {WHERE} AND version = 2",
    "illegal_step": f"UPDATE order_events SET move = 'cancel' {WHERE} AND version = 3",
    "order_against_last_event": f"UPDATE orders SET version = 5 {WHERE}",
    "order_without_event": f"DELETE FROM order_events {WHERE}",
    "event_without_order": f"DELETE FROM orders {WHERE}",
    "refund_without_order": f"DELETE FROM orders {WHERE}",
    "payment_against_status": f"UPDATE orders SET paid_minor = NULL {WHERE}",
    "refunds_against_payment": f"UPDATE orders SET refunded_minor = 400 {WHERE}",
    "refund_without_end": "UPDATE refunds SET ended_ms = NULL WHERE status = 'processed'",
    "approval_without_effect": "UPDATE results SET verdict = 'late_approval'",
    "event_without_delivery": f"DELETE FROM deliveries {WHERE} AND version = 4",
    "application_event_gap": "DELETE FROM application_events WHERE version = 2",
    "withdrawn_without_event": "UPDATE authorizations SET withdrawn_ms = 1",
    "application_event_without_delivery": "DELETE FROM deliveries WHERE order_id = '7' AND version = 2",
    "application_delivery_without_event": "DELETE FROM application_events WHERE version = 3",
    "event_number_gap": "UPDATE order_events SET number = NULL WHERE number = 3",
    "event_number_lost": "UPDATE order_events SET number = NULL",
    "event_out_of_order": f"UPDATE order_events SET number = 9 {WHERE} AND version = 1",
    "event_in_anothers_feed": f"UPDATE order_events SET live = 1 {WHERE} AND version = 1",
    "event_stuck": f"UPDATE order_events SET created_ms = {NOW - DAY - 1} WHERE number IS NULL",
    "delivery_overdue": f"UPDATE deliveries SET status = 'pending', created_ms = {NOW - 32 * DAY}",
    "key_without_answer": "UPDATE idempotency_keys SET answer = NULL",
    "code_without_family": "UPDATE codes SET family_id = NULL",
    "access_tokens_generations": "DELETE FROM access_tokens WHERE generation = 2",
    "refresh_tokens_generations": "UPDATE token_families SET generation = 3",
    "family_without_tokens": "DELETE FROM access_tokens",
}


@pytest.mark.parametrize(("rule", "sql"), BREAKS.items(), ids=BREAKS)
async def test_a_broken_row_is_found(database: Database, rule: str, sql: str) -> None:
    """Each rule finds the row that was broken for it."""
    await database.write(_sound)
    await database.write(lambda tx: tx.run(sql))
    assert rule in await _rules_broken(database)


async def test_more_refunds_than_payment_are_found(database: Database) -> None:
    """What is reserved counts as given back."""

    async def work(tx: Transaction) -> None:
        await _sound(tx)
        await _refund(tx, "REF4", 1, "processing")

    await database.write(work)
    assert await _rules_broken(database) == {"refunds_against_payment"}


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("number = 4 WHERE number = 5", "5 events have 4 numbers, from 1 to 4; 5 were given out"),
        ("number = 6 WHERE number = 5", "5 events have 5 numbers, from 1 to 6; 5 were given out"),
        ("number = 0 WHERE number = 1", "5 events have 5 numbers, from 0 to 5; 5 were given out"),
        ("number = NULL WHERE number = 5", "4 events have 4 numbers, from 1 to 4; 5 were given out"),
    ],
)
async def test_a_feed_has_every_number_once(database: Database, change: str, found: str) -> None:
    """Neither twice, for which the schema has an index, nor left out, nor given out to nobody."""
    await database.write(_sound)
    await database.write(lambda tx: tx.run("DROP INDEX order_events_numbered"))
    await database.write(lambda tx: tx.run(f"UPDATE order_events SET {change}"))
    assert f"event_number_gap: seller 1, feed of application 7, test: {found}" in [
        str(finding) for finding in await check.check(database, NOW)
    ]


async def test_a_later_event_has_a_later_number(database: Database) -> None:
    """Who follows the feed would otherwise see what came of an order before it came to be."""
    await database.write(_sound)

    async def work(tx: Transaction) -> None:
        await tx.run(f"UPDATE order_events SET number = 0 {WHERE} AND version = 3")
        await tx.run(f"UPDATE order_events SET number = 3 {WHERE} AND version = 4")
        await tx.run(f"UPDATE order_events SET number = 4 {WHERE} AND version = 3")

    await database.write(work)
    assert await _rules_broken(database) == {"event_out_of_order"}


@pytest.mark.parametrize("change", ["refunding_minor = 699", "refunding_minor = 0, refunded_minor = 1000"])
async def test_a_reservation_is_what_is_under_way(database: Database, change: str) -> None:
    """Neither less, or too much could be given back, nor gone before its refund has ended."""
    await database.write(_sound)
    await database.write(lambda tx: tx.run(f"UPDATE orders SET {change} {WHERE}"))
    assert await _rules_broken(database) == {"refunds_against_payment"}


@pytest.mark.parametrize(("status", "found"), [("pending", {"payment_reversed"}), ("not_found", set())])
async def test_a_payment_that_counts_is_not_given_back(database: Database, status: str, found: set[str]) -> None:
    """Where the acquirer knows of nothing there is nothing to give back."""

    async def work(tx: Transaction) -> None:
        await _sound(tx)
        await _reversal(tx, result_id="r1", status=status)

    await database.write(work)
    assert await _rules_broken(database) == found


@pytest.mark.parametrize(("status", "found"), [(None, {"approval_without_effect"}), ("pending", set())])
async def test_a_late_approval_is_to_be_reversed(database: Database, status: str | None, found: set[str]) -> None:
    """An approval of an order that was canceled is a finding until its reversal is under way."""
    steps = (STEPS[0], ("cancel", "canceled", "canceled", "canceled_by_api"))

    async def work(tx: Transaction) -> None:
        await _order(tx, ORDER, steps)
        await _result(tx, "r1", "late_approval")
        if status is not None:
            await _reversal(tx, result_id="r1", status=status)

    await database.write(work)
    assert await _rules_broken(database) == found


async def test_an_approval_in_doubt_is_being_asked_about(database: Database) -> None:
    """While the acquirer is asked nobody knows whether an approval is one."""
    steps = (*STEPS[:2], ("check", "at_terminal", "check_on_terminal", "check_on_terminal"))

    async def work(tx: Transaction) -> None:
        await _order(tx, ORDER, steps)
        await _result(tx, "r1", "conflict")

    await database.write(work)
    assert await _rules_broken(database) == {"approval_without_effect", "unknown_without_inquiry"}
    await database.write(_inquiry)
    assert await _rules_broken(database) == set()


async def _inquiry(tx: Transaction, **columns: Any) -> None:
    names = {"seller_id": 1, "order_id": ORDER, "live": 0, "reason": "unknown", "attempts": 0, "next_ms": NOW}
    await _insert(tx, "inquiries", **{**names, "created_ms": NOW, **columns})


async def test_an_unknown_outcome_that_nobody_asks_for_is_found(database: Database) -> None:
    """An order that waits for the truth has an inquiry, be it one that was forgone."""
    steps = (*STEPS[:2], ("check", "at_terminal", "check_on_terminal", "check_on_terminal"))
    await database.write(lambda tx: _order(tx, ORDER, steps))
    assert await _rules_broken(database) == {"unknown_without_inquiry"}
    await database.write(lambda tx: _inquiry(tx, ended_ms=NOW, outcome="forgone"))
    assert await _rules_broken(database) == set()


@pytest.mark.parametrize("reference_id", ["9", "1", ""])
async def test_a_payment_that_went_back_as_a_late_approval_is_found(database: Database, reference_id: str) -> None:
    """What is given back beside a payment goes by another reference than the payment's."""

    async def work(tx: Transaction) -> None:
        await _sound(tx)
        await tx.run(f"UPDATE orders SET reference_id = '1' {WHERE}")
        await _reversal(tx, reference_id=reference_id, status="reversed", ended_ms=NOW)

    await database.write(work)
    assert await _rules_broken(database) == (set() if reference_id == "9" else {"payment_reversed"})


async def test_a_payment_that_is_being_undone_is_found(database: Database) -> None:
    """What the acquirer was told is void is no order's payment."""

    async def work(tx: Transaction) -> None:
        await _sound(tx)
        await _inquiry(tx, reversing_ms=NOW)

    await database.write(work)
    assert await _rules_broken(database) == {"approved_while_undone"}


async def test_what_nobody_brings_on_is_found(database: Database) -> None:
    """An inquiry, a reversal or a refund that was due a day ago: its worker does not run."""

    async def work(tx: Transaction) -> None:
        await _sound(tx)
        await _inquiry(tx, next_ms=NOW - DAY - 1)
        await _reversal(tx, next_ms=NOW - DAY - 1)
        await tx.run(f"UPDATE refunds SET next_ms = {NOW - DAY - 1}")

    await database.write(work)
    assert await _rules_broken(database) == {"inquiry_stuck", "reversal_stuck", "refund_stuck"}


async def test_two_approvals_of_one_order_are_found(database: Database) -> None:
    """An order has one payment."""

    async def work(tx: Transaction) -> None:
        await _sound(tx)
        await _result(tx, "r2", "taken")

    await database.write(work)
    assert await _rules_broken(database) == {"approved_twice"}


async def test_a_reference_of_two_payments_is_found(database: Database) -> None:
    """The number is the other order's, and yet this one shows it as its own."""

    async def work(tx: Transaction) -> None:
        await _order(tx, "ORD1", STEPS)
        await tx.run("UPDATE orders SET reference_id = '7' WHERE order_id = 'ORD1'")
        await tx.run(
            "INSERT INTO payment_references (seller_id, live, reference_id, order_id)"
            " SELECT seller_id, live, reference_id, 'ORD2' FROM orders WHERE order_id = 'ORD1'"
        )

    await database.write(work)
    assert "reference_repeated" in await _rules_broken(database)


async def test_two_live_orders_on_a_terminal_are_found(database: Database) -> None:
    """Without its index the schema would allow it."""

    async def work(tx: Transaction) -> None:
        await tx.run("DROP INDEX orders_live_on_terminal")
        await _order(tx, "ORD1", STEPS[:1])
        await _order(tx, "ORD2", STEPS[:2])

    await database.write(work)
    assert [str(finding) for finding in await check.check(database, NOW)] == [
        "live_orders_per_terminal: seller 1, PAYDESK_VIRTUAL__1: has 2 live orders"
    ]
