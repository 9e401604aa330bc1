"""The lifecycle of a delivery as a table, and its retry schedule: pure functions over the configured pauses."""

from __future__ import annotations

from collections.abc import Sequence
from email.utils import parsedate_to_datetime
from typing import Literal

from paydesk.core.lifecycle import Lifecycle, Move, states_of

JITTER = 0.1
RETRY_AFTER_SECONDS_MAX = 3600

DeliveryStatus = Literal["pending", "delivered", "exhausted", "superseded", "withdrawn"]
PENDING, DELIVERED, EXHAUSTED, SUPERSEDED, WITHDRAWN = states_of(DeliveryStatus)

ANNOUNCE = Move("announce", "an event that the subscription matches", (), PENDING)
DELIVER = Move("deliver", "the receiver answers 2xx", (PENDING,), DELIVERED)
EXHAUST = Move("exhaust", "the last attempt of the schedule fails, or a pause lasts 30 days", (PENDING,), EXHAUSTED)
SUPERSEDE = Move("supersede", "five attempts failed and a newer version waits", (PENDING,), SUPERSEDED)
WITHDRAW = Move("withdraw", "the subscription or the seller's authorization has ended", (PENDING,), WITHDRAWN)
RESEND = Move("resend", "the receiver answers 2xx to a resend", (EXHAUSTED, SUPERSEDED, WITHDRAWN), DELIVERED)
REPLAY = Move("replay", "an operator replays it", (EXHAUSTED, SUPERSEDED), PENDING)

DELIVERIES = Lifecycle(
    "deliveries",
    (PENDING, DELIVERED, EXHAUSTED, SUPERSEDED, WITHDRAWN),
    (ANNOUNCE, DELIVER, EXHAUST, SUPERSEDE, WITHDRAW),
    reopening=(RESEND, REPLAY),
)

SUPERSEDED_AFTER_ATTEMPTS = 5
"""The first attempt and four retries of the schedule: then a waiting newer version of the order supersedes."""

OF_RECEIVER = "subscription_id || '' = $2"
PENDING_OF_ORDER = f"status || '' = '{PENDING.name}'"
"""Conditions of statements about one order: no index has these expressions. PostgreSQL without statistics would prefer
an index of pending deliveries, and pass all those of a subscription for the few of the order."""

PARKED_MS = 253_402_300_799_000
"""`next_ms` of pending deliveries of a paused subscription: the end of the year 9999."""


FAILED = (
    f"({EXHAUSTED} OR ({PENDING} AND deliveries.next_ms > deliveries.created_ms AND deliveries.next_ms < {PARKED_MS}))"
)
"""Deliveries that are exhausted, or wait for a retry or behind one that does: an index has them."""


def next_attempt_ms(
    attempts: int,
    *,
    now_ms: int,
    pauses_seconds: Sequence[int],
    chance: float,
    retry_after_seconds: int | None = None,
) -> int | None:
    """Return the time of the next attempt after `attempts` failed ones, or None at the end of the schedule.

    `attempts` are those that the schedule counts: without those before a pause or a replay.
    `chance`, from 0 to 1, spreads the pause by ±10 %. A longer `Retry-After` of the receiver applies, up to one hour.
    """
    if attempts > len(pauses_seconds):
        return None
    pause_ms = round(pauses_seconds[attempts - 1] * 1000 * (1 - JITTER + 2 * JITTER * chance))
    retry_after_ms = min(retry_after_seconds or 0, RETRY_AFTER_SECONDS_MAX) * 1000
    return now_ms + max(pause_ms, retry_after_ms)


def retry_after_seconds(header: str | None, *, now_seconds: float) -> int | None:
    """Parse a `Retry-After` header, a number of seconds or a date (RFC 9110 §10.2.3); None if invalid."""
    if header is None:
        return None
    text = header.strip()
    if text.isascii() and text.isdigit():
        return min(int(text[:10]), RETRY_AFTER_SECONDS_MAX)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return max(0, min(round(moment.timestamp() - now_seconds), RETRY_AFTER_SECONDS_MAX))
