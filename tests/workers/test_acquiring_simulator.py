"""The simulated acquirer: one effect under one key, and only what the book allows."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from acquirer_scene import Bank, card, new_key, new_payment
from faulty_database import FaultyDatabase
from paydesk.orders.status import FAILED_DETAILS
from paydesk.payments.acquirer import Approved, Declined, NotFound, NotSent, Unknown
from paydesk.sandbox.simulator.cards import AMOUNTS, CARDS
from paydesk.storage.connect import open_database
from paydesk.storage.database import Database, Unavailable


@pytest.fixture
def bank(database: Database) -> Bank:
    """An acquirer that does what card and amount say."""
    return Bank(database)


async def test_an_approval_is_told_again(bank: Bank) -> None:
    """Asked again, also in another process, it tells the same: number, code, amount, card, installments."""
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


async def test_the_first_under_a_key_decides(bank: Bank) -> None:
    """Another card under the same key changes nothing, and a payment of another seller is another payment."""
    payment = new_payment()
    declined = await bank.simulator.authorize(payment, card("high_risk"))
    assert declined == Declined("high_risk")
    assert await bank.simulator.authorize(payment, card()) == declined
    other = new_payment(merchant_id=7, payment_id=payment.payment_id)
    assert isinstance(await bank.simulator.authorize(other, card()), Approved)


async def test_every_detail_has_a_card_and_an_amount(bank: Bank) -> None:
    """Each declines with the detail, and an inquiry says so too."""
    for detail in FAILED_DETAILS:
        payment = new_payment()
        assert await bank.simulator.authorize(payment, card(detail)) == Declined(detail)
        assert await bank.simulator.inquire(payment) == Declined(detail)
        amount = next(amount for amount, script in AMOUNTS.items() if script == f"payment:decline:{detail}")
        assert await bank.simulator.authorize(new_payment(amount), card()) == Declined(detail)


async def test_cards_that_are_approved(bank: Bank) -> None:
    """They are called so, and those with a script are not."""
    for name, one in CARDS.items():
        outcome = await bank.simulator.authorize(new_payment(), card(name))
        assert isinstance(outcome, Approved) == (not one.script or "delay" in one.script), name


async def test_nothing_is_known_of_what_was_never_asked(bank: Bank) -> None:
    """An inquiry finds nothing, and forbids nothing."""
    payment = new_payment()
    assert await bank.simulator.inquire(payment) == NotFound()
    assert isinstance(await bank.simulator.authorize(payment, card()), Approved)


async def test_refunds_never_exceed_the_payment(bank: Bank) -> None:
    """Parts add up to what was approved and no further; a repeat takes nothing."""
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
    """Of forty refunds of a tenth at once ten are approved."""
    payment, _ = await bank.approved(amount_minor=1000)
    banks = (bank.simulator, bank.again().simulator)
    outcomes = await asyncio.gather(
        *(banks[number % 2].refund(payment, key=new_key(), amount_minor=100) for number in range(40))
    )
    assert sum(isinstance(outcome, Approved) for outcome in outcomes) == 10
    assert await bank.row(
        "SELECT refunded_minor FROM simulator_payments WHERE seller_id = $1", payment.merchant_id
    ) == (1000,)


async def test_many_at_once_under_one_key(bank: Bank) -> None:
    """One effect, one answer for all, whatever is asked."""
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


async def test_a_reversal_leaves_nothing(bank: Bank) -> None:
    """After it the payment did not happen, and nothing of it is given back."""
    payment, approved = await bank.approved()
    key = new_key("REV")
    ask = {"key": key, "amount_minor": 2490, "reference_id": approved.reference_id}
    first = await bank.simulator.reverse(payment, **ask)  # type: ignore[arg-type]
    assert isinstance(first, Approved)
    assert await bank.again().simulator.reverse(payment, **ask) == first  # type: ignore[arg-type]
    assert await bank.simulator.inquire(payment) == Declined("processing_error")
    assert await bank.simulator.refund(payment, key=new_key(), amount_minor=1) == Declined("processing_error")


async def test_a_reversal_of_another_approval_leaves_this_one(bank: Bank) -> None:
    """A reference that is not the approval's undoes nothing: there is none with it."""
    payment, approved = await bank.approved()
    outcome = await bank.simulator.reverse(payment, key=new_key("REV"), amount_minor=2490, reference_id="1")
    assert isinstance(outcome, Approved)
    assert await bank.simulator.inquire(payment) == approved


async def test_a_reversal_of_another_approval_leaves_a_payment_made_elsewhere(bank: Bank) -> None:
    """Of a payment that never came here nothing but the other approval is undone: it can still be refunded."""
    payment = new_payment()
    outcome = await bank.simulator.reverse(payment, key=new_key("REV"), amount_minor=2490, reference_id="1")
    assert isinstance(outcome, Approved)
    assert await bank.simulator.inquire(payment) == NotFound()
    assert isinstance(await bank.simulator.refund(payment, key=new_key(), amount_minor=2490), Approved)


async def test_what_is_reversed_before_it_came_is_forbidden(bank: Bank) -> None:
    """The authorization that comes after it is declined, and so is a refund."""
    payment = new_payment()
    assert isinstance(await bank.simulator.reverse(payment, key=new_key("REV"), amount_minor=2490), Approved)
    assert await bank.simulator.inquire(payment) == Declined("processing_error")
    assert await bank.simulator.authorize(payment, card()) == Declined("processing_error")
    assert await bank.simulator.refund(payment, key=new_key(), amount_minor=1) == Declined("processing_error")


async def test_a_reversal_races_the_authorization(bank: Bank) -> None:
    """Whichever is first: nothing is left."""
    for _ in range(20):
        payment = new_payment()
        await asyncio.gather(
            bank.simulator.authorize(payment, card()),
            bank.again().simulator.reverse(payment, key=new_key("REV"), amount_minor=2490),
        )
        assert await bank.simulator.inquire(payment) == Declined("processing_error")


async def test_a_refund_of_a_payment_made_elsewhere(bank: Bank) -> None:
    """The caller's word is taken for what was paid, up to the payment's amount."""
    payment = new_payment(amount_minor=500)
    assert isinstance(await bank.simulator.refund(payment, key=new_key(), amount_minor=500), Approved)
    assert isinstance(await bank.simulator.refund(payment, key=new_key(), amount_minor=1), Declined)


async def test_lost_answers(bank: Bank) -> None:
    """It happened, and whoever asks again is told."""
    payment = new_payment()
    assert isinstance(await bank.simulator.authorize(payment, card("no_answer")), Unknown)
    assert isinstance(await bank.simulator.inquire(payment), Approved)
    assert isinstance(await bank.again().simulator.authorize(payment, card("no_answer")), Approved)


async def test_late_answers(bank: Bank) -> None:
    """Nobody is told before it is due, and an inquiry finds nothing; then both know."""
    payment = new_payment()
    assert isinstance(await bank.simulator.authorize(payment, card("late")), Unknown)
    assert await bank.simulator.inquire(payment) == NotFound()
    bank.clock.advance(29_999)
    assert isinstance(await bank.simulator.authorize(payment, card("late")), Unknown)
    bank.clock.advance(1)
    assert isinstance(await bank.simulator.inquire(payment), Approved)
    assert isinstance(await bank.simulator.authorize(payment, card("late")), Approved)


async def test_slow_answers(bank: Bank) -> None:
    """They take as long as they take, and one beyond the deadline is none."""
    assert isinstance(await bank.simulator.authorize(new_payment(), card("slow")), Approved)
    assert bank.sleeper.slept == [5]
    slow = Bank(bank.database, "payment:delay:9s")
    payment = new_payment()
    assert isinstance(await slow.simulator.authorize(payment, card()), Unknown)
    assert slow.sleeper.slept == [8]
    assert isinstance(await slow.simulator.inquire(payment), Approved)


async def test_what_is_not_sent_or_not_heard_has_not_happened(bank: Bank) -> None:
    """The book has nothing; a repeat goes through."""
    for amount, said in ((9_990_021, Unknown), (9_990_022, NotSent)):
        payment = new_payment(amount)
        assert isinstance(await bank.simulator.authorize(payment, card()), said)
        assert await bank.simulator.inquire(payment) == NotFound()
        assert isinstance(await bank.again().simulator.authorize(payment, card()), Approved)


REFUNDS: dict[int, list[type]] = {
    9_990_030: [Declined, Declined],
    9_990_031: [Unknown, Approved],
    9_990_032: [Unknown, Approved],
    9_990_033: [NotSent, Approved],
    9_990_036: [Approved, Approved],
}


async def test_refunds_by_the_payments_amount(bank: Bank) -> None:
    """What becomes of a refund is said by the payment, whichever part it gives back."""
    for amount, told in REFUNDS.items():
        payment, _ = await bank.approved(amount_minor=amount)
        for part in (amount - 100, 100):
            key = new_key()
            outcomes = [await bank.simulator.refund(payment, key=key, amount_minor=part) for _ in told]
            assert [type(outcome) for outcome in outcomes] == told, amount


async def test_refunds_that_are_decided_late(bank: Bank) -> None:
    """Unknown for half a minute, then what it was from the beginning."""
    for amount, said in ((9_990_034, Approved), (9_990_035, Declined)):
        payment, _ = await bank.approved(amount_minor=amount)
        key = new_key()
        for _ in range(2):
            assert isinstance(await bank.simulator.refund(payment, key=key, amount_minor=100), Unknown)
        bank.clock.advance(30_000)
        assert isinstance(await bank.simulator.refund(payment, key=key, amount_minor=100), said)


@pytest.mark.parametrize(
    ("amount", "said", "undone"), [(9_990_040, Unknown, True), (9_990_041, Unknown, False), (9_990_042, NotSent, False)]
)
async def test_reversals_that_need_several_tries(bank: Bank, amount: int, said: type, *, undone: bool) -> None:
    """Three go wrong, before or after the money moved; the fourth is confirmed."""
    payment, approved = await bank.approved(amount_minor=amount)
    key = new_key("REV")
    for number in range(3):
        bank = bank.again()
        outcome = await bank.simulator.reverse(payment, key=key, amount_minor=amount)
        assert isinstance(outcome, said), number
        assert (await bank.simulator.inquire(payment) != approved) == undone
    assert isinstance(await bank.simulator.reverse(payment, key=key, amount_minor=amount), Approved)
    assert await bank.simulator.inquire(payment) == Declined("processing_error")


async def test_inquiries_that_need_several_tries(bank: Bank) -> None:
    """The truth comes with the fourth."""
    payment, approved = await bank.approved(amount_minor=9_990_026)
    assert [type(await bank.simulator.inquire(payment)) for _ in range(3)] == [NotSent] * 3
    assert await bank.simulator.inquire(payment) == approved


async def _fates(bank: Bank, count: int = 40) -> list[type]:
    return [type(await bank.simulator.authorize(new_payment(), card())) for _ in range(count)]


async def test_a_seed_repeats_a_run(migrated_file: Path, tmp_path: Path) -> None:
    """The same requests in the same order have the same fate on another database, whatever their ids are."""
    fates = []
    for number, seed in enumerate((1, 1, 2)):
        database = await open_database(f"sqlite:{shutil.copy(migrated_file, tmp_path / f'{number}.db')}")
        bank = Bank(database, "payment:decline:high_risk@30 payment:lost@30 payment:not_sent@10", seed)
        fates.append(await _fates(bank))
        await database.close()
    assert fates[0] == fates[1] != fates[2]
    assert set(fates[0]) == {Approved, Declined, Unknown, NotSent}


async def test_chance_is_drawn_once_for_a_key(database: Database) -> None:
    """Whoever asks again, in another process too, has the fate of the first time."""
    bank = Bank(database, "payment:decline:high_risk@50", 3)
    payments = [new_payment() for _ in range(20)]
    first = [await bank.simulator.authorize(payment, card()) for payment in payments]
    again = [await bank.again().simulator.authorize(payment, card()) for payment in reversed(payments)]
    assert again[::-1] == first
    assert {type(outcome) for outcome in first} == {Approved, Declined}


async def test_a_script_is_for_what_card_and_amount_leave_open(database: Database) -> None:
    """Card before amount before script."""
    bank = Bank(database, "payment:decline:high_risk refund:decline:processing_error")
    assert await bank.simulator.authorize(new_payment(), card()) == Declined("high_risk")
    assert await bank.simulator.authorize(new_payment(9_990_002), card()) == Declined("insufficient_amount")
    assert await bank.simulator.authorize(new_payment(9_990_002), card("card_disabled")) == Declined("card_disabled")


async def test_counted_requests_at_once(database: Database) -> None:
    """Of many at once under one key exactly so many are lost as the script says."""
    bank = Bank(database, "payment:not_sent:2 payment:unheard:3 payment:lost:4")
    payment = new_payment()
    banks = (bank.simulator, bank.again().simulator)
    outcomes = await asyncio.gather(*(banks[number % 2].authorize(payment, card()) for number in range(20)))
    assert [sum(isinstance(one, kind) for one in outcomes) for kind in (NotSent, Unknown, Approved)] == [2, 7, 11]


async def test_a_book_that_is_out_of_reach(database: Database) -> None:
    """Nothing is raised: nobody knows what came of it."""
    faulty = FaultyDatabase(database)
    bank = Bank(faulty)
    payment = new_payment()
    faulty.fault = Unavailable("away")
    for outcome in (
        await bank.simulator.authorize(payment, card()),
        await bank.simulator.inquire(payment),
        await bank.simulator.refund(payment, key=new_key(), amount_minor=1),
        await bank.simulator.reverse(payment, key=new_key(), amount_minor=1),
    ):
        assert isinstance(outcome, Unknown)
