"""The tools of cases: sales, the kit's own calls to the adapter, faults, and the comparison with the ledger."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from paydesk.core import ids, runtime
from paydesk.core.money import CURRENCIES, decimal_string
from paydesk.engine.payments.acquirer import (
    Acquirer,
    Approved,
    Card,
    HasLedger,
    Outcome,
    Payment,
    Result,
)
from paydesk.engine.payments.capabilities import Capabilities
from paydesk.engine.payments.jobs import describe
from paydesk_dev.conformance.acquirers import books
from paydesk_dev.conformance.acquirers.engine import CARD, Engine, currency_of
from paydesk_dev.conformance.acquirers.proxy import Proxy
from paydesk_dev.conformance.acquirers.recorded import Asked, Recorded
from paydesk_dev.conformance.acquirers.victim import Victim
from paydesk_dev.conformance.case import Failed, NotApplicable, NotShown
from paydesk_dev.conformance.shop import Order
from paydesk_dev.http_client import Reply

AMOUNT_MINOR = 1234
ATTEMPTS_MAX, QUICK_ATTEMPTS = 40, 10
ATTEMPT_PAUSE_SECONDS = 0.1
"""Later attempts wait so much longer each: an adapter whose circuit breaker is open needs real time, 46 s in all."""
UNKNOWN_AFTER_SECONDS = 41
"""A permitted order without a result is unknown then."""
RESOLVABLE_SECONDS = 3600
"""An operator can set an outcome that is unknown for this long."""
LEDGER_PAUSES_SECONDS = (0.0, 0.5, 2.0)
"""Pauses before the ledger is read again if it differs: an acquirer may write it a moment later."""
DIFFERS = "The ledger differs: "
MARGIN = timedelta(minutes=10)
"""By which the acquirer's clock may be behind this machine's."""
FINAL = ("processed", "refunded", "failed", "canceled", "expired")

A = TypeVar("A")


@dataclass(slots=True)
class Kit:
    """The acquirer under test and everything around it."""

    engine: Engine
    recorded: Recorded
    proxy: Proxy | None
    declined_minor: int
    start_victim: Callable[[], Awaitable[Victim]]
    orders: list[Order] = field(default_factory=list)
    """The orders of the running case."""
    payments: dict[str, tuple[int, str]] = field(default_factory=dict)
    """The case's payments without an order, with what the ledger must have of them in the end."""
    since: datetime = field(default_factory=lambda: datetime.now(UTC) - MARGIN)
    _victim: tuple[Victim, Kit] | None = None

    @property
    def adapter(self) -> Acquirer:
        """Return the adapter, for the kit's own calls."""
        return self.engine.adapter

    @property
    def capabilities(self) -> Capabilities:
        """Return what the adapter declares."""
        return self.adapter.capabilities

    @property
    def currency(self) -> str:
        """Return the seller's currency."""
        return currency_of(self.adapter).code

    async def victim(self) -> tuple[Victim, Kit]:
        """Return the engine to be killed, started when it is first needed, and the tools for it."""
        if self._victim is None:
            victim = await self.start_victim()
            self._victim = victim, replace(self, engine=victim.engine, orders=[], payments={})
        return self._victim

    @property
    def wire(self) -> Proxy:
        """Return the proxy. Raises `NotApplicable` without one."""
        if self.proxy is None:
            raise NotApplicable("The adapter has no `url`, or no `secret`: the kit cannot lose requests and answers.")
        return self.proxy

    def need(self, capability: str) -> None:
        """Raise `NotApplicable` unless the adapter declares the capability."""
        if not getattr(self.capabilities, capability):
            raise NotApplicable(f"The adapter declares {capability} = false.")

    def need_idempotent(self, operation: str) -> None:
        """Raise `NotApplicable` unless the operation takes effect once a key."""
        if operation not in self.capabilities.idempotent:
            raise NotApplicable(f"The adapter does not declare `{operation}` as idempotent.")

    def amount(self, minor: int) -> str:
        """Return an amount of the seller's currency."""
        return decimal_string(minor, CURRENCIES[self.currency].decimals)

    async def begin(self, minor: int = AMOUNT_MINOR) -> Order:
        """Place an order, which the terminal takes."""
        order = await self.engine.begin(self.amount(minor))
        self.orders.append(order)
        return order

    async def approved(self) -> Order:
        """Return an order that the acquirer has approved, before the terminal's result. Raises `Failed`."""
        order = await self.begin()
        answer = await self.engine.authorize(order)
        if answer["outcome"] != "approved":
            raise Failed(f"The sale of {order.amount} is {answer['outcome']} ({self.said(order)}), not approved.")
        return order

    async def sale(self) -> Order:
        """Return a paid order; where the acquirer needs that, the terminal's result confirms it. Raises `Failed`."""
        order = await self.approved()
        if self.capabilities.needs_confirmation:
            await self.engine.report_approved(order)
            await self.engine.until_idle()
        await self.expect(order, "processed")
        return order

    async def status(self, order: Order) -> str:
        """Return the order's status."""
        return str((await self.engine.shop.get(order))["status"])

    async def expect(self, order: Order, *statuses: str) -> None:
        """Raise `Failed` unless the order has one of the statuses."""
        status = await self.status(order)
        if status not in statuses:
            raise Failed(f"The order is {status}, not {' or '.join(statuses)}. The adapter said: {self.said(order)}.")

    def asked(self, operation: str, order: Order) -> list[Asked]:
        """Return the engine's calls of an operation for the order."""
        payment_id = f"PAY{order.lease_id}"
        return [one for one in self.recorded.asked if (one.operation, one.payment_id) == (operation, payment_id)]

    def said(self, order: Order) -> str:
        """Return the adapter's answers about the order."""
        payment_id = f"PAY{order.lease_id}"
        answers = [one for one in self.recorded.asked if one.payment_id == payment_id]
        return ", ".join(f"{one.operation}: {describe(one.result)}" for one in answers[-6:]) or "nothing"

    async def refund(self, order: Order, minor: int | None = None) -> Reply:
        """Request a refund of the order, whole or in part."""
        part = {"id": f"PAY{order.lease_id}", "amount": self.amount(minor or 0)}
        body = None if minor is None else {"transactions": [part]}
        headers = {"X-Idempotency-Key": str(uuid.uuid4())}
        return await self.engine.shop.application.send("POST", f"/v1/orders/{order.order_id}/refund", body, headers)

    async def settle(self, order: Order) -> None:
        """Move the clock until the order has ended and no job is open. Raises `Failed` if that does not happen."""
        for attempt in range(ATTEMPTS_MAX):
            await asyncio.sleep(max(0, attempt - QUICK_ATTEMPTS) * ATTEMPT_PAUSE_SECONDS)
            has_job = await self.engine.next_attempt()
            status = await self.status(order)
            if not has_job and status in FINAL:
                return
            if status == "created":
                await self.engine.shop.cancel(order)
            elif not has_job:
                await self.engine.advance(UNKNOWN_AFTER_SECONDS)
                await asyncio.sleep(0.1)
        raise Failed(f"The order is {await self.status(order)} and not settled. The adapter said: {self.said(order)}.")

    async def free_terminal(self) -> None:
        """End the case's orders; those that do not end by themselves as an operator would."""
        for order in self.orders:
            try:
                await self.settle(order)
            except (Failed, NotShown):
                await self.engine.advance(RESOLVABLE_SECONDS)
                body = {"outcome": "declined", "reason": "The case has ended."}
                await self.engine.shop.operator.send("POST", f"/operator/v1/orders/{order.order_id}/resolve", body)

    async def until(self, find: Callable[[], Awaitable[A]], seconds: float = 10.0) -> A:
        """Wait until `find` returns something true and return it. Raises `NotShown`."""
        end = runtime.monotonic() + seconds
        while not (result := await find()):
            if runtime.monotonic() > end:
                raise NotShown(f"The situation did not come about within {seconds:g} s.")
            await asyncio.sleep(0.05)
        return result

    def payment(self, currency: str = "") -> Payment:
        """Return a payment without an order, of which the ledger must have nothing in the end."""
        payment_id = f"PAY{ids.ulid(runtime.wall_ns() // 1_000_000)}"
        shop, currency = self.engine.shop, currency or self.currency
        payment = Payment(shop.seller_id, shop.terminal_id, payment_id, AMOUNT_MINOR, currency)
        self.payments[payment_id] = 0, currency
        return payment

    async def charge(self, payment: Payment) -> Outcome:
        """Authorize a payment without an order."""
        card = Card(CARD.brand, CARD.type, CARD.first_digits, CARD.last_digits, "chip")
        return await self.adapter.authorize(payment, card, blob=self.engine.encrypted_data)

    async def charged(self, payment: Payment) -> Approved:
        """Authorize a payment without an order and return its approval. Raises `Failed`."""
        return must_be(await self.charge(payment), Approved, "A payment")

    async def reverse(self, payment: Payment, approved: Approved | None = None) -> Result:
        """Reverse a payment without an order."""
        reference_id = "" if approved is None else approved.reference_id
        return await self.adapter.reverse(
            payment, key=payment.payment_id, amount_minor=payment.amount_minor, reference_id=reference_id
        )

    @property
    def has_ledger(self) -> bool:
        """Return whether the acquirer shows its book."""
        return isinstance(self.adapter, HasLedger)

    async def difference(self) -> str:
        """Return in what the ledger differs from the case's orders and payments, "" in nothing, or without a ledger."""
        order_ids = [order.order_id for order in self.orders]
        nets = await self.engine.database.read(lambda tx: books.net_of(tx, self.engine.shop.seller_id, order_ids))
        expected, sentences = {**self.payments, **nets}, list[str]()
        if not isinstance(self.adapter, HasLedger) or not expected:
            return ""
        for pause in LEDGER_PAUSES_SECONDS:
            await asyncio.sleep(pause)
            entries = [entry async for entry in self.adapter.ledger(self.since)]
            sentences = books.differences(expected, entries)
            if not sentences:
                return ""
        return f"{DIFFERS}{'; '.join(sentences)}."


def must_be(result: Result, kind: type[A], what: str) -> A:
    """Return the result if it is of this kind. Raises `Failed`."""
    if not isinstance(result, kind):
        raise Failed(f"{what} is {describe(result)}, not {kind.__name__}.")
    return result
