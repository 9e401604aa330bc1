"""The SQL of the feeds: events get their numbers after their commit, and are read by them.

Numbering is one transaction under the row of the feed's counter, so numbers are committed in their own order, without
gaps, whichever node gives them; a node that dies in between has given none. An order's events get theirs in order of
`version`: who sees a later one sees the earlier ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from paydesk.storage.database import Transaction

# Found by a worker, for all sellers: whose events wait for a number. Behind a seller ($1), in order.
WAITING = """
SELECT seller_id, application_id, live FROM order_events
 WHERE number IS NULL AND seller_id > $1 ORDER BY seller_id, application_id, live LIMIT $2"""

# The feed's last and first numbers, and 1 if an event of it has no number yet.
STANDING = """
SELECT COALESCE(MAX(last_number), 0), COALESCE(MAX(first_number), 1),
       (SELECT COUNT(*) FROM (
               SELECT 1 FROM order_events e
                WHERE e.seller_id = $1 AND e.application_id = $2 AND e.live = $3 AND e.number IS NULL LIMIT 1) AS own)
  FROM event_counters WHERE seller_id = $1 AND application_id = $2 AND live = $3"""

PAGE = """
SELECT number, body FROM order_events
 WHERE seller_id = $1 AND application_id = $2 AND live = $3 AND number IS NOT NULL AND number > $4
 ORDER BY number LIMIT $5"""

HOLD = """
SELECT last_number FROM event_counters WHERE seller_id = $1 AND application_id = $2 AND live = $3 FOR UPDATE"""

OPEN = """
INSERT INTO event_counters (seller_id, application_id, live, last_number, first_number) VALUES ($1, $2, $3, 0, 1)
ON CONFLICT DO NOTHING"""

# without a number -> the next numbers of the feed, an order's events in their order. Written so that no database needs
# statistics to look for what waits once, and in the one index that has it in this order: ranges are no constants.
NUMBER = """
UPDATE order_events SET number = fresh.number
  FROM (WITH next_ones AS MATERIALIZED (
               SELECT e.order_id, e.version FROM order_events e
                WHERE e.seller_id = $1 AND e.application_id >= $2 AND e.application_id <= $2
                  AND e.live >= $3 AND e.live <= $3 AND e.number IS NULL
                ORDER BY e.application_id, e.live, e.order_id, e.version LIMIT $5)
        SELECT order_id, version, $4 + row_number() OVER (ORDER BY order_id, version) AS number FROM next_ones
       ) AS fresh
 WHERE order_events.seller_id = $1 AND order_events.order_id = fresh.order_id
   AND order_events.version = fresh.version"""

COUNT_ON = """
UPDATE event_counters SET last_number = last_number + $4 WHERE seller_id = $1 AND application_id = $2 AND live = $3"""

COUNTERS = "SELECT application_id, live, first_number FROM event_counters WHERE seller_id = $1"

OLDEST = """
SELECT number, created_ms FROM order_events
 WHERE seller_id = $1 AND application_id = $2 AND live = $3 AND number IS NOT NULL AND number >= $4
 ORDER BY number LIMIT $5"""

BEGIN_AT = """
UPDATE event_counters SET first_number = $4
 WHERE seller_id = $1 AND application_id = $2 AND live = $3 AND first_number < $4"""


@dataclass(frozen=True, slots=True)
class Feed:
    """Whose events: those of the orders that an application made for a seller, live or test."""

    seller_id: int
    application_id: int
    live: int

    @property
    def key(self) -> tuple[int, int, int]:
        """The first three parameters of every statement about it."""
        return self.seller_id, self.application_id, self.live


@dataclass(frozen=True, slots=True)
class Page:
    """What stands in a feed behind a number: the feed's ends, and the events with their numbers, in order.

    `waiting`: there are events that have no number yet.
    """

    last_number: int
    first_number: int
    waiting: bool
    events: tuple[tuple[int, str], ...]


async def page(tx: Transaction, feed: Feed, after: int, limit: int) -> Page:
    """The feed behind `after`, or behind what is no longer told, up to `limit` events."""
    row = await tx.one(STANDING, *feed.key)
    assert row is not None, "an aggregate has a row"
    last, first, waiting = row
    found = await tx.all(PAGE, *feed.key, max(after, first - 1), limit)
    return Page(last, first, bool(waiting), tuple((number, body) for number, body in found))


async def number(tx: Transaction, feed: Feed, limit: int) -> int:
    """Give the next numbers to up to `limit` events that have none; how many."""
    row = await tx.one(HOLD, *feed.key)
    if row is None:
        await tx.run(OPEN, *feed.key)
        row = await tx.one(HOLD, *feed.key)
        assert row is not None, "it is there now, and is never deleted"
    count = await tx.run(NUMBER, *feed.key, row[0], limit)
    if count:
        await tx.run(COUNT_ON, *feed.key, count)
    return count


async def waiting(tx: Transaction, after_seller: int, limit: int) -> list[Feed]:
    """The feeds of up to `limit` events without a number behind a seller, each of them once for each of its events."""
    return [Feed(*row) for row in await tx.all(WAITING, after_seller, limit)]


async def forget(tx: Transaction, seller_id: int, before_ms: int, limit: int) -> int:
    """Tell no more of up to `limit` events of before, the oldest ones first; of how many.

    They stay in their orders' histories.
    """
    forgotten = 0
    for application_id, live, first in await tx.all(COUNTERS, seller_id):
        key = seller_id, application_id, live
        begin = first
        for number_, created_ms in await tx.all(OLDEST, *key, first, limit - forgotten):
            if created_ms >= before_ms:
                break
            begin = number_ + 1
        if begin > first:
            await tx.run(BEGIN_AT, *key, begin)
            forgotten += begin - first
    return forgotten
