"""Live orders and their acquirers: the rules choose one at the creation, and the order keeps it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from authorize_scene import authorize, service_terminal
from paydesk.core.objects import Objects
from paydesk.engine.orders.routing import Routing, Rule
from paydesk.engine.payments.acquirer import Approved, Outcome
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.engine.payments.refunds.attempts import JOB
from paydesk.platform.jobs import JobWorker
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from paydesk.platform.worker import WorkerContext
from refund_scene import Refunder, alerts, body_of, expire_leases, only, paid, pay, refund
from service import KEYS, Service, running

ACQUIRER = "SELECT acquirer FROM orders WHERE seller_id = $1 AND order_id = $2"
FORGET = "UPDATE orders SET acquirer = NULL WHERE seller_id = $1 AND order_id = $2"
RESERVED = "SELECT refunding_minor, refunds FROM orders WHERE seller_id = $1 AND order_id = $2"


class Approving(Refunder):
    """An acquirer that approves payments, too."""

    async def authorize(self, *args: Any, **_: Any) -> Outcome:  # type: ignore[override]  # that one never returns
        """Approve the payment."""
        return Approved("115019989861", args[0].amount_minor)


class Shop:
    """A service without workers, and two acquirers."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.first, self.second = Approving(), Refunder()

    def acquirers(self, routing: Routing, *names: str) -> Acquirers:
        """Return the acquirers of live orders, by default both."""
        live = {"first": self.first, "second": self.second}
        return Acquirers(Refunder(), {name: live[name] for name in names or live}, routing)

    @asynccontextmanager
    async def running(self, routing: Routing, *names: str, as_before: Service | None = None) -> AsyncIterator[Service]:
        """Run the service with these rules and acquirers; `as_before`: for the seller of this service."""
        acquirers = self.acquirers(routing, *names)
        async with running(self.database, workers=False, acquirers=acquirers, routing=routing) as service:
            if as_before is None:
                yield service
                return
            now = {"base_url": service.base_url, "session": service.session}
            yield replace(as_before, **now, shared_objects=service.shared_objects)  # type: ignore[arg-type]

    async def acquirer(self, service: Service, order_id: str) -> str | None:
        """Return the acquirer of the order."""
        row = await self.database.read(lambda tx: tx.one(ACQUIRER, service.seller_id, order_id))
        assert row is not None
        name: str | None = row[0]
        return name


@pytest.fixture
def shop(database: Database) -> Shop:
    """A shop."""
    return Shop(database)


async def test_an_order_keeps_its_acquirer_when_the_rules_change(shop: Shop) -> None:
    """Its refund goes to the acquirer that it was created for; a new order follows the new rules."""
    async with shop.running(Routing("first")) as service:
        order_id = await paid(service, live=True)
        assert await shop.acquirer(service, order_id) == "first"
    async with shop.running(Routing("second"), as_before=service) as later:
        assert only(await refund(later, order_id, token=later.live_access_token))["status"] == "processed"
        other_id = await paid(later, live=True)
        assert await shop.acquirer(later, other_id) == "second"
        assert only(await refund(later, other_id, token=later.live_access_token))["status"] == "processed"
    assert (len(shop.first.asked), len(shop.second.asked)) == (1, 1)


async def test_an_order_without_an_acquirer_follows_the_rule_of_the_day(shop: Shop) -> None:
    """An older node created it."""
    async with shop.running(Routing("first")) as service:
        order_id = await paid(service, live=True)
        await service.scene.run(FORGET, service.seller_id, order_id)
    routing = Routing("first", (Rule("second", seller=service.seller_id),))
    async with shop.running(routing, as_before=service) as later:
        assert only(await refund(later, order_id, token=later.live_access_token))["status"] == "processed"
    assert (len(shop.first.asked), len(shop.second.asked)) == (0, 1)


@pytest.mark.on_postgres
async def test_an_order_keeps_the_acquirer_that_is_asked_for_its_payment(shop: Shop) -> None:
    """A node whose rules name none has created it: its confirmation and its refund go where the payment is."""
    async with shop.running(Routing()) as service:
        terminal = await service_terminal(service, live=True)
        device = await service.device(terminal)
        body, token = body_of(device, "24.90"), service.live_access_token
        order_id: str = (await service.request("POST", "/v1/orders", body, token=token)).body["id"]
        assert (await device.ack(order_id[3:])).status == 200
        assert await shop.acquirer(service, order_id) is None
    async with shop.running(Routing("first"), as_before=service) as asking:
        assert (await authorize(replace(device, service=asking), order_id[3:])).body["outcome"] == "approved"
        assert await shop.acquirer(asking, order_id) == "first"
    async with shop.running(Routing("second"), as_before=service) as later:
        assert only(await refund(later, order_id, token=later.live_access_token))["status"] == "processed"
    assert (len(shop.first.asked), len(shop.second.asked)) == (1, 0)


async def test_the_first_rule_that_matches_the_terminal_chooses(shop: Shop) -> None:
    """Test orders have no acquirer of live orders."""
    routing = Routing("first", (Rule("second", terminal="*__5*"), Rule("first", terminal="*")))
    async with shop.running(routing) as service:
        for terminal_id, name in (("GERTEC_MP35P__5012", "second"), ("GERTEC_MP35P__4012", "first")):
            terminal = await service.terminal(live=True, terminal_id=terminal_id)
            device = await service.device(terminal)
            assert await shop.acquirer(service, await pay(device, live=True)) == name
        assert await shop.acquirer(service, await paid(service)) is None


async def test_without_a_rule_and_a_default_an_order_has_no_acquirer(shop: Shop) -> None:
    """It can be created and paid at its terminal, and its refund says what is missing."""
    async with shop.running(Routing(None, (Rule("first", currency="CLP"),))) as service:
        order_id = await paid(service, live=True)
        assert await shop.acquirer(service, order_id) is None
        reply = await refund(service, order_id, token=service.live_access_token)
        assert (reply.status, reply.code) == (409, "cannot_refund_order")


@pytest.mark.on_postgres
async def test_a_refund_of_an_order_whose_acquirer_is_gone_is_refused(shop: Shop) -> None:
    """It names the acquirer, and nothing is reserved; with the acquirer again the order is refunded."""
    async with shop.running(Routing("first")) as service:
        order_id = await paid(service, live=True)
    async with shop.running(Routing("second"), "second", as_before=service) as later:
        reply = await refund(later, order_id, token=later.live_access_token)
        assert (reply.status, reply.code) == (409, "cannot_refund_order")
        assert "`first`" in reply.details[0]
        row = await shop.database.read(lambda tx: tx.one(RESERVED, service.seller_id, order_id))
        assert row is not None
        assert tuple(row) == (0, None)
        reply = await later.request(
            "POST",
            "/v1/orders",
            body_of(await later.device(await later.terminal(live=True)), "1.00"),
            token=later.live_access_token,
        )
        assert reply.status == 201
    async with shop.running(Routing("second"), as_before=service) as again:
        assert only(await refund(again, order_id, token=again.live_access_token))["status"] == "processed"
    assert (len(shop.first.asked), len(shop.second.asked)) == (1, 0)


async def test_a_refund_whose_acquirer_goes_waits_for_it(shop: Shop) -> None:
    """Operators are alerted once; no other acquirer is asked."""
    shop.first.closed = True
    async with shop.running(Routing("first")) as service:
        order_id = await paid(service, live=True)
        settings = Settings(refund_answer_seconds=1)
        async with running(
            shop.database, workers=False, settings=settings, acquirers=shop.acquirers(Routing("first"))
        ) as quick:
            asked = replace(service, base_url=quick.base_url, session=quick.session)
            reply = await refund(asked, order_id, token=service.live_access_token)
            assert only(reply)["status"] == "processing"
        await expire_leases(service)
        for names in (("second",), ("second",), ()):
            shop.first.closed = False
            await service.scene.run(
                "UPDATE refunds SET next_ms = 0, claimed_until_ms = 0 WHERE seller_id = $1", service.seller_id
            )
            objects = Objects(shop.acquirers(Routing("second"), *names))
            context = WorkerContext(shop.database, Settings(), service.clock, KEYS, objects=objects)
            assert await JobWorker(context, JOB).step() == 1
        ((message, _),) = await alerts(service, order_id)
        assert "No acquirer is configured for the refund" in message
        assert len(shop.first.asked) == 2
        assert shop.second.asked == []
