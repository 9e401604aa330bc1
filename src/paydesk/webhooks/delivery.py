"""The worker that delivers notifications at least once: claim, send outside any transaction, record.

After a crash between sending and recording the claim expires, and the notification is sent again.
"""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import AsyncGenerator, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

import structlog

from paydesk import __version__, operator_events
from paydesk.core.clock import Clock, SystemClock
from paydesk.core.secrets import Secret
from paydesk.jobs import Claim, Job, JobWorker
from paydesk.operator_events import OperatorEvent
from paydesk.storage.database import Database, Locked, Transaction, Unavailable
from paydesk.webhooks import fault_store, faults, schedule, signature, store, urls
from paydesk.webhooks.addresses import AddressRefused, CheckedResolver
from paydesk.webhooks.schemas import TYPES
from paydesk.webhooks.sending import Outcome, Sender
from paydesk.webhooks.slots import RECEIVERS_MAX, Slots
from paydesk.webhooks.store import Claimed

if TYPE_CHECKING:
    from yarl import URL

    from paydesk.core.worker import WorkerContext

CLAIM_MARGIN_SECONDS = 8
RECORD_RETRY_SECONDS = 1.0

log = structlog.get_logger("webhooks")


async def run(context: WorkerContext, stop: asyncio.Event) -> None:
    """Deliver until `stop` is set; then deliveries in progress have 3 s to end."""
    resolver = CheckedResolver(
        loopback_allowed=context.loopback_allowed, lookups_max=context.settings.webhook_concurrency_max
    )
    async with Sender(resolver, timeout_seconds=context.settings.webhook_timeout_seconds) as sender:
        await JobWorker(context, DeliveryJob(context, sender)).run(stop)


class DeliveryJob(Job[tuple[str, int], Claimed]):
    """Delivers due notifications, claimed by subscription and seller, concurrently up to the number of slots.

    `wall` is the machine's clock, also for signatures. The service's clock may be moved in development, which must
    neither expire a claim nor produce an invalid signature.
    """

    topic = "deliveries"
    log = log
    failure = "delivery_failed"
    coalesce_seconds = 0.005

    def __init__(self, context: WorkerContext, sender: Sender, wall: Clock | None = None) -> None:
        self._database, self._settings = context.database, context.settings
        self._clock, self._keys = context.clock, context.keys
        self._wall = wall or SystemClock()
        self._sender, self._faults_allowed = sender, context.development
        self._slots = Slots(context.settings.webhook_concurrency_max)
        self._last_success_ms: dict[tuple[int, str], int] = {}
        self.lease_seconds = context.settings.webhook_timeout_seconds + CLAIM_MARGIN_SECONDS

    async def groups(self, database: Database, now_ms: int, wall_ms: int) -> AsyncGenerator[tuple[str, int], None]:
        """Yield the subscriptions that have slots, each with its sellers that have due deliveries."""
        for subscription_id in await database.read(lambda tx: store.subscriptions_due(tx, now_ms)):
            if self._slots.free(subscription_id):
                for seller_id in await self._sellers_due(subscription_id, now_ms, wall_ms):
                    yield subscription_id, seller_id

    async def _sellers_due(self, subscription_id: str, now_ms: int, wall_ms: int) -> list[int]:
        return await self._database.read(lambda tx: store.sellers_due(tx, subscription_id, now_ms, wall_ms))

    def free(self, group: tuple[str, int], running: int) -> int:  # noqa: ARG002  # the slots count them
        """Return how many more deliveries to the subscription may start."""
        return self._slots.free(group[0])

    async def claim(self, tx: Transaction, group: tuple[str, int], claim: Claim) -> list[Claimed]:
        """Claim due deliveries, or withdraw those of a subscription that has ended for the seller."""
        subscription_id, seller_id = group
        target = await store.target(tx, seller_id, subscription_id)
        if target is None or target.ended:
            await store.withdraw(tx, seller_id, subscription_id, claim)
            return []
        for _, key_version in target.secrets:
            if key_version not in self._keys.versions:
                if self._keys.should_log_missing(key_version):
                    log.error("webhook_key_missing", subscription=subscription_id, key_version=key_version)
                return []
        claimed = fault_store.claim if self._faults_allowed and target.fault is not None else store.claim
        return await claimed(tx, seller_id, subscription_id, target, claim)

    async def next_ms(self, tx: Transaction, now_ms: int) -> int | None:
        """Return when the next attempt is due."""
        return await store.next_due_ms(tx, now_ms)

    def name(self, row: Claimed) -> str:
        """Return the delivery's name in the log."""
        return f"webhook {row.delivery_id}"

    def attempt(self, context: WorkerContext, row: Claimed) -> Coroutine[Any, Any, None]:  # noqa: ARG002
        """Take a slot, and return the attempt, which releases it."""
        self._slots.take(row.subscription_id)
        return self._deliver(row)

    async def release(self, database: Database, row: Claimed) -> None:
        """Release the claim, so that another node sends the notification at once."""
        try:
            await database.write(lambda tx: store.release(tx, row))
        except (Unavailable, Locked):
            log.info("claim_not_released", delivery=row.delivery_id)

    async def _deliver(self, claimed: Claimed) -> None:
        began = time.monotonic()
        outcome = Outcome(None, error="interrupted")
        try:
            signing = faults.signing(claimed.fault, self._secrets(claimed), self._wall.now_ms() // 1000)
            address, headers = request(claimed, *signing)
            outcome = await self._sender.send(address, headers, claimed.body.encode())
        finally:
            seconds = time.monotonic() - began
            self._slots.release(claimed.subscription_id, delivered=outcome.delivered, seconds=seconds)
        milliseconds = round(seconds * 1000)
        log.info(
            "webhook_sent",
            delivery=claimed.delivery_id,
            attempt=claimed.attempt,
            status=outcome.status,
            error=outcome.error,
            milliseconds=milliseconds,
        )
        await self._record_with_retry(claimed, outcome, milliseconds)

    def _secrets(self, claimed: Claimed) -> list[Secret]:
        """Return the valid secrets, the primary one first."""
        return [
            signature.secret_of(self._keys, key_version, claimed.subscription_id, generation)
            for generation, key_version in claimed.target.secrets
        ]

    async def _record_with_retry(self, claimed: Claimed, outcome: Outcome, milliseconds: int) -> None:
        until = time.monotonic() + CLAIM_MARGIN_SECONDS
        while True:
            try:
                return await self._record(claimed, outcome, milliseconds)
            except (Unavailable, Locked):
                # The write may have been applied: recording an attempt twice has no effect.
                if time.monotonic() > until:
                    # It is sent again when its claim expires.
                    log.warning("delivery_not_recorded", delivery=claimed.delivery_id)
                    return None
                await asyncio.sleep(RECORD_RETRY_SECONDS)

    async def _record(self, claimed: Claimed, outcome: Outcome, milliseconds: int) -> None:
        now_ms = self._clock.now_ms()
        next_ms = schedule.next_attempt_ms(
            claimed.attempt,
            now_ms=now_ms,
            pauses_seconds=self._settings.webhook_retry_seconds,
            chance=random.random(),  # noqa: S311 - jitter needs no secure random numbers
            retry_after_seconds=schedule.retry_after_seconds(
                outcome.retry_after, now_seconds=self._wall.now_ms() / 1000
            ),
        )
        receiver = claimed.seller_id, claimed.subscription_id
        since_ms = self._last_success_ms.get(receiver, 0)

        async def work(tx: Transaction) -> OperatorEvent | None:
            await store.add_attempt(tx, claimed, outcome, milliseconds)
            if outcome.delivered and claimed.fault == "twice":
                await fault_store.repeat(tx, claimed, now_ms)
            elif outcome.delivered:
                await store.delivered(tx, claimed, now_ms, since_ms)
                if claimed.fault == "out_of_order":
                    await fault_store.end_hold(tx, claimed)
            elif next_ms is None:
                await store.exhausted(tx, claimed, now_ms)
            else:
                await store.failed(tx, claimed, next_ms)
            return await _record_refused(tx, claimed, outcome.refused, now_ms) if outcome.refused is not None else None

        event = await self._database.write(work)
        if event is not None:
            operator_events.warn(event)
        if outcome.delivered:
            if len(self._last_success_ms) >= RECEIVERS_MAX:
                self._last_success_ms.clear()
            self._last_success_ms[receiver] = now_ms


async def _record_refused(
    tx: Transaction, claimed: Claimed, refused: AddressRefused, now_ms: int
) -> OperatorEvent | None:
    """Record an operator event: the receiver's address was refused. Return it if it is the first within an hour."""
    event = refused.event(claimed.subscription_id, claimed.target.application_id)
    return event if await operator_events.record_repeatable(tx, event, now_ms) else None


def request(claimed: Claimed, secrets: Sequence[Secret], seconds: int) -> tuple[URL, dict[str, str]]:
    """Return the URL and the headers of one attempt, signed at `seconds` of the machine's clock.

    `X-Signature` has the signature of the first secret, the primary one; `webhook-signature` those of all.
    """
    request_id = str(uuid.uuid5(uuid.NAMESPACE_URL, claimed.delivery_id))
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"Paydesk/{__version__}",
        "Accept-Encoding": "identity",
        "X-Request-Id": request_id,
        "X-Retry": str(claimed.attempt - 1),
        "X-Signature": signature.x_signature(
            secrets[0], data_id=claimed.data_id, request_id=request_id, seconds=seconds
        ),
        **signature.standard_headers(secrets, message_id=claimed.event_id, seconds=seconds, body=claimed.body),
    }
    target = claimed.target
    return urls.with_parameters(target.url, claimed.data_id, TYPES[target.topic]), headers
