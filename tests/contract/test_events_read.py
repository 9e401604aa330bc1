"""`GET /v1/events`: events in order, exactly once; waiting, cursors, scope and retention."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import replace
from typing import Any

import pytest

from moved_time import advance
from oauth_scene import ALL_SCOPES, DAY_MS, REDIRECT_URI
from paydesk.core.clock import MovableClock
from paydesk.engine.events import handlers, relay
from paydesk.engine.events.readers import WAITING_PER_TOKEN_MAX, Readers
from paydesk.engine.invariants import check
from paydesk.engine.oauth.clients import applications
from paydesk.engine.oauth.clients.authentication import Application
from paydesk.platform.storage.database import Database, Transaction
from retention_scene import context_of, sweep
from service import Reply, Service, access_token, order_body, running
from tables import each
from waiting import until


async def read(service: Service, after: str | None = None, *, wait: int = 0, token: str = "") -> Reply:
    """Read one page."""
    query = "&".join((*([f"after={after}"] if after is not None else []), *([f"wait={wait}"] if wait else [])))
    return await service.request("GET", f"/v1/events{query and '?'}{query}", token=token)


def events_of(reply: Reply) -> list[tuple[str, str, int]]:
    """Return the order, the action and the version of each event."""
    assert reply.status == 200, reply
    return [(event["data"]["id"], event["action"], event["data"]["version"]) for event in reply.body["data"]]


async def waiting_reads(service: Service, after: str, count: int = 1, **options: Any) -> list[asyncio.Task[Reply]]:
    """Begin requests that wait for events; return once all do."""
    expected = service.shared.objects[Readers].requests_waiting + count
    begun = [asyncio.create_task(read(service, after, wait=50, **options)) for _ in range(count)]
    await until(lambda: service.shared.objects[Readers].requests_waiting == expected)
    return begun


async def test_events_are_read_once_and_in_order(service: Service) -> None:
    """The page has the bodies of the webhooks; after `next` there is nothing until the next event."""
    terminal = await service.terminal()
    device = await service.device(terminal)
    order = (await service.create(terminal)).body
    lease = order["id"][3:]
    await device.ack(lease)
    await device.authorizing(lease)
    await device.approve(lease)
    first = await read(service)
    actions = ["order.created", "order.at_terminal", "order.processed"]
    assert events_of(first) == [(order["id"], action, version) for version, action in enumerate(actions, 1)]
    bodies = await _rows(service, "SELECT body FROM order_events ORDER BY version")
    assert first.raw.decode().startswith(f'{{"data":[{",".join(bodies)}],"next":"')
    nothing = await read(service, first.body["next"])
    assert nothing.body == {"data": [], "next": first.body["next"]}
    other = (await service.create(terminal)).body
    assert events_of(await read(service, nothing.body["next"])) == [(other["id"], "order.created", 1)]
    assert events_of(await read(service))[:3] == events_of(first), "without a cursor the page starts at the beginning"


async def test_an_empty_feed_has_a_next_cursor(service: Service) -> None:
    """A client that reads before the first event gets it afterwards."""
    empty = await read(service)
    assert empty.body["data"] == []
    assert empty.body["next"]
    order = (await service.create(await service.terminal())).body
    assert events_of(await read(service, empty.body["next"])) == [(order["id"], "order.created", 1)]


async def test_waiting_requests_are_limited_per_token(service: Service) -> None:
    """One more gets 429. Other tokens may wait, and requests that don't wait are not limited."""
    start = (await read(service)).body["next"]
    waiting = await waiting_reads(service, start, WAITING_PER_TOKEN_MAX)
    refused = await read(service, start, wait=20)
    assert (refused.status, refused.code, refused.headers["retry-after"]) == (429, "too_many_requests", "5")
    assert (await read(service, start)).status == 200
    live = await read(service, token=service.live_access_token)
    live_wait = await waiting_reads(service, live.body["next"], token=service.live_access_token)
    order = (await service.create(await service.terminal())).body
    for reply in await asyncio.gather(*waiting):
        assert events_of(reply) == [(order["id"], "order.created", 1)]
    behind = (await read(service)).body["next"]
    again = await waiting_reads(service, behind)
    advance(50)
    assert {reply.status for reply in await asyncio.gather(*live_wait, *again)} == {200}


async def test_requests_of_disconnected_clients_stop_waiting(service: Service) -> None:
    """After the longest interval of polls other requests may wait instead."""
    start = (await read(service)).body["next"]
    waiting = await waiting_reads(service, start, WAITING_PER_TOKEN_MAX)
    for request in waiting:
        request.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await until(lambda: service.gauges.connections_open == 0)
    advance(handlers.POLL_INTERVAL_SECONDS[1])
    await until(lambda: service.shared.objects[Readers].requests_waiting == 0)


async def test_a_waiting_request_is_answered_at_once(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is notified of the event and does not poll; when `wait` is over, the answer is empty."""
    start = (await read(service)).body["next"]
    terminal = await service.terminal()
    monkeypatch.setattr(handlers, "POLL_INTERVAL_SECONDS", (50, 51))
    (waiting,) = await waiting_reads(service, start)
    order = (await service.create(terminal)).body
    reply = await waiting
    assert events_of(reply) == [(order["id"], "order.created", 1)]
    (waiting,) = await waiting_reads(service, reply.body["next"])
    advance(50)
    assert (await waiting).body == {"data": [], "next": reply.body["next"]}


async def test_every_event_has_a_number_of_its_own(database: Database) -> None:
    """Numbers start at 1 without gaps, an order's in order of version, over several numberings."""
    async with running(database, workers=False) as service:
        terminal = await service.terminal()
        for _ in range(3):
            for _ in range(2):
                await service.cancel((await service.create(terminal)).body["id"])
            assert (await read(service)).status == 200
        assert sorted(await _rows(service, "SELECT number FROM order_events")) == list(range(1, 13))
        assert await check.check(database, service.clock.now_ms()) == []


async def test_pages_are_complete(service: Service) -> None:
    """Pages have no gaps and no repetitions."""
    terminal = await service.terminal()
    expected: list[tuple[str, str, int]] = []
    for _ in range(60):
        order = (await service.create(terminal)).body
        await service.cancel(order["id"])
        expected += [(order["id"], "order.created", 1), (order["id"], "order.canceled", 2)]
    first = await read(service)
    second = await read(service, first.body["next"])
    assert len(events_of(first)) == 100
    assert events_of(first) + events_of(second) == expected
    assert (await read(service, second.body["next"])).body["data"] == []


async def _second_application(service: Service) -> str:
    """Return a test token of another application of the same seller."""

    async def work(tx: Transaction) -> Application:
        made, _ = await applications.create(
            tx, name="Other", redirect_uris=(REDIRECT_URI,), scopes=ALL_SCOPES, now_ms=service.clock.now_ms()
        )
        return made

    scene = replace(service.scene, application=await service.database.write(work))
    return await access_token(scene, service.clock.now_ms(), live=False)


async def _rows(service: Service, sql: str) -> list[Any]:
    return [row[0] for row in await service.database.read(lambda tx: tx.all(sql))]


async def test_the_feed_has_the_applications_own_orders(service: Service) -> None:
    """Not another application's and not those of the other live mode, as with webhooks."""
    own = (await service.create(await service.terminal())).body["id"]
    live_terminal = await service.terminal(live=True)
    live = (
        await service.request("POST", "/v1/orders", order_body(live_terminal.id), token=service.live_access_token)
    ).body["id"]
    token = await _second_application(service)
    others = (await service.request("POST", "/v1/orders", order_body((await service.terminal()).id), token=token)).body[
        "id"
    ]
    assert [event[0] for event in events_of(await read(service))] == [own]
    assert [event[0] for event in events_of(await read(service, token=service.live_access_token))] == [live]
    assert [event[0] for event in events_of(await read(service, token=token))] == [others]


async def test_an_invalid_cursor_returns_property_value(service: Service) -> None:
    """Malformed, of another feed, or after the end of the feed."""
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


@each("wait", ["-1", "56", "1.5", "", "x", "٣"])
async def test_an_invalid_wait_returns_property_value(service: Service, wait: str) -> None:
    """`wait` is from 0 to 55 seconds."""
    reply = await service.request("GET", f"/v1/events?wait={wait}")
    assert (reply.status, reply.code) == (400, "property_value")
    assert reply.details == ["'wait' - must be a whole number from 0 to 55"]


async def test_a_token_needs_the_scope_read(service: Service) -> None:
    """A token with scope `write` only is refused, and so is a request without a token."""
    token = await access_token(service.scene, service.clock.now_ms(), live=False, scope="write")
    assert (await read(service, token=token)).code == "insufficient_scope"
    assert (await service.request("GET", "/v1/events", token=None)).status == 401


@pytest.mark.on_postgres
async def test_a_waiting_request_with_a_revoked_token_returns_401(service: Service) -> None:
    """The token is revoked during the wait; the next event ends it."""
    start = (await read(service)).body["next"]
    terminal = await service.terminal()
    dying = await access_token(service.scene, service.clock.now_ms(), live=False, scope="read")
    (waiting,) = await waiting_reads(service, start, token=dying)
    revoked = await service.request("POST", "/oauth/revoke", service.scene.presented(dying), token=None, key=None)
    assert revoked.status == 200
    await service.create(terminal)
    assert (await waiting).status == 401


async def test_the_worker_numbers_events_that_are_not_read(database: Database) -> None:
    """In the order of the feed, without gaps; a reader then gets them all."""
    async with running(database, workers=False) as service:
        terminal = await service.terminal()
        order = (await service.create(terminal)).body["id"]
        await service.cancel(order)
        other = (await service.create(terminal)).body["id"]
        await relay.sweep(context_of(database, service.clock), asyncio.Event())
        assert await _rows(service, "SELECT number FROM order_events ORDER BY order_id, version") == [1, 2, 3]
        expected = [(order, "order.created", 1), (order, "order.canceled", 2), (other, "order.created", 1)]
        assert events_of(await read(service)) == expected


@pytest.mark.on_postgres
async def test_events_are_kept_for_30_days(database: Database) -> None:
    """Then an older cursor gets 410, a new read starts with the oldest event kept, and numbers continue."""
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
        assert len(events_of(await read(service))) == 4
        clock.advance(10 * DAY_MS + 1000)
        assert await sweep(database, clock=clock) >= 2
        assert [event[0] for event in events_of(await read(service))] == [kept, kept]
        assert [event[0] for event in events_of(await read(service, end_of_old))] == [kept, kept]
        reply = await read(service, start)
        assert (reply.status, reply.code) == (410, "events_no_longer_kept")
        clock.advance(60 * DAY_MS)
        await sweep(database, clock=clock)
        empty = await read(service)
        assert empty.body["data"] == []
        late = (await service.create(terminal)).body["id"]
        assert [event[0] for event in events_of(await read(service, empty.body["next"]))] == [late]
        numbers = await _rows(service, "SELECT number FROM order_events ORDER BY created_ms, version")
        assert numbers == [1, 2, 3, 4, 5]
