"""The simulated acquirer on two nodes of one PostgreSQL: the first request of a key decides for both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from acquirer_process import PAYMENTS, ask, payment_of, requests
from acquirer_scene import SELLER, Bank, card, new_key, new_payment
from paydesk.engine.invariants.simulator_ledger import WHOLE_RULES as BOOK_RULES
from paydesk.engine.payments.acquirer import Approved, Declined, NotSent, Unknown
from paydesk.engine.payments.simulator.acquirer import WITH_CONFIRMATIONS
from paydesk.platform.storage.connect import open_database
from seeds import seeded

RUNS = 3
BOOK_AGAINST_ITSELF = next(rule.sql for rule in BOOK_RULES if rule.name == "simulator_ledger_inconsistent")


@pytest.fixture
async def banks(postgres_url: str) -> AsyncIterator[list[Bank]]:
    """The acquirer on two nodes, each with its own connections."""
    async with AsyncExitStack() as stack:
        databases = [await open_database(postgres_url) for _ in range(2)]
        for database in databases:
            stack.push_async_callback(database.close)
        yield [Bank(database) for database in databases]


async def test_one_key_on_two_nodes(banks: list[Bank]) -> None:
    """One effect and one result, on either node and with any card."""
    for _ in range(10):
        payment = new_payment(1000)
        names = ("visa_approved", "high_risk", "card_disabled", "amex_approved")
        outcomes = await asyncio.gather(
            *(banks[number % 2].simulator.authorize(payment, card(names[number % 4])) for number in range(40))
        )
        assert len(set(outcomes)) == 1
        key = new_key()
        refunds = await asyncio.gather(
            *(banks[number % 2].simulator.refund(payment, key=key, amount_minor=300) for number in range(40))
        )
        assert len(set(refunds)) == 1


async def test_parts_on_two_nodes(banks: list[Bank]) -> None:
    """Concurrent refunds that together exceed the payment refund exactly its amount."""
    for _ in range(5):
        payment = new_payment(1000)
        assert isinstance(await banks[0].simulator.authorize(payment, card()), Approved)
        outcomes = await asyncio.gather(
            *(banks[number % 2].simulator.refund(payment, key=new_key(), amount_minor=100) for number in range(30))
        )
        assert sum(isinstance(outcome, Approved) for outcome in outcomes) == 10
    assert await banks[0].row(BOOK_AGAINST_ITSELF) is None


async def test_confirmation_and_reversal_on_two_nodes(postgres_url: str) -> None:
    """The reversal takes effect; each confirmation has one result, before it or declined after it."""
    async with AsyncExitStack() as stack:
        databases = [await open_database(postgres_url) for _ in range(2)]
        for database in databases:
            stack.push_async_callback(database.close)
        one, other = [Bank(database, capabilities=WITH_CONFIRMATIONS) for database in databases]
        for _ in range(20):
            payment, approved = await one.approved()
            key, reference_id = payment.confirmation_key, approved.reference_id
            *confirmed, reversal = await asyncio.gather(
                one.simulator.confirm(payment, key=key, reference_id=reference_id),
                other.simulator.confirm(payment, key=key, reference_id=reference_id),
                other.simulator.reverse(payment, key=new_key("REV"), amount_minor=payment.amount_minor),
            )
            assert isinstance(reversal, Approved)
            assert len(set(confirmed)) == 1
            assert isinstance(confirmed[0], Approved | Declined)
            assert await one.simulator.inquire(payment) == Declined("processing_error")
            assert ("confirmation", key, 2490, "approved") in await one.entries() or isinstance(confirmed[0], Declined)


async def test_everything_at_once_on_two_nodes(banks: list[Bank]) -> None:
    """Payments, parts and reversals in random order: the same key always has the same result."""
    chance = seeded()
    for run in range(RUNS):
        asked = requests(f"N{run}", chance.randrange(10**9))
        outcomes = await asyncio.gather(
            *(
                ask(banks[place % 2], operation, payment_of(payment_id), key)
                for place, (operation, payment_id, key) in enumerate(asked)
            )
        )
        assert not [outcome for outcome in outcomes if isinstance(outcome, Unknown | NotSent)]
        results: dict[tuple[str, str], set[object]] = {}
        for (operation, _, key), outcome in zip(asked, outcomes, strict=True):
            results.setdefault((operation, key), set()).add(outcome)
        # A payment is approved before its reversal and declined after it; a movement never changes.
        assert not [key for key, answers in results.items() if key[0] != "payment" and len(answers) > 1]
    assert await banks[0].row(BOOK_AGAINST_ITSELF) is None
    count = await banks[0].row("SELECT COUNT(*) FROM simulator_payments WHERE seller_id = $1", SELLER)
    assert count == (RUNS * PAYMENTS,)
