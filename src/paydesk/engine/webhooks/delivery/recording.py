"""Records what came of an attempt: the attempt, the delivery's next state, and whether its subscription is failing."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import structlog

from paydesk.core import runtime
from paydesk.core.clock import Clock, rfc3339
from paydesk.engine.webhooks import schedule
from paydesk.engine.webhooks.delivery import failing, outcome_store
from paydesk.engine.webhooks.delivery.courier import Courier
from paydesk.engine.webhooks.delivery.send import Sent
from paydesk.engine.webhooks.delivery.sending import Outcome
from paydesk.engine.webhooks.delivery.slots import RECEIVERS_MAX
from paydesk.engine.webhooks.delivery.store import Claimed
from paydesk.platform import operator_events
from paydesk.platform.operator_events import OperatorEvent
from paydesk.platform.storage import conflict_keys
from paydesk.platform.storage.conflict_keys import ConflictKey
from paydesk.platform.storage.database import Database, Locked, Transaction, Unavailable
from paydesk.platform.worker import WorkerContext

CLAIM_MARGIN_SECONDS = 8
"""A claim outlasts the attempt by this time, in which its outcome is recorded."""
RECORD_RETRY_SECONDS = 1.0

log = structlog.get_logger("webhooks")


class Recorder:
    """Records attempts, each in a unit of work that can share a transaction. `wall` is the machine's clock."""

    def __init__(self, context: WorkerContext, wall: Clock, courier: Courier) -> None:
        self._database, self._settings, self._clock = context.database, context.settings, context.clock
        self._wall, self._courier, self._development = wall, courier, context.development
        self._last_success_ms: dict[str, int] = {}
        """Of each subscription, on this node."""

    async def record(self, claimed: Claimed, sent: Sent) -> None:
        """Log and record an attempt."""
        is_logged = False

        async def write() -> None:
            nonlocal is_logged
            now_ms = self._clock.now_ms()
            next_ms = self._next_ms(claimed, sent.outcome, now_ms)
            if not is_logged:
                log_attempt(claimed, sent, next_ms, described=self._development)
                is_logged = True
            await self._write(claimed, sent, now_ms, next_ms)

        await record_with_retry(claimed, write)

    def _next_ms(self, claimed: Claimed, outcome: Outcome, now_ms: int) -> int | None:
        if outcome.delivered:
            return None
        wall_seconds = self._wall.now_ms() / 1000
        return schedule.next_attempt_ms(
            claimed.attempt - claimed.uncounted,
            now_ms=now_ms,
            pauses_seconds=self._settings.webhook_retry_seconds,
            chance=random.random(),  # noqa: S311 - jitter needs no secure random numbers
            retry_after_seconds=schedule.retry_after_seconds(outcome.retry_after, now_seconds=wall_seconds),
        )

    async def _write(self, claimed: Claimed, sent: Sent, now_ms: int, next_ms: int | None) -> None:
        outcome = sent.outcome
        refused = (
            None
            if outcome.refused is None
            else outcome.refused.event(claimed.subscription_id, claimed.target.application_id)
        )
        # What failed beside later successes, such as a notification that the receiver rejects, keeps its schedule.
        since_ms = self._last_success_ms.get(claimed.subscription_id, failing.FIRST_MS)

        async def work(tx: Transaction) -> list[OperatorEvent]:
            await outcome_store.add_attempt(tx, claimed, outcome, sent.milliseconds, sent.request.stored())
            if outcome.delivered:
                await self._courier.delivered(tx, claimed, now_ms)
                if failing.is_failing(claimed.target):
                    await failing.recovered(tx, claimed.subscription_id, since_ms)
                return []
            if next_ms is None:
                await outcome_store.exhausted(tx, claimed, now_ms)
            else:
                await outcome_store.failed(tx, claimed, now_ms, next_ms)
            events = []
            if refused is not None and await operator_events.record_repeatable(tx, refused, now_ms):
                events.append(refused)
            paused = await failing.failed(tx, claimed.subscription_id, claimed.target, now_ms)
            return events if paused is None else [*events, paused]

        keys = _conflict_keys(claimed, outcome, refused, now_ms)
        for event in await self._database.write(work, conflict_keys=keys):
            operator_events.warn(event)
        hint(self._database, claimed)
        if outcome.delivered:
            if len(self._last_success_ms) >= RECEIVERS_MAX:
                self._last_success_ms.clear()
            self._last_success_ms[claimed.subscription_id] = now_ms


def hint(database: Database, claimed: Claimed) -> None:
    """Hint to open pages that an attempt was recorded."""
    database.signals.hint("order", claimed.order_id)
    database.signals.hint("delivery", claimed.delivery_id)


async def record_with_retry(claimed: Claimed, write: Callable[[], Awaitable[None]]) -> None:
    """Record with `write`. If the database or the clock is unavailable, try again while the claim is valid."""
    until = runtime.monotonic() + CLAIM_MARGIN_SECONDS
    while True:
        try:
            return await write()
        except (Unavailable, Locked):
            # The write may have been applied: recording an attempt twice has no effect.
            if runtime.monotonic() > until:
                # It is sent again when its claim expires.
                log.warning("delivery_not_recorded", **claimed.delivery_facts)
                return None
            await asyncio.sleep(RECORD_RETRY_SECONDS)


def _conflict_keys(claimed: Claimed, outcome: Outcome, refused: OperatorEvent | None, now_ms: int) -> list[ConflictKey]:
    """Return the names of what the recording changes: in the usual case only the order's deliveries."""
    keys = [conflict_keys.deliveries(claimed.subscription_id, claimed.order_id)]
    if not outcome.delivered or failing.is_failing(claimed.target):
        keys.append(conflict_keys.subscription(claimed.subscription_id))
    if refused is not None:
        keys.append(conflict_keys.operator_event(refused.repeat_key(now_ms)))
    return keys


def log_attempt(claimed: Claimed, sent: Sent, next_ms: int | None, *, described: bool = False) -> None:
    """Log what came of an attempt, and when the next one is. `described`: with what was sent, for developers."""
    outcome = sent.outcome
    facts: dict[str, Any] = {
        **claimed.delivery_facts,
        "request_id": sent.request.headers["X-Request-Id"],
        "attempt": claimed.attempt,
        "status": outcome.status,
        "milliseconds": sent.milliseconds,
    }
    if described:
        facts["action"] = msgspec.json.decode(claimed.body, type=_Notified).action
    if outcome.delivered:
        log.info("webhook_sent", **facts, **({"address": sent.request.address} if described else {}))
        return
    log.warning(
        "delivery_failed",
        **facts,
        subscription=claimed.subscription_id,
        address=sent.request.address,
        error=outcome.error,
        next_attempt=None if next_ms is None else rfc3339(next_ms),
    )


class _Notified(msgspec.Struct):
    action: str
