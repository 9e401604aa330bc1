"""The simulated acquirer. It acts as an external system: it has its own ledger and its own transactions.

A conditional insert makes the first request under a key decide. Retries get the same answer, also concurrent ones and
after a crash. Faults decide how it behaves: added ones, those of the card, the amount and the script, in this order.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import datetime
from functools import partial

from paydesk.core.clock import Clock
from paydesk.core.faults import Fault
from paydesk.engine.orders.routing import Routing
from paydesk.engine.payments.acquirer import (
    Acquirer,
    Approved,
    Card,
    ConfirmResult,
    Declined,
    InquiryResult,
    LedgerEntry,
    NotFound,
    Outcome,
    Payment,
    ReverseResult,
    TooLate,
    Unknown,
)
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.engine.payments.capabilities import Capabilities
from paydesk.engine.payments.simulator import ledger as store
from paydesk.engine.payments.simulator import scripts
from paydesk.engine.payments.simulator.answers import (
    PROCESSING_ERROR,
    Request,
    ledger_payment,
    movement_of,
    movement_outcome,
    payment_outcome,
)
from paydesk.engine.payments.simulator.entries import entries_of
from paydesk.engine.payments.simulator.exchanges import Exchanges, conflict_keys_of
from paydesk.engine.payments.simulator.faults import FaultSource, Plan
from paydesk.engine.payments.simulator.ledger import OTHER_AMOUNT, LedgerPayment
from paydesk.engine.payments.simulator.removals import Removals
from paydesk.platform.storage.database import Database, Transaction

BY_DEFAULT = Capabilities(reversal_blocks=True)
WITH_CONFIRMATIONS = Capabilities(reversal_blocks=True, needs_confirmation=True)


class Simulator(Acquirer):
    """An acquirer of play money for test orders, or for `live` orders (in development only), with any `capabilities`.

    With the same script, the same requests in the same order get the same answers. `source` has further faults.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        live: bool = False,
        script: tuple[Fault, ...] = (),
        source: FaultSource | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        removals: Removals | None = None,
        capabilities: Capabilities = BY_DEFAULT,
    ) -> None:
        self._database, self._clock, self._live = database, clock, int(live)
        self._removals, self._capabilities = removals or Removals(), capabilities
        mode = "live" if live else "test"
        self._exchanges = Exchanges(database, clock, self._removals, script, source, sleep, mode=mode)

    @property
    def capabilities(self) -> Capabilities:
        """Return what it can do."""
        return self._capabilities

    async def authorize(self, payment: Payment, card: Card | None, *, blob: bytes = b"") -> Outcome:
        """Charge, at most once per `payment.payment_id`. The encrypted card data in `blob` is ignored."""
        del blob
        can = self._capabilities

        async def effect(tx: Transaction, request: Request) -> Outcome:
            plan = request.declined_unless(can.supports(payment.currency)).plan
            row = ledger_payment(payment, plan, request.now_ms, live=self._live, card=card)
            if can.needs_confirmation:
                until_ms = can.confirm_until_ms(request.now_ms)
                row = replace(row, at_deadline=can.at_deadline, confirm_until_ms=until_ms)
            stored = await store.add_payment(tx, row)
            if stored.visible_ms > request.now_ms:
                return Unknown("the answer is late")
            return payment_outcome(stored, request.now_ms)

        return await self._exchanges.answer("payment", payment, payment.payment_id, effect, card)

    async def approve(self, payment: Payment, card: Card | None) -> Approved | Declined:
        """Approve the payment regardless of card, amount and script, unless the ledger has an outcome already.

        For simulated orders, where the request replaces the terminal: the approval is final. Raises `Unavailable`, also
        for an order that a reset has removed, and `Locked`.
        """
        now_ms = self._clock.now_ms()
        approved = ledger_payment(payment, Plan(), now_ms, live=self._live, card=card)

        async def work(tx: Transaction) -> LedgerPayment:
            stored = await store.add_payment(tx, approved)
            self._removals.refuse(payment.order_id)
            return stored

        keys = conflict_keys_of("payment", payment, payment.payment_id)
        return payment_outcome(await self._database.write(work, conflict_keys=keys), now_ms)

    async def confirm(self, payment: Payment, *, key: str, reference_id: str, chip_data: bytes = b"") -> ConfirmResult:
        """Make the provisional approval final, at most once per `key`. What the chip said is ignored."""
        del chip_data

        async def effect(tx: Transaction, request: Request) -> ConfirmResult:
            row = await store.find_payment(tx, payment.merchant_id, payment.payment_id, lock=True)
            stored = await store.find_movement(tx, "confirmation", payment.merchant_id, key)
            if stored is None:
                if row is None or row.visible_ms > request.now_ms:
                    return NotFound()
                if row.is_overdue(request.now_ms):
                    return TooLate("the deadline has passed")
                is_approved = row.state(request.now_ms) != "void" and row.reference_id == reference_id
                handled = request.declined_unless(is_approved)
                stored = movement_of("confirmation", payment, handled, row.amount_minor)
                await store.add_movement(tx, stored)
                if stored.outcome == "approved":
                    await store.confirm_payment(tx, stored)
            return movement_outcome(stored, request.now_ms, payment.currency)

        return await self._exchanges.answer("confirmation", payment, key, effect)

    async def inquire(self, payment: Payment) -> InquiryResult:
        """Return what the ledger says; `NotFound` until a late answer is visible."""
        assert self._capabilities.can_inquire, "this acquirer has no inquiries"

        async def effect(tx: Transaction, request: Request) -> InquiryResult:
            stored = await store.find_payment(tx, payment.merchant_id, payment.payment_id)
            if stored is None or stored.visible_ms > request.now_ms:
                return NotFound()
            return payment_outcome(stored, request.now_ms)

        return await self._exchanges.answer("inquiry", payment, payment.payment_id, effect)

    async def refund(self, payment: Payment, *, key: str, amount_minor: int, reference_id: str = "") -> Outcome:
        """Refund a part or all, at most once per `key` and never more than was approved.

        A payment missing from the ledger, because a test played its terminal, is taken to be approved.
        """
        del reference_id  # The ledger knows payments by our ids.

        async def effect(tx: Transaction, request: Request) -> Outcome:
            approved = ledger_payment(payment, Plan(), request.now_ms, live=self._live)
            row = await store.add_payment(tx, approved)
            is_allowed = self._capabilities.partial_refunds or amount_minor == row.amount_minor
            handled = request.declined_unless(is_allowed and row.state(request.now_ms) == "final")
            movement = movement_of("refund", payment, handled, amount_minor)
            stored = await store.add_movement(tx, movement)
            if stored is None and movement.outcome == "approved" and not await store.deduct_refund(tx, movement):
                stored = replace(movement, outcome="declined", detail=PROCESSING_ERROR)
                await store.decline_movement(tx, movement, PROCESSING_ERROR)
            return movement_outcome(stored or movement, request.now_ms, payment.currency)

        return await self._exchanges.answer("refund", payment, key, effect)

    async def reverse(
        self, payment: Payment, *, key: str, amount_minor: int, reference_id: str = "", chip_data: bytes = b""
    ) -> ReverseResult:
        """Reverse the approval, at most once per `key`; with a reference, only the approval that has it.

        With the capability `reversal_blocks`, a payment missing from the ledger is blocked, so that it will be declined
        when it arrives, and the result is `Approved`. Otherwise it is `NotFound`.
        """
        del chip_data

        async def effect(tx: Transaction, request: Request) -> ReverseResult:
            can, now_ms = self._capabilities, request.now_ms
            if can.reversal_blocks and not reference_id:
                plan = Plan(decline_detail=PROCESSING_ERROR)
                blocked = replace(ledger_payment(payment, plan, now_ms, live=self._live), reversed_ms=now_ms)
                await store.add_payment(tx, blocked)
            row = await store.find_payment(tx, payment.merchant_id, payment.payment_id, lock=True)
            if row is not None and reference_id not in ("", row.reference_id):
                row = None
            stored = await store.find_movement(tx, "reversal", payment.merchant_id, key)
            if stored is None:
                if not can.reversal_blocks and (row is None or row.visible_ms > now_ms):
                    return NotFound()
                until_ms = can.reverse_until_ms(row.created_ms) if row is not None else None
                if row is not None and row.state(now_ms) != "void" and until_ms is not None and until_ms <= now_ms:
                    return TooLate("the time for reversals has passed")
                handled = request.declined_unless(row is None or row.detail != OTHER_AMOUNT)
                movement = movement_of("reversal", payment, handled, amount_minor)
                stored = await store.add_movement(tx, movement)
                if stored is None:
                    if movement.outcome == "approved":
                        await store.reverse_payment(tx, movement, reference_id)
                    stored = movement
            return movement_outcome(stored, now_ms, payment.currency)

        return await self._exchanges.answer("reversal", payment, key, effect)

    async def ledger(self, since: datetime) -> AsyncIterator[LedgerEntry]:
        """Yield the movements that took effect since then, the oldest first."""
        payments, movements = await self._database.read(partial(store.approved, live=self._live))
        for entry in entries_of(payments, movements, self._clock.now_ms()):
            if entry.time >= since:
                yield entry

    async def close(self) -> None:
        """End the requests that a fault holds: they never arrive."""
        await self._removals.end_held()


def create_acquirers(
    database: Database,
    clock: Clock,
    *,
    acquirer: str,
    script: str = "",
    seed: int = 0,
    confirmations: bool = False,
    removals: Removals | None = None,
    source: FaultSource | None = None,
) -> Acquirers:
    """Return the acquirers that the settings select. Raises `ValueError` for an invalid script."""
    create = partial(
        Simulator,
        database,
        clock,
        script=scripts.translate(script, seed),
        source=source,
        removals=removals,
        capabilities=WITH_CONFIRMATIONS if confirmations else BY_DEFAULT,
    )
    if acquirer != "simulator":
        return Acquirers(create())
    return Acquirers(create(), {"simulator": create(live=True)}, Routing("simulator"))
