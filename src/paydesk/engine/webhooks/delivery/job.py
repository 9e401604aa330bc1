"""The job that delivers notifications at least once: claim, send outside any transaction, record.

After a crash between sending and recording the claim expires, and the notification is sent again.
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Awaitable, Collection, Coroutine
from functools import partial
from typing import Any

import structlog

from paydesk.core import runtime, trace
from paydesk.core.clock import Clock, SystemClock
from paydesk.engine.webhooks.delivery import outcome_store, parking, store
from paydesk.engine.webhooks.delivery.courier import Courier
from paydesk.engine.webhooks.delivery.recording import CLAIM_MARGIN_SECONDS, Recorder
from paydesk.engine.webhooks.delivery.send import Sent, send
from paydesk.engine.webhooks.delivery.sending import Sender
from paydesk.engine.webhooks.delivery.slots import AHEAD_SECONDS_MAX, Slot, Slots
from paydesk.engine.webhooks.delivery.store import Claimed, Target
from paydesk.engine.webhooks.schemas import TOPIC
from paydesk.engine.webhooks.signatures import signature
from paydesk.platform import traces
from paydesk.platform.jobs import Claim, Job
from paydesk.platform.storage import conflict_keys
from paydesk.platform.storage.database import Database, Locked, Transaction, Unavailable
from paydesk.platform.worker import WorkerContext

log = structlog.get_logger("webhooks")


class DeliveryJob(Job[tuple[str, int], Claimed]):
    """Delivers due notifications, claimed by subscription and seller, concurrently up to the number of slots.

    `wall` is the machine's clock, also for signatures. The service's clock may be moved in development, which must
    neither expire a claim nor produce an invalid signature.
    """

    topic = "deliveries"
    log = log
    failure = "delivery_attempt_crashed"
    coalesce_seconds = 0.005

    def __init__(self, context: WorkerContext, sender: Sender, wall: Clock | None = None) -> None:
        self._database, self._settings = context.database, context.settings
        self._clock, self._keys = context.clock, context.keys
        self._wall = wall or SystemClock()
        self._sender, self._courier = sender, context.objects.get(Courier) or Courier()
        self.slots = Slots(context.settings.webhook_concurrency_max)
        self._recorder = Recorder(context, self._wall, self._courier)
        self._unsent: set[Claimed] = set()

    async def groups(self, database: Database, now_ms: int, wall_ms: int) -> AsyncGenerator[tuple[str, int], None]:
        """Yield the subscriptions that have slots, each with its sellers that have due deliveries."""
        subscriptions = await database.read(lambda tx: store.subscriptions_due(tx, now_ms))
        # None is always the last when all slots are in use.
        random.shuffle(subscriptions)
        for due in subscriptions:
            await parking.move(database, due, now_ms, wall_ms)
            if not (due.deleted or due.paused) and self.slots.claimable(due.subscription_id):
                sellers_due = partial(
                    store.sellers_due, subscription_id=due.subscription_id, now_ms=now_ms, wall_ms=wall_ms
                )
                for seller_id in await database.read(sellers_due):
                    yield due.subscription_id, seller_id

    def lease_seconds(self, context: WorkerContext) -> float:
        """Return how long a claim lasts."""
        return AHEAD_SECONDS_MAX + context.settings.webhook_timeout_seconds + CLAIM_MARGIN_SECONDS

    def free(self, group: tuple[str, int], running: Collection[tuple[str, int]]) -> int:  # noqa: ARG002  # the slots count them
        """Return how many more deliveries to the subscription may be claimed."""
        return self.slots.claimable(group[0])

    async def claim(self, tx: Transaction, group: tuple[str, int], claim: Claim) -> list[Claimed]:
        """Claim due deliveries, or withdraw those of a subscription that has ended for the seller."""
        subscription_id, seller_id = group
        target = await store.target(tx, seller_id, subscription_id)
        if target is None or target.ended:
            await parking.withdraw(tx, seller_id, subscription_id, claim)
            return []
        if target.paused_ms is not None:
            return []
        if not self.has_keys(subscription_id, target):
            return []
        return await self._courier.claim(tx, seller_id, subscription_id, target, claim)

    def has_keys(self, subscription_id: str, target: Target) -> bool:
        """Return whether this node has the keys of the subscription's secrets; log the first that is missing."""
        for _, key_version in target.secrets:
            if key_version not in self._keys.versions:
                if self._keys.should_log_missing(key_version):
                    log.error("webhook_key_missing", subscription=subscription_id, key_version=key_version)
                return False
        return True

    async def next_ms(self, tx: Transaction, now_ms: int) -> int | None:
        """Return when the next attempt is due."""
        return await store.next_due_ms(tx, now_ms)

    def name(self, row: Claimed) -> str:
        """Return the delivery's name in the log."""
        return f"webhook {row.delivery_id}"

    def row_facts(self, row: Claimed) -> dict[str, Any]:
        """Return the delivery in the log."""
        return row.delivery_facts

    def attempt(self, context: WorkerContext, row: Claimed) -> Coroutine[Any, Any, None]:  # noqa: ARG002
        """Return the attempt, which releases the slot that is taken here."""
        self._unsent.add(row)
        instead = self._courier.instead(self._database, self._sender, row)
        if instead is not None:
            return self._hold(row, instead)
        return self._deliver(row, self.slots.take(row.subscription_id))

    async def release(self, database: Database, row: Claimed) -> None:
        """Release the claim, so that another node sends the notification at once."""
        change = outcome_store.release_unsent if row in self._unsent else outcome_store.release
        self._unsent.discard(row)
        key = conflict_keys.deliveries(row.subscription_id, row.order_id)
        try:
            await database.write(lambda tx: change(tx, row), conflict_keys=(key,))
        except (Unavailable, Locked):
            log.info("claim_not_released", **row.delivery_facts)

    async def _hold(self, claimed: Claimed, instead: Awaitable[bool]) -> None:
        """Do what the courier does instead, and release the claim if the notification is sent after it."""
        try:
            is_sent_after = await instead
        except (Unavailable, Locked):
            is_sent_after = True  # What failed is not repeated: the notification is sent as it is.
        if is_sent_after:
            await self.release(self._database, claimed)
        self._unsent.discard(claimed)

    async def _deliver(self, claimed: Claimed, slot: Slot) -> None:
        if not await self.slots.wait(claimed.subscription_id, slot):
            return await self.release(self._database, claimed)
        self._unsent.discard(claimed)
        return await self._recorder.record(claimed, await self.send(claimed))

    async def send(self, claimed: Claimed) -> Sent:
        """Send a notification with fresh signatures, and release its slot."""
        began, sent = runtime.monotonic(), None
        facts: trace.Attributes = {traces.SELLER: claimed.seller_id, "paydesk.attempt": claimed.attempt}
        facts |= {traces.ORDER: claimed.order_id} if claimed.target.topic == TOPIC else {}
        try:
            secrets = signature.secrets_of(self._keys, claimed.subscription_id, claimed.target.secrets)
            signing = self._courier.signing(claimed, secrets, self._wall.now_ms() // 1000)
            parent = trace.read(*claimed.trace.split(" ", 1)) if claimed.trace else None
            with traces.call("POST webhook", parent, facts):
                sent = await send(self._sender, claimed.message, *signing)
                facts |= {} if sent.outcome.status is None else {traces.STATUS: sent.outcome.status}
                facts |= {} if sent.outcome.delivered else {traces.ERROR: str(sent.outcome.status or "no_answer")}
            return sent
        finally:
            is_delivered = sent is not None and sent.outcome.delivered
            seconds = runtime.monotonic() - began
            self.slots.release(claimed.subscription_id, delivered=is_delivered, seconds=seconds)
