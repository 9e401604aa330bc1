"""The simulated acquirer as hosts differ: confirmations and their deadlines, inquiries, reversals, refunds."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from acquirer_scene import START_MS, Bank, card, new_key, new_payment
from paydesk.engine.payments.acquirer import (
    Approved,
    Declined,
    HasLedger,
    NotFound,
    NotSent,
    Payment,
    ReverseResult,
    TooLate,
    Unknown,
)
from paydesk.engine.payments.capabilities import Capabilities
from paydesk.engine.payments.simulator.acquirer import BY_DEFAULT, WITH_CONFIRMATIONS
from paydesk.platform.storage.database import Database

DEADLINE_SECONDS = 600
GONE = Declined("processing_error")
ROUNDS = 20


def _deadline(database: Database, at_deadline: str, **changes: object) -> Bank:
    """Return an acquirer with a deadline of confirmations."""
    capabilities = replace(WITH_CONFIRMATIONS, confirm_before=DEADLINE_SECONDS, at_deadline=at_deadline, **changes)  # type: ignore[arg-type]
    return Bank(database, capabilities=capabilities)


@pytest.fixture
def bank(database: Database) -> Bank:
    """An acquirer whose approvals wait for their confirmation, without a deadline."""
    return Bank(database, capabilities=WITH_CONFIRMATIONS)


async def _reverse(bank: Bank, payment: Payment, key: str = "") -> ReverseResult:
    return await bank.simulator.reverse(payment, key=key or new_key("REV"), amount_minor=payment.amount_minor)


async def _confirm(bank: Bank, payment: Payment, approved: Approved, key: str = "") -> object:
    return await bank.simulator.confirm(
        payment, key=key or payment.confirmation_key, reference_id=approved.reference_id
    )


async def test_answers_repeat_the_key_and_the_currency(bank: Bank) -> None:
    """Of each operation."""
    payment, approved = await bank.approved()
    assert (approved.key, approved.currency) == (payment.payment_id, "BRL")
    requests = {
        "CNF1": bank.simulator.confirm(payment, key="CNF1", reference_id=approved.reference_id),
        "REF1": bank.simulator.refund(payment, key="REF1", amount_minor=1),
        "REV1": bank.simulator.reverse(payment, key="REV1", amount_minor=2490),
    }
    for key, request in requests.items():
        outcome = await request
        assert isinstance(outcome, Approved), key
        assert (outcome.key, outcome.currency) == (key, "BRL")


@pytest.mark.on_postgres
async def test_approval_is_provisional_until_it_is_confirmed(bank: Bank) -> None:
    """Answers and inquiries say so; the confirmation is made once, and then a refund is possible."""
    payment, approved = await bank.approved()
    assert approved.needs_confirmation
    assert approved.issuer_data
    assert await bank.simulator.inquire(payment) == await bank.simulator.authorize(payment, card()) == approved
    assert await bank.simulator.refund(payment, key=new_key(), amount_minor=2490) == GONE
    assert await bank.entries() == [("payment", payment.payment_id, 2490, "provisional")]
    confirmed = await _confirm(bank, payment, approved)
    assert isinstance(confirmed, Approved)
    assert confirmed.amount_minor == 2490
    assert await _confirm(bank.again(), payment, approved) == confirmed
    final = replace(approved, needs_confirmation=False, issuer_data=b"")
    assert await bank.simulator.inquire(payment) == await bank.simulator.authorize(payment, card()) == final
    key = new_key()
    assert isinstance(await bank.simulator.refund(payment, key=key, amount_minor=490), Approved)
    assert sorted(await bank.entries()) == [
        ("confirmation", payment.confirmation_key, 2490, "approved"),
        ("payment", payment.payment_id, 2490, "approved"),
        ("refund", key, 490, "approved"),
    ]


async def test_simulated_order_and_missing_payment_need_no_confirmation(bank: Bank) -> None:
    """No terminal would confirm them."""
    payment = new_payment()
    approved = await bank.simulator.approve(payment, card())
    assert isinstance(approved, Approved)
    assert not approved.needs_confirmation
    assert isinstance(await bank.simulator.refund(new_payment(), key=new_key(), amount_minor=1), Approved)


async def test_payment_without_a_provisional_approval_is_not_confirmed(bank: Bank) -> None:
    """Unknown, declined, reversed, with another reference: it stays as it is."""
    unknown, declined = new_payment(), new_payment()
    assert await bank.simulator.confirm(unknown, key="CNF1", reference_id="1") == NotFound()
    assert await bank.simulator.authorize(declined, card("high_risk")) == Declined("high_risk")
    assert await bank.simulator.confirm(declined, key="CNF2", reference_id="1") == GONE
    for payment, approved in (await bank.approved(), await bank.approved()):
        assert await bank.simulator.confirm(payment, key=new_key("CNF"), reference_id="1") == GONE
        assert await bank.simulator.inquire(payment) == approved
        assert isinstance(await _reverse(bank, payment), Approved)
        assert await _confirm(bank, payment, approved) == GONE
        assert await bank.simulator.inquire(payment) == GONE


async def test_not_found_binds_no_key(bank: Bank) -> None:
    """A confirmation that came before its payment is approved after it; a declined one stays declined."""
    payment = new_payment()
    assert await bank.simulator.confirm(payment, key="CNF1", reference_id="1") == NotFound()
    approved = await bank.simulator.authorize(payment, card())
    assert isinstance(approved, Approved)
    assert await _confirm(bank, payment, approved, "CNF1") != NotFound()
    other, _ = await bank.approved()
    assert await bank.simulator.confirm(other, key="CNF2", reference_id="1") == GONE
    reference_id = await bank.reference_of(other)
    assert await bank.simulator.confirm(other, key="CNF2", reference_id=reference_id) == GONE


async def test_late_payment_is_not_found_by_its_confirmation(bank: Bank) -> None:
    """Before its time, as by an inquiry."""
    payment = new_payment()
    assert isinstance(await bank.simulator.authorize(payment, card("late")), Unknown)
    reference_id = await bank.reference_of(payment)
    assert await bank.simulator.confirm(payment, key="CNF1", reference_id=reference_id) == NotFound()
    bank.clock.advance(30_000)
    assert isinstance(await bank.simulator.confirm(payment, key="CNF1", reference_id=reference_id), Approved)


@pytest.mark.parametrize(
    ("at_deadline", "inquired", "reversed_later", "entries"),
    [
        ("confirms", "final", Approved, ["confirmation", "payment", "reversal"]),
        ("undoes", "gone", Approved, ["payment", "reversal"]),
        ("blocks", "provisional", Approved, ["payment", "reversal"]),
    ],
)
async def test_deadline_of_the_confirmation(
    database: Database, at_deadline: str, inquired: str, reversed_later: type, entries: list[str]
) -> None:
    """Too late to confirm; the acquirer itself confirms, undoes, or leaves the approval as it is."""
    bank = _deadline(database, at_deadline)
    payment, approved = await bank.approved()
    bank.clock.advance(DEADLINE_SECONDS * 1000 - 1)
    assert await bank.simulator.inquire(payment) == approved
    bank.clock.advance(1)
    assert isinstance(await _confirm(bank, payment, approved), TooLate)
    final = replace(approved, needs_confirmation=False, issuer_data=b"")
    expected = {"final": final, "gone": GONE, "provisional": approved}[inquired]
    assert await bank.simulator.inquire(payment) == expected
    refund = await bank.simulator.refund(payment, key=new_key(), amount_minor=1)
    assert isinstance(refund, Approved) == (inquired == "final")
    if inquired != "final":
        assert isinstance(await _reverse(bank, payment), reversed_later)
        assert await bank.simulator.inquire(payment) == GONE
        assert sorted(kind for kind, *_ in await bank.entries()) == entries


async def test_confirmation_in_time_is_answered_after_the_deadline_too(database: Database) -> None:
    """The acquirer does nothing of its own to a confirmed payment, and repeats its answer."""
    bank = _deadline(database, "undoes")
    payment, approved = await bank.approved()
    confirmed = await _confirm(bank, payment, approved)
    bank.clock.advance(DEADLINE_SECONDS * 1000)
    assert await _confirm(bank, payment, approved) == confirmed
    assert isinstance(await bank.simulator.inquire(payment), Approved)
    assert [kind for kind, *_ in await bank.entries()] == ["confirmation", "payment"]


@pytest.mark.on_postgres
async def test_acquirer_that_confirms_by_itself_and_no_longer_reverses(database: Database) -> None:
    """A reversal is too late without an effect; the payment can be refunded."""
    bank = _deadline(database, "confirms", reverse_until=DEADLINE_SECONDS)
    payment, _ = await bank.approved()
    bank.clock.advance(DEADLINE_SECONDS * 1000)
    key = new_key("REV")
    assert isinstance(await _reverse(bank, payment, key), TooLate)
    assert isinstance(await _reverse(bank, payment, key), TooLate)
    assert isinstance(await bank.simulator.inquire(payment), Approved)
    assert isinstance(await bank.simulator.refund(payment, key=key, amount_minor=2490), Approved)
    assert sorted(await bank.entries()) == [
        ("confirmation", "", 2490, "approved"),
        ("payment", payment.payment_id, 2490, "approved"),
        ("refund", key, 2490, "approved"),
    ]


async def test_reversal_after_its_time_is_too_late(database: Database) -> None:
    """An earlier one is repeated, and one of a payment that is reversed or missing is approved."""
    bank = Bank(database, capabilities=replace(BY_DEFAULT, reverse_until=900))
    early, _ = await bank.approved()
    late, _ = await bank.approved()
    key = new_key("REV")
    bank.clock.advance(899_999)
    reversed_early = await _reverse(bank, early, key)
    assert isinstance(reversed_early, Approved)
    bank.clock.advance(1)
    assert await _reverse(bank, early, key) == reversed_early
    assert isinstance(await _reverse(bank, early), Approved)
    assert isinstance(await _reverse(bank, late), TooLate)
    assert isinstance(await _reverse(bank, new_payment()), Approved)
    assert sorted(kind for kind, *_ in await bank.entries()) == ["payment", "payment", "reversal"]


async def test_acquirer_that_blocks_nothing_approves_a_payment_after_its_reversal(database: Database) -> None:
    """The reversal is not found, also of a late payment, and binds no key."""
    bank = Bank(database, capabilities=Capabilities())
    payment, key = new_payment(), new_key("REV")
    assert await _reverse(bank, payment, key) == NotFound()
    assert isinstance(await bank.simulator.authorize(payment, card("late")), Unknown)
    assert await _reverse(bank, payment, key) == NotFound()
    bank.clock.advance(30_000)
    assert isinstance(await bank.simulator.inquire(payment), Approved)
    assert isinstance(await _reverse(bank, payment, key), Approved)
    assert await bank.simulator.inquire(payment) == GONE


async def test_acquirer_that_cannot_be_inquired_fails_the_caller(database: Database) -> None:
    """The engine must not ask it."""
    bank = Bank(database, capabilities=replace(BY_DEFAULT, can_inquire=False))
    with pytest.raises(AssertionError, match="no inquiries"):
        await bank.simulator.inquire(new_payment())


async def test_acquirer_may_refund_only_whole_payments_of_some_currencies(database: Database) -> None:
    """What it does not do is declined."""
    only = replace(BY_DEFAULT, partial_refunds=False, currencies=frozenset({"BRL"}))
    bank = Bank(database, capabilities=only)
    payment, _ = await bank.approved()
    assert await bank.simulator.refund(payment, key=new_key(), amount_minor=2489) == GONE
    assert isinstance(await bank.simulator.refund(payment, key=new_key(), amount_minor=2490), Approved)
    assert await bank.simulator.authorize(new_payment(currency="ARS"), card()) == GONE


@pytest.mark.on_postgres
@pytest.mark.parametrize(
    ("amount", "expected", "is_confirmed"),
    [(9_990_051, Unknown, True), (9_990_052, Unknown, False), (9_990_053, NotSent, False)],
)
async def test_confirmation_is_answered_at_the_fourth_attempt(
    bank: Bank, amount: int, expected: type, *, is_confirmed: bool
) -> None:
    """Three attempts fail, before or after the payment is confirmed."""
    payment, approved = await bank.approved(amount_minor=amount)
    for number in range(3):
        bank = bank.again()
        assert isinstance(await _confirm(bank, payment, approved), expected), number
        assert (await bank.simulator.inquire(payment) != approved) == is_confirmed
    assert isinstance(await _confirm(bank, payment, approved), Approved)
    assert [kind for kind, *_ in await bank.entries()] == ["confirmation", "payment"]


async def test_confirmation_is_declined_or_late_as_the_amount_says(bank: Bank) -> None:
    """A declined one leaves the approval provisional; a late one is unknown for 30 s."""
    payment, approved = await bank.approved(amount_minor=9_990_050)
    for _ in range(2):
        assert await _confirm(bank, payment, approved) == GONE
        assert await bank.simulator.inquire(payment) == approved
    payment, approved = await bank.approved(amount_minor=9_990_054)
    assert isinstance(await _confirm(bank, payment, approved), Unknown)
    bank.clock.advance(30_000)
    assert isinstance(await _confirm(bank, payment, approved), Approved)


@pytest.mark.on_postgres
async def test_concurrent_confirmations_take_effect_once(bank: Bank) -> None:
    """Under one key, on two nodes."""
    payment, approved = await bank.approved()
    banks = (bank, bank.again())
    outcomes = await asyncio.gather(*(_confirm(banks[number % 2], payment, approved) for number in range(40)))
    assert len(set(outcomes)) == 1
    assert isinstance(outcomes[0], Approved)
    assert [kind for kind, *_ in await bank.entries()] == ["confirmation", "payment"]


@pytest.mark.on_postgres
async def test_confirmation_and_reversal_at_once(bank: Bank) -> None:
    """The payment is reversed; it was confirmed before, or its confirmation is declined and stays so."""
    for _ in range(ROUNDS):
        payment, approved = await bank.approved()
        confirmed, reversal = await asyncio.gather(_confirm(bank, payment, approved), _reverse(bank.again(), payment))
        assert isinstance(reversal, Approved)
        assert confirmed == GONE or isinstance(confirmed, Approved)
        assert await _confirm(bank, payment, approved) == confirmed
        assert await bank.simulator.inquire(payment) == GONE
        kinds = [kind for kind, key, *_ in await bank.entries() if key == payment.confirmation_key]
        assert kinds == (["confirmation"] if isinstance(confirmed, Approved) else [])


@pytest.mark.on_postgres
async def test_ledger_has_what_took_effect_since_a_time(database: Database) -> None:
    """Neither what was declined nor second reversals, nor payments of live orders; net, nothing is left of each."""
    bank = Bank(database)
    assert isinstance(bank.simulator, HasLedger)
    await bank.simulator.authorize(new_payment(), card("high_risk"))
    await _reverse(bank, new_payment())
    refunded, _ = await bank.approved()
    bank.clock.advance(1000)
    reversed_payment, approved = await bank.approved()
    for amount_minor in (2490, 1):
        await bank.simulator.refund(refunded, key=f"REF{amount_minor}", amount_minor=amount_minor)
    for key in ("REV1", "REV2"):
        await _reverse(bank, reversed_payment, key)
        bank.clock.advance(1000)
    since = datetime.fromtimestamp(START_MS / 1000 + 1, UTC)
    entries = [entry async for entry in bank.simulator.ledger(since)]
    assert {(entry.kind, entry.payment_id, entry.key) for entry in entries} == {
        ("payment", reversed_payment.payment_id, reversed_payment.payment_id),
        ("refund", refunded.payment_id, "REF2490"),
        ("reversal", reversed_payment.payment_id, "REV1"),
    }
    assert {entry.time for entry in entries} == {since}
    assert len({entry.entry_id for entry in entries}) == len(entries)
    assert {entry.amount_minor for entry in entries} == {2490}
    assert approved.reference_id in {entry.reference_id for entry in entries}
    assert len(await bank.entries()) == 4
