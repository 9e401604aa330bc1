"""`GET /v1/events`: every event of the application's orders, in order, each once; waiting, cursors, who hears what."""

from __future__ import annotations

import asyncio
import base64
import time
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from oauth_scene import ALL_SCOPES, DAY_MS, REDIRECT_URI
from paydesk.core.clock import MovableClock
from paydesk.events import relay, store
from paydesk.events.handlers import POLL_INTERVAL_SECONDS
from paydesk.events.readers import WAITING_PER_TOKEN_MAX
from paydesk.invariants import check
from paydesk.oauth.clients import applications
from paydesk.oauth.clients.application import Application
from paydesk.storage.database import Database, Transaction
from retention_scene import context_of, sweep
from service import Reply, Service, access_token, order_body, running

NOBODYS = "UPDATE order_events SET application_id = NULL, live = NULL"
"""As the version before wrote it."""


async def read(service: Service, after: str | None = None, *, wait: int = 0, token: str = "") -> Reply:
    """One page."""
    query = "&".join((*([f"after={after}"] if after is not None else []), *([f"wait={wait}"] if wait else [])))
    return await service.request("GET", f"/v1/events{query and '?'}{query}", token=token)


def told(reply: Reply) -> list[tuple[str, str, int]]:
    """The order, the action and the version of each event."""
    assert reply.status == 200, reply
    return [(event["data"]["id"], event["action"], event["data"]["version"]) for event in reply.body["data"]]


async def test_what_happened_is_read_once_and_inorder_body(service: Service) -> None:
    """All moves of an order, the bytes of the webhooks; behind `next` there is nothing, until something happens."""
    terminal = await service.terminal()
    device = await service.device(terminal)
    order = (await service.create(terminal)).body
    lease = order["id"][3:]
    await device.ack(lease)
    await device.authorizing(lease)
    await device.approve(lease)
    first = await read(service)
    actions = ["order.created", "order.at_terminal", "order.processed"]
    assert told(first) == [(order["id"], action, version) for version, action in enumerate(actions, 1)]
    bodies = await _rows(service, "SELECT body FROM order_events ORDER BY version")
    assert first.raw.decode().startswith(f'{{"data":[{",".join(bodies)}],"next":"')
    nothing = await read(service, first.body["next"])
    assert nothing.body == {"data": [], "next": first.body["next"]}
    other = (await service.create(terminal)).body
    assert told(await read(service, nothing.body["next"])) == [(other["id"], "order.created", 1)]
    assert told(await read(service))[:3] == told(first), "the beginning is the same for whoever begins"


async def test_a_feed_that_is_empty_has_a_place_to_go_on_from(service: Service) -> None:
    """Who reads before anything happened misses nothing afterwards."""
    empty = await read(service)
    assert empty.body["data"] == []
    assert empty.body["next"]
    order = (await service.create(await service.terminal())).body
    assert told(await read(service, empty.body["next"])) == [(order["id"], "order.created", 1)]


async def test_so_many_requests_of_a_token_may_wait(service: Service) -> None:
    """One more is answered 429 and repeated later; other tokens wait, and so does who needs not wait at all."""
    start = (await read(service)).body["next"]
    waiting = [asyncio.create_task(read(service, start, wait=20)) for _ in range(WAITING_PER_TOKEN_MAX)]
    await asyncio.sleep(0.5)
    refused = await read(service, start, wait=20)
    assert (refused.status, refused.code, refused.headers["retry-after"]) == (429, "too_many_requests", "5")
    assert (await read(service, start)).status == 200
    live = await read(service, token=service.live_access_token)
    assert (await read(service, live.body["next"], wait=1, token=service.live_access_token)).status == 200
    order = (await service.create(await service.terminal())).body
    for reply in await asyncio.gather(*waiting):
        assert told(reply) == [(order["id"], "order.created", 1)]
    behind = (await read(service)).body["next"]
    assert (await read(service, behind, wait=1)).status == 200


async def test_requests_whose_client_is_gone_do_not_wait(service: Service) -> None:
    """After some seconds others may wait in their place."""
    start = (await read(service)).body["next"]
    waiting = [asyncio.create_task(read(service, start, wait=50)) for _ in range(WAITING_PER_TOKEN_MAX)]
    await asyncio.sleep(0.5)
    for request in waiting:
        request.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    async with asyncio.timeout(POLL_INTERVAL_SECONDS[1] + 5):
        while (await read(service, start, wait=1)).status == 429:  # noqa: ASYNC110 - no event says so
            await asyncio.sleep(0.5)


async def test_who_waits_is_told_at_once(service: Service) -> None:
    """The answer comes with the event, and without one when the time is over."""
    start = (await read(service)).body["next"]
    terminal = await service.terminal()
    waiting = asyncio.create_task(read(service, start, wait=20))
    await asyncio.sleep(0.4)
    assert not waiting.done()
    order = (await service.create(terminal)).body
    began = time.monotonic()
    reply = await waiting
    assert told(reply) == [(order["id"], "order.created", 1)]
    assert time.monotonic() - began < 4, "it was woken, and did not just look again"
    assert (await read(service, reply.body["next"], wait=1)).body == {"data": [], "next": reply.body["next"]}


async def test_every_event_has_a_number_of_its_own(database: Database) -> None:
    """From 1, without a gap, an order's in order of version; whoever numbers, and however often."""
    async with running(database, workers=False) as service:
        terminal = await service.terminal()
        for _ in range(3):
            for _ in range(2):
                await service.cancel((await service.create(terminal)).body["id"])
            assert (await read(service)).status == 200
        assert sorted(await _rows(service, "SELECT number FROM order_events")) == list(range(1, 13))
        assert await check.check(database, service.clock.now_ms()) == []


async def test_pages(service: Service) -> None:
    """What is more than a page comes page by page, without a gap and without a repetition."""
    terminal = await service.terminal()
    expected: list[tuple[str, str, int]] = []
    for _ in range(60):
        order = (await service.create(terminal)).body
        await service.cancel(order["id"])
        expected += [(order["id"], "order.created", 1), (order["id"], "order.canceled", 2)]
    first = await read(service)
    second = await read(service, first.body["next"])
    assert len(told(first)) == 100
    assert told(first) + told(second) == expected
    assert (await read(service, second.body["next"])).body["data"] == []


async def _second_application(service: Service) -> str:
    """A test token of another application of the same seller."""

    async def work(tx: Transaction) -> Application:
        made, _ = await applications.create(
            tx, name="Other", redirect_uris=(REDIRECT_URI,), scopes=ALL_SCOPES, now_ms=service.clock.now_ms()
        )
        return made

    scene = replace(service.scene, application=await service.database.write(work))
    return await access_token(scene, service.clock.now_ms(), live=False)


async def _rows(service: Service, sql: str) -> list[Any]:
    return [row[0] for row in await service.database.read(lambda tx: tx.all(sql))]


async def test_an_application_hears_of_its_own_orders(service: Service) -> None:
    """Not of another application's, not of the other kind: as its webhooks tell it, though it may read the orders."""
    own = (await service.create(await service.terminal())).body["id"]
    live_terminal = await service.terminal(live=True)
    live = (
        await service.request("POST", "/v1/orders", order_body(live_terminal.id), token=service.live_access_token)
    ).body["id"]
    token = await _second_application(service)
    others = (await service.request("POST", "/v1/orders", order_body((await service.terminal()).id), token=token)).body[
        "id"
    ]
    assert [event[0] for event in told(await read(service))] == [own]
    assert [event[0] for event in told(await read(service, token=service.live_access_token))] == [live]
    assert [event[0] for event in told(await read(service, token=token))] == [others]


async def test_cursors_that_are_none_of_this_feed(service: Service) -> None:
    """What is no cursor, another feed's, or ahead of the feed is refused, and says what to send."""
    await service.create(await service.terminal())
    good = (await read(service)).body["next"]
    foreign = (await read(service, token=service.live_access_token)).body["next"]
    decoded = base64.urlsafe_b64decode(good + "=" * (-len(good) % 4)).decode()
    ahead = base64.urlsafe_b64encode((decoded[: decoded.rindex(".")] + ".999").encode()).decode().rstrip("=")
    padded = base64.urlsafe_b64encode((decoded[: decoded.rindex(".")] + ".01").encode()).decode().rstrip("=")
    for bad in ("", "0", "abc", "%C3%A4", "x" * 500, foreign, ahead, padded, good + "=", good + "."):
        reply = await read(service, bad)
        assert (reply.status, reply.code) == (400, "property_value"), bad
        assert reply.details[0].startswith("'after' - must be the `next` of an earlier answer"), bad


@pytest.mark.parametrize("wait", ["-1", "56", "1.5", "", "x", "٣"])
async def test_a_wait_is_a_number_of_seconds(service: Service, wait: str) -> None:
    """From 0 to 55."""
    reply = await service.request("GET", f"/v1/events?wait={wait}")
    assert (reply.status, reply.code) == (400, "property_value")
    assert reply.details == ["'wait' - must be a whole number from 0 to 55"]


async def test_a_token_needs_the_scope_read(service: Service) -> None:
    """One that may only write is refused, and so is none."""
    token = await access_token(service.scene, service.clock.now_ms(), live=False, scope="write")
    assert (await read(service, token=token)).code == "insufficient_scope"
    assert (await service.request("GET", "/v1/events", token=None)).status == 401


async def test_who_waits_with_a_token_that_dies_is_told_nothing(service: Service) -> None:
    """A poll that outlives its token ends as refused when something happens."""
    start = (await read(service)).body["next"]
    terminal = await service.terminal()
    dying = await access_token(service.scene, service.clock.now_ms(), live=False, scope="read")
    waiting = asyncio.create_task(read(service, start, wait=30, token=dying))
    await asyncio.sleep(0.4)
    revoked = await service.request("POST", "/oauth/revoke", service.scene.presented(dying), token=None, key=None)
    assert revoked.status == 200
    await service.create(terminal)
    assert (await waiting).status == 401


async def test_what_the_version_before_wrote_is_told_too(database: Database) -> None:
    """Whose it is is found out first, so that an order's events stay in order; also by the worker, unread."""
    async with running(database, workers=False) as service:
        terminal = await service.terminal()
        order = (await service.create(terminal)).body["id"]
        await service.scene.run(NOBODYS)
        await service.cancel(order)
        expected = [(order, "order.created", 1), (order, "order.canceled", 2)]
        assert told(await read(service)) == expected
        other = (await service.create(terminal)).body["id"]
        await service.scene.run(f"{NOBODYS} WHERE number IS NULL")
        while await relay.sweep(context_of(database, service.clock), asyncio.Event()):
            pass
        await relay.sweep(context_of(database, service.clock), asyncio.Event())
        assert await _rows(service, "SELECT number FROM order_events ORDER BY order_id, version") == [1, 2, 3]
        assert told(await read(service)) == [*expected, (other, "order.created", 1)]


async def test_what_the_version_before_wrote_of_others_is_waited_for(database: Database) -> None:
    """Of two applications, in the smallest steps: each event is told to whose order it is, and none too early."""
    clock = MovableClock()
    clock.freeze()
    async with running(database, clock=clock, workers=False) as service:
        token, terminal = await _second_application(service), await service.terminal()
        others = (await service.request("POST", "/v1/orders", order_body(terminal.id), token=token)).body["id"]
        clock.advance(1)
        own = (await service.create(await service.terminal())).body["id"]
        await service.scene.run(NOBODYS)
        await service.cancel(own)
        feed = store.Feed(service.seller_id, service.scene.application.application_id, 0)
        while await database.write(partial(store.number, feed=feed, limit=1)):
            pass
        assert told(await read(service)) == [(own, "order.created", 1), (own, "order.canceled", 2)]
        assert told(await read(service, token=token)) == [(others, "order.created", 1)]
        assert await check.check(database, clock.now_ms()) == []


async def test_events_are_told_for_thirty_days(database: Database) -> None:
    """Then a cursor from before is refused, and who begins anew begins with what is kept. Numbers go on."""
    clock = MovableClock()
    clock.freeze()
    async with running(database, clock=clock, workers=False) as service:
        terminal = await service.terminal()
        start = (await read(service)).body["next"]
        old = (await service.create(terminal)).body["id"]
        await service.cancel(old)
        end_of_old = (await read(service)).body["next"]
        clock.advance(20 * DAY_MS)
        kept = (await service.create(terminal)).body["id"]
        await service.cancel(kept)
        assert len(told(await read(service))) == 4
        clock.advance(10 * DAY_MS + 1000)
        assert await sweep(database, clock=clock) >= 2
        assert [event[0] for event in told(await read(service))] == [kept, kept]
        assert [event[0] for event in told(await read(service, end_of_old))] == [kept, kept]
        reply = await read(service, start)
        assert (reply.status, reply.code) == (410, "events_no_longer_kept")
        clock.advance(60 * DAY_MS)
        await sweep(database, clock=clock)
        empty = await read(service)
        assert empty.body["data"] == []
        late = (await service.create(terminal)).body["id"]
        assert [event[0] for event in told(await read(service, empty.body["next"]))] == [late]
        numbers = await _rows(service, "SELECT number FROM order_events ORDER BY created_ms, version")
        assert numbers == [1, 2, 3, 4, 5]
