"""Faults of webhooks as a receiver sees them, and as operators do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from aiohttp import web

import webhooks_scene as scene
from console_scene import console
from moved_time import advance
from operator_calls import Operator, operator
from paydesk.core import faults
from paydesk.core.clock import MovableClock
from paydesk.core.secrets import Secret
from paydesk.platform.storage.database import Database
from paydesk_dev.faults.active import Active, Faults
from paydesk_dev.faults.held_answers import HOLD_SECONDS_MAX
from paydesk_dev.faults.webhooks import DROPPED, paid
from service import Reply, Service, running
from tables import each
from waiting import until, until_found

pytestmark = pytest.mark.on_postgres
CREATED, AT_TERMINAL, PROCESSED = "order.created", "order.at_terminal", "order.processed"


@dataclass
class Faulty:
    """A receiver whose notifications a fault disturbs. The clocks are stopped."""

    database: Database
    clock: MovableClock
    wall: MovableClock
    receiver: scene.Receiver
    worker: scene.DeliveryWorker
    faults: Faults
    secret: Secret

    @property
    def fault(self) -> Active:
        """The first fault."""
        return next(iter(self.faults))

    async def announce(self, order: str, version: int = 1, action: str = CREATED, *, settled: bool = True) -> None:
        """Insert an event, after a millisecond, and let the worker do what it can."""
        self.clock.advance(1)
        await scene.announce(self.database, self.clock.now_ms(), order, version, action)
        if settled:
            await scene.step(self.worker)
        else:
            await self.worker.start_due()

    async def turn(self, is_met: Any) -> None:
        """Let the worker claim what is due until the condition is met."""

        async def met() -> bool:
            await self.worker.start_due()
            return bool(is_met())

        await until_found(met)

    @property
    def received(self) -> list[int]:
        """The versions that the receiver got."""
        return [got.order_and_version[1] for got in self.receiver.got]

    def valid(self, place: int) -> tuple[bool, bool]:
        """Return whether both signatures of a received notification are valid."""
        return scene.validity(self.secret, self.receiver.got[place], self.wall.now_ms() / 1000)

    async def retry(self) -> None:
        """Let the receiver accept what it has refused."""
        self.receiver.answer = scene.ok
        self.clock.advance(17_000)
        await scene.step(self.worker)


@asynccontextmanager
async def faulty(database: Database, *lines: str) -> AsyncIterator[Faulty]:
    """Run a receiver, with these faults."""
    clock, wall = MovableClock(), MovableClock()
    clock.freeze()
    wall.freeze()
    active = Faults("; ".join(f"webhook {line}" for line in lines))
    async with (
        scene.receiver() as receiver,
        scene.worker(database, clock, wall=wall, development=True, faults=active) as worker,
    ):
        _, secret = await scene.subscribe(database, receiver.url)
        yield Faulty(database, clock, wall, receiver, worker, active, secret)


async def test_late_is_sent_when_it_is_released(database: Database) -> None:
    """As the first attempt; newer versions wait for it, other orders do not."""
    async with faulty(database, "* late every=2 times=0") as one:
        order, other = scene.order_id(), scene.order_id()
        await one.announce(other)
        await one.announce(order, 1, settled=False)
        await until(lambda: one.fault.held == 1)
        one.clock.advance(1)
        await scene.announce(database, one.clock.now_ms(), order, 2, PROCESSED)
        assert [got.order_and_version for got in one.receiver.got] == [(other, 1)]
        (firing,) = one.fault.firings
        assert (firing.order, firing.operation, firing.is_held) == (order, CREATED, True)
        one.faults.release(one.fault)
        await one.turn(lambda: len(one.receiver.got) == 3)
        await one.worker.settle()
        assert one.received == [1, 1, 2]
        assert {got.headers["X-Retry"] for got in one.receiver.got} == {"0"}
        assert one.receiver.got[1].headers["X-Request-Id"] == firing.request.request_id
        assert {row.attempts for row in await scene.deliveries(database, order)} == {1}


async def test_late_takes_no_slots_and_ends_after_its_delay(database: Database) -> None:
    """However many are late, others are sent at once, also to the same receiver."""
    async with faulty(database, "* late:600s every=40 seed=7 times=0") as one:
        for _ in range(80):
            one.clock.advance(1)
            await scene.announce(database, one.clock.now_ms(), scene.order_id())
        await one.turn(lambda: len(one.receiver.got) == 78 and one.fault.held == 2)
        advance(600)
        await one.turn(lambda: len(one.receiver.got) == 80)


async def test_twice_sends_the_same_notification_two_times(database: Database) -> None:
    """Same id and body, `X-Retry` goes on, before the next version; the copy is not counted."""
    async with faulty(database, f"{CREATED} twice times=2") as one:
        order = scene.order_id()
        await one.announce(order)
        await one.announce(order, 2, PROCESSED)
        assert one.received == [1, 1, 2]
        first, second, _ = one.receiver.got
        assert (first.body, first.headers["X-Request-Id"]) == (second.body, second.headers["X-Request-Id"])
        assert [got.headers["X-Retry"] for got in one.receiver.got] == ["0", "1", "0"]
        assert (one.fault.matched, one.fault.fired) == (1, 1)


async def test_out_of_order_sends_the_newer_version_first(database: Database) -> None:
    """Once the newer one is delivered, not only attempted; the order's end is not held."""
    async with faulty(database, "* out_of_order times=0") as one:
        order = scene.order_id()
        await one.announce(order, settled=False)
        await until(lambda: one.fault.held == 1)
        one.receiver.answer = scene.failing(500)
        await one.announce(order, 2, AT_TERMINAL, settled=False)
        await one.turn(lambda: one.received == [2])
        _, newer = await scene.deliveries(database, order)
        await until_found(lambda: scene.attempts(database, newer.delivery_id))
        assert one.fault.held == 1
        one.receiver.answer = scene.ok
        one.clock.advance(17_000)
        await one.turn(lambda: one.received == [2, 2, 1])
        await one.worker.settle()
        await one.announce(order, 3, PROCESSED)
        assert (one.received, one.fault.fired) == ([2, 2, 1, 3], 1)


async def test_one_waits_for_a_newer_one_that_is_late(database: Database) -> None:
    """What ends the lateness of the newer one does not end the wait for it."""
    async with faulty(database, f"{CREATED} out_of_order", f"{AT_TERMINAL} late") as one:
        order, (_, late) = scene.order_id(), one.faults
        await one.announce(order, settled=False)
        await until(lambda: one.fault.held == 1)
        await one.announce(order, 2, AT_TERMINAL, settled=False)
        await until(lambda: late.held == 1)
        one.faults.release(late)
        await one.turn(lambda: len(one.received) == 2)
        assert one.received == [2, 1]


async def test_a_signature_is_bad_or_old_once(database: Database) -> None:
    """That of the first attempt; the retry is valid."""
    async with faulty(database, "* bad_signature", "* old_timestamp") as one:
        one.receiver.answer = scene.failing(401)
        await one.announce(scene.order_id())
        await one.announce(scene.order_id())
        assert [one.valid(0), one.valid(1)] == [(False, False), (False, False)]
        seconds = str(one.wall.now_ms() // 1000 - 600)
        assert one.receiver.got[1].headers["webhook-timestamp"] == seconds
        assert scene.validity(one.secret, one.receiver.got[1], float(seconds)) == (True, True)
        await one.retry()
        assert [one.valid(2), one.valid(3)] == [(True, True), (True, True)]


async def test_reset_is_exhausted_and_never_sent(database: Database) -> None:
    """The attempt says why; the order's next version is sent, and the subscription does not count as failing."""
    async with faulty(database, f"{AT_TERMINAL} drop") as one:
        order = scene.order_id()
        for version, action in enumerate((CREATED, AT_TERMINAL, PROCESSED), 1):
            await one.announce(order, version, action)
        await one.retry()
        assert one.received == [1, 3]
        dropped = (await scene.deliveries(database, order))[1]
        (attempt,) = await scene.attempts(database, dropped.delivery_id)
        assert (dropped.status, attempt.answer_status, attempt.error) == ("exhausted", None, DROPPED)
        assert await database.read(lambda tx: tx.all("SELECT failing_since_ms FROM subscriptions")) == [(None,)]
        assert one.fault.fault.kind == "reset"


async def test_forged_is_sent_before_the_real_one_without_a_signature(database: Database) -> None:
    """With an id of its own; the firing has the receiver's answer, and the delivery no attempt of it."""
    async with faulty(database, "* forged times=0") as one:
        order = scene.order_id()
        one.receiver.answer = scene.failing(401)
        await one.announce(order)
        forged, real = one.receiver.got
        body = json.loads(forged.body)
        assert (body["action"], body["data"]["id"], body["data"]["status"]) == (PROCESSED, order, "processed")
        assert body["id"] != json.loads(real.body)["id"]
        assert not {"X-Signature", "webhook-signature"} & set(forged.headers)
        assert one.valid(1) == (True, True)
        assert one.fault.firings[0].answer == (401, "no")
        await one.retry()
        await one.announce(order, 2, PROCESSED)
        assert len(one.receiver.got) == 4
    payment = {"amount": "24.90", "status": "created"}
    data = json.loads(paid(json.dumps({"id": "1", "data": {"transactions": {"payments": [payment]}}})))["data"]
    assert (data["total_paid_amount"], data["transactions"]["payments"][0]["status"]) == ("24.90", "processed")


async def test_retries_and_other_subscriptions_are_not_counted(database: Database) -> None:
    """Those that a fault does not match pass; a backlog is counted in the order of its events."""
    async with faulty(database, "* reset every=3 seed=11 times=0", "* reset subscription=another times=0") as one:
        one.receiver.answer = scene.failing(500)
        orders = [scene.order_id() for _ in range(12)]
        for order in orders:
            one.clock.advance(1)
            await scene.announce(database, one.clock.now_ms(), order)
        await scene.step(one.worker)
        await one.retry()
        got = {got.order_and_version[0] for got in one.receiver.got}
        lost = [number for number, order in enumerate(orders, 1) if order not in got]
        assert lost == [number for number in range(1, 13) if one.fault.fault.hits(number)]
        assert [active.matched for active in one.faults] == [12, 0]


# Over HTTP. -----------------------------------------------------------------------------------------------------------


@dataclass
class Shop:
    """A service for development whose application has a receiver."""

    service: Service
    owner: Operator
    receiver: scene.Receiver
    subscription_id: str

    async def fault(self, line: str) -> Active:
        """Add a fault."""
        return self.service.shared.objects[Faults].add(faults.parse(f"webhook {line}"), 0)

    async def order(self) -> Reply:
        """Create an order."""
        return await self.service.create(await self.service.terminal())


@asynccontextmanager
async def shop(database: Database, answer: scene.Answering = scene.ok) -> AsyncIterator[Shop]:
    """Run a service for development and a receiver."""
    async with running(database, development=True) as service, scene.receiver(answer) as receiver:
        owner = await operator(service)
        fields = {"client_id": service.scene.application.application_id, "url": receiver.url}
        made = await owner.did("POST", "subscriptions", fields)
        yield Shop(service, owner, receiver, made["id"])


async def test_before_answer_notifies_before_the_response(database: Database) -> None:
    """One of every two orders; its other notifications are not counted. The order can be read by then."""
    opened = asyncio.Event()

    async def gate(_: web.BaseRequest) -> web.StreamResponse:
        await opened.wait()
        return web.Response()

    async with shop(database, gate) as one:
        active = await one.fault("* before_answer every=2 times=0")
        assert (await one.order()).status == 201
        ordering = asyncio.create_task(one.order())
        await until(lambda: len(one.receiver.got) == 2)
        assert (await one.service.request("GET", f"/v1/orders/{active.firings[0].order}")).status == 200
        assert not ordering.done()
        opened.set()
        assert (await ordering).body["id"] == active.firings[0].order
        assert (active.matched, active.fired) == (2, 1)
        assert (await one.order()).status == 201


async def test_before_answer_does_not_wait_for_long(database: Database) -> None:
    """Nor for a receiver that fails, or a subscription that is paused."""
    silent = asyncio.Event()

    async def hangs(_: web.BaseRequest) -> web.StreamResponse:
        await silent.wait()
        return web.Response()

    async with shop(database, scene.failing(500)) as one:
        await one.fault("* before_answer times=0")
        assert (await one.order()).status == 201
        one.receiver.answer = hangs
        before, ordering = len(one.receiver.got), asyncio.create_task(one.order())
        await until(lambda: len(one.receiver.got) > before)
        advance(HOLD_SECONDS_MAX)
        assert (await ordering).status == 201
        silent.set()
        await one.owner.did("POST", f"subscriptions/{one.subscription_id}/pause")
        assert (await one.order()).status == 201


async def test_an_operator_sets_and_clears_a_fault_in_the_console(database: Database) -> None:
    """The subscription shows it; the earlier operations name the new one."""
    async with shop(database) as one:
        page = f"/console/webhooks/subscriptions/{one.subscription_id}"
        browser = await console(one.service)
        status, why = await browser.refused(f"{page}/fault", kind="late", every="0", delay="5")
        assert (status, why) == (400, "The number must be a whole number from 1 to 1000.")
        for kind in ("forged", "late"):
            assert "fault is set" in await browser.done(f"{page}/fault", kind=kind, every="3", delay="20")
        line = f"webhook * late subscription={one.subscription_id} every=3 times=0 delay=20s"
        (active,) = one.service.shared.objects[Faults]
        assert active.fault == faults.parse(line)
        shown = (await one.owner.did("GET", f"subscriptions/{one.subscription_id}"))["fault"]
        assert (shown["id"], shown["kind"], shown["every"]) == (active.id, "late", 3)
        assert "one of every 3 notifications" in (await browser.open(page)).text
        match = {"subscription": one.subscription_id, "order": scene.order_id()}
        of_a_test = one.service.shared.objects[Faults].add(faults.create("webhook", "*", "twice", match), 0)
        assert "cleared" in await browser.done(f"{page}/clear-fault")
        assert list(one.service.shared.objects[Faults]) == [of_a_test]
        for method in ("PUT", "DELETE"):
            gone = await one.owner.ask(method, f"subscriptions/{one.subscription_id}/fault", {"kind": "late"})
            assert (gone.status, gone.code) == (410, "gone")
            assert "paydesk faults add webhook" in gone.body["errors"][0]["message"]


@each(
    "request_, kind, detail",
    [
        ("order.paid", "twice", "'$.request' - must be * or one of order.created, "),
        ("order.created", "answer_lost", "'$.kind' - must be one of reset, late, twice"),
        ("order.processed", "forged", "'$.request' - must not be of an order that is paid"),
        ("order.processed", "before_answer", "'$.kind' - must be before_answer alone"),
    ],
)
async def test_a_mistake_is_refused(database: Database, request_: str, kind: str, detail: str) -> None:
    """In words."""
    async with running(database, development=True, workers=False) as service:
        body = {"edge": "webhook", "request": request_, "kind": kind}
        reply = await service.request("POST", "/dev/faults", body, key=None)
        assert (reply.status, reply.details[0].startswith(detail)) == (400, True), reply.details
