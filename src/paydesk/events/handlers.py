"""`GET /v1/events`: what happened to the orders that the application made, in order, each exactly once.

An application reads here what its webhooks tell of the token's seller: of the orders that it made itself, live or test
as the token is.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from functools import partial

import msgspec

from paydesk.core.errors import PROPERTY_VALUE, Refusal
from paydesk.events import store
from paydesk.events.cursors import cursor, number_of
from paydesk.events.errors import EVENTS_NO_LONGER_KEPT
from paydesk.events.readers import Readers, topics
from paydesk.events.store import Feed, Page
from paydesk.operation import Answer, Call, Handled, Query

WAIT = Query(
    "wait",
    {"type": "integer", "minimum": 0, "maximum": 55, "default": 0},
    "For how many seconds to wait where there is none yet.",
)
EVENTS_MAX = 100
POLL_INTERVAL_SECONDS = (0.2, 5.0)
"""A wake may be lost: soon after the beginning, since others may not know yet that somebody waits, and now and then."""


async def read(call: Call) -> Handled:
    """The events behind the cursor; where there are none, wait for the first ones as long as was asked for."""
    caller = call.caller
    feed = Feed(caller.seller_id, caller.application_id, int(caller.live))
    after, wait_seconds = _after(call, feed), WAIT.number(call.query) or 0
    with ExitStack() as counted:
        return await _wait(call, feed, after, wait_seconds, counted)


async def _wait(call: Call, feed: Feed, after: int | None, wait_seconds: int, counted: ExitStack) -> Answer:
    """Answer with the first events; the request counts as one that waits as soon as it does."""
    signals, loop = call.database.signals, asyncio.get_running_loop()
    deadline = loop.time() + wait_seconds
    soon, later = POLL_INTERVAL_SECONDS
    while True:
        with signals.subscribe(*topics(feed), "stop") as waiter:
            if soon != later and wait_seconds:
                _readers(call).announce(feed)
            page = await _look(call, feed, after)
            left = deadline - loop.time()
            if page.events or left <= 0 or signals.stopping or (call.disconnected is not None and call.disconnected()):
                return _answer(feed, after, page)
            if soon != later:
                counted.enter_context(_readers(call).waiting(call.caller.token_digest))
            await waiter.wait(min(left, soon))
            soon = later
        # Nobody is told more by a token that has lost its force meanwhile.
        await call.state["bearers"].caller(_token(call), call.clock.now_ms())


async def _look(call: Call, feed: Feed, after: int | None) -> Page:
    """The page, for which events that have no number yet are given theirs. Raises what is wrong with the cursor."""
    look = partial(store.page, feed=feed, after=after or 0, limit=EVENTS_MAX)
    page = await call.database.read(look)
    while page.waiting and len(page.events) < EVENTS_MAX:
        await call.database.write(partial(store.number, feed=feed, limit=EVENTS_MAX))
        before, page = page, await call.database.read(look)
        if page.last_number == before.last_number:
            break
    if after is not None and after > page.last_number:
        raise _unknown("the feed is not that long")
    if after is not None and after + 1 < page.first_number:
        raise EVENTS_NO_LONGER_KEPT.with_reason(f"after {after}, kept from {page.first_number} on")
    return page


def _answer(feed: Feed, after: int | None, page: Page) -> Answer:
    last = page.events[-1][0] if page.events else max(after or 0, page.first_number - 1)
    data = [msgspec.Raw(body.encode()) for _, body in page.events]
    return Answer(200, {"data": data, "next": cursor(feed, last)})


def _after(call: Call, feed: Feed) -> int | None:
    text = call.query.get("after")
    if text is None:
        return None
    number = number_of(text, feed)
    if number is None:
        raise _unknown("no cursor of this feed")
    return number


def _unknown(reason: str) -> Refusal:
    return PROPERTY_VALUE.with_reason(
        f"after: {reason}",
        "'after' - must be the `next` of an earlier answer to a token of this application, seller and kind; leave it"
        " out to begin with the oldest event",
    )


def _readers(call: Call) -> Readers:
    readers: Readers = call.state["event_readers"]
    return readers


def _token(call: Call) -> str:
    return call.headers.get("authorization", "").partition(" ")[2].strip()
