"""Delivery of notifications, step by step, to a listening receiver."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiohttp import web
from mercadopago.webhook import WebhookSignatureValidator
from standardwebhooks import Webhook

import webhooks_scene as scene
from moved_time import advance
from paydesk.core.clock import MovableClock, SystemClock
from paydesk.core.keys import Keys
from paydesk.engine.webhooks.addresses import CheckedResolver
from paydesk.engine.webhooks.delivery import outcome_store, store
from paydesk.engine.webhooks.delivery.worker import run
from paydesk.platform.jobs import Claim
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from paydesk.platform.worker import WorkerContext

HOUR_MS = 3_600_000


async def test_official_clients_accept_the_signatures(database: Database, clock: MovableClock) -> None:
    """The vendor's validator and the reference library of Standard Webhooks both accept them."""
    async with scene.receiver() as receiver, scene.worker(database, clock) as worker:
        _, secret = await scene.subscribe(database, receiver.url)
        order = scene.order_id()
        event_id = await scene.announce(database, clock.now_ms(), order)
        assert await scene.step(worker) == 1
    (got,) = receiver.got
    WebhookSignatureValidator.validate(
        got.headers["X-Signature"],
        got.headers["X-Request-Id"],
        got.url.query["data.id"],
        secret.reveal(),
        tolerance_seconds=60,
    )
    document = Webhook(secret.reveal()).verify(got.body, dict(got.headers))
    assert document["id"] == event_id == got.headers["webhook-id"]
    assert document["data"]["id"] == order
    assert dict(got.url.query) == {"shop": "7", "data.id": order.lower(), "type": "order"}
    assert got.headers["User-Agent"].startswith("Paydesk/")
    assert got.headers["Content-Type"] == "application/json"
    assert scene.validity(secret, got, clock.now_ms() / 1000) == (True, True)


async def test_every_attempt_sends_the_same_bytes(database: Database, clock: MovableClock) -> None:
    """A retry has the body, the request id and the notification id of the first attempt; X-Retry counts."""
    clock.freeze()
    async with scene.receiver(scene.failing(500)) as receiver, scene.worker(database, clock) as worker:
        await scene.subscribe(database, receiver.url)
        order = scene.order_id()
        await scene.announce(database, clock.now_ms(), order)
        await scene.step(worker)
        assert await scene.step(worker) == 0
        clock.advance(17_000)
        await scene.step(worker)
        receiver.answer = scene.ok
        clock.advance(67_000)
        await scene.step(worker)
    assert [got.headers["X-Retry"] for got in receiver.got] == ["0", "1", "2"]
    assert len({(got.body, got.headers["X-Request-Id"], got.headers["webhook-id"]) for got in receiver.got}) == 1
    (delivery,) = await scene.deliveries(database, order)
    assert (delivery.status, delivery.attempts) == ("delivered", 3)
    kept = await scene.attempts(database, delivery.delivery_id)
    assert [(one.attempt, one.answer_status, one.answer_body) for one in kept] == [
        (1, 500, "no"),
        (2, 500, "no"),
        (3, 200, "thank you"),
    ]


async def test_a_delivery_is_exhausted_at_the_end_of_the_schedule(database: Database, clock: MovableClock) -> None:
    """The order's next delivery is sent then."""
    clock.freeze()
    async with (
        scene.receiver(scene.failing(404)) as receiver,
        scene.worker(database, clock, webhook_retry_seconds=(15, 60)) as worker,
    ):
        await scene.subscribe(database, receiver.url)
        order = scene.order_id()
        await scene.announce(database, clock.now_ms(), order, 1)
        await scene.announce(database, clock.now_ms(), order, 2)
        for _ in range(3):
            await scene.step(worker)
            clock.advance(HOUR_MS)
    assert [got.order_and_version[1] for got in receiver.got] == [1, 1, 1, 2]
    first, second = await scene.deliveries(database, order)
    assert (first.status, first.attempts) == ("exhausted", 3)
    assert (second.status, second.attempts) == ("pending", 1)


async def test_versions_of_an_order_are_sent_in_order(database: Database, clock: MovableClock) -> None:
    """Version 2 waits for version 1, also when that fails; another order does not wait."""
    clock.freeze()

    async def picky(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=500 if request.query["data.id"] == failing.lower() else 200)

    async with scene.receiver(picky) as receiver, scene.worker(database, clock) as worker:
        await scene.subscribe(database, receiver.url)
        failing, other = "", scene.order_id()
        await scene.announce(database, clock.now_ms(), scene.order_id())
        await scene.step(worker)
        failing = scene.order_id()
        for version in (1, 2, 3):
            await scene.announce(database, clock.now_ms(), failing, version)
            await scene.announce(database, clock.now_ms(), other, version)
        await scene.step(worker)
        received = [got.order_and_version for got in receiver.got]
        assert received.count((failing, 1)) == 1
        assert [one for one in received if one[0] == other] == [(other, 1), (other, 2), (other, 3)]
        receiver.answer = scene.ok
        clock.advance(17_000)
        await scene.step(worker)
    received = [got.order_and_version for got in receiver.got]
    assert [one for one in received if one[0] == failing] == [(failing, 1), (failing, 1), (failing, 2), (failing, 3)]


async def test_deliveries_behind_a_retry_are_not_due_before_it(database: Database, clock: MovableClock) -> None:
    """Their next attempt has the time of the retry."""
    clock.freeze()
    async with scene.receiver(scene.failing(500)) as receiver, scene.worker(database, clock) as worker:
        await scene.subscribe(database, receiver.url)
        order = scene.order_id()
        await scene.announce(database, clock.now_ms(), order, 1)
        await scene.announce(database, clock.now_ms(), order, 2)
        await scene.step(worker)
        await worker.start_due()
    first, second = await scene.deliveries(database, order)
    assert second.next_ms == first.next_ms > clock.now_ms()


@pytest.mark.on_postgres
async def test_the_first_success_makes_waiting_deliveries_due(database: Database, clock: MovableClock) -> None:
    """A recovered receiver gets them at once; a delivery that failed beside successes keeps its schedule."""
    clock.freeze()

    async def picky(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=500 if request.query["data.id"] == bad.lower() else 200)

    async with scene.receiver(scene.failing(503)) as receiver, scene.worker(database, clock) as worker:
        await scene.subscribe(database, receiver.url)
        bad, good = scene.order_id(), [scene.order_id() for _ in range(4)]
        for order in (bad, *good):
            await scene.announce(database, clock.now_ms(), order)
        await scene.step(worker)
        receiver.answer = picky
        clock.advance(1_000)
        await scene.announce(database, clock.now_ms(), trigger := scene.order_id())
        await scene.step(worker)
        for order in (*good, trigger):
            assert [one.status for one in await scene.deliveries(database, order)] == ["delivered"]
        clock.advance(1_000)
        await scene.announce(database, clock.now_ms(), scene.order_id())
        assert await scene.step(worker) == 1
    (delivery,) = await scene.deliveries(database, bad)
    assert (delivery.status, delivery.attempts) == ("pending", 2)


async def test_retry_after_is_respected(database: Database, clock: MovableClock) -> None:
    """The next attempt is after the receiver's five minutes."""
    clock.freeze()
    answer = scene.failing(429, {"Retry-After": "300"})
    async with scene.receiver(answer) as receiver, scene.worker(database, clock) as worker:
        await scene.subscribe(database, receiver.url)
        order = scene.order_id()
        await scene.announce(database, clock.now_ms(), order)
        await scene.step(worker)
    (delivery,) = await scene.deliveries(database, order)
    assert delivery.next_ms == clock.now_ms() + 300_000


async def test_redirect_is_a_failure(database: Database, clock: MovableClock) -> None:
    """A redirect is not followed and does not count as delivered."""
    async with scene.receiver() as elsewhere, scene.receiver() as receiver, scene.worker(database, clock) as worker:
        receiver.answer = scene.failing(302, {"Location": elsewhere.url})
        await scene.subscribe(database, receiver.url)
        order = scene.order_id()
        await scene.announce(database, clock.now_ms(), order)
        await scene.step(worker)
    (delivery,) = await scene.deliveries(database, order)
    assert (delivery.status, elsewhere.got) == ("pending", [])


async def test_a_huge_answer_is_not_read_to_its_end(database: Database, clock: MovableClock) -> None:
    """At most 64 KiB are read and 4 KiB stored; the status counts."""

    async def endless(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b"x" * 8192)
        except ConnectionError:
            return response

    async with scene.receiver(endless) as receiver, scene.worker(database, clock) as worker:
        await scene.subscribe(database, receiver.url)
        order = scene.order_id()
        await scene.announce(database, clock.now_ms(), order)
        await scene.step(worker)
        (delivery,) = await scene.deliveries(database, order)
        (attempt,) = await scene.attempts(database, delivery.delivery_id)
    assert delivery.status == "delivered"
    assert attempt.answer_body == "x" * 4096


@pytest.mark.parametrize(
    "note",
    [*("x" * size for size in (0, 3990, 4080, 4090, 4096)), "xxxx" + "card 4509953566233704, " * 300],
    ids=["first", "3990", "4080", "4090", "4096", "many"],
)
async def test_card_data_in_an_answer_is_masked(database: Database, clock: MovableClock, note: str) -> None:
    """Nothing of it is stored, also at the end of the stored part."""
    number, cvv = "4509953566233704", "8294715"

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        document = json.dumps({"note": note, "seen": f"{number}=25121010000000000", "data": {"cvv2": cvv}})
        return web.Response(text=document)

    async with scene.receiver(answer) as receiver, scene.worker(database, clock) as worker:
        await scene.subscribe(database, receiver.url)
        order = scene.order_id()
        await scene.announce(database, clock.now_ms(), order)
        await scene.step(worker)
        (delivery,) = await scene.deliveries(database, order)
        (attempt,) = await scene.attempts(database, delivery.delivery_id)
    assert attempt.answer_body.startswith('{"note": "')
    assert number[:6] not in attempt.answer_body
    assert cvv[:3] not in attempt.answer_body
    assert len(attempt.answer_body) <= 4096


async def test_compressed_answer_is_not_decompressed(database: Database, clock: MovableClock) -> None:
    """A gzip bomb is stored as received."""
    bomb = gzip.compress(b"\0" * 50_000_000)

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=bomb, headers={"Content-Encoding": "gzip"})

    async with scene.receiver(answer) as receiver, scene.worker(database, clock) as worker:
        await scene.subscribe(database, receiver.url)
        order = scene.order_id()
        await scene.announce(database, clock.now_ms(), order)
        await scene.step(worker)
        (delivery,) = await scene.deliveries(database, order)
        (attempt,) = await scene.attempts(database, delivery.delivery_id)
    assert delivery.status == "delivered"
    assert "\0" not in attempt.answer_body
    assert len(attempt.answer_body) <= 4096
    assert receiver.got[0].headers["Accept-Encoding"] == "identity"


async def test_no_answer_in_time_is_a_failure(database: Database, clock: MovableClock) -> None:
    """The last byte must arrive in time, whatever the status line."""

    async def trickle(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        began.set()
        await asyncio.Event().wait()
        return response

    began = asyncio.Event()
    async with (
        scene.receiver(trickle) as receiver,
        scene.worker(database, clock, webhook_timeout_seconds=20) as worker,
    ):
        await scene.subscribe(database, receiver.url)
        order = scene.order_id()
        await scene.announce(database, clock.now_ms(), order)
        delivering = asyncio.create_task(scene.step(worker))
        await began.wait()
        advance(20)
        await delivering
        (delivery,) = await scene.deliveries(database, order)
        (attempt,) = await scene.attempts(database, delivery.delivery_id)
    assert delivery.status == "pending"
    assert attempt.error == "no complete answer within 20 s"


@pytest.mark.parametrize("url", ["https://10.1.2.3/hooks", "https://[fd00::1]/hooks", "https://rebound.example/hooks"])
async def test_private_address_is_refused_at_the_connection(database: Database, clock: MovableClock, url: str) -> None:
    """A name that now resolves to a private address, or an IP literal, is refused."""

    def lookup(_host: str, port: int) -> Sequence[Any]:
        return [(2, 1, 6, "", ("93.184.216.34", port)), (2, 1, 6, "", ("192.168.0.7", port))]

    resolver = CheckedResolver(loopback_allowed=False, lookup=lookup)
    async with scene.worker(database, clock, resolver=resolver) as worker:
        await scene.subscribe(database, url)
        order = scene.order_id()
        await scene.announce(database, clock.now_ms(), order)
        await scene.step(worker)
    (delivery,) = await scene.deliveries(database, order)
    (attempt,) = await scene.attempts(database, delivery.delivery_id)
    assert attempt.answer_status is None
    assert attempt.error is not None
    assert "not a public address" in attempt.error


async def test_a_refused_connection_is_recorded_as_error(database: Database, clock: MovableClock) -> None:
    """The attempt has the error."""
    async with scene.receiver() as receiver:
        url = receiver.url
    address = urlsplit(url).netloc.split(":")
    async with scene.worker(database, clock) as worker:
        await scene.subscribe(database, url)
        order = scene.order_id()
        await scene.announce(database, clock.now_ms(), order)
        await scene.step(worker)
    (delivery,) = await scene.deliveries(database, order)
    (attempt,) = await scene.attempts(database, delivery.delivery_id)
    assert attempt.error == f"Cannot connect to host {address[0]}:{address[1]}: Connection refused"


async def test_events_go_to_matching_subscriptions(database: Database, clock: MovableClock) -> None:
    """A subscription gets its actions only; a deleted or live one gets nothing of a test order."""
    async with scene.receiver() as receiver, scene.worker(database, clock) as worker:
        await scene.subscribe(database, receiver.url, actions=("order.processed",))
        await scene.subscribe(database, receiver.url, live=True)
        order = scene.order_id()
        await scene.announce(database, clock.now_ms(), order, 1, "order.created")
        await scene.announce(database, clock.now_ms(), order, 2, "order.processed")
        await scene.step(worker)
    assert [got.order_and_version[1] for got in receiver.got] == [2]


@pytest.mark.parametrize("ending", ["deleted", "withdrawn"])
async def test_pending_deliveries_are_withdrawn(database: Database, clock: MovableClock, ending: str) -> None:
    """After deletion of the subscription or withdrawal of all authorizations they end without being sent."""
    async with scene.receiver() as receiver, scene.worker(database, clock) as worker:
        subscription_id, _ = await scene.subscribe(database, receiver.url)
        order = scene.order_id()
        await scene.announce(database, clock.now_ms(), order)
        if ending == "deleted":
            await database.write(
                lambda tx: tx.run("UPDATE subscriptions SET deleted_ms = 1 WHERE subscription_id = $1", subscription_id)
            )
        else:
            await database.write(
                lambda tx: tx.run(
                    "INSERT INTO authorizations (seller_id, authorization_id, application_id, scope, created_ms, "
                    "withdrawn_ms) VALUES ($1, '01', $2, 'read', 1, 2)",
                    scene.SELLER,
                    scene.APPLICATION,
                )
            )
        assert await scene.step(worker) == 0
    assert receiver.got == []
    assert [one.status for one in await scene.deliveries(database, order)] == ["withdrawn"]


async def test_one_valid_authorization_is_enough(database: Database, clock: MovableClock) -> None:
    """Deliveries continue after withdrawal of one of two authorizations."""
    insert = (
        "INSERT INTO authorizations (seller_id, authorization_id, application_id, scope, created_ms, withdrawn_ms) "
        "VALUES ($1, '01', $2, 'read', 1, 2), ($1, '02', $2, 'read', 1, NULL)"
    )
    async with scene.receiver() as receiver, scene.worker(database, clock) as worker:
        await scene.subscribe(database, receiver.url)
        await database.write(lambda tx: tx.run(insert, scene.SELLER, scene.APPLICATION))
        await scene.announce(database, clock.now_ms(), scene.order_id())
        assert await scene.step(worker) == 1


async def test_crash_between_sent_and_recorded_sends_again(database: Database, clock: MovableClock) -> None:
    """The crashed worker's claim expires; then the notification is sent again."""
    wall = MovableClock()
    async with scene.receiver() as receiver, scene.worker(database, clock, wall=wall) as worker:
        await scene.subscribe(database, receiver.url)
        order = scene.order_id()
        await scene.announce(database, clock.now_ms(), order)

        async def die(*_: object) -> None:
            raise SystemError("the process ends here")

        worker._job._recorder.record = die  # type: ignore[attr-defined] # the crash
        await worker.start_due()
        await worker.settle()
        async with scene.worker(database, clock, wall=wall) as successor:
            assert await scene.step(successor) == 0
            wall.advance(31_000)
            assert await scene.step(successor) == 1
    assert [got.headers["X-Retry"] for got in receiver.got] == ["0", "1"]
    assert len({got.headers["X-Request-Id"] for got in receiver.got}) == 1
    assert [one.status for one in await scene.deliveries(database, order)] == ["delivered"]


async def test_moving_the_clock_does_not_send_twice(database: Database, clock: MovableClock) -> None:
    """The claim stays valid when the service's clock jumps during a delivery."""
    gate = asyncio.Event()

    async def wait(_: web.BaseRequest) -> web.StreamResponse:
        await gate.wait()
        return web.Response()

    async with scene.receiver(wait) as receiver, scene.worker(database, clock) as worker:
        await scene.subscribe(database, receiver.url)
        await scene.announce(database, clock.now_ms(), scene.order_id())
        assert await worker.start_due() == 1
        clock.advance(HOUR_MS)
        assert await worker.start_due() == 0
        gate.set()
        await worker.settle()
    assert len(receiver.got) == 1


async def test_slow_receivers_do_not_delay_others(database: Database, clock: MovableClock) -> None:
    """Others get their notifications at once while receivers with many deliveries don't answer."""
    gate = asyncio.Event()

    async def hang(_: web.BaseRequest) -> web.StreamResponse:
        await gate.wait()
        return web.Response()

    async with scene.receiver(hang) as slow, scene.receiver() as quick:
        await scene.subscribe(database, slow.url)
        await scene.subscribe(database, quick.url)
        stop = asyncio.Event()
        async with scene.worker(database, clock, webhook_concurrency_max=16) as worker:
            running = asyncio.create_task(worker.run(stop))
            orders = [scene.order_id() for _ in range(40)]
            for order in orders:
                await scene.announce(database, clock.now_ms(), order)
            await scene.until(lambda: len(quick.got) == len(orders))
            assert 0 < len(slow.got) < 16
            gate.set()
            await scene.until(lambda: len(slow.got) == len(orders))
            stop.set()
            database.signals.notify(["stop"])
            await running


@pytest.mark.on_postgres
async def test_stop_releases_claims(database: Database, clock: MovableClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopping worker cancels hanging deliveries and releases their claims, so another sends them at once."""
    monkeypatch.setattr("paydesk.platform.jobs.STOP_SECONDS_MAX", 0.05)

    async def hang(_: web.BaseRequest) -> web.StreamResponse:
        await asyncio.Event().wait()
        return web.Response()

    async with scene.receiver(hang) as receiver, scene.worker(database, clock) as worker:
        await scene.subscribe(database, receiver.url)
        order = scene.order_id()
        await scene.announce(database, clock.now_ms(), order)
        stop = asyncio.Event()
        running = asyncio.create_task(worker.run(stop))
        await scene.until(lambda: bool(receiver.got))
        stop.set()
        database.signals.notify(["stop"])
        await running
        receiver.answer = scene.ok
        async with scene.worker(database, clock) as successor:
            assert await scene.step(successor) == 1
    assert [one.status for one in await scene.deliveries(database, order)] == ["delivered"]


async def test_a_worker_that_is_canceled_while_it_ends_ends_its_deliveries(
    database: Database, clock: MovableClock
) -> None:
    """Another worker of the node has failed meanwhile: no delivery goes on after what it needs is closed."""

    async def hang(_: web.BaseRequest) -> web.StreamResponse:
        await asyncio.Event().wait()
        return web.Response()

    async with scene.receiver(hang) as receiver, scene.worker(database, clock) as worker:
        await scene.subscribe(database, receiver.url)
        await scene.announce(database, clock.now_ms(), scene.order_id())
        running = asyncio.create_task(worker.run(asyncio.Event()))
        await scene.until(lambda: bool(receiver.got))
        for _ in range(2):
            running.cancel()
            await asyncio.sleep(0)
        await asyncio.wait([running])
        assert running.cancelled()
        assert not worker._running


async def test_a_late_success_counts_after_the_claim_expired(database: Database, clock: MovableClock) -> None:
    """A late failure has no effect on a later attempt."""
    await scene.subscribe(database, "https://shop.example/hooks")
    order = scene.order_id()
    await scene.announce(database, clock.now_ms(), order)
    (delivery,) = await scene.deliveries(database, order)
    wall_ms = SystemClock().now_ms()

    async def claim(at_ms: int) -> store.Claimed:
        times = Claim(clock.now_ms(), at_ms, at_ms + 1000, limit=5)
        (claimed,) = await database.write(lambda tx: scene.claim(tx, delivery.subscription_id, times))
        return claimed

    first, second = await claim(wall_ms), await claim(wall_ms + 1000)
    assert (first.attempt, second.attempt) == (1, 2)
    await database.write(lambda tx: outcome_store.failed(tx, first, clock.now_ms(), clock.now_ms() + HOUR_MS))
    (delivery,) = await scene.deliveries(database, order)
    assert delivery.next_ms <= clock.now_ms()
    await database.write(lambda tx: outcome_store.delivered(tx, first, clock.now_ms()))
    await database.write(lambda tx: outcome_store.exhausted(tx, second, clock.now_ms()))
    (delivery,) = await scene.deliveries(database, order)
    assert delivery.status == "delivered"
    assert await database.read(scene.pending_count) == 0


async def test_run_delivers_on_notification_and_stops(database: Database, clock: MovableClock) -> None:
    """The worker is run as in a node process."""
    context = WorkerContext(database, Settings(), clock, scene.KEYS, loopback_allowed=True)
    async with scene.receiver() as receiver:
        await scene.subscribe(database, receiver.url)
        stop = asyncio.Event()
        running = asyncio.create_task(run(context, stop))
        await scene.announce(database, clock.now_ms(), scene.order_id())
        await scene.until(lambda: bool(receiver.got))
        stop.set()
        database.signals.notify(["stop"])
        await running


async def test_a_node_without_the_key_claims_nothing(database: Database, clock: MovableClock) -> None:
    """It neither sends nor uses an attempt up."""
    async with scene.receiver() as receiver, scene.worker(database, clock) as worker:
        await scene.subscribe(database, receiver.url)
        order = scene.order_id()
        await scene.announce(database, clock.now_ms(), order)
        worker._job._keys = Keys(2, {2: b"other" * 8})  # type: ignore[attr-defined] # another node
        assert await scene.step(worker) == 0
    assert [(one.status, one.attempts) for one in await scene.deliveries(database, order)] == [("pending", 0)]
