"""Requests to the simulated acquirer on their way to its ledger, and the answers on their way back, with their faults.

Nothing is awaited within a transaction but the ledger: what is held or delayed waits before it or after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from paydesk.core.clock import Clock
from paydesk.core.faults import HELD_SECONDS_MAX, Fault
from paydesk.engine.payments.acquirer import Card, NotSent, Payment, Result, Unknown
from paydesk.engine.payments.simulator import cards, faults, ledger
from paydesk.engine.payments.simulator.answers import Request
from paydesk.engine.payments.simulator.faults import CONFIRM, FaultSource, Fired, Operation, Plan
from paydesk.engine.payments.simulator.removals import OrderRemoved, Removals
from paydesk.platform.storage import conflict_keys
from paydesk.platform.storage.conflict_keys import ConflictKey
from paydesk.platform.storage.database import Database, Locked, Transaction, Unavailable

DEADLINE_SECONDS = 8.0
"""A longer delay ends as *unknown* after this time."""
TOO_SLOW = Unknown("no answer before the deadline")

T = TypeVar("T", bound=Result)
Effect = Callable[[Transaction, Request], Awaitable[T]]


class Exchanges:
    """The exchanges of the simulator with its callers: each request has one effect at most, and one answer."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        removals: Removals,
        script: tuple[Fault, ...],
        source: FaultSource | None,
        sleep: Callable[[float], Awaitable[object]],
        *,
        mode: str,
    ) -> None:
        self._database, self._clock, self._removals, self._mode = database, clock, removals, mode
        self._script, self._source, self._sleep = script, source, sleep

    async def answer(
        self, operation: Operation, payment: Payment, key: str, effect: Effect[T], card: Card | None = None
    ) -> T | Unknown | NotSent:
        """Commit the effect to the ledger, then return the answer, delayed or lost as the faults say."""
        request, fired = CONFIRM if operation == "confirmation" else operation, tuple[Fired, ...]()
        if self._source is not None and self._source.is_active:
            facts = {
                "seller": str(payment.merchant_id),
                "mode": self._mode,
                "terminal": payment.terminal_id,
                "order": payment.order_id,
                "card": cards.name_of(card),
            }
            fired = tuple(self._source.take(request, key, facts, self._clock.now_ms()))
        of_all = (*cards.faults_of_card(card), *cards.faults_of_amount(payment.amount_minor), *self._script)
        own = tuple(fault for fault in of_all if fault.request == request) if of_all else ()
        respond = partial(self._respond, operation, payment, key, effect, own, fired)
        held = [one for one in fired if one.firing[1].name == "late" and faults.is_held(one.firing)]
        if not held:
            return await respond()
        (late,) = held

        async def arrive() -> T | Unknown | NotSent:
            late.note(None)
            await late.hold(HELD_SECONDS_MAX)
            return TOO_SLOW if self._database.signals.stopping else await respond()

        # The engine may no longer wait for an answer: the request arrives nevertheless.
        arriving = asyncio.create_task(arrive(), name=f"{request} of {payment.order_id}")
        self._removals.add_held(arriving)
        await asyncio.wait((arriving,), timeout=DEADLINE_SECONDS)
        return arriving.result() if arriving.done() and not arriving.cancelled() else TOO_SLOW

    async def _respond(
        self,
        operation: Operation,
        payment: Payment,
        key: str,
        effect: Effect[T],
        own: tuple[Fault, ...],
        fired: tuple[Fired, ...],
    ) -> T | Unknown | NotSent:
        """Commit the effect of a request that arrives, and return its answer unless a fault loses one of them."""
        now_ms, is_counted, answer = self._clock.now_ms(), bool(own) and faults.are_counted(own), None

        async def work(tx: Transaction) -> tuple[T | None, Plan]:
            ordinal, attempt, outcome = 1, 1, None
            if is_counted:
                ordinal, attempt = await ledger.count_request(tx, payment.merchant_id, operation, key, now_ms)
            plan = faults.UNDISTURBED
            if own or fired:
                plan = faults.plan_of((*(one.firing for one in fired), *faults.firing_of(own, ordinal, attempt)))
            if plan.way not in ("not_sent", "reset"):
                outcome = await effect(tx, Request(key, plan, now_ms))
            self._removals.refuse(payment.order_id)
            return outcome, plan

        try:
            if operation == "inquiry" and not is_counted:
                answer, plan = await self._database.read(work)
            else:
                keys = conflict_keys_of(operation, payment, key, is_counted=is_counted)
                answer, plan = await self._database.write(work, conflict_keys=keys)
        except OrderRemoved as error:
            return NotSent(str(error))
        except (Unavailable, Locked) as error:
            return Unknown(f"the simulator ledger is unavailable: {error}")
        finally:
            for one in fired:
                one.note(answer)
        return answer if answer is not None and not (own or fired) else await self._deliver(answer, plan, fired)

    async def _deliver(self, answer: T | None, plan: Plan, fired: tuple[Fired, ...]) -> T | Unknown | NotSent:
        """Return the answer after its delay; *unknown* if it is lost, or comes after the deadline."""
        if plan.way == "not_sent":
            return NotSent("the connection is down")
        slow, seconds = next((one for one in fired if one.firing[1].name == "slow"), None), plan.delay_seconds
        if slow is not None:
            limit = DEADLINE_SECONDS if faults.is_held(slow.firing) else min(seconds, DEADLINE_SECONDS)
            is_released = await slow.hold(limit)
            seconds = 0 if is_released else limit
        elif seconds:
            await self._sleep(min(seconds, DEADLINE_SECONDS))
        if seconds >= DEADLINE_SECONDS:
            return TOO_SLOW
        if answer is None or plan.way == "answer_lost":
            return Unknown("no answer" if answer is None else "the answer was lost")
        return answer


def conflict_keys_of(
    operation: Operation, payment: Payment, key: str, *, is_counted: bool = False
) -> tuple[ConflictKey, ...]:
    """Return the conflict keys of a request; with `is_counted`, also that of the seller's requests."""
    seller_id = payment.merchant_id
    keys = (
        conflict_keys.simulated_payment(seller_id, payment.payment_id),
        conflict_keys.simulated_request(seller_id, operation, key),
    )
    return (*keys, conflict_keys.simulated_requests(seller_id, operation)) if is_counted else keys
