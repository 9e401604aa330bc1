"""The SQL of recorded requests: the latest of applications and terminals."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from paydesk.core import ids
from paydesk.platform.storage.database import Row, Transaction

KEPT_MAX, KEPT_MS = 10_000, 7 * 86_400_000
UNKNOWN_MAX = 2000
"""Maximum number of requests without an authenticated caller: a flood of them must not displace all others."""
ROWS_PER_STATEMENT = (32, 16, 8, 4, 2, 1)
"""The numbers of rows of one INSERT: few, so that there are few different statements."""
PRUNED_MAX = 1000


class Recorded(NamedTuple):
    """A row: a request with its response. Texts have no secrets and are bounded."""

    entry_id: str
    request_id: str
    method: str
    path: str
    operation: str
    status: int
    duration_us: int
    application_id: int | None
    seller_id: int | None
    live: int | None
    terminal_id: str | None
    order_id: str | None
    idempotency_key: str | None
    replayed: int
    error: str | None
    reason: str | None
    address: str
    user_agent: str
    request_body: str | None
    response_body: str | None
    created_ms: int


COLUMNS = ", ".join(Recorded._fields)
_LISTED = """entry_id, request_id, method, path, operation, status, duration_us, application_id, seller_id, live,
       terminal_id, order_id, idempotency_key, replayed, error, reason, address, user_agent, created_ms,
       (SELECT a.name FROM applications a WHERE a.application_id = recorded_requests.application_id)"""

# PostgreSQL takes the type of a number from its first place.
_FILTERS = """($3 = '' OR order_id = $3) AND ($4 = '' OR request_id = $4) AND (application_id = $5 OR $5 = 0)
   AND (seller_id = $6 OR $6 = 0) AND ($7 = '' OR terminal_id = $7) AND ($8 = '' OR method = $8)
   AND status BETWEEN $9 AND $10
   AND ($11 = '' OR $11 = CASE WHEN path LIKE '/device/%' OR path LIKE '/virtual/%' THEN 'terminals'
                               ELSE 'applications' END)"""

_FROM = f"SELECT {_LISTED} FROM recorded_requests"
_WHERE, _NEWEST = f"WHERE entry_id < $1 AND {_FILTERS}", "ORDER BY entry_id DESC LIMIT $2"
# A page of at most 10,000 rows, newest first. Those of one order, or with one id, are found by an index.
LIST = f"{_FROM} {_WHERE} {_NEWEST}"
OF_ORDER = f"{_FROM} {_WHERE} AND order_id = $3 {_NEWEST}"
OF_ID = f"{_FROM} {_WHERE} AND request_id = $4 {_NEWEST}"

GET = f"SELECT {_LISTED}, request_body, response_body FROM recorded_requests WHERE entry_id = $1"

GET_SENT = """
SELECT method, path, request_body, idempotency_key, application_id, seller_id, live FROM recorded_requests
 WHERE entry_id = $1"""

# The oldest of the rows that are kept.
OLDEST_KEPT = "SELECT entry_id FROM recorded_requests ORDER BY entry_id DESC LIMIT 1 OFFSET $1"

PRUNE = """
DELETE FROM recorded_requests WHERE entry_id IN (WITH old AS MATERIALIZED (
       SELECT o.entry_id FROM recorded_requests o WHERE o.entry_id < $1 ORDER BY o.entry_id LIMIT $2
          FOR UPDATE OF o SKIP LOCKED) SELECT * FROM old)"""

# The same of those without an authenticated caller.
OLDEST_UNKNOWN_KEPT = """
SELECT entry_id FROM recorded_requests
 WHERE application_id IS NULL AND terminal_id IS NULL ORDER BY entry_id DESC LIMIT 1 OFFSET $1"""

PRUNE_UNKNOWN = """
DELETE FROM recorded_requests WHERE entry_id IN (WITH old AS MATERIALIZED (
       SELECT o.entry_id FROM recorded_requests o
        WHERE o.entry_id < $1 AND o.application_id IS NULL AND o.terminal_id IS NULL ORDER BY o.entry_id LIMIT $2
          FOR UPDATE OF o SKIP LOCKED) SELECT * FROM old)"""


@cache
def insert(rows: int) -> str:
    """Return the INSERT of that many rows."""
    width = len(Recorded._fields)
    values = ("(" + ", ".join(f"${row * width + column + 1}" for column in range(width)) + ")" for row in range(rows))
    return f"INSERT INTO recorded_requests ({COLUMNS}) VALUES {', '.join(values)}"


async def add(tx: Transaction, recorded: Sequence[Recorded]) -> None:
    """Insert the rows."""
    done = 0
    for size in ROWS_PER_STATEMENT:
        while len(recorded) - done >= size:
            part = recorded[done : done + size]
            await tx.run(insert(size), *(value for row in part for value in row))
            done += size


async def prune(tx: Transaction, now_ms: int) -> int:
    """Delete rows that are older than seven days or beyond the last 10,000; return `PRUNED_MAX` if more may remain.

    First it deletes rows without an authenticated caller beyond the last 2,000 of these.
    """
    oldest_unknown: Row | None = await tx.one(OLDEST_UNKNOWN_KEPT, UNKNOWN_MAX - 1)
    if oldest_unknown is not None and await tx.run(PRUNE_UNKNOWN, oldest_unknown[0], PRUNED_MAX) == PRUNED_MAX:
        return PRUNED_MAX
    before = ids.first_ulid(now_ms - KEPT_MS)
    oldest: Row | None = await tx.one(OLDEST_KEPT, KEPT_MAX - 1)
    return await tx.run(PRUNE, max(before, oldest[0]) if oldest else before, PRUNED_MAX)
