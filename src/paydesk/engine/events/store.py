"""SQL of the event feeds: events are numbered after their commit and read by number.

Numbering locks the row of the feed's counter, so numbers are committed in ascending order without gaps, on any number
of nodes. An order's events are numbered in order of `version`.
"""

from __future__ import annotations

from dataclasses import dataclass

from paydesk.platform.metrics.database import Reading, owed
from paydesk.platform.retention import Rule
from paydesk.platform.storage.database import Row, Transaction

# For the worker: feeds of sellers after $1 with unnumbered events.
UNNUMBERED = """
SELECT seller_id, application_id, live FROM order_events
 WHERE number IS NULL AND seller_id > $1 ORDER BY seller_id, application_id, live LIMIT $2"""

# Of the first ones, which are numbered next.
OLDEST_UNNUMBERED = """
SELECT MIN(created_ms) FROM (
       SELECT created_ms FROM order_events WHERE number IS NULL AND seller_id > 0
        ORDER BY seller_id, application_id, live, order_id, version LIMIT 1000) AS counted"""
READINGS = (Reading(OLDEST_UNNUMBERED, owed("events.relay")),)

# The ends of the feed, and whether it has unnumbered events.
STATE = """
SELECT COALESCE(MAX(last_number), 0), COALESCE(MAX(first_number), 1),
       (SELECT COUNT(*) FROM (
               SELECT 1 FROM order_events e
                WHERE e.seller_id = $1 AND e.application_id = $2 AND e.live = $3 AND e.number IS NULL LIMIT 1) AS own)
  FROM event_counters WHERE seller_id = $1 AND application_id = $2 AND live = $3"""

PAGE = """
SELECT number, body FROM order_events
 WHERE seller_id = $1 AND application_id = $2 AND live = $3 AND number IS NOT NULL AND number > $4
 ORDER BY number LIMIT $5"""

LOCK_COUNTER = """
SELECT last_number FROM event_counters WHERE seller_id = $1 AND application_id = $2 AND live = $3 FOR UPDATE"""

INSERT_COUNTER = """
INSERT INTO event_counters (seller_id, application_id, live, last_number, first_number) VALUES ($1, $2, $3, 0, 1)
ON CONFLICT DO NOTHING"""

_LEASE = "FROM leases l WHERE l.seller_id = $1 AND l.lease_id = substr(order_events.order_id, 4)"

# Numbers events of the feed, each order's in order of version. The ranges (instead of equality) make both databases use
# the index on unnumbered events, in its order, without statistics. Returns what is counted of each.
NUMBER = f"""
UPDATE order_events SET number = fresh.number
  FROM (WITH next_ones AS MATERIALIZED (
               SELECT e.order_id, e.version FROM order_events e
                WHERE e.seller_id = $1 AND e.application_id >= $2 AND e.application_id <= $2
                  AND e.live >= $3 AND e.live <= $3 AND e.number IS NULL
                ORDER BY e.application_id, e.live, e.order_id, e.version LIMIT $5)
        SELECT order_id, version, $4 + row_number() OVER (ORDER BY order_id, version) AS number FROM next_ones
       ) AS fresh
 WHERE order_events.seller_id = $1 AND order_events.order_id = fresh.order_id
   AND order_events.version = fresh.version
RETURNING move, status,
          CASE WHEN status NOT IN ('created', 'at_terminal') THEN (SELECT ended_by {_LEASE}) END,
          CASE WHEN move = 'acknowledge' THEN (SELECT acknowledged_ms - offered_ms {_LEASE}) END"""

ADVANCE_COUNTER = """
UPDATE event_counters SET last_number = last_number + $4 WHERE seller_id = $1 AND application_id = $2 AND live = $3"""

COUNTERS = "SELECT application_id, live, first_number FROM event_counters WHERE seller_id = $1"

OLDEST = """
SELECT number, created_ms FROM order_events
 WHERE seller_id = $1 AND application_id = $2 AND live = $3 AND number IS NOT NULL AND number >= $4
 ORDER BY number LIMIT $5"""

SET_FIRST = """
UPDATE event_counters SET first_number = $4
 WHERE seller_id = $1 AND application_id = $2 AND live = $3 AND first_number < $4"""


@dataclass(frozen=True, slots=True)
class Feed:
    """The feed of the orders that an application created for a seller, live or test."""

    seller_id: int
    application_id: int
    live: int

    @property
    def key(self) -> tuple[int, int, int]:
        """The first three parameters of every statement on the feed."""
        return self.seller_id, self.application_id, self.live


@dataclass(frozen=True, slots=True)
class Page:
    """Events of a feed with their numbers, in order, and the feed's first and last numbers."""

    last_number: int
    first_number: int
    has_unnumbered: bool
    events: tuple[tuple[int, str], ...]


async def page(tx: Transaction, feed: Feed, after: int, limit: int) -> Page:
    """Return up to `limit` events after number `after`, or from the first that is kept."""
    row = await tx.one(STATE, *feed.key)
    assert row is not None, "an aggregate has a row"
    last, first, unnumbered = row
    rows = await tx.all(PAGE, *feed.key, max(after, first - 1), limit)
    return Page(last, first, bool(unnumbered), tuple((number, body) for number, body in rows))


async def number(tx: Transaction, feed: Feed, limit: int) -> list[Row]:
    """Number up to `limit` events of the feed.

    Return the move and status of each, how the terminal's lease ended and how long it was offered, as far as known.
    """
    row = await tx.one(LOCK_COUNTER, *feed.key)
    if row is None:
        await tx.run(INSERT_COUNTER, *feed.key)
        row = await tx.one(LOCK_COUNTER, *feed.key)
        assert row is not None, "a counter is never deleted"
    numbered = await tx.all(NUMBER, *feed.key, row[0], limit)
    count = len(numbered)
    if count:
        await tx.run(ADVANCE_COUNTER, *feed.key, count)
    return numbered


async def unnumbered_feeds(tx: Transaction, after_seller: int, limit: int) -> list[Feed]:
    """Return the feed of each of up to `limit` unnumbered events, in order of seller, of sellers after this seller."""
    return [Feed(*row) for row in await tx.all(UNNUMBERED, after_seller, limit)]


async def prune(tx: Transaction, seller_id: int, before_ms: int, limit: int) -> int:
    """Remove up to `limit` events from the seller's feeds that are older than `before_ms`; return how many.

    They stay in their orders' histories.
    """
    removed = 0
    for application_id, live, first in await tx.all(COUNTERS, seller_id):
        key = seller_id, application_id, live
        new_first = first
        for number_, created_ms in await tx.all(OLDEST, *key, first, limit - removed):
            if created_ms >= before_ms:
                break
            new_first = number_ + 1
        if new_first > first:
            await tx.run(SET_FIRST, *key, new_first)
            removed += new_first - first
    return removed


RULES = (Rule(lambda settings: settings.events_keep_days, prune),)
"""Time that events stay in the feeds."""
