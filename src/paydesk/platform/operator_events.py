"""Events for operators, which `GET /operator/v1/events` returns: what needs the attention of a person.

An event that belongs to a change is recorded in the transaction of that change. Repeatable events are one row per hour,
kind and subject over all nodes, with a counter, and one warning in the log. The beginning and the end of an acquirer's
outage are one row each, over all nodes.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import msgspec
import structlog

from paydesk.core import ids, runtime
from paydesk.platform.storage import conflict_keys
from paydesk.platform.storage.database import Database, Locked, Transaction, Unavailable

Kind = Literal[
    "late_approval",
    "late_approval_reversed",
    "late_approval_unfounded",
    "unreadable_result",
    "chip_data_refused",
    "approval_of_another_amount",
    "reference_repeated",
    "inquiry_needs_person",
    "reversal_needs_person",
    "refund_needs_person",
    "confirmation_needs_person",
    "confirmation_refused",
    "reversal_became_refund",
    "acquirer_answer_differs",
    "acquirer_unreachable",
    "acquirer_reachable",
    "refresh_token_replayed",
    "authorization_code_replayed",
    "sign_in_failures",
    "owner_added",
    "operator_token_created",
    "terminal_session_conflict",
    "webhook_address_refused",
    "webhook_paused",
]

AttentionKind = Literal[
    "acquirer_unreachable",
    "outcome_unknown",
    "confirmation_refused",
    "confirmation_unanswered",
    "reversal_unconfirmed",
    "refund_slow",
    "terminals_offline",
    "order_stuck",
    "cancel_unanswered",
    "subscription_paused",
    "deliveries_exhausted",
    "subscription_failing",
    "print_stuck",
]
"""The kinds of what needs a person, the most urgent first: money, then terminals, then notifications."""

HOUR_MS = 3_600_000
REPORT_SECONDS = 60.0
EVENTS_MAX = 10_000
CLOSE_SECONDS_MAX = 2.0

RECORD = """
INSERT INTO operator_events (event_id, kind, seller_id, subject, message, body, created_ms, repeat_key, occurrences)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING"""

# The event of its beginning has the repeat key of an outage until it is over.
OUTAGE = "SELECT created_ms, body FROM operator_events WHERE repeat_key = $1"
END_OUTAGE = "UPDATE operator_events SET repeat_key = NULL WHERE repeat_key = $1"

COUNT = "UPDATE operator_events SET occurrences = occurrences + $2 WHERE repeat_key = $1"

log = structlog.get_logger("security")


@dataclass(frozen=True, slots=True)
class OperatorEvent:
    """An event about `subject`. It must not contain secrets; `body` is evidence, as JSON or as text."""

    kind: Kind
    subject: str
    message: str
    seller_id: int | None = None
    body: str | Mapping[str, Any] = field(default_factory=dict)

    def repeat_key(self, now_ms: int) -> str:
        """Return the key that this event shares with its repetitions in the same hour."""
        return f"{self.kind}:{self.subject}:{now_ms // HOUR_MS}"


async def record(tx: Transaction, event: OperatorEvent, now_ms: int) -> None:
    """Record an event that is not repeatable."""
    await tx.run(RECORD, *_row(event, now_ms), None, 1)


async def record_hourly(tx: Transaction, event: OperatorEvent, now_ms: int) -> None:
    """Record an event unless this hour has it. Its repetitions are not counted, so no row of another is locked."""
    await tx.run(RECORD, *_row(event, now_ms), event.repeat_key(now_ms), 1)


async def record_repeatable(tx: Transaction, event: OperatorEvent, now_ms: int, occurrences: int = 1) -> bool:
    """Record an event, or increment the counter of this hour's row; return True for a new row."""
    key = event.repeat_key(now_ms)
    if await tx.run(RECORD, *_row(event, now_ms), key, occurrences):
        return True
    await tx.run(COUNT, key, occurrences)
    return False


def outage_key(acquirer: str) -> str:
    """Return the repeat key of the acquirer's outage."""
    return f"acquirer_unreachable:{acquirer}"


async def record_outage(tx: Transaction, event: OperatorEvent, now_ms: int) -> bool:
    """Record that the outage of the subject began, or is over; False if that is recorded."""
    key = outage_key(event.subject)
    if event.kind == "acquirer_unreachable":
        return bool(await tx.run(RECORD, *_row(event, now_ms), key, 1))
    return bool(await tx.run(END_OUTAGE, key)) and bool(await tx.run(RECORD, *_row(event, now_ms), None, 1))


def warn(event: OperatorEvent, request_id: str | None = None) -> None:
    """Log a warning with the fields of a recorded event, and the request that caused it if there is one."""
    assert not isinstance(event.body, str), "a logged event has fields"
    ids = {"seller_id": event.seller_id, "request_id": request_id}
    facts = {name: value for name, value in ids.items() if value is not None}
    log.warning(event.kind, subject=event.subject, message=event.message, **facts, **event.body)


@dataclass(slots=True)
class _Counted:
    """A reported event with the number of occurrences that are not recorded yet."""

    event: OperatorEvent
    now_ms: int
    due: float
    occurrences: int = 1


class Reporter:
    """Records repeatable events in transactions of their own.

    The first occurrence in an hour is recorded at once. Repetitions are counted in memory; while the reporter runs
    (`async with`) each count is recorded once a minute, and all of them at the end.
    """

    def __init__(
        self, database: Database, monotonic: Callable[[], float] = runtime.monotonic, seconds: float = REPORT_SECONDS
    ) -> None:
        self._database, self._monotonic, self._seconds = database, monotonic, seconds
        # By repeat key, the next due first.
        self._counted: OrderedDict[str, _Counted] = OrderedDict()
        self._stop = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._running = asyncio.create_task(self._run(), name="operator events")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stop.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS_MAX):
                if self._running is not None:
                    await self._running
                for counted in list(self._counted.values()):
                    await self._record(counted)
        for counted in self._counted.values():
            _log_lost(counted)

    async def report(self, event: OperatorEvent, now_ms: int, request_id: str | None = None) -> None:
        """Record and log the first occurrence in an hour; count the repetitions.

        If the database is unavailable the event is logged at once and recorded with its repetitions.
        """
        key = event.repeat_key(now_ms)
        if key in self._counted:
            self._counted[key].occurrences += 1
            return
        evicted = self._counted.popitem(last=False)[1] if len(self._counted) >= EVENTS_MAX else None
        self._counted[key] = counted = _Counted(event, now_ms, self._monotonic() + self._seconds)
        if await self._record(counted) is not False:
            warn(event, request_id)
        if evicted is not None:
            await self._record(evicted)

    async def report_outage(self, event: OperatorEvent, now_ms: int) -> None:
        """Record and log that the outage of the subject began, or is over, unless that is recorded."""
        keys = (conflict_keys.operator_event(outage_key(event.subject)),)
        if await self._database.write(lambda tx: record_outage(tx, event, now_ms), conflict_keys=keys):
            warn(event)

    async def record_due(self) -> None:
        """Record the counts whose minute is over, and drop events without repetitions."""
        now = self._monotonic()
        while self._counted and next(iter(self._counted.values())).due <= now:
            key, counted = self._counted.popitem(last=False)
            if counted.occurrences:
                counted.due = now + self._seconds
                self._counted[key] = counted
                await self._record(counted)

    async def _run(self) -> None:
        while not self._stop.is_set():
            try:
                await self.record_due()
            except Exception:
                log.exception("operator_events_failed")
            # The next count that is due. Events reported meanwhile are due later.
            due = next((counted.due for counted in self._counted.values()), None)
            pause = self._seconds if due is None else max(due - self._monotonic(), 0)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), pause)

    async def _record(self, counted: _Counted) -> bool | None:
        """Record the occurrences; return whether the row is new, or None if the database is unavailable."""
        event, now_ms, occurrences = counted.event, counted.now_ms, counted.occurrences
        if not occurrences:
            return False
        key, is_new = event.repeat_key(now_ms), None
        counted.occurrences = 0
        try:
            is_new = await self._database.write(
                lambda tx: record_repeatable(tx, event, now_ms, occurrences),
                conflict_keys=(conflict_keys.operator_event(key),),
            )
        except (Unavailable, Locked):
            return None
        finally:
            if is_new is None:
                counted.occurrences += occurrences
                if self._counted.get(key) is not counted:
                    _log_lost(counted)
        return is_new


def _log_lost(counted: _Counted) -> None:
    """Log unrecorded occurrences that are dropped."""
    if counted.occurrences:
        event = counted.event
        log.warning("occurrences_lost", kind=event.kind, subject=event.subject, occurrences=counted.occurrences)


def _row(event: OperatorEvent, now_ms: int) -> tuple[Any, ...]:
    body = event.body if isinstance(event.body, str) else msgspec.json.encode(event.body).decode()
    return ids.ulid(now_ms), event.kind, event.seller_id, event.subject, event.message, body, now_ms
