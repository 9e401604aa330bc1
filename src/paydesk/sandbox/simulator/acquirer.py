"""The simulated acquirer. It stands outside: a book of its own, in units of work of its own.

Whoever is first under a key decides, by a conditional insert; whoever repeats it is told the same, also when many come
at once and after a crash. What it does is said by the card, the amount and the script, in this order.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import TypeVar

import msgspec

from paydesk.core.clock import Clock
from paydesk.payments.acquirer import (
    Acquirers,
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
from paydesk.sandbox.simulator import cards, rules, store
from paydesk.sandbox.simulator.rules import Operation, Plan, Rules
from paydesk.sandbox.simulator.store import Entry, Movement
from paydesk.storage.database import Database, Locked, Transaction, Unavailable

DEADLINE_SECONDS = 8.0
"""An answer that would take longer is none."""
REFUSED = "processing_error"

T = TypeVar("T", bound=InquiryResult)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: of which operation, under which key, how often it has come, and what is to become of it."""

    operation: Operation
    key: str
    times: int
    plan: Plan

    @property
    def is_lost(self) -> bool:
        """Whether this answer gets lost on its way back."""
        return self.plan.vain < self.times <= self.plan.vain + self.plan.lost


class Simulator:
    """An acquirer of play money, `live` for one whose orders are called live (in development alone).

    The same script and seed do the same with the same requests in the same order.
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
    ) -> None:
        self._database, self._clock, self._live = database, clock, int(live)
        self._script, self._seed, self._sleep = script, seed, sleep

    async def authorize(self, payment: Payment, card: Card, *, blob: bytes = b"") -> Outcome:
        """Charge, once under `payment.payment_id`. The blob is for acquirers that can read it."""
        del blob
        now_ms = self._clock.now_ms()

        async def effect(tx: Transaction, asked: Asked) -> Outcome:
            entry = await store.enter(tx, self._entry(payment, asked.plan, now_ms, card))
            return _held_back(asked, entry.known_ms, now_ms) or _outcome(entry)

        own = (*cards.rules_of_card(card), *cards.rules_of_amount(payment.amount_minor))
        return await self._answer("payment", payment, payment.payment_id, own, effect)

    async def settle(self, payment: Payment, card: Card | None) -> Approved | Declined:
        """Have it approved, whatever card, amount and script say; what the book has of it already stays.

        For who plays the terminal and the acquirer in one. Raises `Unavailable`, `Locked`.
        """
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> Entry:
            return await store.enter(tx, self._entry(payment, Plan(), now_ms, card))

        conflict_keys = _touches("payment", payment, payment.payment_id, is_counted=False)
        return _outcome(await self._database.write(work, conflict_keys=conflict_keys))

    async def inquire(self, payment: Payment) -> InquiryResult:
        """What the book says; nothing before a late answer is due."""
        now_ms = self._clock.now_ms()

        async def effect(tx: Transaction, asked: Asked) -> InquiryResult:
            entry = await store.find(tx, payment.merchant_id, payment.payment_id)
            if asked.is_lost:
                return Unknown("the answer was lost")
            return _outcome(entry) if entry is not None and entry.known_ms <= now_ms else NotFound()

        own = cards.rules_of_amount(payment.amount_minor)
        return await self._answer("inquiry", payment, payment.payment_id, own, effect)

    async def refund(self, payment: Payment, *, key: str, amount_minor: int) -> Outcome:
        """Give a part or all back, once under `key`, and never more than was approved.

        Of a payment that never came here (its terminal was played by hand) the caller's word is taken.
        """
        now_ms = self._clock.now_ms()

        async def effect(tx: Transaction, asked: Asked) -> Outcome:
            await store.enter(tx, self._entry(payment, Plan(), now_ms))
            movement = self._movement("refund", payment, asked, amount_minor, now_ms)
            known = await store.move(tx, movement)
            if known is None and movement.outcome == "approved" and not await store.take(tx, movement):
                await store.decline(tx, movement, REFUSED)
                return _held_back(asked, movement.known_ms, now_ms) or Declined(REFUSED)
            told = known or movement
            return _held_back(asked, told.known_ms, now_ms) or _outcome(told)

        own = cards.rules_of_amount(payment.amount_minor)
        return await self._answer("refund", payment, key, own, effect)

    async def reverse(self, payment: Payment, *, key: str, amount_minor: int, reference_id: str = "") -> Outcome:
        """Undo the approval, once under `key`; with a reference that one alone, and never the payment beside it.

        What isn't there is forbidden from now on, and that is approved too.
        """
        now_ms = self._clock.now_ms()

        async def effect(tx: Transaction, asked: Asked) -> Outcome:
            if not reference_id:
                await store.enter(tx, self._entry(payment, Plan(detail=REFUSED), now_ms, reversed_ms=now_ms))
            movement = self._movement("reversal", payment, asked, amount_minor, now_ms)
            known = await store.move(tx, movement)
            if known is None:
                await store.undo(tx, movement, reference_id)
            told = known or movement
            return _held_back(asked, told.known_ms, now_ms) or _outcome(told)

        own = cards.rules_of_amount(payment.amount_minor)
        return await self._answer("reversal", payment, key, own, effect)

    async def _answer(
        self,
        operation: Operation,
        payment: Payment,
        key: str,
        own: Rules,
        effect: Callable[[Transaction, Asked], Awaitable[T]],
    ) -> T | Unknown | NotSent:
        """One request from its arrival to its answer: the book is written first, then the answer is late, or lost."""
        chosen = rules.of_operation((*own, *self._script), operation)
        is_counted = rules.depend_on_chance(chosen) or rules.plan(chosen).is_counted

        async def work(tx: Transaction) -> tuple[T | Unknown | NotSent, int]:
            ordinal, times = 0, 1
            if is_counted:
                ordinal, times = await store.ask(tx, payment.merchant_id, operation, key, self._clock.now_ms())
            asked = Asked(operation, key, times, rules.plan(chosen, self._seed, ordinal))
            return _in_vain(asked) or await effect(tx, asked), asked.plan.delay_ms

        try:
            if operation == "inquiry" and not is_counted:
                outcome, delay_ms = await self._database.read(work)
            else:
                conflict_keys = _touches(operation, payment, key, is_counted=is_counted)
                outcome, delay_ms = await self._database.write(work, conflict_keys=conflict_keys)
        except (Unavailable, Locked) as error:
            return Unknown(f"the book is out of reach: {error}")
        return await self._after(delay_ms, outcome)

    async def _after(self, delay_ms: int, outcome: T | Unknown | NotSent) -> T | Unknown | NotSent:
        if not delay_ms or isinstance(outcome, NotSent):
            return outcome
        await self._sleep(min(delay_ms / 1000, DEADLINE_SECONDS))
        return outcome if delay_ms / 1000 < DEADLINE_SECONDS else Unknown("no answer in time")

    def _entry(
        self, payment: Payment, plan: Plan, now_ms: int, card: Card | None = None, reversed_ms: int | None = None
    ) -> Entry:
        return Entry(
            payment.merchant_id,
            payment.payment_id,
            payment.terminal_id,
            self._live,
            payment.amount_minor,
            payment.currency,
            "declined" if plan.detail else "approved",
            plan.detail or None,
            _digits("payment", payment.payment_id, 14),
            None if plan.detail else _digits("code", payment.payment_id, 6),
            msgspec.json.encode(asdict(card)).decode() if card is not None else None,
            payment.installments,
            now_ms + plan.late_ms,
            now_ms,
            reversed_ms,
        )

    def _movement(self, kind: str, payment: Payment, asked: Asked, amount_minor: int, now_ms: int) -> Movement:
        detail = asked.plan.detail
        return Movement(
            payment.merchant_id,
            asked.key,
            kind,
            payment.payment_id,
            amount_minor,
            "declined" if detail else "approved",
            detail or None,
            _digits(kind, asked.key, 14),
            now_ms + asked.plan.late_ms,
            now_ms,
        )


def _in_vain(asked: Asked) -> Unknown | NotSent | None:
    """What becomes of a request that does not arrive."""
    if asked.times <= asked.plan.not_sent:
        return NotSent("the line is down")
    return Unknown("nothing was heard") if asked.times <= asked.plan.vain else None


def _held_back(asked: Asked, known_ms: int, now_ms: int) -> Unknown | None:
    """No answer, where it is lost or still to come."""
    if asked.is_lost:
        return Unknown("the answer was lost")
    return Unknown("the answer is late") if known_ms > now_ms else None


def _outcome(row: Entry | Movement) -> Approved | Declined:
    """What the book says of it. What was reversed did not happen, and will not."""
    if row.outcome != "approved" or (isinstance(row, Entry) and row.reversed_ms is not None):
        return Declined(row.detail or REFUSED)
    if isinstance(row, Movement):
        return Approved(row.reference_id, row.amount_minor)
    card = msgspec.json.decode(row.card, type=Card) if row.card is not None else None
    return Approved(row.reference_id, row.amount_minor, row.authorization_code, card, row.installments)


def _touches(operation: Operation, payment: Payment, key: str, *, is_counted: bool) -> tuple[str, ...]:
    names = [f"{payment.merchant_id}:{payment.payment_id}", f"{payment.merchant_id}:{operation}:{key}"]
    if is_counted:
        # The seller's numbers are handed out one after the other.
        names.append(f"{payment.merchant_id}:{operation}")
    return tuple(f"simulator:{name}" for name in names)


def _digits(kind: str, key: str, count: int) -> str:
    """A number of so many digits that is the key's own. Fourteen: no card number has so many."""
    drawn = int.from_bytes(hashlib.sha256(f"{kind}:{key}".encode()).digest()[:8], "big")
    least = 10 ** (count - 1) if count > 6 else 0
    return f"{least + drawn % (10**count - least):0{count}d}"


def configured(database: Database, clock: Clock, *, acquirer: str, script: str = "", seed: int = 0) -> Acquirers:
    """The acquirers by the settings. Raises `ValueError` for a script that is none."""
    parsed = rules.parse(script)
    test = Simulator(database, clock, script=parsed, seed=seed)
    live = Simulator(database, clock, live=True, script=parsed, seed=seed) if acquirer == "simulator" else None
    return Acquirers(test, live)
