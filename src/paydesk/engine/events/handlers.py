"""`GET /v1/events`: the events that the application's webhooks get for the token's seller, in order, each exactly once.

A token reads the events of orders that its application created, live or test as the token is.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from functools import partial

import msgspec

from paydesk.core.errors import PROPERTY_VALUE, Refusal
from paydesk.engine.events import cursors, numbering, store
from paydesk.engine.events.errors import EVENTS_NO_LONGER_KEPT
from paydesk.engine.events.readers import Readers, topics
from paydesk.engine.events.schemas import EVENTS_MAX, EventPage
from paydesk.engine.events.store import Feed, Page
from paydesk.engine.oauth.bearer import Bearers
from paydesk.platform.operation import WAIT, Answer, Call, Handled

POLL_INTERVAL_SECONDS = (0.2, 5.0)
"""The first and every later interval between polls of the database, since a notification may be lost. The first is
short because other nodes may not have received this reader's announcement yet."""


async def read(call: Call) -> Handled:
    """Read events: those after the cursor; if there are none, wait for the first for up to `wait` seconds."""
    caller = call.caller
    feed = Feed(caller.seller_id, caller.application_id, int(caller.live))
    cursor, seconds = call.query.get("after"), WAIT.number(call.query) or 0
    after = None if cursor is None else cursors.decode(cursor, feed)
    if cursor is not None and after is None:
        raise _invalid_cursor("no cursor of this feed")
    with ExitStack() as waiting:
        page = await _wait(call, feed, after, seconds, waiting)
    last = page.events[-1][0] if page.events else max(after or 0, page.first_number - 1)
    data = [msgspec.Raw(body.encode()) for _, body in page.events]
    return Answer(200, EventPage(data, cursors.encode(feed, last)))


async def _wait(call: Call, feed: Feed, after: int | None, seconds: int, waiting: ExitStack) -> Page:
    """Return the first events, or an empty page. From its first wait on the request counts as waiting."""
    readers, signals, loop = call.shared.objects[Readers], call.database.signals, asyncio.get_running_loop()
    deadline = loop.time() + seconds
    interval, later = POLL_INTERVAL_SECONDS
    while True:
        with signals.subscribe(*topics(feed), "stop") as waiter:
            if interval != later and seconds:
                readers.announce(feed)
            page = await _page(call, feed, after)
            left = deadline - loop.time()
            if page.events or left <= 0 or signals.stopping or (call.disconnected is not None and call.disconnected()):
                return page
            if interval != later:
                waiting.enter_context(readers.waiting(call.caller.token_digest))
            await waiter.wait(min(left, interval))
            interval = later
        # The token may have been revoked during the wait: raises `unauthorized` then.
        token = call.headers.get("authorization", "").partition(" ")[2].strip()
        await call.shared.objects[Bearers].caller(token, call.clock.now_ms())


async def _page(call: Call, feed: Feed, after: int | None) -> Page:
    """Return the page after numbering events. Raises `property_value` and `events_no_longer_kept` for the cursor."""
    query = partial(store.page, feed=feed, after=after or 0, limit=EVENTS_MAX)
    page = await call.database.read(query)
    while page.has_unnumbered and len(page.events) < EVENTS_MAX:
        await numbering.number(call.database, feed, EVENTS_MAX)
        before, page = page, await call.database.read(query)
        if page.last_number == before.last_number:
            break
    if after is not None and after > page.last_number:
        raise _invalid_cursor("after the end of the feed")
    if after is not None and after + 1 < page.first_number:
        raise EVENTS_NO_LONGER_KEPT.with_reason(f"after {after}, kept from {page.first_number} on")
    return page


def _invalid_cursor(reason: str) -> Refusal:
    return PROPERTY_VALUE.with_reason(
        f"after: {reason}",
        "'after' - must be the `next` of an earlier answer to a token of the same application, seller and live mode;"
        " omit it to start with the oldest event",
    )
