"""A terminal's orders and an acquirer with scripted results, for the workers that call it."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

from device_scene import UNKNOWN, Desk, answered
from paydesk.core.clock import Clock
from paydesk.core.keys import Keys
from paydesk.core.objects import Objects
from paydesk.engine.orders.order import Order
from paydesk.engine.payments import inquiries, reversals
from paydesk.engine.payments.acquirer import (
    Acquirer,
    Approved,
    Card,
    InquiryResult,
    NotFound,
    Outcome,
    Payment,
    ReverseResult,
)
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.engine.payments.capabilities import Capabilities
from paydesk.platform.jobs import JobWorker
from paydesk.platform.storage.database import Row
from paydesk.platform.worker import WorkerContext

VISA = Card("visa", "credit_card", "423564", "5682", "chip")
REFERENCE = "90210000000017"
SAID = Approved(REFERENCE, 2490, "831000", VISA, installments=3)
UNDONE = Approved("70000000000001", 2490)
BLOCKING = Capabilities(reversal_blocks=True)


@dataclass
class FakeAcquirer(Acquirer):
    """An acquirer with scripted results, the last of which repeats; it records its requests."""

    results: deque[InquiryResult] = field(default_factory=lambda: deque[InquiryResult]([NotFound()]))
    reversals: deque[ReverseResult] = field(default_factory=lambda: deque[ReverseResult]([UNDONE]))
    refunds: deque[Outcome] = field(default_factory=deque)
    asked: list[tuple[str, ...]] = field(default_factory=list)
    meanwhile: Callable[[], Awaitable[Any]] | None = None
    can: Capabilities = BLOCKING

    @property
    def capabilities(self) -> Capabilities:
        """Return what it can do."""
        return self.can

    def say(self, *results: InquiryResult) -> None:
        """Set the next inquiry results."""
        self.results = deque(results)

    def answer(self, *outcomes: ReverseResult) -> None:
        """Set the next outcomes of reversals."""
        self.reversals = deque(outcomes)

    async def authorize(self, payment: Payment, card: Card | None, *, blob: bytes = b"") -> Outcome:
        """No worker may ever charge."""
        self.asked.append(("authorize", payment.payment_id))
        raise AssertionError((payment, card, blob))

    async def refund(self, payment: Payment, *, key: str, amount_minor: int, reference_id: str = "") -> Outcome:
        """Return the next outcome; an approval is of the requested amount."""
        self.asked.append(("refund", payment.payment_id, key, str(amount_minor), reference_id))
        await self._meanwhile()
        assert self.refunds, "only a reversal that came too late becomes a refund"
        outcome = self.refunds.popleft() if len(self.refunds) > 1 else self.refunds[0]
        return replace(outcome, amount_minor=amount_minor) if isinstance(outcome, Approved) else outcome

    async def inquire(self, payment: Payment) -> InquiryResult:
        """Return the next inquiry result."""
        self.asked.append(("inquire", payment.payment_id))
        await self._meanwhile()
        return self.results.popleft() if len(self.results) > 1 else self.results[0]

    async def reverse(
        self, payment: Payment, *, key: str, amount_minor: int, reference_id: str = "", chip_data: bytes = b""
    ) -> ReverseResult:
        """Return the next outcome; an approval is of the requested amount."""
        del chip_data
        self.asked.append(("reverse", payment.payment_id, key, str(amount_minor), reference_id))
        await self._meanwhile()
        outcome = self.reversals.popleft() if len(self.reversals) > 1 else self.reversals[0]
        return replace(outcome, amount_minor=amount_minor) if isinstance(outcome, Approved) else outcome

    @property
    def asked_for(self) -> list[str]:
        """Return the operations of the requests."""
        return [call[0] for call in self.asked]

    @property
    def reversed_keys(self) -> list[str]:
        """Return the keys of the requested reversals."""
        return [call[2] for call in self.asked if call[0] == "reverse"]

    async def _meanwhile(self) -> None:
        happens, self.meanwhile = self.meanwhile, None
        if happens is not None:
            await happens()


def context_of(desk: Desk, acquirers: Acquirers) -> WorkerContext:
    """Return the context of the desk's workers."""
    return WorkerContext(desk.database, desk.settings, desk.clock, Keys(1, {1: b"k" * 32}), objects=Objects(acquirers))


async def inquire(desk: Desk, acquirer: FakeAcquirer | None, *, wall: Clock | None = None) -> int:
    """One turn of the worker of inquiries; how many it made."""
    context = context_of(desk, Acquirers(test=acquirer))
    return await JobWorker(context, inquiries.JOB, wall=wall).step()


async def process_reversals(desk: Desk, acquirer: FakeAcquirer | None, *, wall: Clock | None = None) -> int:
    """One turn of the worker of reversals; how many it tried."""
    context = context_of(desk, Acquirers(test=acquirer))
    return await JobWorker(context, reversals.JOB, wall=wall).step()


async def unknown(desk: Desk) -> Order:
    """A permitted order whose terminal reported an unknown outcome."""
    order = await desk.granted()
    answered(await desk.report(order, UNKNOWN))
    return await desk.now(order)


async def alert_kinds(desk: Desk) -> list[str]:
    """The kinds of the operator events so far, in the order of the alphabet: the clock stands still."""
    return [kind for (kind,) in await desk.rows("SELECT kind FROM operator_events ORDER BY kind")]


async def inquiry(desk: Desk, order: Order) -> Row:
    """Return the attempts and the outcome of the order's inquiry."""
    (row,) = await desk.rows(
        "SELECT attempts, outcome FROM inquiries WHERE seller_id = $1 AND order_id = $2",
        order.seller_id,
        order.order_id,
    )
    return tuple(row)


async def reversals_of(desk: Desk, order: Order) -> list[tuple[Any, ...]]:
    """Return the order's reversals with amount and status."""
    rows = await desk.rows(
        "SELECT reversal_id, reference_id, amount_minor, status FROM reversals"
        " WHERE seller_id = $1 AND order_id = $2 ORDER BY created_ms, reversal_id",
        order.seller_id,
        order.order_id,
    )
    return [tuple(row) for row in rows]
