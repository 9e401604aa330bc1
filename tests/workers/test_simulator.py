"""The simulated acquirer: one effect per key, within the limits of its ledger."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from acquirer_scene import Bank, card, new_key, new_payment
from faulty_database import FaultyDatabase
from paydesk.engine.orders.status import FAILED_DETAILS
from paydesk.engine.payments.acquirer import Approved, Declined, NotFound, NotSent, Unknown
from paydesk.engine.payments.simulator.cards import AMOUNTS, CARDS
from paydesk.platform.storage.connect import open_database
from paydesk.platform.storage.database import Database, Unavailable


@pytest.fixture
def bank(database: Database) -> Bank:
    """An acquirer without a script."""
    return Bank(database)


async def test_repeated_authorization_returns_the_same_approval(bank: Bank) -> None:
    """Also in another process: reference, authorization code, amount, card and installments."""
    payment = new_payment(installments=3)
    first = await bank.simulator.authorize(payment, card())
    assert isinstance(first, Approved)
    assert (first.amount_minor, first.card, first.installments) == (2490, card(), 3)
    assert first.reference_id.isdigit()
    assert len(first.reference_id) == 14
    assert first.authorization_code is not None
    assert len(first.authorization_code) == 6
    assert await bank.again().simulator.authorize(payment, card()) == first
    assert await bank.simulator.inquire(payment) == first


async def test_first_request_under_a_key_decides(bank: Bank) -> None:
    """Another card under the same key has no effect; keys are per seller."""
    payment = new_payment()
    declined = await bank.simulator.authorize(payment, card("high_risk"))
    assert declined == Declined("high_risk")
    assert await bank.simulator.authorize(payment, card()) == declined
    other = new_payment(merchant_id=7, payment_id=payment.payment_id)
    assert isinstance(await bank.simulator.authorize(other, card()), Approved)


async def test_every_failed_detail_has_a_card_and_an_amount(bank: Bank) -> None:
    """Each declines with the detail, and so does an inquiry."""
    for detail in FAILED_DETAILS:
        payment = new_payment()
        assert await bank.simulator.authorize(payment, card(detail)) == Declined(detail)
        assert await bank.simulator.inquire(payment) == Declined(detail)
        amount = next(amount for amount, line in AMOUNTS.items() if line == f"payment decline:{detail} times=0")
        assert await bank.simulator.authorize(new_payment(amount), card()) == Declined(detail)


async def test_cards_without_a_fault_are_approved(bank: Bank) -> None:
    """A delay does not prevent the approval either."""
    for name, test_card in CARDS.items():
        outcome = await bank.simulator.authorize(new_payment(), card(name))
        assert isinstance(outcome, Approved) == (not test_card.fault or "slow" in test_card.fault), name


async def test_inquiry_finds_no_unknown_payment(bank: Bank) -> None:
    """And it does not block the payment."""
    payment = new_payment()
    assert await bank.simulator.inquire(payment) == NotFound()
    assert isinstance(await bank.simulator.authorize(payment, card()), Approved)


async def test_refunds_never_exceed_the_payment(bank: Bank) -> None:
    """Partial refunds add up to the approved amount at most; a repeated one is deducted once."""
    payment, _ = await bank.approved(amount_minor=1000)
    key = new_key()
    first = await bank.simulator.refund(payment, key=key, amount_minor=600)
    assert isinstance(first, Approved)
    assert first.amount_minor == 600
    assert await bank.again().simulator.refund(payment, key=key, amount_minor=600) == first
    too_much = new_key()
    for _ in range(2):
        assert await bank.simulator.refund(payment, key=too_much, amount_minor=401) == Declined("processing_error")
    assert isinstance(await bank.simulator.refund(payment, key=new_key(), amount_minor=400), Approved)
    assert isinstance(await bank.simulator.refund(payment, key=new_key(), amount_minor=1), Declined)
    assert isinstance(await bank.simulator.refund(payment, key=new_key(), amount_minor=0), Declined)


async def test_racing_refunds_never_exceed_the_payment(bank: Bank) -> None:
    """Of forty concurrent refunds of a tenth each, ten are approved."""
    payment, _ = await bank.approved(amount_minor=1000)
    banks = (bank.simulator, bank.again().simulator)
    outcomes = await asyncio.gather(
        *(banks[number % 2].refund(payment, key=new_key(), amount_minor=100) for number in range(40))
    )
    assert sum(isinstance(outcome, Approved) for outcome in outcomes) == 10
    assert await bank.row(
        "SELECT refunded_minor FROM simulator_payments WHERE seller_id = $1", payment.merchant_id
    ) == (1000,)


async def test_concurrent_requests_under_one_key_have_one_effect(bank: Bank) -> None:
    """All get the same answer: authorizations, refunds and reversals."""
    payment = new_payment(amount_minor=1000)
    approvals = await asyncio.gather(*(bank.simulator.authorize(payment, card()) for _ in range(50)))
    assert len(set(approvals)) == 1
    key = new_key()
    refunds = await asyncio.gather(*(bank.simulator.refund(payment, key=key, amount_minor=300) for _ in range(50)))
    assert len(set(refunds)) == 1
    assert isinstance(refunds[0], Approved)
    key = new_key("REV")
    reversals = await asyncio.gather(*(bank.simulator.reverse(payment, key=key, amount_minor=1000) for _ in range(50)))
    assert len(set(reversals)) == 1
    assert await bank.row("SELECT COUNT(*) FROM simulator_movements WHERE seller_id = $1", payment.merchant_id) == (2,)


@pytest.mark.on_postgres
async def test_reversed_payment_is_declined_and_cannot_be_refunded(bank: Bank) -> None:
    """A repeated reversal gets the same answer."""
    payment, approved = await bank.approved()
    key = new_key("REV")
    request = {"key": key, "amount_minor": 2490, "reference_id": approved.reference_id}
    first = await bank.simulator.reverse(payment, **request)  # type: ignore[arg-type]
    assert isinstance(first, Approved)
    assert await bank.again().simulator.reverse(payment, **request) == first  # type: ignore[arg-type]
    assert await bank.simulator.inquire(payment) == Declined("processing_error")
    assert await bank.simulator.refund(payment, key=new_key(), amount_minor=1) == Declined("processing_error")


async def test_reversal_with_another_reference_leaves_the_payment(bank: Bank) -> None:
    """It is confirmed, as there is no such approval."""
    payment, approved = await bank.approved()
    outcome = await bank.simulator.reverse(payment, key=new_key("REV"), amount_minor=2490, reference_id="1")
    assert isinstance(outcome, Approved)
    assert await bank.simulator.inquire(payment) == approved


async def test_reversal_with_another_reference_does_not_block_a_missing_payment(bank: Bank) -> None:
    """A payment that is missing from the ledger can still be refunded."""
    payment = new_payment()
    outcome = await bank.simulator.reverse(payment, key=new_key("REV"), amount_minor=2490, reference_id="1")
    assert isinstance(outcome, Approved)
    assert await bank.simulator.inquire(payment) == NotFound()
    assert isinstance(await bank.simulator.refund(payment, key=new_key(), amount_minor=2490), Approved)


async def test_payment_reversed_before_it_arrives_is_blocked(bank: Bank) -> None:
    """A later authorization is declined, and so is a refund."""
    payment = new_payment()
    assert isinstance(await bank.simulator.reverse(payment, key=new_key("REV"), amount_minor=2490), Approved)
    assert await bank.simulator.inquire(payment) == Declined("processing_error")
    assert await bank.simulator.authorize(payment, card()) == Declined("processing_error")
    assert await bank.simulator.refund(payment, key=new_key(), amount_minor=1) == Declined("processing_error")


async def test_reversal_wins_against_a_concurrent_authorization(bank: Bank) -> None:
    """Whichever is first, the payment is declined."""
    for _ in range(20):
        payment = new_payment()
        await asyncio.gather(
            bank.simulator.authorize(payment, card()),
            bank.again().simulator.reverse(payment, key=new_key("REV"), amount_minor=2490),
        )
        assert await bank.simulator.inquire(payment) == Declined("processing_error")


@pytest.mark.on_postgres
async def test_payment_missing_from_the_ledger_can_be_refunded(bank: Bank) -> None:
    """Up to its amount."""
    payment = new_payment(amount_minor=500)
    assert isinstance(await bank.simulator.refund(payment, key=new_key(), amount_minor=500), Approved)
    assert isinstance(await bank.simulator.refund(payment, key=new_key(), amount_minor=1), Declined)


@pytest.mark.on_postgres
async def test_lost_answer_takes_effect(bank: Bank) -> None:
    """A repeated request gets the answer."""
    payment = new_payment()
    assert isinstance(await bank.simulator.authorize(payment, card("no_answer")), Unknown)
    assert isinstance(await bank.simulator.inquire(payment), Approved)
    assert isinstance(await bank.again().simulator.authorize(payment, card("no_answer")), Approved)


async def test_late_answer_is_visible_after_its_time(bank: Bank) -> None:
    """Before, requests are unknown and inquiries find nothing."""
    payment = new_payment()
    assert isinstance(await bank.simulator.authorize(payment, card("late")), Unknown)
    assert await bank.simulator.inquire(payment) == NotFound()
    bank.clock.advance(29_999)
    assert isinstance(await bank.simulator.authorize(payment, card("late")), Unknown)
    bank.clock.advance(1)
    assert isinstance(await bank.simulator.inquire(payment), Approved)
    assert isinstance(await bank.simulator.authorize(payment, card("late")), Approved)


async def test_delay_beyond_the_deadline_is_unknown(bank: Bank) -> None:
    """The request takes effect."""
    assert isinstance(await bank.simulator.authorize(new_payment(), card("slow")), Approved)
    assert bank.sleeper.slept == [5]
    slow = Bank(bank.database, "payment:delay:9s")
    payment = new_payment()
    assert isinstance(await slow.simulator.authorize(payment, card()), Unknown)
    assert slow.sleeper.slept == [8]
    assert isinstance(await slow.simulator.inquire(payment), Approved)


async def test_unsent_or_unheard_request_has_no_effect(bank: Bank) -> None:
    """The ledger has no payment; a repeated request is approved."""
    for amount, expected in ((9_990_021, Unknown), (9_990_022, NotSent)):
        payment = new_payment(amount)
        assert isinstance(await bank.simulator.authorize(payment, card()), expected)
        assert await bank.simulator.inquire(payment) == NotFound()
        assert isinstance(await bank.again().simulator.authorize(payment, card()), Approved)


REFUNDS: dict[int, list[type]] = {
    9_990_030: [Declined, Declined],
    9_990_031: [Unknown, Approved],
    9_990_032: [Unknown, Approved],
    9_990_033: [NotSent, Approved],
    9_990_036: [Approved, Approved],
}


async def test_amount_of_the_payment_decides_about_its_refunds(bank: Bank) -> None:
    """Whichever part is refunded."""
    for amount, expected in REFUNDS.items():
        payment, _ = await bank.approved(amount_minor=amount)
        for part in (amount - 100, 100):
            key = new_key()
            outcomes = [await bank.simulator.refund(payment, key=key, amount_minor=part) for _ in expected]
            assert [type(outcome) for outcome in outcomes] == expected, amount


async def test_late_refund_is_unknown_for_30_seconds(bank: Bank) -> None:
    """Then it has the outcome that it had from the beginning."""
    for amount, expected in ((9_990_034, Approved), (9_990_035, Declined)):
        payment, _ = await bank.approved(amount_minor=amount)
        key = new_key()
        for _ in range(2):
            assert isinstance(await bank.simulator.refund(payment, key=key, amount_minor=100), Unknown)
        bank.clock.advance(30_000)
        assert isinstance(await bank.simulator.refund(payment, key=key, amount_minor=100), expected)


@pytest.mark.parametrize(
    ("amount", "expected", "is_reversed"),
    [(9_990_040, Unknown, True), (9_990_041, Unknown, False), (9_990_042, NotSent, False)],
)
async def test_reversal_is_confirmed_at_the_fourth_attempt(
    bank: Bank, amount: int, expected: type, *, is_reversed: bool
) -> None:
    """Three attempts fail, before or after the payment is reversed."""
    payment, approved = await bank.approved(amount_minor=amount)
    key = new_key("REV")
    for number in range(3):
        bank = bank.again()
        outcome = await bank.simulator.reverse(payment, key=key, amount_minor=amount)
        assert isinstance(outcome, expected), number
        assert (await bank.simulator.inquire(payment) != approved) == is_reversed
    assert isinstance(await bank.simulator.reverse(payment, key=key, amount_minor=amount), Approved)
    assert await bank.simulator.inquire(payment) == Declined("processing_error")


async def test_inquiry_is_answered_at_the_fourth_attempt(bank: Bank) -> None:
    """Three attempts are not sent."""
    payment, approved = await bank.approved(amount_minor=9_990_026)
    assert [type(await bank.simulator.inquire(payment)) for _ in range(3)] == [NotSent] * 3
    assert await bank.simulator.inquire(payment) == approved


async def _outcomes(bank: Bank, count: int = 40) -> list[type]:
    return [type(await bank.simulator.authorize(new_payment(), card())) for _ in range(count)]


async def test_same_seed_repeats_the_outcomes(migrated_file: Path, tmp_path: Path) -> None:
    """The same requests in the same order on another database, whatever their ids are."""
    outcomes = []
    for number, seed in enumerate((1, 1, 2)):
        database = await open_database(f"sqlite:{shutil.copy(migrated_file, tmp_path / f'{number}.db')}")
        bank = Bank(database, "payment:decline:high_risk@30 payment:lost@30 payment:not_sent@10", seed)
        outcomes.append(await _outcomes(bank))
        await database.close()
    assert outcomes[0] == outcomes[1] != outcomes[2]
    assert set(outcomes[0]) == {Approved, Declined, Unknown, NotSent}


async def test_random_choice_is_made_once_per_key(database: Database) -> None:
    """A repeated request, also in another process, has the same outcome."""
    bank = Bank(database, "payment:decline:high_risk@50", 3)
    payments = [new_payment() for _ in range(20)]
    first = [await bank.simulator.authorize(payment, card()) for payment in payments]
    again = [await bank.again().simulator.authorize(payment, card()) for payment in reversed(payments)]
    assert again[::-1] == first
    assert {type(outcome) for outcome in first} == {Approved, Declined}


async def test_card_takes_precedence_over_amount_and_script(database: Database) -> None:
    """And the amount over the script."""
    bank = Bank(database, "payment:decline:high_risk refund:decline:processing_error")
    assert await bank.simulator.authorize(new_payment(), card()) == Declined("high_risk")
    assert await bank.simulator.authorize(new_payment(9_990_002), card()) == Declined("insufficient_amount")
    assert await bank.simulator.authorize(new_payment(9_990_002), card("card_disabled")) == Declined("card_disabled")


async def test_concurrent_requests_are_counted_exactly(database: Database) -> None:
    """As many are lost as the script says."""
    bank = Bank(database, "payment:not_sent:2 payment:unheard:3 payment:lost:4")
    payment = new_payment()
    banks = (bank.simulator, bank.again().simulator)
    outcomes = await asyncio.gather(*(banks[number % 2].authorize(payment, card()) for number in range(20)))
    assert [sum(isinstance(outcome, kind) for outcome in outcomes) for kind in (NotSent, Unknown, Approved)] == [
        2,
        7,
        11,
    ]


async def test_unavailable_ledger_means_unknown(database: Database) -> None:
    """No exception is raised."""
    faulty = FaultyDatabase(database)
    bank = Bank(faulty)
    payment = new_payment()
    faulty.fault = Unavailable("down")
    for outcome in (
        await bank.simulator.authorize(payment, card()),
        await bank.simulator.inquire(payment),
        await bank.simulator.refund(payment, key=new_key(), amount_minor=1),
        await bank.simulator.reverse(payment, key=new_key(), amount_minor=1),
    ):
        assert isinstance(outcome, Unknown)
