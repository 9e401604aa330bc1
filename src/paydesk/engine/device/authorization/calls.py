"""The calls to the acquirer for terminals of kind `service`. Each outlives the request that started it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import structlog

from paydesk.core.clock import Clock
from paydesk.core.crash_points import reached
from paydesk.engine.device import store
from paydesk.engine.device.rules.decisions import TABLE, reported_by_acquirer, situation_of
from paydesk.engine.orders import status
from paydesk.engine.orders import store as orders
from paydesk.engine.orders.change import Change
from paydesk.engine.orders.order import Order
from paydesk.engine.orders.status_labels import Labels
from paydesk.engine.payments import inquiry_store, outcomes
from paydesk.engine.payments import terms as payment_terms
from paydesk.engine.payments.acquirer import Approved, Card, Declined, NotSent, Outcome, Payment, Unknown
from paydesk.engine.payments.acquirers import CheckedAcquirer
from paydesk.engine.payments.jobs import describe
from paydesk.engine.payments.lifecycles import REVERSING
from paydesk.engine.payments.terms import Terms
from paydesk.platform.storage.conflict_keys import ConflictKey
from paydesk.platform.storage.database import Database, Transaction

ANSWER_SECONDS_MAX = 25.0
NOT_SENT_PAUSE_SECONDS = 1.0
"""Pause before the next attempt to reach the acquirer."""
UNANSWERED_PAUSES_SECONDS = (0.3, 1.0, 2.0)
"""Pauses before a request that was not answered is sent again, under the same key."""

log = structlog.get_logger("acquirer")


class Authorizations:
    """The calls to acquirers that run on this node: at most one for each order, so at most one for each terminal."""

    def __init__(self) -> None:
        self._running: dict[str, asyncio.Task[Order]] = {}

    def join(self, order_id: str, start: Callable[[], Coroutine[Any, Any, Order]]) -> asyncio.Task[Order]:
        """Return the running call for the order, started if there is none. It returns the order afterwards."""
        task = self._running.get(order_id)
        if task is None:
            # The node keeps the task: a client that disconnects does not end it.
            task = self._running[order_id] = asyncio.create_task(start(), name=f"authorization of {order_id}")
            task.add_done_callback(partial(self._end, order_id))
        return task

    def running(self, order_id: str) -> asyncio.Task[Order] | None:
        """Return the running call for the order, None if there is none on this node."""
        return self._running.get(order_id)

    def _end(self, order_id: str, task: asyncio.Task[Order]) -> None:
        del self._running[order_id]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("authorization_outcome_not_committed", order=order_id, reason=str(error))


@dataclass(frozen=True, slots=True)
class Authorization:
    """A committed authorization, and what the acquirer needs for it."""

    order: Order
    terms: Terms
    payment: Payment
    card: Card
    blob: bytes = field(repr=False)
    send_seconds_max: float
    """Time in which the request may be sent: the permit ends then."""


@dataclass(frozen=True, slots=True)
class Authorizing:
    """Asks the acquirer and commits its answer."""

    database: Database
    clock: Clock
    labels: Labels
    acquirer: CheckedAcquirer

    async def run(self, authorization: Authorization, keys: tuple[ConflictKey, ...]) -> Order:
        """Ask the acquirer, apply its answer, and return the order. Raises `Unavailable`."""
        outcome = await self._ask(authorization)
        reached("asked")
        order = authorization.order
        log.info("authorization_answered", order=order.order_id, outcome=describe(outcome))
        now_ms = self.clock.now_ms()

        async def work(tx: Transaction) -> Order:
            current = await orders.lock(tx, order.seller_id, order.order_id)
            if current is None:
                # A reset of `paydesk dev` has removed it.
                return order
            return await _apply(Change(tx, now_ms, self.labels), current, authorization, outcome)

        changed = await self.database.write(work, conflict_keys=keys)
        reached("outcome_committed")
        return changed

    async def _ask(self, authorization: Authorization) -> Outcome:
        """Return the acquirer's answer; ask again, while the permit is valid, where that charges nothing twice.

        A request that was not sent is repeated, and one without an answer where the acquirer takes a payment once. Once
        a request may have been sent, a later one that was not does not change that.
        """
        loop, sent = asyncio.get_running_loop(), None
        end = loop.time() + ANSWER_SECONDS_MAX
        send_until = min(end, loop.time() + authorization.send_seconds_max)
        pauses = iter(UNANSWERED_PAUSES_SECONDS if "authorize" in self.acquirer.capabilities.idempotent else ())
        while True:
            outcome = await self.acquirer.authorize(
                authorization.payment, authorization.card, blob=authorization.blob, seconds_max=end - loop.time()
            )
            pause = None
            if isinstance(outcome, Unknown):
                sent, pause = outcome, next(pauses, None)
            elif isinstance(outcome, NotSent) and outcome.again:
                pause = NOT_SENT_PAUSE_SECONDS
            if pause is not None and loop.time() + pause < send_until:
                await asyncio.sleep(pause)
                if loop.time() < send_until:  # The pause lasts longer on a busy node.
                    continue
            return sent or outcome if isinstance(outcome, NotSent) else outcome


async def _apply(change: Change, order: Order, authorization: Authorization, outcome: Outcome) -> Order:
    """Apply the acquirer's answer as the table of decisions says; return the order's current row."""
    inquiry = await inquiry_store.status_of(change.tx, order) if order.state == status.CHECK_ON_TERMINAL else None
    situation = situation_of(order, is_being_reversed=inquiry == REVERSING.name, contradicts=False)
    reported = reported_by_acquirer(order, outcome, authorization.payment.amount_minor)
    is_unsent = isinstance(outcome, NotSent) and situation == "permitted"
    # Another call, perhaps of a node that has ended, may have reached the acquirer.
    if is_unsent and not (await payment_terms.find(change.tx, order)).is_repeated:
        return await _decline(change, order, authorization, "processing_error", origin="network")
    match TABLE[reported, situation]:
        case "end" if isinstance(outcome, Approved):
            terms = authorization.terms
            paid = outcomes.paid_of(outcome, terms.requested, tip_minor=terms.requested_tip_minor)
            return await outcomes.approve(change, order, paid, by="authorization") or order
        case "end" if isinstance(outcome, Declined):
            return await _decline(change, order, authorization, outcomes.detail_of(outcome), origin="acquirer")
        case "check" | "conflict":
            if isinstance(outcome, Unknown) and outcome.differs:
                await outcomes.alert_differing(change, order, outcome, {"payment_id": order.payment_id})
            checked = await orders.move(change, status.CHECK, order, origin="network")
            await orders.inquire(change, order, f"the acquirer's answer to the authorization: {describe(outcome)}")
            return checked or order
        case "inquire":
            await orders.inquire(change, order, "the authorization had no answer, and the order had ended")
        case "late_approval" if isinstance(outcome, Approved):
            await outcomes.reverse_late_approval(change, order, outcome)
        case "finished" if isinstance(outcome, Approved) and reported == "payment":
            await store.set_reference(change.tx, order, outcome.reference_id)
    return order


async def _decline(change: Change, order: Order, authorization: Authorization, detail: str, *, origin: str) -> Order:
    digits = authorization.card.last_digits
    declined = await outcomes.decline(
        change, order, by="authorization", detail=detail, origin=origin, last_digits=digits
    )
    return declined or order
