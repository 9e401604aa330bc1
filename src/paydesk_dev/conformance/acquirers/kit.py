"""The tools of cases: sales, the kit's own calls to the adapter, faults, and the comparison with the ledger."""

from __future__ import annotations

import asyncio
import base64
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from paydesk.core import ids, runtime
from paydesk.core.money import decimal_string
from paydesk.engine.payments.acquirer import Approved, Card, HasLedger, Outcome, Payment, Result
from paydesk.engine.payments.capabilities import Capabilities
from paydesk.engine.payments.jobs import NEVER_MS, describe
from paydesk.engine.payments.lifecycles import CONFIRMATIONS, INQUIRIES, REFUNDS, REVERSALS
from paydesk.engine.payments.simulator.cards import CARDS
from paydesk_dev.clock.clock import restore_clock
from paydesk_dev.conformance import service
from paydesk_dev.conformance.acquirers import books
from paydesk_dev.conformance.acquirers.engine import Engine, currency_of, until_reachable
from paydesk_dev.conformance.acquirers.proxy import Proxy
from paydesk_dev.conformance.acquirers.victim import Victim
from paydesk_dev.conformance.case import Failed, NotApplicable, NotHeld, NotShown, NotTested
from paydesk_dev.conformance.shop import Order, Shop
from paydesk_dev.http_client import Client, Document, Reply

AMOUNT_MINOR = 1234
ATTEMPTS_MAX, QUICK_ATTEMPTS = 40, 10
ATTEMPT_PAUSE_SECONDS = 0.1
"""Later attempts wait so much longer each: an adapter whose circuit breaker is open needs real time, 46 s in all."""
SECONDS_MAX, POLL_SECONDS = 60.0, 0.02
"""For whatever must happen within real time."""
SITUATION_SECONDS_MAX = 10.0
RETRY_SECONDS, REPEATED = 0.25, (423, 503)
UNKNOWN_AFTER_SECONDS = 41
"""A permitted order without a result is unknown then."""
RESOLVABLE_SECONDS = 3600
"""An operator can set an outcome that is unknown for this long."""
LEDGER_PAUSES_SECONDS = (0.0, 0.5, 2.0)
"""Pauses before the ledger is read again if it differs: an acquirer may write it a moment later."""
DIFFERS = "The ledger differs: "
NO_PROXY = "lost, late and doubled answers: the adapter has no `url` that the kit can stand in for."
MARGIN = timedelta(minutes=10)
"""By which the acquirer's clock may be behind this machine's."""
FINAL = ("processed", "refunded", "failed", "canceled", "expired")
CARD = CARDS["visa_approved"]
METHOD = {"id": CARD.brand, "type": CARD.type, "installments": 1}

NETS = "SELECT order_id, COALESCE(paid_minor, 0) - refunded_minor, currency FROM orders WHERE seller_id = $1"
JOBS = " UNION ALL ".join(
    f"SELECT next_ms FROM {jobs.table} WHERE {jobs.open}" for jobs in (INQUIRIES, REVERSALS, REFUNDS, CONFIRMATIONS)
)

A = TypeVar("A")


class Patient(Client):
    """A client that repeats a request, with its key, while the service is away or still working on it."""

    async def send(self, *request: Any, **options: Any) -> Reply:
        """Send the request until it is answered. Raises `OSError` after `SECONDS_MAX`."""
        end = runtime.monotonic() + SECONDS_MAX
        while True:
            try:
                reply = await super().send(*request, **options)
                if reply.status not in REPEATED or runtime.monotonic() > end:
                    return reply
            except OSError:
                if runtime.monotonic() > end:
                    raise
            await asyncio.sleep(RETRY_SECONDS)


class Kit:
    """An engine with the acquirer under test, as its application, its terminal and its operator."""

    def __init__(
        self, engine: Engine, http: Any, declined_minor: int, encrypted_data: bytes, proxy: Proxy | None = None
    ) -> None:
        accounts, self.database, self.recorded = engine
        application, operator, self.device = (
            Patient(http, accounts.base_url, token)
            for token in (accounts.access_token, accounts.operator_token, accounts.device_token)
        )
        self.shop = Shop(application, operator, accounts.seller_id, service.TERMINAL_ID, "service")
        self.adapter, self.proxy = self.recorded.adapter, proxy
        self.declined_minor, self.encrypted_data = declined_minor, encrypted_data
        self.boot_id, self.since = str(uuid.uuid4()), datetime.now(UTC) - MARGIN
        self.orders: list[Order] = []
        """Of the running case."""
        self.payments: dict[str, tuple[int, str]] = {}
        """The case's payments without an order, with what the ledger must have of them in the end."""
        self.currency = currency_of(self.adapter)
        self.victim: Callable[[], Awaitable[tuple[Victim, Kit]]]
        """Returns the engine to be killed, started when it is first needed, and the tools for it."""

    @property
    def capabilities(self) -> Capabilities:
        """What the adapter declares."""
        return self.adapter.capabilities

    async def start_session(self) -> None:
        """Begin the terminal's session."""
        body = {"boot_id": self.boot_id, "app_version": "conformance kit", "journal": []}
        await self.device.call("POST", "/device/v1/hello", body)

    async def perform(self, play: Callable[[Kit], Awaitable[None]]) -> None:
        """Play a case or a part of it, then end its orders and compare the ledger. Raises as the case, and `Failed`."""
        self.orders.clear()
        self.payments.clear()
        fault: Exception | None = None
        try:
            await until_reachable(self.adapter, self.payment())
            await play(self)
            for order in self.orders:
                await self.settle(order)
        except NotHeld as error:
            fault = error
        except Exception as error:  # noqa: BLE001  # also of the adapter, which should raise nothing
            fault = Failed(f"{type(error).__name__}: {error}.")
        try:
            await self._free_terminal()
            difference = await self._difference()
        except Exception as error:  # noqa: BLE001  # the next case is played, whatever the adapter raises
            difference = f"{DIFFERS}it cannot be compared ({type(error).__name__}: {error})."
        if difference:
            raise Failed(" ".join((*fault.args, difference)) if fault else difference)
        if fault:
            raise fault

    @property
    def wire(self) -> Proxy:
        """The proxy. Raises `NotTested` without one."""
        if self.proxy is None:
            raise NotTested(NO_PROXY)
        return self.proxy

    def need(self, capability: str) -> None:
        """Raise `NotApplicable` unless the adapter declares the capability."""
        if not getattr(self.capabilities, capability):
            raise NotApplicable(f"The adapter declares {capability} = false.")

    def need_idempotent(self, operation: str) -> None:
        """Raise `NotApplicable` unless the operation takes effect once a key."""
        if operation not in self.capabilities.idempotent:
            raise NotApplicable(f"The adapter does not declare `{operation}` as idempotent.")

    async def begin(self, minor: int = AMOUNT_MINOR) -> Order:
        """Place an order, which the terminal takes."""
        order = await self.shop.create(decimal_string(minor, self.currency.decimals), "PT15M")
        self.orders.append(order)
        await self.device.call("POST", f"/device/v1/leases/{order.lease_id}/ack", {"boot_id": self.boot_id})
        return order

    async def authorize(self, order: Order) -> Document:
        """Have the service request the authorization; return its answer."""
        body = {
            "boot_id": self.boot_id,
            "entry_mode": "chip",
            "card": {"first_digits": CARD.first_digits, "last_digits": CARD.last_digits},
            "payment_method": METHOD,
            "encrypted_data": base64.b64encode(self.encrypted_data).decode(),
        }
        return await self.device.call("POST", f"/device/v1/leases/{order.lease_id}/authorize", body)

    async def begin_sale(self) -> Order:
        """Return an order whose authorization the service has requested."""
        order = await self.begin()
        await self.authorize(order)
        return order

    async def approved(self) -> Order:
        """Return an order that the acquirer has approved, before the terminal's result. Raises `Failed`."""
        order = await self.begin()
        answer = await self.authorize(order)
        if answer["outcome"] != "approved":
            raise Failed(f"The sale of {order.amount} is {answer['outcome']} ({self.said(order)}), not approved.")
        return order

    async def sale(self) -> Order:
        """Return a paid order; where the acquirer needs that, the terminal's result confirms it. Raises `Failed`."""
        order = await self.approved()
        if self.capabilities.needs_confirmation:
            await self.report_approved(order)
            await self.until_idle()
        await self.expect(order, "processed")
        return order

    async def report(self, order: Order, **content: Any) -> Reply:
        """Report the terminal's result."""
        path = f"/device/v1/leases/{order.lease_id}/results/{uuid.uuid4()}"
        return await self.device.send("PUT", path, {"boot_id": self.boot_id, **content})

    async def report_approved(self, order: Order) -> Reply:
        """Report that the card has agreed to the approval."""
        paid = {"paid_amount": order.amount, "payment_method": METHOD}
        return await self.report(order, outcome="approved", status_detail="accredited", **paid)

    async def refund(self, order: Order, minor: int | None = None) -> Reply:
        """Request a refund of the order, whole or in part."""
        part = {"id": order.payment_id, "amount": decimal_string(minor or 0, self.currency.decimals)}
        body = None if minor is None else {"transactions": [part]}
        headers = {"X-Idempotency-Key": str(uuid.uuid4())}
        return await self.shop.application.send("POST", f"/v1/orders/{order.order_id}/refund", body, headers)

    async def status(self, order: Order) -> str:
        """Return the order's status."""
        return str((await self.shop.get(order))["status"])

    async def expect(self, order: Order, expected: str) -> None:
        """Raise `Failed` unless the order has the status."""
        status = await self.status(order)
        if status != expected:
            raise Failed(f"The order is {status}, not {expected}. The adapter said: {self.said(order)}.")

    def answers(self, operation: str, order: Order) -> list[Result]:
        """Return the results of the engine's calls of an operation for the order."""
        asked = operation, order.payment_id
        return [result for *call, result in self.recorded.asked if tuple(call) == asked]

    def said(self, order: Order) -> str:
        """Return the adapter's last answers about the order, equal ones once."""
        asked = [one for one in self.recorded.asked if order.payment_id in one][-6:]
        return ", ".join(dict.fromkeys(f"{name}: {describe(result)}" for name, _, result in asked)) or "nothing"

    async def until_answered(self, operation: str, order: Order) -> None:
        """Wait until the engine has an answer to the operation for the order. Raises `NotShown`."""
        end = runtime.monotonic() + SITUATION_SECONDS_MAX
        while not self.answers(operation, order):
            if runtime.monotonic() > end:
                raise NotShown(f"The situation did not come about within {SITUATION_SECONDS_MAX:g} s.")
            await asyncio.sleep(POLL_SECONDS)

    async def now_ms(self) -> int:
        """Return the service's time."""
        return (await restore_clock(self.database)).now_ms()

    async def until_idle(self) -> int | None:
        """Wait until no job is due or under way; return when the next one is due. Raises `NotShown`."""
        end = runtime.monotonic() + SECONDS_MAX
        while True:
            rows = await self.database.read(lambda tx: tx.all(JOBS))
            next_ms = min((row[0] for row in rows if row[0] < NEVER_MS), default=None)
            if next_ms is None or next_ms > await self.now_ms():
                return next_ms
            if runtime.monotonic() > end:
                raise NotShown(f"The engine's jobs did not end within {SECONDS_MAX:g} s.")
            await asyncio.sleep(POLL_SECONDS)

    async def advance(self, seconds: float) -> None:
        """Move the clock, and wait until what has become due is done."""
        await self.shop.advance(f"{max(1, round(seconds))}s")
        await self.until_idle()

    async def next_attempt(self) -> bool:
        """Move the clock to the next attempt of a job, and wait for its end; False if no job is open."""
        next_ms = await self.until_idle()
        if next_ms is not None:
            await self.advance((next_ms - await self.now_ms()) / 1000 + 1)
        return next_ms is not None

    async def settle(self, order: Order) -> None:
        """Move the clock until the order has ended and no job is open. Raises `Failed` if that does not happen."""
        for attempt in range(ATTEMPTS_MAX):
            await asyncio.sleep(max(0, attempt - QUICK_ATTEMPTS) * ATTEMPT_PAUSE_SECONDS)
            has_job = await self.next_attempt()
            status = await self.status(order)
            if not has_job and status in FINAL:
                return
            if status == "created":
                await self.shop.cancel(order)
            elif not has_job:
                await self.advance(UNKNOWN_AFTER_SECONDS)
                await asyncio.sleep(0.1)
        raise Failed(f"The order is {await self.status(order)} and not settled. The adapter said: {self.said(order)}.")

    async def _free_terminal(self) -> None:
        """End the case's orders; those that do not end by themselves as an operator would."""
        for order in self.orders:
            try:
                await self.settle(order)
            except (Failed, NotShown):
                await self.advance(RESOLVABLE_SECONDS)
                body = {"outcome": "declined", "reason": "The case has ended."}
                await self.shop.operator.send("POST", f"/operator/v1/orders/{order.order_id}/resolve", body)

    def payment(self, currency: str = "") -> Payment:
        """Return a payment without an order, of which the ledger must have nothing in the end."""
        payment_id = f"PAY{ids.ulid(runtime.wall_ns() // 1_000_000)}"
        currency = currency or self.currency.code
        self.payments[payment_id] = 0, currency
        return Payment(self.shop.seller_id, self.shop.terminal_id, payment_id, AMOUNT_MINOR, currency)

    async def charge(self, payment: Payment) -> Outcome:
        """Authorize a payment without an order."""
        card = Card(CARD.brand, CARD.type, CARD.first_digits, CARD.last_digits, "chip")
        return await self.adapter.authorize(payment, card, blob=self.encrypted_data)

    async def charged(self, payment: Payment) -> Approved:
        """Authorize a payment without an order and return its approval. Raises `Failed`."""
        return must_be(await self.charge(payment), Approved, "A payment")

    async def reverse(self, payment: Payment, approved: Approved | None = None) -> Result:
        """Reverse a payment without an order."""
        reference_id = "" if approved is None else approved.reference_id
        return await self.adapter.reverse(
            payment, key=payment.payment_id, amount_minor=payment.amount_minor, reference_id=reference_id
        )

    async def reversed(self, payment: Payment, approved: Approved | None, what: str = "Its reversal") -> None:
        """Reverse a payment without an order. Raises `Failed` if that is not approved."""
        must_be(await self.reverse(payment, approved), Approved, what)

    async def _difference(self) -> str:
        """Return in what the ledger differs from the case's orders and payments, "" in nothing, or without a ledger."""
        order_ids = [order.order_id for order in self.orders]
        rows = await self.database.read(lambda tx: tx.all(NETS, self.shop.seller_id))
        nets = {f"PAY{order_id[3:]}": (net, currency) for order_id, net, currency in rows if order_id in order_ids}
        expected = {**self.payments, **nets}
        if not isinstance(self.adapter, HasLedger) or not expected:
            return ""
        for pause in LEDGER_PAUSES_SECONDS:
            await asyncio.sleep(pause)
            sentences = books.differences(expected, [entry async for entry in self.adapter.ledger(self.since)])
            if not sentences:
                return ""
        return f"{DIFFERS}{'; '.join(sentences)}."


def must_be(result: Result, kind: type[A], what: str) -> A:
    """Return the result if it is of this kind. Raises `Failed`."""
    if not isinstance(result, kind):
        raise Failed(f"{what} is {describe(result)}, not {kind.__name__}.")
    return result
