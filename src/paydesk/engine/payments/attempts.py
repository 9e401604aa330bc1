"""One attempt at the acquirer, step by step: to inquire, to reverse a late approval, or to confirm an approval.

An attempt inquires about the payment and commits what follows. If that is the intent to reverse the payment, it does
so under the job's own key, and commits the outcome. Without an outcome the job is retried; operators are alerted once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from paydesk.core.crash_points import reached
from paydesk.engine.orders import store
from paydesk.engine.orders.change import Change, change_at
from paydesk.engine.orders.order import Order
from paydesk.engine.payments import confirmation_store, terms
from paydesk.engine.payments.acquirer import InquiryResult, NotFound, Result, ReverseResult, Unknown
from paydesk.engine.payments.acquirers import Acquirers, CheckedAcquirer
from paydesk.engine.payments.capabilities import NO_CAPABILITIES, not_found_seconds
from paydesk.engine.payments.confirmation_store import Confirmation
from paydesk.engine.payments.jobs import AcquirerJob, OpenJob, describe, log, next_attempt_ms
from paydesk.engine.payments.outcomes import alert, alert_differing
from paydesk.engine.payments.terms import Terms, payment_of
from paydesk.platform.jobs import Removed
from paydesk.platform.operator_events import Kind
from paydesk.platform.storage import conflict_keys
from paydesk.platform.storage.database import Transaction
from paydesk.platform.worker import WorkerContext

Subject = tuple[Order, Terms, Confirmation | None]
"""The order of a job, the terms of its payment, and the acquirer's approval if that needs a confirmation."""

J = TypeVar("J", bound=OpenJob)
R = TypeVar("R")


class Attempt(ABC, Generic[J]):
    """One attempt of a job, with the job's row."""

    log_facts: dict[str, str]
    """Further fields of log events."""
    alert_kind: Kind
    evidence: dict[str, str]
    """The body of an alert. Its message is `no_acquirer`, or `silence` and `advice` after `acquirer_silent_seconds`."""
    no_acquirer: str
    silence: str
    advice: str
    pauses_seconds: tuple[int, ...]

    def __init__(self, context: WorkerContext, job: AcquirerJob[J], row: J, subject: Subject) -> None:
        self._context, self.settings = context, context.settings
        self.job, self.row = job, row
        self.order, self.terms, self.approval = subject
        self.payment = payment_of(self.order, self.terms)
        self.acquirer = context.objects[Acquirers].of(self.order)
        self.capabilities = NO_CAPABILITIES if self.acquirer is None else self.acquirer.capabilities
        self.began_ms = row.created_ms
        """The time from which on the payment may be under way."""
        self.set_up()

    @classmethod
    async def process(cls, context: WorkerContext, job: AcquirerJob[J], row: J) -> None:
        """Make an attempt of the claimed row."""

        async def read(tx: Transaction) -> Subject:
            order = await store.find(tx, row.seller_id, row.order_id)
            if order is None:
                raise Removed(row.order_id)
            return order, await terms.find(tx, order), await confirmation_store.find(tx, order)

        await cls(context, job, row, await context.database.read(read)).make()

    @abstractmethod
    def set_up(self) -> None:
        """Set what attempts of this kind have of their own."""

    @abstractmethod
    async def ask(self, acquirer: CheckedAcquirer) -> None:
        """Make the attempt at the acquirer."""

    async def make(self) -> None:
        """Make the attempt; without an acquirer, wait."""
        if self.acquirer is None:
            await self.commit(self._wait_for_acquirer)
        else:
            await self.ask(self.acquirer)

    def not_found_from_ms(self) -> int:
        """Return the time from which on a payment that the acquirer does not find will not be made."""
        return self.began_ms + not_found_seconds(self.capabilities, self.settings) * 1000

    def is_final(self, result: NotFound, now_ms: int) -> bool:
        """Return whether the payment that the acquirer did not find will not be made later."""
        return result.is_final or now_ms >= self.not_found_from_ms()

    async def commit(self, effect: Callable[[Change, Order], Awaitable[R]]) -> R:
        """Commit the effect of a step in one transaction that locks the order's row."""
        database, settings, now_ms = self._context.database, self.settings, self._context.clock.now_ms()

        async def work(tx: Transaction) -> R:
            current = await store.lock(tx, self.order.seller_id, self.order.order_id)
            if current is None:
                raise Removed(self.order.order_id)
            return await effect(change_at(tx, now_ms, settings), current)

        keys = conflict_keys.order(self.order.order_id), conflict_keys.terminal(self.order.terminal_id)
        return await database.write(work, conflict_keys=keys)

    async def retry(self, change: Change, order: Order, result: Result) -> None:
        """Schedule a retry after the pause; of a payment not found, no later than it can be reversed."""
        waited_ms = change.now_ms - self.row.created_ms
        if waited_ms >= self.settings.acquirer_silent_seconds * 1000:
            message = f"{self.silence} for {waited_ms // 1000} s ({describe(result)}). {self.advice}"
            await self.alert_once(change, order, message)
        if isinstance(result, Unknown) and result.differs:
            await alert_differing(change, order, result, self.evidence)
        await self.job.postpone(change.tx, self.row, self.retry_ms(change.now_ms, result))

    def retry_ms(self, now_ms: int, result: Result) -> int:
        """Return the time of the next attempt."""
        at_ms = next_attempt_ms(self.row.attempts, now_ms, self.pauses_seconds)
        if isinstance(result, NotFound) and now_ms < self.not_found_from_ms():
            return min(at_ms, self.not_found_from_ms())
        return at_ms

    async def alert_once(self, change: Change, order: Order, message: str) -> None:
        """Alert operators, unless they were alerted about this job before."""
        if await self.job.mark_alerted(change, self.row):
            await alert(change, order, self.alert_kind, message, self.evidence)

    def log(self, event: str, result: Result) -> None:
        """Log an answer."""
        facts = {**self.order.order_facts, **self.log_facts, "attempt": self.row.attempts}
        log.info(event, **facts, outcome=describe(result))

    async def _wait_for_acquirer(self, change: Change, order: Order) -> None:
        await self.alert_once(change, order, self.no_acquirer)
        await self.job.postpone(change.tx, self.row, change.now_ms + self.pauses_seconds[-1] * 1000)


class ReversingAttempt(Attempt[J]):
    """An attempt that inquires about the payment, and may end in its reversal."""

    inquiry_event: str
    reversal_event: str
    """The log events of the two answers."""
    is_intended: bool
    """The intent to reverse the payment is committed."""

    @abstractmethod
    def request_reversal(self, acquirer: CheckedAcquirer) -> Awaitable[ReverseResult]:
        """Request the reversal under the job's own key."""

    @abstractmethod
    async def apply(self, change: Change, order: Order, result: InquiryResult) -> bool:
        """Apply the answer of an inquiry; return whether the payment is to be reversed."""

    @abstractmethod
    async def apply_reversal(self, change: Change, order: Order, outcome: ReverseResult) -> None:
        """Apply the outcome of the reversal."""

    async def ask(self, acquirer: CheckedAcquirer) -> None:
        """Inquire, unless the intent to reverse is committed, and reverse if it is."""
        if not self.is_intended:
            result = await self.inquire(acquirer)
            self.is_intended = await self.commit(lambda change, order: self.apply(change, order, result))
            reached("intent_committed" if self.is_intended else "outcome_committed")
        if self.is_intended:
            outcome = await self.request_reversal(acquirer)
            reached("reversal_asked")
            self.log(self.reversal_event, outcome)
            await self.commit(lambda change, order: self.apply_reversal(change, order, outcome))
            reached("outcome_committed")

    async def inquire(self, acquirer: CheckedAcquirer) -> InquiryResult:
        """Return the outcome of the payment; `NotFound` from an acquirer that cannot be asked."""
        if not self.capabilities.can_inquire:
            # Where a reversal blocks the payment, it cannot come too early.
            return NotFound(is_final=self.capabilities.reversal_blocks)
        result = await acquirer.inquire(self.payment)
        reached("inquired")
        self.log(self.inquiry_event, result)
        return result
