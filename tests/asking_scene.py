"""A terminal's orders and an acquirer that a test tells what to say, for the workers that ask it."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from device_scene import UNKNOWN, Desk, answered
from paydesk.core.clock import Clock
from paydesk.core.keys import Keys
from paydesk.core.worker import WorkerContext
from paydesk.orders.order import Order
from paydesk.payments import inquiries, reversals
from paydesk.payments.acquirer import Acquirers, Approved, Card, InquiryResult, NotFound, Outcome, Payment
from paydesk.payments.jobs import JobWorker
from paydesk.storage.database import Row

VISA = Card("visa", "credit_card", "423564", "5682", "chip")
REFERENCE = "90210000000017"
SAID = Approved(REFERENCE, 2490, "831000", VISA, installments=3)
UNDONE = Approved("70000000000001", 2490)


@dataclass
class ToldAcquirer:
    """It says what a test laid out, the last word again and again, and keeps what it was asked.

    `meanwhile` happens while it is being asked: after the question, before the answer.
    """

    truths: deque[InquiryResult] = field(default_factory=lambda: deque[InquiryResult]([NotFound()]))
    reversals: deque[Outcome] = field(default_factory=lambda: deque[Outcome]([UNDONE]))
    asked: list[tuple[str, ...]] = field(default_factory=list)
    meanwhile: Callable[[], Awaitable[Any]] | None = None

    def say(self, *truths: InquiryResult) -> None:
        """What inquiries bring from now on."""
        self.truths = deque(truths)

    def answer(self, *outcomes: Outcome) -> None:
        """What reversals bring from now on."""
        self.reversals = deque(outcomes)

    async def authorize(self, payment: Payment, card: Card, *, blob: bytes = b"") -> Outcome:
        """No worker may ever charge."""
        raise AssertionError((payment, card, blob))

    async def refund(self, payment: Payment, *, key: str, amount_minor: int) -> Outcome:
        """Nor refund."""
        raise AssertionError((payment, key, amount_minor))

    async def inquire(self, payment: Payment) -> InquiryResult:
        """The next truth."""
        self.asked.append(("inquire", payment.payment_id))
        await self._meanwhile()
        return self.truths.popleft() if len(self.truths) > 1 else self.truths[0]

    async def reverse(self, payment: Payment, *, key: str, amount_minor: int, reference_id: str = "") -> Outcome:
        """The next outcome."""
        self.asked.append(("reverse", payment.payment_id, key, str(amount_minor), reference_id))
        await self._meanwhile()
        return self.reversals.popleft() if len(self.reversals) > 1 else self.reversals[0]

    @property
    def reversed_keys(self) -> list[str]:
        """The keys of the reversals that it was asked for."""
        return [call[2] for call in self.asked if call[0] == "reverse"]

    async def _meanwhile(self) -> None:
        happens, self.meanwhile = self.meanwhile, None
        if happens is not None:
            await happens()


def context_of(desk: Desk, acquirers: Acquirers) -> WorkerContext:
    """What the workers of the desk's service are given."""
    return WorkerContext(desk.database, desk.settings, desk.clock, Keys(1, {1: b"k" * 32}), acquirers=acquirers)


async def inquire(desk: Desk, acquirer: ToldAcquirer | None, *, wall: Clock | None = None) -> int:
    """One turn of the worker of inquiries; how many it made."""
    context = context_of(desk, Acquirers(test=acquirer))
    return await JobWorker(context, inquiries.JOB, wall=wall).step()


async def give_back(desk: Desk, acquirer: ToldAcquirer | None, *, wall: Clock | None = None) -> int:
    """One turn of the worker of reversals; how many it tried."""
    context = context_of(desk, Acquirers(test=acquirer))
    return await JobWorker(context, reversals.JOB, wall=wall).step()


async def unknown(desk: Desk) -> Order:
    """An order that was granted and whose terminal knows no outcome."""
    order = await desk.granted()
    answered(await desk.report(order, UNKNOWN))
    return await desk.now(order)


async def told(desk: Desk) -> list[str]:
    """The kinds of the operator events so far, in the order of the alphabet: the clock stands still."""
    return [kind for (kind,) in await desk.rows("SELECT kind FROM operator_events ORDER BY kind")]


async def inquiry(desk: Desk, order: Order) -> Row:
    """The order's inquiry: how often it was made, and its outcome."""
    (row,) = await desk.rows(
        "SELECT attempts, outcome FROM inquiries WHERE seller_id = $1 AND order_id = $2",
        order.seller_id,
        order.order_id,
    )
    return tuple(row)


async def reversals_of(desk: Desk, order: Order) -> list[tuple[Any, ...]]:
    """The order's reversals: what they give back, and how far that has come."""
    rows = await desk.rows(
        "SELECT reversal_id, reference_id, amount_minor, status FROM reversals"
        " WHERE seller_id = $1 AND order_id = $2 ORDER BY created_ms, reversal_id",
        order.seller_id,
        order.order_id,
    )
    return [tuple(row) for row in rows]
