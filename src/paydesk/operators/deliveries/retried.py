"""The fields that deliveries, inquiries, reversals and refunds share: attempts, and when the next one is due."""

from __future__ import annotations

from typing import Any

from paydesk.core.clock import rfc3339
from paydesk.core.response import Closed, Time
from paydesk.engine.payments.jobs import NEVER_MS

# An attempt in progress is not counted: it has not failed yet. Formatted with the condition of work that has not ended.
ATTEMPTS_ENDED = "attempts - CASE WHEN {} AND claimed_until_ms > 0 THEN 1 ELSE 0 END"
TIMES = f"{ATTEMPTS_ENDED}, next_ms, created_ms, ended_ms"


class Retried(Closed, frozen=True, kw_only=True):
    """The last fields of work that is retried: `next_date` until its end, then `ended_date`.

    Neither: no further attempt is made.
    """

    attempts: int
    created_date: Time
    next_date: Time | None = None
    ended_date: Time | None = None


def times(attempts: int, next_ms: int, created_ms: int, ended_ms: int | None) -> dict[str, Any]:
    """Return the fields of `Retried`, of the columns `TIMES`."""
    given = {"attempts": attempts, "created_date": rfc3339(created_ms)}
    if ended_ms is not None:
        return {**given, "ended_date": rfc3339(ended_ms)}
    return given if next_ms == NEVER_MS else {**given, "next_date": rfc3339(next_ms)}
