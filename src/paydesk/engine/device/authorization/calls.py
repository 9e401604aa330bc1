"""The calls to the acquirer for terminals of kind `service`. Each outlives the request that started it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import structlog

from paydesk.core.clock import Clock
from paydesk.core.crash_points import reached
from paydesk.engine.device import store
from paydesk.engine.device.rules.decisions import TABLE, Decision, Situation, reported_by_acquirer, situation_of
from paydesk.engine.orders import status
from paydesk.engine.orders import store as orders
from paydesk.engine.orders.change import Change
from paydesk.engine.orders.order import Order
from paydesk.engine.orders.status_labels import Labels
from paydesk.engine.payments import confirmation_store, inquiry_store, outcomes
from paydesk.engine.payments import terms as payment_terms
from paydesk.engine.payments.acquirer import Approved, Card, Declined, NotSent, Outcome, Payment, Unknown
from paydesk.engine.payments.acquirers import CheckedAcquirer
from paydesk.engine.payments.confirmation_store import Confirmation
from paydesk.engine.payments.jobs import describe
from paydesk.engine.payments.lifecycles import REVERSING
from paydesk.engine.payments.outcomes import Paid
from paydesk.engine.payments.terms import Terms
from paydesk.platform.storage.conflict_keys import ConflictKey
from paydesk.platform.storage.database import Database, Transaction

if TYPE_CHECKING:
    from paydesk.platform.settings import Settings

ANSWER_SECONDS_MAX = 25.0
NOT_SENT_PAUSE_SECONDS = 1.0
"""Pause before the next attempt to reach the acquirer."""
UNANSWERED_PAUSES_SECONDS = (0.3, 1.0, 2.0)
"""Pauses before a request that was not answered is sent again, under the same key."""

log = structlog.get_logger("acquirer")


class Authorizations:
    """The calls to acquirers that run on this node: at most one for each order, so at most one for each terminal."""

    def __init__(self) -> None:
        self._running: dict[str, asyncio.Task[Answered]] = {}

    def join(self, order: Order, start: Callable[[], Coroutine[Any, Any, Answered]]) -> asyncio.Task[Answered]:
        """Return the running call for the order, started if there is none. It returns the order afterwards."""
        order_id = order.order_id
        task = self._running.get(order_id)
        if task is None:
            # The node keeps the task: a client that disconnects does not end it.
            task = self._running[order_id] = asyncio.create_task(start(), name=f"authorization of {order_id}")
            task.add_done_callback(partial(self._end, order))
        return task

    def running(self, order_id: str) -> asyncio.Task[Answered] | None:
        """Return the running call for the order, None if there is none on this node."""
        return self._running.get(order_id)

    def _end(self, order: Order, task: asyncio.Task[Answered]) -> None:
        del self._running[order.order_id]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("authorization_outcome_not_committed", **order.order_facts, reason=str(error))


@dataclass(frozen=True, slots=True)
class Answered:
    """The order after the acquirer's answer."""

    order: Order
    approval: Confirmation | None = None
    """The approval that waits for the terminal's result."""
    issuer_data: bytes = b""
    """The issuer's data for the chip in a decline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Authorization:
    """A committed authorization, with what the acquirer needs for it; it asks the acquirer and commits the answer."""

    database: Database
    clock: Clock
    settings: Settings
    labels: Labels
    acquirer: CheckedAcquirer
    order: Order
    terms: Terms
    payment: Payment
    card: Card
    blob: bytes = field(repr=False)
    request_id: str
    send_seconds_max: float
    """Time in which the request may be sent: the permit ends then."""

    async def run(self, keys: tuple[ConflictKey, ...]) -> Answered:
        """Ask the acquirer, apply its answer, and return the order. Raises `Unavailable`."""
        outcome, order = await self._ask(), self.order
        reached("asked")
        facts = {**order.order_facts, "request_id": self.request_id}
        log.info("authorization_answered", **facts, outcome=describe(outcome))
        now_ms = self.clock.now_ms()

        async def work(tx: Transaction) -> Answered:
            current = await orders.lock(tx, order.seller_id, order.order_id)
            if current is None:
                # A reset of `paydesk dev` has removed it.
                return Answered(order)
            changed = await self._apply(Change(tx, now_ms, self.labels), current, outcome)
            issuer_data = outcome.issuer_data if isinstance(outcome, Declined) else b""
            return Answered(changed, await confirmation_store.provisional(tx, changed), issuer_data)

        answered = await self.database.write(work, conflict_keys=keys)
        reached("outcome_committed")
        return answered

    async def _ask(self) -> Outcome:
        """Return the acquirer's answer; ask again, while the permit is valid, where that charges nothing twice.

        A request that was not sent is repeated, and so is a request without an answer where the acquirer takes a
        payment once. Once a request may have been sent, a later request that was not sent does not change that.
        """
        loop, sent = asyncio.get_running_loop(), None
        end = loop.time() + ANSWER_SECONDS_MAX
        send_until = min(end, loop.time() + self.send_seconds_max)
        pauses = iter(UNANSWERED_PAUSES_SECONDS if "authorize" in self.acquirer.capabilities.idempotent else ())
        while True:
            seconds_max = end - loop.time()
            outcome = await self.acquirer.authorize(self.payment, self.card, blob=self.blob, seconds_max=seconds_max)
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

    async def _apply(self, change: Change, order: Order, outcome: Outcome) -> Order:
        """Apply the acquirer's answer as the table of decisions says; return the order's current row."""
        inquiry = await inquiry_store.status_of(change.tx, order) if order.state == status.CHECK_ON_TERMINAL else None
        provisional = await confirmation_store.provisional(change.tx, order)
        situation = situation_of(
            order,
            is_being_reversed=inquiry == REVERSING.name,
            contradicts=False,
            is_provisional=provisional is not None,
        )
        reported = reported_by_acquirer(order, outcome, self.payment.amount_minor)
        is_unsent = isinstance(outcome, NotSent) and situation == "permitted"
        # Another call, perhaps of a node that has ended, may have reached the acquirer.
        if is_unsent and not (await payment_terms.find(change.tx, order)).is_repeated:
            return await self._decline(change, order, "processing_error", origin="network")
        if situation == "provisional":
            # An answer to another call; of two that differ neither is believed.
            reason = f"the answer differs from an earlier one: {describe(outcome)}"
            is_same = reported in ("approved", "unknown")
            return order if is_same else await _check(change, order, Unknown(reason, differs=True))
        changed: Order | None = None
        match TABLE[reported, situation]:
            case "end" | "conflict" as decision if isinstance(outcome, Approved) and self._is_held(outcome, situation):
                changed = await self._hold(change, order, outcome, decision)
            case "end" if isinstance(outcome, Approved):
                changed = await outcomes.approve(change, order, self._paid(outcome), by="authorization")
            case "end" if isinstance(outcome, Declined):
                detail = outcomes.detail_of(outcome)
                changed = await self._decline(change, order, detail, origin=outcome.origin)
            case "check" | "conflict":
                changed = await _check(change, order, outcome)
            case "inquire":
                await orders.inquire(change, order, "the authorization had no answer, and the order had ended")
            case "late_approval" if isinstance(outcome, Approved):
                await outcomes.reverse_late_approval(change, order, outcome)
            case "finished" if isinstance(outcome, Approved) and reported == "payment":
                await store.set_reference(change.tx, order, outcome.reference_id)
        return changed or order

    def _is_held(self, approved: Approved, situation: Situation) -> bool:
        """Return True if the approval does not end the order.

        It waits for its terminal; or the order no longer does, and the card may not agree. A host that confirms by
        itself calls a provisional approval final afterwards, so that its declaration at the request counts.
        """
        return approved.needs_confirmation or (situation == "unknown" and self.acquirer.capabilities.needs_confirmation)

    async def _hold(self, change: Change, order: Order, approved: Approved, decision: Decision) -> Order:
        """Store the approval: to be decided by the terminal's result, or, where that comes too late, to be undone."""
        is_in_time = decision == "end" and order.state != status.CHECK_ON_TERMINAL
        state: Literal["provisional", "undone"] = "provisional" if is_in_time else "undone"
        paid, capabilities = self._paid(approved), self.acquirer.capabilities
        await confirmation_store.add(change, order, state, approved, paid, capabilities, self.settings)
        if is_in_time:
            return order
        checked = await _check(change, order, approved)
        await inquiry_store.hurry(change, order)
        return checked

    def _paid(self, approved: Approved) -> Paid:
        return outcomes.paid_of(approved, self.terms.requested, tip_minor=self.terms.requested_tip_minor)

    async def _decline(self, change: Change, order: Order, detail: str, *, origin: str) -> Order:
        digits = self.card.last_digits
        declined = await outcomes.decline(
            change, order, by="authorization", detail=detail, origin=origin, last_digits=digits
        )
        return declined or order


async def _check(change: Change, order: Order, outcome: Outcome) -> Order:
    """Inquire about the outcome of the order; return its current row."""
    if isinstance(outcome, Unknown) and outcome.differs:
        await outcomes.alert_differing(change, order, outcome, {"payment_id": order.payment_id})
    checked = await orders.move(change, status.CHECK, order, origin="network")
    await orders.inquire(change, order, f"the acquirer's answer to the authorization: {describe(outcome)}")
    if isinstance(outcome, Approved):
        await inquiry_store.keep_charged(change, order, outcome.amount_minor)
    return checked or order
