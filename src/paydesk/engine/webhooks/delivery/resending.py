"""Resends: one attempt that an operator requests, outside the order of versions and the retry schedule.

A request is a time in the delivery's row. It is cleared when the attempt is recorded, so after a crash the notification
is sent again. A claim excludes an attempt of the schedule, and the other way round.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Coroutine
from typing import Any

import structlog

from paydesk.engine.webhooks.delivery import failing, outcome_store, resend_store, store
from paydesk.engine.webhooks.delivery.job import DeliveryJob
from paydesk.engine.webhooks.delivery.recording import hint, log_attempt, record_with_retry
from paydesk.engine.webhooks.delivery.resend_store import IS_RESEND, Resend
from paydesk.engine.webhooks.delivery.send import Sent
from paydesk.engine.webhooks.delivery.slots import Slot
from paydesk.platform import operator_events
from paydesk.platform.jobs import Claim, Job
from paydesk.platform.operator_events import OperatorEvent
from paydesk.platform.storage.database import Database, Locked, Transaction, Unavailable
from paydesk.platform.worker import WorkerContext

log = structlog.get_logger("webhooks")


class ResendJob(Job[tuple[str, int], Resend]):
    """Makes the attempts that operators have requested, with the sender and the slots of `deliveries`."""

    topic = resend_store.RESENDS_TOPIC
    log = log
    failure = "resend_crashed"

    def __init__(self, context: WorkerContext, deliveries: DeliveryJob) -> None:
        self._database, self._clock = context.database, context.clock
        self._deliveries, self._development = deliveries, context.development

    async def groups(self, database: Database, now_ms: int, wall_ms: int) -> AsyncGenerator[tuple[str, int], None]:  # noqa: ARG002  # they are due at once
        """Yield the subscriptions that are not paused and have requests, each with its sellers."""
        for subscription_id, seller_id in await database.read(lambda tx: resend_store.waiting(tx, wall_ms)):
            yield subscription_id, seller_id

    def lease_seconds(self, context: WorkerContext) -> float:
        """Return how long a claim lasts, as of a delivery."""
        return self._deliveries.lease_seconds(context)

    def free(self, group: tuple[str, int], running: Collection[tuple[str, int]]) -> int:
        """Return how many more deliveries to the subscription may be claimed.

        One may always wait for a slot: a backlog leaves none free.
        """
        return max(self._deliveries.slots.claimable(group[0]), 0 if running else 1)

    async def claim(self, tx: Transaction, group: tuple[str, int], claim: Claim) -> list[Resend]:
        """Claim requested resends, or drop the requests if the subscription has ended for the seller."""
        subscription_id, seller_id = group
        target = await store.target(tx, seller_id, subscription_id)
        if target is None or target.ended:
            await resend_store.drop(tx, seller_id, subscription_id, claim)
            return []
        if target.paused_ms is not None or not self._deliveries.has_keys(subscription_id, target):
            return []
        return await resend_store.claim(tx, seller_id, subscription_id, target, claim)

    async def next_ms(self, tx: Transaction, now_ms: int) -> int | None:  # noqa: ARG002  # they are due at once
        """Return None: a request waits for nothing but a slot, or the end of an attempt of the schedule."""
        return None

    def name(self, row: Resend) -> str:
        """Return the delivery's name in the log."""
        return f"resend of webhook {row.claimed.delivery_id}"

    def row_facts(self, row: Resend) -> dict[str, Any]:
        """Return the delivery in the log."""
        return row.claimed.delivery_facts

    def attempt(self, context: WorkerContext, row: Resend) -> Coroutine[Any, Any, None]:  # noqa: ARG002
        """Return the attempt, which releases the slot that is taken here."""
        return self._resend(row, self._deliveries.slots.take(row.claimed.subscription_id))

    async def release(self, database: Database, row: Resend) -> None:  # noqa: ARG002  # it is this node's
        """Release the claim, so that the notification is sent again at once."""
        await self._release(row, resend_store.release)

    async def _release(self, row: Resend, change: Callable[[Transaction, Resend], Awaitable[None]]) -> None:
        try:
            await self._database.write(lambda tx: change(tx, row))
        except (Unavailable, Locked):
            log.info("claim_not_released", **row.claimed.delivery_facts)

    async def _resend(self, resend: Resend, slot: Slot) -> None:
        if not await self._deliveries.slots.wait(resend.claimed.subscription_id, slot):
            # It is claimed again at once.
            return await self._release(resend, resend_store.release_unsent)
        sent = await self._deliveries.send(resend.claimed)
        log_attempt(resend.claimed, sent, None, described=self._development)
        return await record_with_retry(resend.claimed, lambda: self._write(resend, sent, self._clock.now_ms()))

    async def _write(self, resend: Resend, sent: Sent, now_ms: int) -> None:
        claimed, outcome = resend.claimed, sent.outcome

        async def work(tx: Transaction) -> OperatorEvent | None:
            request = sent.request.stored(**{IS_RESEND: True})
            await outcome_store.add_attempt(tx, claimed, outcome, sent.milliseconds, request)
            if outcome.delivered:
                await outcome_store.delivered(tx, claimed, now_ms)
                await resend_store.delivered(tx, claimed, now_ms)
                if failing.is_failing(claimed.target):
                    await failing.recovered(tx, claimed.subscription_id)
            await resend_store.end(tx, resend)
            if outcome.refused is None:
                return None
            event = outcome.refused.event(claimed.subscription_id, claimed.target.application_id)
            return event if await operator_events.record_repeatable(tx, event, now_ms) else None

        event = await self._database.write(work)
        hint(self._database, claimed)
        if event is not None:
            operator_events.warn(event)
