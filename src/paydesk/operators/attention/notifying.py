"""The worker that notifies operators: of each operator event, and of what needs a person when it appears and is gone.

An event that is not announced yet is an entry of the outbox. Once a minute one node compares the open items with those
that were open before. Without a subscription of operators nothing is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

import msgspec

from paydesk.console.request import PATH
from paydesk.core.clock import rfc3339
from paydesk.core.ids import ORDER_ID, event_number
from paydesk.engine.webhooks.operators import announce
from paydesk.engine.webhooks.schemas import OPERATORS
from paydesk.operators.attention.handlers import AttentionItem, find
from paydesk.operators.attention.items import TITLES, link_of
from paydesk.operators.orders.waiting import periods_of
from paydesk.platform.storage.database import Transaction
from paydesk.platform.worker import WorkerContext

POLL_INTERVAL_SECONDS = 5.0
INTERVAL_MS = 60_000
SETTLED_MS = 60_000
"""An item that ends within this time is not announced, such as a receiver that fails once."""
ITEMS_MAX = 1000
EACH_MAX = 10
"""More items of one kind that appear, or are gone, at once are one notification with their number."""
STEP_EVENTS_MAX = 100
PAGES = {"owner_added": "operators", "operator_token_created": "operators", "terminal_session_conflict": "terminals",
         "webhook_paused": "webhooks/subscriptions"}  # fmt: skip
"""The pages of the subjects of events, if they are not orders."""

# Since when operators have a subscription; NULL: they have none.
STATE = f"""
SELECT (SELECT MIN(created_ms) FROM subscriptions WHERE application_id = {OPERATORS} AND deleted_ms IS NULL),
       COALESCE(MAX(watching), 0), COALESCE(MAX(next_ms), 0) FROM attention_watch"""

# With whether each is about a subscription of operators.
CLAIM_EVENTS = f"""
UPDATE operator_events SET announced_ms = $1
 WHERE event_id IN (WITH fresh AS MATERIALIZED (
       SELECT event_id FROM operator_events WHERE announced_ms IS NULL AND created_ms >= $2
        ORDER BY created_ms LIMIT $3 FOR UPDATE SKIP LOCKED) SELECT * FROM fresh)
RETURNING kind, seller_id, subject, message, created_ms,
          (SELECT COUNT(*) FROM subscriptions s WHERE s.subscription_id = subject AND s.application_id = {OPERATORS})"""

# Another node that compares at the same time waits for the row, and then changes nothing.
FIRST_TURN = "INSERT INTO attention_watch (watch, next_ms, watching) VALUES ('attention', 0, 0) ON CONFLICT DO NOTHING"
TAKE_TURN = "UPDATE attention_watch SET next_ms = $1, watching = 1 WHERE next_ms = $2"
STOP_WATCHING = "UPDATE attention_watch SET watching = 0"

KNOWN = "SELECT item, thread, data FROM attention_items"
ADD = "INSERT INTO attention_items (item, thread, data) VALUES ($1, $2, $3)"
REMOVE = "DELETE FROM attention_items WHERE item = $1"

Known = tuple[int, dict[str, Any]]
"""The thread of an item's notifications, and what they say."""


async def run(context: WorkerContext, stop: asyncio.Event) -> None:
    """Notify operators until `stop` is set."""
    while not stop.is_set():
        with context.database.signals.subscribe("clock", "stop") as waiter:
            await step(context)
            await waiter.wait(POLL_INTERVAL_SECONDS)


async def step(context: WorkerContext) -> None:
    """Announce the events that are not announced, and compare what needs a person if it is time."""
    database, now_ms, base = context.database, context.clock.now_ms(), context.settings.operator_url
    row = await database.read(lambda tx: tx.one(STATE))
    assert row is not None, "an aggregate has a row"
    since_ms, is_watching, next_ms = row
    if since_ms is None:
        if is_watching:
            await database.write(lambda tx: tx.run(STOP_WATCHING))
        return
    while await database.write(partial(_announce_events, since_ms=since_ms, base=base, now_ms=now_ms)):
        pass
    if not 0 < next_ms - now_ms <= INTERVAL_MS:  # More than that: the clock was set back.
        periods = periods_of(context.settings)
        items = await database.read(lambda tx: find(tx, context.objects, periods, now_ms, ITEMS_MAX), heavy=True)
        turn = {"next_ms": next_ms, "is_first": not is_watching, "now_ms": now_ms}
        await database.write(partial(_compare, items=items, base=base, **turn))


async def _announce_events(tx: Transaction, since_ms: int, base: str, now_ms: int) -> bool:
    """Announce the next events; return whether there may be more. What they have as evidence is left out.

    One about a subscription of operators is not announced: two that fail would notify each other for ever.
    """
    rows = await tx.all(CLAIM_EVENTS, now_ms, since_ms, STEP_EVENTS_MAX)
    for kind, seller_id, subject, message, created_ms, is_own in sorted(rows, key=lambda row: int(row[4])):
        data = {"kind": kind, "subject": subject, "message": message, "since_date": rfc3339(created_ms)}
        data |= {"url": base + page_of(kind, subject)} | ({} if seller_id is None else {"seller_id": seller_id})
        if not is_own:
            await announce(tx, f"event.{kind}", data, now_ms)
    return len(rows) == STEP_EVENTS_MAX


async def _compare(
    tx: Transaction, *, items: Sequence[AttentionItem], base: str, next_ms: int, is_first: bool, now_ms: int
) -> None:
    """Announce the items that are new or gone; none at the first time, when all of them are from before."""
    await tx.run(FIRST_TURN)
    if not await tx.run(TAKE_TURN, now_ms + INTERVAL_MS, next_ms):
        return
    known = {key: (thread, msgspec.json.decode(data)) for key, thread, data in await tx.all(KNOWN)}
    current = {_key(item): item for item in items}
    settled = rfc3339(now_ms if is_first else now_ms - SETTLED_MS)
    fresh = {key: item for key, item in current.items() if key not in known and item.since_date <= settled}
    new = {key: _known(item, base) for key, item in fresh.items()}
    # What is left out of a list at its limit is not gone.
    gone = {key: one for key, one in known.items() if key not in current} if len(items) < ITEMS_MAX else {}
    for key, (thread, data) in new.items():
        await tx.run(ADD, key, thread, msgspec.json.encode(data).decode())
    for key in gone:
        await tx.run(REMOVE, key)
    for kind in () if is_first else TITLES:
        for state, ones in (("open", new), ("gone", gone)):
            of_kind = [one for one in ones.values() if one[1]["kind"] == kind]
            await _announce_items(tx, kind, state, of_kind, base, now_ms)


def _key(item: AttentionItem) -> str:
    """Return what no other item has: a store and a seller, whose terminals are offline, may have one number."""
    return f"{item.kind}:{item.live_mode}:{item.seller_id or ''}:{item.store_id or ''}:{item.subject}"


def _known(item: AttentionItem, base: str) -> Known:
    data = msgspec.to_builtins(item)
    return event_number(), {"kind": item.kind, "state": "open", **data, "url": base + link_of(data)[0]}


async def _announce_items(
    tx: Transaction, kind: str, state: str, items: Sequence[Known], base: str, now_ms: int
) -> None:
    """Announce each of the items, or of many their number."""
    action, title = f"attention.{kind}", TITLES[kind][2]
    if len(items) > EACH_MAX:
        message = f"{title}: {len(items)} at once."
        data = {"kind": kind, "state": state, "count": len(items), "message": message, "url": base + PATH}
        return await announce(tx, action, data, now_ms)
    for thread, data in items:
        if state == "gone":
            data = {**data, "state": state, "message": f"{title}: this no longer needs a person."}  # noqa: PLW2901
            del data["do"]
        await announce(tx, action, data, now_ms, thread, 1 if state == "open" else 2)
    return None


def page_of(kind: str, subject: str) -> str:
    """Return the path of the console's page about an event: that of its subject, or the first one."""
    page = "orders" if ORDER_ID.fullmatch(subject) else PAGES.get(kind)
    if page is None:
        return f"{PATH}/acquirers" if kind.startswith("acquirer_") else PATH
    return f"{PATH}/{page}/{quote(subject, safe='')}"
