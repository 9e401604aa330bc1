"""The simulated acquirer. It acts as an external system: it has its own ledger and its own transactions.

A conditional insert makes the first request under a key decide. Retries get the same answer, also concurrent ones and
after a crash. The card, the amount and the script decide how it behaves, in this order.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TypeVar

import msgspec

from paydesk.core.clock import Clock
from paydesk.engine.orders.routing import Routing
from paydesk.engine.payments.acquirer import (
    Acquirer,
    Approved,
    Card,
    Declined,
    InquiryResult,
    NotFound,
    NotSent,
    Outcome,
    Payment,
    Unknown,
)
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.engine.payments.capabilities import Capabilities
from paydesk.engine.payments.simulator import cards, rules
from paydesk.engine.payments.simulator import ledger as store
from paydesk.engine.payments.simulator.ledger import LedgerPayment, Movement
from paydesk.engine.payments.simulator.removals import Removals
from paydesk.engine.payments.simulator.rules import Operation, Plan, Rules
from paydesk.platform.storage import conflict_keys
from paydesk.platform.storage.conflict_keys import ConflictKey
from paydesk.platform.storage.database import Database, Locked, Transaction, Unavailable

DEADLINE_SECONDS = 8.0
"""A longer delay ends as *unknown* after this time."""
PROCESSING_ERROR = "processing_error"

T = TypeVar("T", bound=InquiryResult)


class OrderRemoved(Unavailable):
    """A reset has removed the order while the request was under way."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request: its key, how often the key was sent so far, how it is handled, and its time."""

    key: str
    attempt: int
    plan: Plan
    now_ms: int

    @property
    def is_answer_lost(self) -> bool:
        """Whether the request takes effect but its answer is lost."""
        return self.plan.failed_attempts < self.attempt <= self.plan.failed_attempts + self.plan.lost_times


class Simulator(Acquirer):
    """An acquirer of play money for test orders, or for `live` ones (in development only).

    With the same script and seed, the same requests in the same order get the same answers.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        live: bool = False,
        script: Rules = (),
        seed: int = 0,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        removals: Removals | None = None,
    ) -> None:
        self._database, self._clock, self._live = database, clock, int(live)
        self._script, self._seed, self._sleep, self._removals = script, seed, sleep, removals or Removals()

    @property
    def capabilities(self) -> Capabilities:
        """Return what it can do: a reversal blocks a payment that the ledger does not have."""
        return Capabilities(reversal_blocks=True)

    async def authorize(self, payment: Payment, card: Card | None, *, blob: bytes = b"") -> Outcome:
        """Charge, at most once per `payment.payment_id`. The encrypted card data in `blob` is ignored."""
        del blob

        async def effect(tx: Transaction, request: Request) -> Outcome:
            stored = await store.add_payment(tx, self._ledger_payment(payment, request.plan, request.now_ms, card))
            return _response(request, stored)

        return await self._answer("payment", payment, payment.payment_id, effect, cards.rules_of_card(card))

    async def approve(self, payment: Payment, card: Card | None) -> Approved | Declined:
        """Approve the payment regardless of card, amount and script, unless the ledger has an outcome already.

        For simulated orders, where the request replaces the terminal. Raises `Unavailable`, also for an order that a
        reset has removed, and `Locked`.
        """

        async def work(tx: Transaction) -> LedgerPayment:
            stored = await store.add_payment(tx, approved)
            self._refuse_removed(payment)
            return stored

        approved = self._ledger_payment(payment, Plan(), self._clock.now_ms(), card)
        keys = _keys("payment", payment, payment.payment_id, is_counted=False)
        return _outcome(await self._database.write(work, conflict_keys=keys))

    async def inquire(self, payment: Payment) -> InquiryResult:
        """Return what the ledger says; `NotFound` until a late answer is visible."""

        async def effect(tx: Transaction, request: Request) -> InquiryResult:
            stored = await store.find_payment(tx, payment.merchant_id, payment.payment_id)
            if request.is_answer_lost:
                return Unknown("the answer was lost")
            return _outcome(stored) if stored is not None and stored.visible_ms <= request.now_ms else NotFound()

        return await self._answer("inquiry", payment, payment.payment_id, effect)

    async def refund(self, payment: Payment, *, key: str, amount_minor: int, reference_id: str = "") -> Outcome:
        """Refund a part or all, at most once per `key` and never more than was approved.

        A payment missing from the ledger, because a test played its terminal, is taken to be approved.
        """
        del reference_id  # The ledger knows payments by our ids.

        async def effect(tx: Transaction, request: Request) -> Outcome:
            await store.add_payment(tx, self._ledger_payment(payment, Plan(), request.now_ms))
            movement = _movement("refund", payment, request, amount_minor)
            stored = await store.add_movement(tx, movement)
            if stored is None and movement.outcome == "approved" and not await store.deduct_refund(tx, movement):
                stored = replace(movement, outcome="declined", detail=PROCESSING_ERROR)
                await store.decline_movement(tx, movement, PROCESSING_ERROR)
            return _response(request, stored or movement)

        return await self._answer("refund", payment, key, effect)

    async def reverse(
        self, payment: Payment, *, key: str, amount_minor: int, reference_id: str = "", chip_data: bytes = b""
    ) -> Outcome:
        """Reverse the approval, at most once per `key`; with a reference, only the approval that has it.

        A payment missing from the ledger is blocked: it will be declined when it arrives. The result is `Approved`.
        """
        del chip_data

        async def effect(tx: Transaction, request: Request) -> Outcome:
            if not reference_id:
                plan = Plan(decline_detail=PROCESSING_ERROR)
                blocked = self._ledger_payment(payment, plan, request.now_ms, reversed_ms=request.now_ms)
                await store.add_payment(tx, blocked)
            movement = _movement("reversal", payment, request, amount_minor)
            stored = await store.add_movement(tx, movement)
            if stored is None:
                await store.reverse_payment(tx, movement, reference_id)
            return _response(request, stored or movement)

        return await self._answer("reversal", payment, key, effect)

    async def _answer(
        self,
        operation: Operation,
        payment: Payment,
        key: str,
        effect: Callable[[Transaction, Request], Awaitable[T]],
        card_rules: Rules = (),
    ) -> T | Unknown | NotSent:
        """Commit the effect to the ledger, then return the answer, delayed or lost as the rules say."""
        all_rules = (*card_rules, *cards.rules_of_amount(payment.amount_minor), *self._script)
        applicable = rules.of_operation(all_rules, operation)
        is_counted = rules.are_random(applicable) or rules.plan(applicable).depends_on_attempt
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> tuple[T | Unknown | NotSent, int]:
            ordinal, attempt = 0, 1
            if is_counted:
                ordinal, attempt = await store.count_request(tx, payment.merchant_id, operation, key, now_ms)
            request = Request(key, attempt, rules.plan(applicable, self._seed, ordinal), now_ms)
            outcome: T | Unknown | NotSent
            if attempt <= request.plan.not_sent_times:
                outcome = NotSent("the connection is down")
            elif attempt <= request.plan.failed_attempts:
                outcome = Unknown("no answer")
            else:
                outcome = await effect(tx, request)
            self._refuse_removed(payment)
            return outcome, request.plan.delay_ms

        try:
            if operation == "inquiry" and not is_counted:
                outcome, delay_ms = await self._database.read(work)
            else:
                keys = _keys(operation, payment, key, is_counted=is_counted)
                outcome, delay_ms = await self._database.write(work, conflict_keys=keys)
        except OrderRemoved as error:
            return NotSent(str(error))
        except (Unavailable, Locked) as error:
            return Unknown(f"the simulator ledger is unavailable: {error}")
        if not delay_ms or isinstance(outcome, NotSent):
            return outcome
        await self._sleep(min(delay_ms / 1000, DEADLINE_SECONDS))
        return outcome if delay_ms / 1000 < DEADLINE_SECONDS else Unknown("no answer before the deadline")

    def _refuse_removed(self, payment: Payment) -> None:
        """Undo what a request has written that a reset overtook. Raises `OrderRemoved`."""
        if self._removals.has_removed(f"ORD{payment.payment_id.removeprefix('PAY')}"):
            raise OrderRemoved("a reset has removed the order")

    def _ledger_payment(
        self, payment: Payment, plan: Plan, now_ms: int, card: Card | None = None, reversed_ms: int | None = None
    ) -> LedgerPayment:
        return LedgerPayment(
            payment.merchant_id,
            payment.payment_id,
            payment.terminal_id,
            self._live,
            payment.amount_minor,
            payment.currency,
            "declined" if plan.decline_detail else "approved",
            plan.decline_detail or None,
            _digits("payment", payment.payment_id, 14),
            None if plan.decline_detail else _digits("code", payment.payment_id, 6),
            msgspec.json.encode(asdict(card)).decode() if card is not None else None,
            payment.installments,
            now_ms + plan.late_ms,
            now_ms,
            reversed_ms,
        )


def _movement(kind: str, payment: Payment, request: Request, amount_minor: int) -> Movement:
    detail = request.plan.decline_detail
    return Movement(
        payment.merchant_id,
        request.key,
        kind,
        payment.payment_id,
        amount_minor,
        "declined" if detail else "approved",
        detail or None,
        _digits(kind, request.key, 14),
        request.now_ms + request.plan.late_ms,
        request.now_ms,
    )


def _response(request: Request, row: LedgerPayment | Movement) -> Outcome:
    """Return the outcome in the ledger, or `Unknown` where the answer is lost or late."""
    if request.is_answer_lost:
        return Unknown("the answer was lost")
    return Unknown("the answer is late") if row.visible_ms > request.now_ms else _outcome(row)


def _outcome(row: LedgerPayment | Movement) -> Approved | Declined:
    """Return the outcome in the ledger; a reversed payment counts as declined."""
    if row.outcome != "approved" or (isinstance(row, LedgerPayment) and row.reversed_ms is not None):
        return Declined(row.detail or PROCESSING_ERROR)
    if isinstance(row, Movement):
        return Approved(row.reference_id, row.amount_minor)
    card = msgspec.json.decode(row.card, type=Card) if row.card is not None else None
    return Approved(row.reference_id, row.amount_minor, row.authorization_code, card, row.installments)


def _keys(operation: Operation, payment: Payment, key: str, *, is_counted: bool) -> tuple[ConflictKey, ...]:
    seller_id = payment.merchant_id
    keys = (
        conflict_keys.simulated_payment(seller_id, payment.payment_id),
        conflict_keys.simulated_request(seller_id, operation, key),
    )
    return (*keys, conflict_keys.simulated_requests(seller_id, operation)) if is_counted else keys


def _digits(kind: str, key: str, count: int) -> str:
    """Derive a number of `count` digits from the key. References have 14: no card number has that length."""
    number = int.from_bytes(hashlib.sha256(f"{kind}:{key}".encode()).digest()[:8], "big")
    least = 10 ** (count - 1) if count > 6 else 0
    return f"{least + number % (10**count - least):0{count}d}"


def create_acquirers(
    database: Database,
    clock: Clock,
    *,
    acquirer: str,
    script: str = "",
    seed: int = 0,
    removals: Removals | None = None,
) -> Acquirers:
    """Return the acquirers that the settings select. Raises `ValueError` for an invalid script."""
    parsed = rules.parse(script)
    create = partial(Simulator, database, clock, script=parsed, seed=seed, removals=removals)
    if acquirer != "simulator":
        return Acquirers(create())
    return Acquirers(create(), {"simulator": create(live=True)}, Routing("simulator"))
