"""The worker that delivers notifications at least once: claim, send outside any transaction, record.

After a crash between sending and recording the claim expires, and the notification is sent again.
"""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from typing import TYPE_CHECKING

import structlog

from paydesk import __version__, operator_events
from paydesk.core.clock import Clock, SystemClock
from paydesk.core.secrets import Secret
from paydesk.operator_events import OperatorEvent
from paydesk.storage.database import Locked, Transaction, Unavailable
from paydesk.webhooks import schedule, signature, store, urls
from paydesk.webhooks.addresses import AddressRefused, CheckedResolver
from paydesk.webhooks.schemas import TYPES
from paydesk.webhooks.sending import Outcome, Sender
from paydesk.webhooks.slots import RECEIVERS_MAX, Slots
from paydesk.webhooks.store import Attempt, Claimed

if TYPE_CHECKING:
    from yarl import URL

    from paydesk.core.worker import WorkerContext

CLAIM_MARGIN_SECONDS = 8
POLL_INTERVAL_SECONDS = 1.0
COALESCE_SECONDS = 0.005
STOP_SECONDS_MAX = 3.0
RECORD_RETRY_SECONDS = 1.0

log = structlog.get_logger("webhooks")


async def run(context: WorkerContext, stop: asyncio.Event) -> None:
    """Deliver until `stop` is set; then deliveries in progress have 3 s to end."""
    resolver = CheckedResolver(
        loopback_allowed=context.loopback_allowed, lookups_max=context.settings.webhook_concurrency_max
    )
    async with Sender(resolver, timeout_seconds=context.settings.webhook_timeout_seconds) as sender:
        await DeliveryWorker(context, sender).run(stop)


class DeliveryWorker:
    """Delivers due notifications, concurrently up to the number of slots.

    `wall` is the machine's clock, for claims and signatures. The service's clock may be moved in development, which
    must neither expire a claim nor produce an invalid signature.
    """

    def __init__(self, context: WorkerContext, sender: Sender, *, wall: Clock | None = None) -> None:
        self._database, self._settings = context.database, context.settings
        self._clock, self._keys = context.clock, context.keys
        self._wall = wall or SystemClock()
        self._sender = sender
        self._slots = Slots(context.settings.webhook_concurrency_max)
        self._in_progress: dict[asyncio.Task[None], Claimed] = {}
        self._last_success_ms: dict[tuple[int, str], int] = {}

    async def run(self, stop: asyncio.Event) -> None:
        """Deliver until `stop` is set."""
        try:
            while not stop.is_set():
                with self._database.signals.subscribe("deliveries", "clock", "stop") as waiter:
                    await self.start_due()
                    if not stop.is_set():
                        await waiter.wait(await self._pause_seconds())
                # Notifications come in bursts; the pause merges them into one query and one claim.
                await asyncio.sleep(COALESCE_SECONDS)
        finally:
            await self._end()

    async def start_due(self) -> int:
        """Claim due deliveries and start to send them; return how many."""
        now_ms, wall_ms = self._clock.now_ms(), self._wall.now_ms()
        due = await self._database.read(lambda tx: store.subscriptions_due(tx, now_ms, wall_ms))
        started = 0
        for subscription_id in due:
            if self._slots.free(subscription_id):
                started += await self._start_for(subscription_id, now_ms, wall_ms)
        return started

    async def settle(self) -> None:
        """Wait until no delivery is in progress."""
        while self._in_progress:
            await asyncio.wait(self._in_progress)

    async def _start_for(self, subscription_id: str, now_ms: int, wall_ms: int) -> int:
        started = 0
        for seller_id in await self._database.read(lambda tx: store.sellers_due(tx, subscription_id, now_ms, wall_ms)):
            limit = self._slots.free(subscription_id)
            if limit:
                started += await self._claim(seller_id, subscription_id, limit)
        return started

    async def _claim(self, seller_id: int, subscription_id: str, limit: int) -> int:
        now_ms, wall_ms = self._clock.now_ms(), self._wall.now_ms()
        until_ms = wall_ms + (self._settings.webhook_timeout_seconds + CLAIM_MARGIN_SECONDS) * 1000

        async def work(tx: Transaction) -> tuple[store.Target | None, list[Claimed]]:
            target = await store.target(tx, seller_id, subscription_id)
            if target is None or target.ended:
                await store.withdraw(tx, seller_id, subscription_id, now_ms, wall_ms)
                return None, []
            if target.key_version not in self._keys.versions:
                return target, []
            claimed = await store.claim(
                tx,
                seller_id,
                subscription_id,
                topic=target.topic,
                now_ms=now_ms,
                wall_ms=wall_ms,
                until_ms=until_ms,
                limit=limit,
            )
            return target, claimed

        target, claimed = await self._database.write(work)
        if target is None:
            return 0
        if target.key_version not in self._keys.versions:
            if self._keys.should_log_missing(target.key_version):
                log.error("webhook_key_missing", subscription=subscription_id, key_version=target.key_version)
            return 0
        secret = signature.secret_of(self._keys, target.key_version, subscription_id, target.secret_generation)
        for delivery in claimed:
            self._begin(delivery, target.url, secret, now_ms)
        return len(claimed)

    def _begin(self, claimed: Claimed, url: str, secret: Secret, started_ms: int) -> None:
        self._slots.take(claimed.subscription_id)
        task = asyncio.create_task(
            self._deliver(claimed, url, secret, started_ms), name=f"webhook {claimed.delivery_id}"
        )
        self._in_progress[task] = claimed
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        claimed = self._in_progress.pop(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("delivery_failed", delivery=claimed.delivery_id, exc_info=error)
        self._database.signals.notify(["deliveries"])

    async def _deliver(self, claimed: Claimed, url: str, secret: Secret, started_ms: int) -> None:
        # `started_ms` is the time of the claim: the service's clock may have become untrusted since.
        began = time.monotonic()
        outcome = Outcome(None, error="interrupted")
        try:
            address, headers = request(claimed, url, secret, self._wall.now_ms() // 1000)
            outcome = await self._sender.send(address, headers, claimed.body.encode())
        finally:
            seconds = time.monotonic() - began
            self._slots.release(claimed.subscription_id, delivered=outcome.delivered, seconds=seconds)
        log.info(
            "webhook_sent",
            delivery=claimed.delivery_id,
            attempt=claimed.attempt,
            status=outcome.status,
            error=outcome.error,
            milliseconds=round(seconds * 1000),
        )
        attempt = Attempt(
            claimed.attempt, started_ms, round(seconds * 1000), outcome.status, outcome.body, outcome.error
        )
        await self._record_with_retry(claimed, attempt, outcome)

    async def _record_with_retry(self, claimed: Claimed, attempt: Attempt, outcome: Outcome) -> None:
        until = time.monotonic() + CLAIM_MARGIN_SECONDS
        while True:
            try:
                return await self._record(claimed, attempt, outcome)
            except (Unavailable, Locked):
                # The write may have been applied: recording an attempt twice has no effect.
                if time.monotonic() > until:
                    # It is sent again when its claim expires.
                    log.warning("delivery_not_recorded", delivery=claimed.delivery_id)
                    return None
                await asyncio.sleep(RECORD_RETRY_SECONDS)

    async def _record(self, claimed: Claimed, attempt: Attempt, outcome: Outcome) -> None:
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
            await store.add_attempt(tx, claimed, attempt)
            if outcome.delivered:
                await store.delivered(tx, claimed, now_ms, since_ms)
            elif next_ms is None:
                await store.exhausted(tx, claimed, now_ms)
            else:
                await store.failed(tx, claimed, next_ms)
            return await _record_refused(tx, claimed, outcome.refused, now_ms)

        event = await self._database.write(work)
        if event is not None:
            operator_events.warn(event)
        if outcome.delivered:
            if len(self._last_success_ms) >= RECEIVERS_MAX:
                self._last_success_ms.clear()
            self._last_success_ms[receiver] = now_ms

    async def _pause_seconds(self) -> float:
        """Return the seconds until the next attempt is due, at most 1: other nodes insert deliveries too."""
        now_ms = self._clock.now_ms()
        next_ms = await self._database.read(lambda tx: store.next_due_ms(tx, now_ms))
        if next_ms is None:
            return POLL_INTERVAL_SECONDS
        return min((next_ms - now_ms) / 1000, POLL_INTERVAL_SECONDS)

    async def _end(self) -> None:
        if self._in_progress:
            await asyncio.wait(self._in_progress, timeout=STOP_SECONDS_MAX)
        left = dict(self._in_progress)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        for claimed in left.values():
            await self._release(claimed)

    async def _release(self, claimed: Claimed) -> None:
        try:
            await self._database.write(lambda tx: store.release(tx, claimed))
        except (Unavailable, Locked):
            log.info("claim_not_released", delivery=claimed.delivery_id)


async def _record_refused(
    tx: Transaction, claimed: Claimed, refused: AddressRefused | None, now_ms: int
) -> OperatorEvent | None:
    """Record an operator event if the receiver's address was refused; return it if it is the first within an hour."""
    target = await store.target(tx, claimed.seller_id, claimed.subscription_id) if refused is not None else None
    if refused is None or target is None:
        return None
    event = refused.event(claimed.subscription_id, target.application_id)
    return event if await operator_events.record_repeatable(tx, event, now_ms) else None


def request(claimed: Claimed, url: str, secret: Secret, seconds: int) -> tuple[URL, dict[str, str]]:
    """Return the URL and the headers of one attempt, signed at `seconds` of the machine's clock."""
    request_id = str(uuid.uuid5(uuid.NAMESPACE_URL, claimed.delivery_id))
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"Paydesk/{__version__}",
        "Accept-Encoding": "identity",
        "X-Request-Id": request_id,
        "X-Retry": str(claimed.attempt - 1),
        "X-Signature": signature.x_signature(secret, data_id=claimed.data_id, request_id=request_id, seconds=seconds),
        **signature.standard_headers([secret], message_id=claimed.event_id, seconds=seconds, body=claimed.body),
    }
    return urls.with_parameters(url, claimed.data_id, TYPES[claimed.topic]), headers
