"""A simulated acquirer on a test's database, and its payments."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from paydesk.core import ids
from paydesk.core.clock import MovableClock
from paydesk.core.money import minor_units
from paydesk.engine.payments.acquirer import Approved, Card, Payment
from paydesk.engine.payments.capabilities import Capabilities
from paydesk.engine.payments.simulator import scripts
from paydesk.engine.payments.simulator.acquirer import BY_DEFAULT, Simulator
from paydesk.engine.payments.simulator.cards import CARDS
from paydesk.engine.payments.simulator.faults import FaultSource
from paydesk.platform.storage.database import Database

if TYPE_CHECKING:
    from service import Service

SELLER = 1_000_000_001
START_MS = 1_800_000_000_000
_numbers = itertools.count(1)


class Sleeper:
    """A sleep that returns at once and records its durations."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def __call__(self, seconds: float) -> None:
        """Record the duration."""
        self.slept.append(seconds)


class Bank:
    """A simulator with a settable clock; `again` is the same one in another process."""

    def __init__(
        self,
        database: Database,
        script: str = "",
        seed: int = 0,
        clock: MovableClock | None = None,
        capabilities: Capabilities = BY_DEFAULT,
        source: FaultSource | None = None,
    ) -> None:
        self.database, self.clock, self.sleeper = database, clock or MovableClock(frozen_ms=START_MS), Sleeper()
        self._script, self._seed, self._capabilities = script, seed, capabilities
        self.simulator = Simulator(
            database,
            self.clock,
            script=scripts.translate(script, seed),
            source=source,
            sleep=self.sleeper,
            capabilities=capabilities,
        )

    def again(self) -> Bank:
        """Return the simulator of another process with the same settings and database."""
        return Bank(self.database, self._script, self._seed, self.clock, self._capabilities)

    async def approved(self, **changes: Any) -> tuple[Payment, Approved]:
        """Return an approved payment."""
        payment = new_payment(**changes)
        outcome = await self.simulator.authorize(payment, card())
        assert isinstance(outcome, Approved), outcome
        return payment, outcome

    async def reference_of(self, payment: Payment) -> str:
        """Return the reference of the payment in the ledger."""
        sql = "SELECT reference_id FROM simulator_payments WHERE seller_id = $1 AND payment_id = $2"
        (reference_id,) = await self.row(sql, payment.merchant_id, payment.payment_id) or ("",)
        return str(reference_id)

    async def entries(self) -> list[tuple[str, str, int, str]]:
        """Return kind, key, amount and outcome of the entries in the ledger."""
        since = datetime.fromtimestamp(0, UTC)
        entries = [entry async for entry in self.simulator.ledger(since)]
        return [(entry.kind, entry.key, entry.amount_minor, entry.outcome) for entry in entries]

    async def row(self, sql: str, *args: Any) -> tuple[Any, ...] | None:
        """Return one row."""
        row = await self.database.read(lambda tx: tx.one(sql, *args))
        return tuple(row) if row is not None else None


def new_payment(amount_minor: int = 2490, **changes: Any) -> Payment:
    """Return a payment that the acquirer does not have."""
    payment = Payment(SELLER, "PAYDESK_VIRTUAL__1", f"PAY{ids.ulid(START_MS)}", amount_minor, "BRL")
    return replace(payment, **changes)


def new_key(kind: str = "REF") -> str:
    """Return an unused key."""
    return f"{kind}{next(_numbers):026d}"


def card(name: str = "visa_approved") -> Card:
    """Return a test card as presented."""
    one = CARDS[name]
    return Card(one.brand, one.type, one.first_digits, one.last_digits, "contactless")


async def paid(service: Service, bank: Bank, amount: str = "24.90", *, reported: bool = True) -> Payment:
    """Create an order, permit and approve it; with `reported` the service has the result."""
    terminal = await service.terminal()
    device = await service.device(terminal)
    order_id = (await service.create(terminal, amount=amount)).body["id"]
    lease_id = order_id[3:]
    assert (await device.ack(lease_id)).status == 200
    assert (await device.authorizing(lease_id)).body["go"] is True
    amount_minor = minor_units(amount, 2)
    assert amount_minor is not None
    payment = Payment(service.seller_id, terminal.id, f"PAY{lease_id}", amount_minor, "BRL")
    outcome = await bank.simulator.authorize(payment, card())
    assert isinstance(outcome, Approved), outcome
    if reported:
        reply = await device.approve(lease_id, amount, reference_id=outcome.reference_id)
        assert reply.status == 200, reply
    return payment
