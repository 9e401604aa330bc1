"""The presence of terminals: active or not, online or not, and the order that each of them has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from paydesk.core.clock import rfc3339
from paydesk.core.response import time_or_none
from paydesk.engine.terminals.schemas import CurrentOrder, Presence, TerminalStatus
from paydesk.platform.metrics.database import DatabaseGauge, Reading
from paydesk.platform.storage.database import Row, Transaction
from paydesk.platform.storage.statements import CLOCK_MS

ONLINE_SECONDS, DEGRADED_SECONDS = 45, 120
"""Times after its last sign of life: a terminal is online, then degraded, then offline."""

# `paydesk serve` refuses a database whose clock was moved.
NOW_MS = f"""COALESCE((
    SELECT COALESCE(c.frozen_ms, {CLOCK_MS} + c.offset_ms) FROM clock_settings c WHERE c.name = 'clock'), {CLOCK_MS})"""
"""The time by which terminals are seen: the database's clock, moved or frozen as the clock of `paydesk dev` is."""

AGE_MS = f"{NOW_MS} - t.last_seen_ms"
"""The milliseconds since the last sign of life of terminals `t`."""

# $1 is a JSON object: by terminal its seller, and the milliseconds since its last sign of life. A row that another
# transaction has locked is skipped, so that nodes never wait for each other here. The time never goes back.
RECORD = f"""
UPDATE terminals SET last_seen_ms =
       CASE WHEN terminals.last_seen_ms > seen.seen_ms THEN terminals.last_seen_ms ELSE seen.seen_ms END
  FROM (SELECT t.seller_id, t.terminal_id, {NOW_MS} - CAST(polled.value ->> 1 AS bigint) AS seen_ms
          FROM json_each($1) polled
          JOIN terminals t ON t.seller_id = CAST(polled.value ->> 0 AS bigint) AND t.terminal_id = polled.key
           FOR UPDATE OF t SKIP LOCKED) seen
 WHERE terminals.seller_id = seen.seller_id AND terminals.terminal_id = seen.terminal_id
RETURNING terminals.terminal_id"""

RECORD_OFFLINE = f"""UPDATE terminals SET last_seen_ms = {NOW_MS} - {(DEGRADED_SECONDS + 1) * 1000}
 WHERE seller_id = $1 AND terminal_id = $2"""

LIVE_ORDER = """LEFT JOIN orders o
    ON o.seller_id = t.seller_id AND o.terminal_id = t.terminal_id AND o.status IN ('created', 'at_terminal')"""
"""The join of terminals `t` with their live orders `o`, for `COLUMNS`."""

IS_ACTIVE = """EXISTS (
    SELECT 1 FROM device_tokens k
     WHERE k.seller_id = t.seller_id AND k.terminal_id = t.terminal_id AND k.revoked_ms IS NULL)"""
"""Whether terminals `t` have a valid device token."""

COLUMNS = f"""{IS_ACTIVE}, t.last_seen_ms, {AGE_MS}, o.order_id, o.status, o.status_detail, (
    SELECT MIN(e.created_ms) FROM order_events e
     WHERE e.seller_id = o.seller_id AND e.order_id = o.order_id
       AND e.status = o.status AND e.status_detail = o.status_detail)"""
"""The last columns of a list of terminals, which `shown` takes."""

STATUS = f"CASE WHEN {IS_ACTIVE} THEN 'active' ELSE 'inactive' END"
"""The status of terminals `t`, as `status_of` returns it."""

PRESENCE = f"""CASE WHEN {AGE_MS} <= {ONLINE_SECONDS * 1000} THEN 'online'
       WHEN {AGE_MS} <= {DEGRADED_SECONDS * 1000} THEN 'degraded' ELSE 'offline' END"""
"""The presence of terminals `t`, as `presence_of` returns it."""

COUNTED_MAX = 50_000
"""Terminals are read up to this number, in some milliseconds: an index by time would make each sign of life dearer."""
_SINCE = f"COUNT(CASE WHEN last_seen_ms >= (SELECT {NOW_MS}) - {{}} THEN 1 END)"
COUNTS = f"""
SELECT online, seen - online, every - seen
  FROM (SELECT {_SINCE.format(ONLINE_SECONDS * 1000)} AS online, {_SINCE.format(DEGRADED_SECONDS * 1000)} AS seen,
               COUNT(*) AS every FROM (SELECT last_seen_ms FROM terminals LIMIT {COUNTED_MAX}) AS t) AS counted"""
TERMINALS = DatabaseGauge("paydesk_terminals", "Terminals by presence.", ("presence",))
READINGS = (Reading(COUNTS, tuple((TERMINALS, (one,)) for one in ("online", "degraded", "offline"))),)

# Operators send only the terminal's id, which is unique over all sellers.
FIND = f"""
SELECT t.seller_id, t.last_seen_ms, {AGE_MS}
  FROM terminal_owners w JOIN terminals t ON t.seller_id = w.seller_id AND t.terminal_id = w.terminal_id
 WHERE w.terminal_id = $1"""


@dataclass(frozen=True, slots=True)
class Seen:
    """The seller of a terminal, and whether it is online."""

    seller_id: int
    presence: Presence
    last_seen_ms: int | None


def status_of(*, is_active: bool) -> TerminalStatus:
    """Return the status of a terminal; it is active if it has a valid device token."""
    return "active" if is_active else "inactive"


def presence_of(age_ms: int | None) -> Presence:
    """Return the presence of a terminal by the age of its last sign of life, None if there was none."""
    if age_ms is None or age_ms > DEGRADED_SECONDS * 1000:
        return "offline"
    return "online" if age_ms <= ONLINE_SECONDS * 1000 else "degraded"


@dataclass(frozen=True, slots=True)
class OrderLabels:
    """Labels the statuses of orders; composed with the service, as terminals know nothing of orders."""

    of_status: Callable[[str, str], str]
    """Returns the label of a status with its detail."""


def shown(row: Row, label: Callable[[str, str], str]) -> dict[str, Any]:
    """Return the fields from `status` to `current_order` of a terminal from its `COLUMNS`.

    `label` returns the label of an order's status and detail.
    """
    is_active, last_seen_ms, age_ms, order_id, status, detail, since_ms = row
    current = None if order_id is None else CurrentOrder(order_id, label(status, detail), rfc3339(since_ms))
    return {
        "status": status_of(is_active=is_active),
        "presence": presence_of(age_ms),
        "last_seen_date": time_or_none(last_seen_ms),
        "current_order": current,
    }


async def find(tx: Transaction, terminal_id: str) -> Seen | None:
    """Return the terminal's seller and presence, None if no seller has it."""
    row = await tx.one(FIND, terminal_id)
    return None if row is None else Seen(row[0], presence_of(row[2]), row[1])


async def record(tx: Transaction, ages_ms: Mapping[str, tuple[int, int]]) -> set[str]:
    """Write the last signs of life by `NOW_MS`; return the terminals whose rows were not locked.

    `ages_ms` has by terminal its seller, and the age of the sign in milliseconds.
    """
    return {row[0] for row in await tx.all(RECORD, msgspec.json.encode(ages_ms).decode())}


async def record_offline(tx: Transaction, seller_id: int, terminal_id: str) -> None:
    """Let the terminal be offline by `NOW_MS` (in development only)."""
    await tx.run(RECORD_OFFLINE, seller_id, terminal_id)


async def forget_future(tx: Transaction) -> None:
    """Forget signs of life that are later than now, after the clock went back."""
    await tx.run(f"UPDATE terminals SET last_seen_ms = NULL WHERE last_seen_ms > {NOW_MS}")
