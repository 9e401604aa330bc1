"""One attempt at the acquirer, step by step: of an inquiry, or of the reversal of a late approval.

An attempt inquires about the payment and commits what follows. If that is the intent to reverse the payment, it does
so under the job's own key, and commits the outcome. Without one the job is retried; operators are alerted once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Generic, Self, TypeVar

from paydesk.core.crash_points import reached
from paydesk.engine.orders import store
from paydesk.engine.orders.change import Change, change_at
from paydesk.engine.orders.order import Order
from paydesk.engine.payments import terms
from paydesk.engine.payments.acquirer import InquiryResult, NotFound, Result, ReverseResult, Unknown
from paydesk.engine.payments.acquirers import Acquirers, CheckedAcquirer
from paydesk.engine.payments.capabilities import NO_CAPABILITIES, Capabilities
from paydesk.engine.payments.jobs import AcquirerJob, OpenJob, describe, log, next_attempt_ms
from paydesk.engine.payments.outcomes import alert, alert_differing
from paydesk.engine.payments.terms import Terms, payment_of
from paydesk.platform.jobs import Removed
from paydesk.platform.operator_events import Kind
from paydesk.platform.settings import Settings
from paydesk.platform.storage import conflict_keys
from paydesk.platform.storage.database import Transaction
from paydesk.platform.worker import WorkerContext

J = TypeVar("J", bound=OpenJob)
R = TypeVar("R")


def not_found_seconds(capabilities: Capabilities, settings: Settings) -> int:
    """Return how long after the permit a payment that the acquirer does not find may still be made."""
    under_way_seconds = settings.grant_seconds + capabilities.answer_seconds
    declared_seconds = capabilities.not_found_final_seconds
    if not capabilities.can_inquire:
        return under_way_seconds
    return max(settings.inquiry_not_found_seconds if declared_seconds is None else declared_seconds, under_way_seconds)


class Attempt(ABC, Generic[J]):
    """One attempt of a job, with the job's row."""

    inquiry_event: str
    reversal_event: str
    """The log events of the two answers; `log_facts` are further fields."""
    log_facts: dict[str, str]
    alert_kind: Kind
    evidence: dict[str, str]
    """The body of an alert. Its message is `no_acquirer`, or `silence` and `advice` after `acquirer_silent_seconds`."""
    no_acquirer: str
    silence: str
    advice: str
    pauses_seconds: tuple[int, ...]
    is_intended: bool
    """Whether the intent to reverse the payment is committed."""

    def __init__(self, context: WorkerContext, job: AcquirerJob[J], row: J, order: Order, terms: Terms) -> None:
        self._context, self.settings = context, context.settings
        self.job, self.row, self.order, self.terms = job, row, order, terms
        self.payment = payment_of(order, terms)
        self.acquirer = context.objects[Acquirers].of(order)
        self.capabilities = NO_CAPABILITIES if self.acquirer is None else self.acquirer.capabilities
        self.began_ms = row.created_ms
        """The time from which on the payment may be under way."""

    @classmethod
    async def of(cls, context: WorkerContext, job: AcquirerJob[J], row: J) -> Self:
        """Return an attempt of the claimed row."""

        async def read(tx: Transaction) -> tuple[Order, Terms]:
            order = await store.find(tx, row.seller_id, row.order_id)
            if order is None:
                raise Removed(row.order_id)
            return order, await terms.find(tx, order)

        return cls(context, job, row, *await context.database.read(read))

    def not_found_from_ms(self) -> int:
        """Return the time from which on a payment that the acquirer does not find will not be made."""
        return self.began_ms + not_found_seconds(self.capabilities, self.settings) * 1000

    @abstractmethod
    def request_reversal(self, acquirer: CheckedAcquirer) -> Awaitable[ReverseResult]:
        """Request the reversal under the job's own key."""

    @abstractmethod
    async def apply(self, change: Change, order: Order, result: InquiryResult) -> bool:
        """Apply the answer of an inquiry; return whether the payment is to be reversed."""

    @abstractmethod
    async def apply_reversal(self, change: Change, order: Order, outcome: ReverseResult) -> None:
        """Apply the outcome of the reversal."""

    async def make(self) -> None:
        """Inquire, unless the intent to reverse is committed, and reverse if it is; without an acquirer, wait."""
        if self.acquirer is None:
            await self.commit(self._wait_for_acquirer)
            return
        if not self.is_intended:
            result = await self._inquire(self.acquirer)
            self.is_intended = await self.commit(lambda change, order: self.apply(change, order, result))
            reached("intent_committed" if self.is_intended else "outcome_committed")
        if self.is_intended:
            outcome = await self.request_reversal(self.acquirer)
            reached("reversal_asked")
            self._log(self.reversal_event, outcome)
            await self.commit(lambda change, order: self.apply_reversal(change, order, outcome))
            reached("outcome_committed")

    async def _inquire(self, acquirer: CheckedAcquirer) -> InquiryResult:
        """Return the outcome of the payment; `NotFound` from an acquirer that cannot be asked."""
        if not self.capabilities.can_inquire:
            # Where a reversal blocks the payment, it cannot come too early.
            return NotFound(is_final=self.capabilities.reversal_blocks)
        result = await acquirer.inquire(self.payment)
        reached("inquired")
        self._log(self.inquiry_event, result)
        return result

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
        at_ms = next_attempt_ms(self.row.attempts, change.now_ms, self.pauses_seconds)
        if isinstance(result, Unknown) and result.differs:
            await alert_differing(change, order, result, self.evidence)
        if isinstance(result, NotFound) and change.now_ms < self.not_found_from_ms():
            at_ms = min(at_ms, self.not_found_from_ms())
        await self.job.postpone(change.tx, self.row, at_ms)

    def is_final(self, result: NotFound, now_ms: int) -> bool:
        """Return whether the payment that the acquirer did not find will not be made later."""
        return result.is_final or now_ms >= self.not_found_from_ms()

    async def alert_once(self, change: Change, order: Order, message: str) -> None:
        """Alert operators, unless they were alerted about this job before."""
        if await self.job.mark_alerted(change, self.row):
            await alert(change, order, self.alert_kind, message, self.evidence)

    async def _wait_for_acquirer(self, change: Change, order: Order) -> None:
        await self.alert_once(change, order, self.no_acquirer)
        await self.job.postpone(change.tx, self.row, change.now_ms + self.pauses_seconds[-1] * 1000)

    def _log(self, event: str, result: Result) -> None:
        log.info(event, order=self.row.order_id, **self.log_facts, attempt=self.row.attempts, outcome=describe(result))
