"""The simulated acquirer: one effect per key, and only what its ledger allows."""

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
    """An acquirer that behaves by card and amount."""
    return Bank(database)


async def test_a_repeated_authorization_returns_the_same_approval(bank: Bank) -> None:
    """Also in another process: number, code, amount, card, installments."""
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


async def test_the_first_request_of_a_key_decides(bank: Bank) -> None:
    """Another card under the same key changes nothing; another seller's payment is separate."""
    payment = new_payment()
    declined = await bank.simulator.authorize(payment, card("high_risk"))
    assert declined == Declined("high_risk")
    assert await bank.simulator.authorize(payment, card()) == declined
    other = new_payment(merchant_id=7, payment_id=payment.payment_id)
    assert isinstance(await bank.simulator.authorize(other, card()), Approved)


async def test_every_detail_has_a_card_and_an_amount(bank: Bank) -> None:
    """Each declines with the detail, and so does an inquiry."""
    for detail in FAILED_DETAILS:
        payment = new_payment()
        assert await bank.simulator.authorize(payment, card(detail)) == Declined(detail)
        assert await bank.simulator.inquire(payment) == Declined(detail)
        amount = next(amount for amount, script in AMOUNTS.items() if script == f"payment:decline:{detail}")
        assert await bank.simulator.authorize(new_payment(amount), card()) == Declined(detail)


async def test_approved_cards(bank: Bank) -> None:
    """Their names say so, and they have no script."""
    for name, one in CARDS.items():
        outcome = await bank.simulator.authorize(new_payment(), card(name))
        assert isinstance(outcome, Approved) == (not one.script or "delay" in one.script), name


async def test_an_inquiry_of_an_unknown_payment_returns_not_found(bank: Bank) -> None:
    """And blocks nothing."""
    payment = new_payment()
    assert await bank.simulator.inquire(payment) == NotFound()
    assert isinstance(await bank.simulator.authorize(payment, card()), Approved)


async def test_refunds_never_exceed_the_payment(bank: Bank) -> None:
    """Parts add up to the approved amount at most; a repeat moves nothing."""
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
    """Of forty concurrent refunds of a tenth, ten are approved."""
    payment, _ = await bank.approved(amount_minor=1000)
    banks = (bank.simulator, bank.again().simulator)
    outcomes = await asyncio.gather(
        *(banks[number % 2].refund(payment, key=new_key(), amount_minor=100) for number in range(40))
    )
    assert sum(isinstance(outcome, Approved) for outcome in outcomes) == 10
    assert await bank.row(
        "SELECT refunded_minor FROM simulator_payments WHERE seller_id = $1", payment.merchant_id
    ) == (1000,)


async def test_concurrent_requests_of_one_key(bank: Bank) -> None:
    """One effect and one answer, whatever the operation."""
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
    """The payment is undone, and nothing of it can be refunded."""
    payment, approved = await bank.approved()
    key = new_key("REV")
    ask = {"key": key, "amount_minor": 2490, "reference_id": approved.reference_id}
    first = await bank.simulator.reverse(payment, **ask)  # type: ignore[arg-type]
    assert isinstance(first, Approved)
    assert await bank.again().simulator.reverse(payment, **ask) == first  # type: ignore[arg-type]
    assert await bank.simulator.inquire(payment) == Declined("processing_error")
    assert await bank.simulator.refund(payment, key=new_key(), amount_minor=1) == Declined("processing_error")


async def test_a_reversal_of_another_approval_leaves_this_one(bank: Bank) -> None:
    """A reference other than the approval's reverses nothing."""
    payment, approved = await bank.approved()
    outcome = await bank.simulator.reverse(payment, key=new_key("REV"), amount_minor=2490, reference_id="1")
    assert isinstance(outcome, Approved)
    assert await bank.simulator.inquire(payment) == approved


async def test_a_reversal_of_another_approval_leaves_a_payment_made_elsewhere(bank: Bank) -> None:
    """A payment that the simulator does not have can still be refunded."""
    payment = new_payment()
    outcome = await bank.simulator.reverse(payment, key=new_key("REV"), amount_minor=2490, reference_id="1")
    assert isinstance(outcome, Approved)
    assert await bank.simulator.inquire(payment) == NotFound()
    assert isinstance(await bank.simulator.refund(payment, key=new_key(), amount_minor=2490), Approved)


async def test_a_payment_reversed_before_its_authorization_is_blocked(bank: Bank) -> None:
    """The authorization is declined, and so is a refund."""
    payment = new_payment()
    assert isinstance(await bank.simulator.reverse(payment, key=new_key("REV"), amount_minor=2490), Approved)
    assert await bank.simulator.inquire(payment) == Declined("processing_error")
    assert await bank.simulator.authorize(payment, card()) == Declined("processing_error")
    assert await bank.simulator.refund(payment, key=new_key(), amount_minor=1) == Declined("processing_error")


async def test_a_reversal_races_the_authorization(bank: Bank) -> None:
    """Whichever is first, nothing is charged."""
    for _ in range(20):
        payment = new_payment()
        await asyncio.gather(
            bank.simulator.authorize(payment, card()),
            bank.again().simulator.reverse(payment, key=new_key("REV"), amount_minor=2490),
        )
        assert await bank.simulator.inquire(payment) == Declined("processing_error")


async def test_a_refund_of_a_payment_made_elsewhere(bank: Bank) -> None:
    """Accepted up to the payment's amount."""
    payment = new_payment(amount_minor=500)
    assert isinstance(await bank.simulator.refund(payment, key=new_key(), amount_minor=500), Approved)
    assert isinstance(await bank.simulator.refund(payment, key=new_key(), amount_minor=1), Declined)


async def test_lost_answers(bank: Bank) -> None:
    """The effect is made, and a repeat returns it."""
    payment = new_payment()
    assert isinstance(await bank.simulator.authorize(payment, card("no_answer")), Unknown)
    assert isinstance(await bank.simulator.inquire(payment), Approved)
    assert isinstance(await bank.again().simulator.authorize(payment, card("no_answer")), Approved)


async def test_late_answers(bank: Bank) -> None:
    """Nothing is returned before it is due, and an inquiry finds nothing."""
    payment = new_payment()
    assert isinstance(await bank.simulator.authorize(payment, card("late")), Unknown)
    assert await bank.simulator.inquire(payment) == NotFound()
    bank.clock.advance(29_999)
    assert isinstance(await bank.simulator.authorize(payment, card("late")), Unknown)
    bank.clock.advance(1)
    assert isinstance(await bank.simulator.inquire(payment), Approved)
    assert isinstance(await bank.simulator.authorize(payment, card("late")), Approved)


async def test_slow_answers(bank: Bank) -> None:
    """A response beyond the deadline is unknown."""
    assert isinstance(await bank.simulator.authorize(new_payment(), card("slow")), Approved)
    assert bank.sleeper.slept == [5]
    slow = Bank(bank.database, "payment:delay:9s")
    payment = new_payment()
    assert isinstance(await slow.simulator.authorize(payment, card()), Unknown)
    assert slow.sleeper.slept == [8]
    assert isinstance(await slow.simulator.inquire(payment), Approved)


async def test_requests_not_sent_or_not_received_have_no_effect(bank: Bank) -> None:
    """The ledger has nothing; a repeat succeeds."""
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
    """The payment's amount selects the outcome of its refunds."""
    for amount, expected in REFUNDS.items():
        payment, _ = await bank.approved(amount_minor=amount)
        for part in (amount - 100, 100):
            key = new_key()
            outcomes = [await bank.simulator.refund(payment, key=key, amount_minor=part) for _ in expected]
            assert [type(outcome) for outcome in outcomes] == expected, amount


async def test_refunds_that_are_decided_late(bank: Bank) -> None:
    """Unknown for half a minute, then decided."""
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
    """Three fail, before or after the money moved; the fourth is confirmed."""
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
    """The fourth has the result."""
    payment, approved = await bank.approved(amount_minor=9_990_026)
    assert [type(await bank.simulator.inquire(payment)) for _ in range(3)] == [NotSent] * 3
    assert await bank.simulator.inquire(payment) == approved


async def _fates(bank: Bank, count: int = 40) -> list[type]:
    return [type(await bank.simulator.authorize(new_payment(), card())) for _ in range(count)]


async def test_a_seed_repeats_a_run(migrated_file: Path, tmp_path: Path) -> None:
    """The same requests in the same order have the same outcomes on another database, whatever their ids."""
    fates = []
    for number, seed in enumerate((1, 1, 2)):
        database = await open_database(f"sqlite:{shutil.copy(migrated_file, tmp_path / f'{number}.db')}")
        bank = Bank(database, "payment:decline:high_risk@30 payment:lost@30 payment:not_sent@10", seed)
        fates.append(await _fates(bank))
        await database.close()
    assert fates[0] == fates[1] != fates[2]
    assert set(fates[0]) == {Approved, Declined, Unknown, NotSent}


async def test_a_keys_random_choice_is_drawn_once(database: Database) -> None:
    """A repeat, also in another process, has the first outcome."""
    bank = Bank(database, "payment:decline:high_risk@50", 3)
    payments = [new_payment() for _ in range(20)]
    first = [await bank.simulator.authorize(payment, card()) for payment in payments]
    again = [await bank.again().simulator.authorize(payment, card()) for payment in reversed(payments)]
    assert again[::-1] == first
    assert {type(outcome) for outcome in first} == {Approved, Declined}


async def test_card_precedes_amount_precedes_script(database: Database) -> None:
    """Each rule applies only if the ones before leave the outcome open."""
    bank = Bank(database, "payment:decline:high_risk refund:decline:processing_error")
    assert await bank.simulator.authorize(new_payment(), card()) == Declined("high_risk")
    assert await bank.simulator.authorize(new_payment(9_990_002), card()) == Declined("insufficient_amount")
    assert await bank.simulator.authorize(new_payment(9_990_002), card("card_disabled")) == Declined("card_disabled")


async def test_counted_concurrent_requests(database: Database) -> None:
    """Of many under one key exactly the script's number is lost."""
    bank = Bank(database, "payment:not_sent:2 payment:unheard:3 payment:lost:4")
    payment = new_payment()
    banks = (bank.simulator, bank.again().simulator)
    outcomes = await asyncio.gather(*(banks[number % 2].authorize(payment, card()) for number in range(20)))
    assert [sum(isinstance(one, kind) for one in outcomes) for kind in (NotSent, Unknown, Approved)] == [2, 7, 11]


async def test_an_unreachable_database(database: Database) -> None:
    """The result is unknown; nothing is raised."""
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
