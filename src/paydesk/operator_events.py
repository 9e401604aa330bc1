"""Events for operators: what a person should know of, recorded where `GET /operator/v1/events` reads it.

An event that belongs to a change is recorded in the transaction of that change. What may happen again and again, on any
number of nodes, is one row an hour for each kind and subject, and one warning in the log.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
import structlog

from paydesk import ids
from paydesk.storage.database import Database, Locked, Transaction, Unavailable

Kind = Literal[
    "late_approval",
    "late_approval_reversed",
    "late_approval_unfounded",
    "unreadable_result",
    "approval_of_another_amount",
    "reference_repeated",
    "inquiry_needs_person",
    "reversal_needs_person",
    "refund_needs_person",
    "refresh_token_replayed",
    "authorization_code_replayed",
    "sign_in_failures",
    "terminal_session_conflict",
    "webhook_address_refused",
]

HOUR_MS = 3_600_000
REPORT_SECONDS = 60.0
SUBJECTS_MAX = 10_000

RECORD = """
INSERT INTO operator_events (event_id, kind, seller_id, subject, message, body, created_ms, repeat_key, occurrences)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING"""

COUNT = "UPDATE operator_events SET occurrences = occurrences + $2 WHERE repeat_key = $1"

log = structlog.get_logger("security")


@dataclass(frozen=True, slots=True)
class OperatorEvent:
    """An event about `subject`. Nothing in it may be secret; `body` is evidence, as JSON or as text."""

    kind: Kind
    subject: str
    message: str
    seller_id: int | None = None
    body: str | Mapping[str, Any] = field(default_factory=dict)

    def repeat_key(self, now_ms: int) -> str:
        """Return the key that this event shares with its repetitions within the hour."""
        return f"{self.kind}:{self.subject}:{now_ms // HOUR_MS}"


async def record(tx: Transaction, event: OperatorEvent, now_ms: int) -> None:
    """Record one happening."""
    await tx.run(RECORD, *_row(event, now_ms), None, 1)


async def record_repeatable(tx: Transaction, event: OperatorEvent, now_ms: int, occurrences: int = 1) -> bool:
    """Record an event, or count it where one of its kind and subject is recorded in this hour; True for a new row."""
    key = event.repeat_key(now_ms)
    if await tx.run(RECORD, *_row(event, now_ms), key, occurrences):
        return True
    await tx.run(COUNT, key, occurrences)
    return False


def warn(event: OperatorEvent) -> None:
    """Write a warning with the facts of a recorded event into the log."""
    assert not isinstance(event.body, str), "what is logged has fields"
    facts = event.body if event.seller_id is None else {"seller_id": event.seller_id, **event.body}
    log.warning(event.kind, subject=event.subject, message=event.message, **facts)


class Reporter:
    """Records repeatable events in transactions of their own, at most one write a minute for each kind and subject."""

    def __init__(self, database: Database, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._database, self._monotonic = database, monotonic
        self._waiting: OrderedDict[tuple[Kind, str], tuple[float, int]] = OrderedDict()

    async def report(self, event: OperatorEvent, now_ms: int) -> None:
        """Record the event with those of its kind and subject that were held back, and log the first of an hour.

        Where the database is out of reach the event is logged alone.
        """
        occurrences = self._due(event)
        if not occurrences:
            return
        touched = (f"operator_event:{event.repeat_key(now_ms)}",)
        try:
            is_new = await self._database.write(
                lambda tx: record_repeatable(tx, event, now_ms, occurrences), touches=touched
            )
        except (Unavailable, Locked):
            is_new = True
        if is_new:
            warn(event)

    def _due(self, event: OperatorEvent) -> int:
        """Return how many occurrences to record now: none within a minute of the last report."""
        key, now = (event.kind, event.subject), self._monotonic()
        until, held_back = self._waiting.pop(key, (now, 0))
        if now < until:
            self._waiting[key] = until, held_back + 1
            return 0
        if len(self._waiting) >= SUBJECTS_MAX:
            self._waiting.popitem(last=False)
        self._waiting[key] = now + REPORT_SECONDS, 0
        return held_back + 1


def _row(event: OperatorEvent, now_ms: int) -> tuple[Any, ...]:
    body = event.body if isinstance(event.body, str) else msgspec.json.encode(event.body).decode()
    return ids.ulid(now_ms), event.kind, event.seller_id, event.subject, event.message, body, now_ms
