"""`GET /dev/notifications`: the demo inbox for tests, filtered and waited for."""

from __future__ import annotations

import asyncio

from paydesk.core.errors import PROPERTY_VALUE
from paydesk.platform.operation import WAIT, Answer, Call, Query
from paydesk.platform.rows import Rows
from paydesk_dev import filters
from paydesk_dev.inbox import receiver as inbox
from paydesk_dev.inbox import store
from paydesk_dev.inbox.store import InboxEntry, InboxFilter
from paydesk_dev.schemas import Inbox

TOPIC = "inbox"
"""Notified after each notification."""
POLL_INTERVAL_SECONDS = 2.0
"""How soon a notification is seen whose signal is lost, and that the client has gone."""

ACTION = Query("action", {"type": "string", "maxLength": 100}, "Only with this action, such as `order.processed`.")
VALID = Query("valid", {"type": "boolean"}, "Only with valid signatures (`true`), or with invalid ones (`false`).")
COUNT = Query(
    "count", {"type": "integer", "minimum": 1, "maximum": store.ENTRIES_MAX, "default": 1}, "With `wait`: how many."
)
QUERY = (filters.APPLICATION, ACTION, filters.ORDER, VALID, WAIT, COUNT)


async def find(call: Call) -> Answer:
    """List the notifications that the demo inbox received, oldest first; with `wait` once there are `count`."""
    values = filters.read(QUERY, call.query)
    chosen = InboxFilter(
        values.get("action", ""),
        values.get("order", ""),
        values.get("valid"),
        int(values.get("application", 0)),
    )
    entries = await _wait(call, chosen, values.get("count"), values.get("wait"))
    return Answer(200, Inbox([inbox.received(entry) for entry in entries]))


async def _wait(call: Call, chosen: InboxFilter, count: int, seconds: int) -> list[InboxEntry]:
    """Return the notifications once there are `count`, or the time is over, or the client has gone."""
    signals, loop = call.database.signals, asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while True:
        with signals.subscribe(TOPIC, "stop") as waiter:
            rows = await call.database.read(
                lambda tx: store.page_of_entries(tx, chosen, store.NUMBER_MAX, store.ENTRIES_MAX), heavy=True
            )
            left = deadline - loop.time()
            has_gone = call.disconnected is not None and call.disconnected()
            if len(rows) >= count or left <= 0 or signals.stopping or has_gone:
                return [entry for _, entry in rows][::-1]
            await waiter.wait(min(left, POLL_INTERVAL_SECONDS))


OPERATIONS = (
    Rows("operator", "/dev", development=True, transaction="none").get(
        "/notifications",
        "list_notifications",
        find,
        answer=Inbox,
        query=QUERY,
        errors=(PROPERTY_VALUE,),
        description=(
            "As `GET /demo/inbox`, for tests beside each other: each waits for its own. After `wait` seconds the"
            " response has what has arrived, perhaps less than `count`."
        ),
    ),
)
