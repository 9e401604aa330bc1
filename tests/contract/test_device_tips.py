"""Tips: offered, reported or authorized, shown, notified, inquired, refunded."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from authorize_scene import (
    CHARGES_AGAIN,
    WatchedAcquirer,
    at_terminal,
    authorize,
    is_consistent,
    ledger,
    process_jobs,
    rows,
    service_device,
    watched,
)
from paydesk.core.clock import MovableClock
from paydesk.engine.orders import store as orders
from paydesk.engine.payments.acquirer import Approved, Card, Unknown
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.engine.payments.simulator.cards import CARDS
from paydesk.engine.payments.terms import payment_of
from paydesk.platform.storage.database import Database
from refund_scene import refund
from service import Device, Service, approved, running

TIPS = (5, 10)
EVENTS = "SELECT body FROM order_events WHERE seller_id = $1 AND order_id = $2 ORDER BY version"


@dataclass
class Shop:
    """A service with an acquirer, and a terminal of either kind that offers tips."""

    service: Service
    acquirer: WatchedAcquirer
    own: Device
    """Of kind `terminal`."""
    served: Device
    """Of kind `service`."""
    clock: MovableClock

    async def payment(self, lease_id: str) -> dict[str, Any]:
        """Return the payment of the lease's order."""
        payment: dict[str, Any] = (await self.service.get(f"ORD{lease_id}"))["transactions"]["payments"][0]
        return payment

    async def charge(self, lease_id: str, tip_minor: int) -> Approved:
        """Charge as a terminal would at its own acquirer."""
        order = await self.service.database.read(lambda tx: orders.find(tx, self.service.seller_id, f"ORD{lease_id}"))
        assert order is not None
        test_card = CARDS["visa_approved"]
        card = Card(test_card.brand, test_card.type, test_card.first_digits, test_card.last_digits, "chip")
        payment = payment_of(order)
        payment = replace(payment, amount_minor=payment.amount_minor + tip_minor, tip_minor=tip_minor)
        outcome = await self.acquirer.simulator.authorize(payment, card)
        assert isinstance(outcome, Approved)
        return outcome


@pytest.fixture
async def shop(database: Database) -> AsyncIterator[Shop]:
    """A shop without workers, whose clock stands still."""
    clock = MovableClock()
    clock.freeze()
    acquirer = watched(database, clock)
    async with running(database, clock=clock, workers=False, acquirers=Acquirers(test=acquirer)) as service:
        own = await service_device(service, tips=TIPS, kind="terminal")
        yield Shop(service, acquirer, own, await service_device(service, tips=TIPS), clock)


async def granted(shop: Shop, amount: str = "24.90") -> str:
    """Return the lease of an order whose authorization is permitted to the terminal of kind `terminal`."""
    lease_id = await at_terminal(shop.own, amount)
    assert (await shop.own.authorizing(lease_id)).body["go"] is True
    return lease_id


async def test_the_offer_has_the_percentages(shop: Shop) -> None:
    """Of the terminal; without them there is no `tip`."""
    await shop.service.create(shop.own.terminal)
    assert (await shop.own.next()).body["order"]["tip"] == {"percentages": [5, 10]}
    plain = await service_device(shop.service, kind="terminal")
    await shop.service.create(plain.terminal)
    assert "tip" not in (await plain.next()).body["order"]


@pytest.mark.parametrize(
    ("amount", "tip", "paid"), [("24.90", "2.49", "27.39"), ("24.90", "0.01", "24.91"), ("24.91", "2.50", "27.41")]
)
async def test_a_reported_tip_is_part_of_the_payment(shop: Shop, amount: str, tip: str, paid: str) -> None:
    """Up to the largest percentage, rounded up to a cent; in the order and in the notification."""
    lease_id = await granted(shop, amount)
    tip_minor = int(tip.replace(".", ""))
    charged = await shop.charge(lease_id, tip_minor)
    reply = await shop.own.approve(lease_id, paid, tip_amount=tip, reference_id=charged.reference_id)
    assert (reply.status, reply.body["order"]["status"]) == (200, "processed")
    payment = await shop.payment(lease_id)
    assert (payment["amount"], payment["paid_amount"], payment["tip_amount"]) == (amount, paid, tip)
    events = await rows(shop.service, EVENTS, shop.service.seller_id, f"ORD{lease_id}")
    assert f'"total_paid_amount":"{paid}"' in events[-1][0]
    assert f'"tip_amount":"{tip}"' in events[-1][0]
    again = await shop.own.approve(lease_id, paid, tip_amount=tip, reference_id=charged.reference_id)
    assert again.code == "order_finished"
    assert await rows(shop.service, "SELECT reversal_id FROM reversals") == []
    await is_consistent(shop.service)


@pytest.mark.parametrize(
    "wrong",
    [
        {"paid_amount": "27.40", "tip_amount": "2.50"},
        {"paid_amount": "24.90", "tip_amount": "2.49"},
        {"paid_amount": "27.39"},
        {"paid_amount": "27.39", "tip_amount": "2.48"},
    ],
)
async def test_a_tip_that_was_not_offered_is_a_conflict(shop: Shop, wrong: dict[str, str]) -> None:
    """Too large, not in the paid amount, or not reported: the acquirer is inquired."""
    lease_id = await granted(shop)
    reply = await shop.own.result(lease_id, **{**approved(), **wrong})
    assert (reply.status, reply.code, reply.body["recorded"]) == (409, "result_conflict", True)
    assert (await shop.service.get(f"ORD{lease_id}"))["status_detail"] == "check_on_terminal"
    assert len(await rows(shop.service, "SELECT order_id FROM inquiries")) == 1


async def test_an_inquired_approval_has_the_tip(shop: Shop) -> None:
    """The difference to the order's amount, as far as it was offered."""
    lease_id = await granted(shop)
    await shop.own.result(lease_id, outcome="unknown")
    await shop.charge(lease_id, 249)
    await process_jobs(shop.service, shop.acquirer)
    payment = await shop.payment(lease_id)
    assert (payment["status"], payment["paid_amount"], payment["tip_amount"]) == ("processed", "27.39", "2.49")
    await is_consistent(shop.service)


async def test_an_inquired_approval_above_the_tips_is_reversed(shop: Shop) -> None:
    """With the amount that was charged."""
    lease_id = await granted(shop)
    await shop.own.result(lease_id, outcome="unknown")
    await shop.charge(lease_id, 250)
    await process_jobs(shop.service, shop.acquirer)
    assert (await shop.service.get(f"ORD{lease_id}"))["status"] == "failed"
    assert await ledger(shop.service) == [(f"PAY{lease_id}", 2740, "approved", True)]
    assert await rows(shop.service, "SELECT kind, amount_minor FROM simulator_movements") == [("reversal", 2740)]
    await is_consistent(shop.service)


@pytest.mark.on_postgres
async def test_a_reversal_is_repeated_with_the_same_amount(shop: Shop) -> None:
    """By a later attempt too, which does not inquire again: a key at the acquirer has one content."""
    lease_id = await granted(shop)
    await shop.own.result(lease_id, outcome="unknown")
    await shop.charge(lease_id, 250)
    shop.acquirer.reversals.append(Unknown("no answer"))
    await process_jobs(shop.service, shop.acquirer)
    shop.clock.advance(10_000)
    await process_jobs(shop.service, shop.acquirer)
    assert shop.acquirer.reversed_minor == [2740, 2740]
    assert (await shop.service.get(f"ORD{lease_id}"))["status"] == "failed"
    await is_consistent(shop.service)


async def test_an_authorized_tip_is_charged(shop: Shop) -> None:
    """By the acquirer, with the order's amount."""
    lease_id = await at_terminal(shop.served)
    reply = await authorize(shop.served, lease_id, tip_amount="1.25")
    assert (reply.body["outcome"], shop.acquirer.charges[0].amount_minor) == ("approved", 2615)
    payment = await shop.payment(lease_id)
    assert (payment["paid_amount"], payment["tip_amount"]) == ("26.15", "1.25")
    card = {"first_digits": "423564", "last_digits": "5682", "entry_mode": "chip"}
    content = {**approved(), "card": card, "reference_id": reply.body["reference_id"]}
    result = await shop.served.result(lease_id, **{**content, "paid_amount": "26.15", "tip_amount": "1.25"})
    assert result.status == 200
    await is_consistent(shop.service)


async def test_an_authorized_tip_is_limited(shop: Shop) -> None:
    """To the largest that the terminal offers."""
    lease_id = await at_terminal(shop.served)
    reply = await authorize(shop.served, lease_id, tip_amount="2.50")
    assert (reply.status, reply.code) == (400, "property_value")
    assert reply.details == ["'$.tip_amount' - must be at most 2.49, the largest tip that the terminal offers"]
    assert (await authorize(shop.served, lease_id, tip_amount="2.49")).body["outcome"] == "approved"


async def test_an_unanswered_tip_is_known(shop: Shop) -> None:
    """By the request: the inquiry accepts that amount and no other."""
    for charged_minor, final in ((2615, "processed"), (2490, "failed")):
        lease_id = await at_terminal(shop.served)
        shop.acquirer.can = CHARGES_AGAIN
        shop.acquirer.answers.append(Unknown("no answer"))
        await authorize(shop.served, lease_id, tip_amount="1.25")
        await shop.charge(lease_id, charged_minor - 2490)
        await process_jobs(shop.service, shop.acquirer)
        assert (await shop.service.get(f"ORD{lease_id}"))["status"] == final
    await is_consistent(shop.service)


async def test_a_refund_returns_the_tip_too(shop: Shop) -> None:
    """All at once; a part is refused."""
    lease_id = await at_terminal(shop.served)
    await authorize(shop.served, lease_id, tip_amount="1.25")
    for amount in ("24.90", "1.25", "26.14"):
        reply = await refund(shop.service, f"ORD{lease_id}", amount)
        assert (reply.status, reply.code) == (403, "partial_refund_forbidden_with_tips")
    reply = await refund(shop.service, f"ORD{lease_id}")
    assert (reply.status, reply.body["status"]) == (201, "refunded")
    assert reply.body["transactions"]["refunds"][0]["amount"] == "26.15"
    assert (await shop.payment(lease_id))["refunded_amount"] == "26.15"
    await is_consistent(shop.service)


async def test_a_late_approval_is_reversed_with_its_tip(shop: Shop) -> None:
    """The terminal had reported a decline before."""
    lease_id = await granted(shop)
    await shop.own.result(lease_id, outcome="declined", status_detail="high_risk")
    charged = await shop.charge(lease_id, 125)
    reply = await shop.own.result(
        lease_id, **{**approved(), "paid_amount": "26.15", "tip_amount": "1.25", "reference_id": charged.reference_id}
    )
    assert reply.code == "order_finished"
    await process_jobs(shop.service, shop.acquirer)
    assert await rows(shop.service, "SELECT status, amount_minor FROM reversals") == [("reversed", 2615)]
    await is_consistent(shop.service)
