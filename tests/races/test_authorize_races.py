"""Authorizations by the service against cancels, expiry, inquiries, operators and each other: one charge at most."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import aiohttp
import pytest
from test_away_and_back import GatedDatabase

from authorize_scene import (
    WatchedAcquirer,
    at_terminal,
    authorize,
    is_consistent,
    kill,
    ledger,
    process_jobs,
    request_of,
    rows,
    service_device,
    waiting,
    watched,
)
from conftest import short_and_long
from event_loops import turns
from moved_time import advance
from nodes import two_nodes
from paydesk.core.clock import MovableClock
from paydesk.engine.device.authorization import calls as authorizations
from paydesk.engine.orders import expiry, status
from paydesk.engine.orders import store as orders
from paydesk.engine.orders.change import Change
from paydesk.engine.orders.order import Order
from paydesk.engine.orders.status_labels import PLAIN
from paydesk.engine.payments import resolving
from paydesk.engine.payments.acquirer import NotSent
from paydesk.engine.payments.acquirers import Acquirers, CheckedAcquirer
from paydesk.engine.payments.outcomes import Paid
from paydesk.engine.payments.simulator import scripts
from paydesk.engine.payments.simulator.acquirer import Simulator
from paydesk.platform.http.server import server
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database, Transaction
from paydesk.platform.worker import WorkerContext
from service import KEYS, Device, Reply, Service, running
from waiting import until

CANCELABLE = {"X-Allow-Cancelable-Status": "at_terminal"}
ROUNDS = short_and_long(10, 60)


@dataclass
class Shop:
    """A service with an acquirer that a test can hold up, and a terminal of kind `service`."""

    service: Service
    acquirer: WatchedAcquirer
    device: Device
    clock: MovableClock

    async def order(self, lease_id: str) -> Order:
        """Return the order's row."""
        seller_id = self.service.seller_id
        order = await self.service.database.read(lambda tx: orders.find(tx, seller_id, f"ORD{lease_id}"))
        assert order is not None
        return order

    async def check(self, lease_id: str) -> None:
        """Move the order to `check_on_terminal`, as the worker does after 40 s."""
        self.clock.advance(40_000)
        context = WorkerContext(self.service.database, Settings(), self.clock, KEYS)
        await expiry.UNKNOWN_OUTCOME.step(context)
        assert (await self.order(lease_id)).state == status.CHECK_ON_TERMINAL

    async def resolve_declined(self, lease_id: str) -> None:
        """End the order as an operator does."""
        order, now_ms = await self.order(lease_id), self.clock.now_ms() + 1000

        async def work(tx: Transaction) -> None:
            change = Change(tx, now_ms, PLAIN)
            await resolving.resolve(
                change,
                order,
                "declined",
                Paid(),
                settings=Settings(resolve_after_seconds=1),
                acquirer=CheckedAcquirer(self.acquirer),
            )

        await self.service.database.write(work)


@pytest.fixture
async def shop(database: Database) -> AsyncIterator[Shop]:
    """A shop without workers, whose clock stands still."""
    clock = MovableClock()
    clock.freeze()
    acquirer = watched(database, clock)
    async with running(database, clock=clock, workers=False, acquirers=Acquirers(test=acquirer)) as service:
        yield Shop(service, acquirer, await service_device(service), clock)


async def begun(shop: Shop) -> tuple[str, asyncio.Task[Reply]]:
    """Return the lease and the request of an authorization that the acquirer is working on."""
    lease_id = await at_terminal(shop.device)
    shop.acquirer.entered.clear()
    request = asyncio.create_task(authorize(shop.device, lease_id))
    await shop.acquirer.entered.wait()
    return lease_id, request


async def test_concurrent_requests_join_one_call(database: Database) -> None:
    """Twenty requests, of which none has begun before all are there: one call to the acquirer, one answer."""
    clock, gated = MovableClock(), GatedDatabase(database)
    acquirer = watched(database, clock)
    async with running(gated, clock=clock, workers=False, acquirers=Acquirers(test=acquirer)) as service:
        device = await service_device(service)
        lease_id = await at_terminal(device)
        acquirer.may_charge.clear()
        gated.gate.clear()
        requests = [asyncio.create_task(authorize(device, lease_id)) for _ in range(20)]
        await until(lambda: gated.waiting == len(requests))
        gated.gate.set()
        await until(lambda: waiting(service, lease_id) == len(requests))
        acquirer.may_charge.set()
        replies = await asyncio.gather(*requests)
        assert len(acquirer.charges) == 1
        assert len({reply.raw for reply in replies}) == 1
        assert replies[0].body["outcome"] == "approved"
        await is_consistent(service)


@pytest.mark.parametrize("rounds", ROUNDS)
async def test_concurrent_requests_on_two_nodes_charge_once(database: Database, database_url: str, rounds: int) -> None:
    """Each node asks under the same payment id; the approval ends the order once."""
    clock = MovableClock()
    acquirer = watched(database, clock)
    async with two_nodes(database, database_url, clock=clock, acquirers=Acquirers(test=acquirer)) as (first, second):
        device = await service_device(first)
        other = replace(device, service=second)
        for _ in range(rounds):
            lease_id = await at_terminal(device)
            replies = await asyncio.gather(*(authorize(on, lease_id) for on in (device, other) * 3))
            assert {reply.body["outcome"] for reply in replies} == {"approved"}
            assert [row[1] for row in await ledger(first) if row[0] == f"PAY{lease_id}"] == [2490]
        assert await rows(first, "SELECT reversal_id FROM reversals") == []
        await is_consistent(first)


@pytest.mark.parametrize("rounds", ROUNDS)
async def test_authorization_and_cancel_exclude_each_other(shop: Shop, rounds: int) -> None:
    """The order is paid and charged, or canceled and never charged."""
    moments, service = random.Random(7), shop.service
    for number in range(rounds):
        lease_id = await at_terminal(shop.device)

        requests = [authorize(shop.device, lease_id), service.cancel(f"ORD{lease_id}", headers=CANCELABLE)]
        first, second = moments.sample((0, 1), 2)
        begun = asyncio.create_task(requests[first])
        await turns(number * 3)
        await asyncio.gather(begun, other := asyncio.create_task(requests[second]))
        reply = begun.result() if first == 0 else other.result()
        charged = [row for row in await ledger(service) if row[0] == f"PAY{lease_id}"]
        if reply.status == 200:
            assert (reply.body["outcome"], len(charged)) == ("approved", 1)
        else:
            assert (reply.code, charged) == ("order_canceled", [])
            done = {"boot_id": shop.device.boot_id, "done": True}
            assert (await shop.device.post(f"/leases/{lease_id}/cancel-result", done)).status == 200
            assert (await shop.order(lease_id)).state == status.CANCELED_BY_API
    await is_consistent(service)


@pytest.mark.parametrize("rounds", ROUNDS)
async def test_authorization_and_expiry_exclude_each_other(shop: Shop, rounds: int) -> None:
    """The order is paid and charged, or expired and never charged."""
    context = WorkerContext(shop.service.database, Settings(), shop.clock, KEYS)
    for number in range(rounds):
        lease_id = await at_terminal(shop.device)
        shop.clock.advance(900_000 - number % 2)
        reply, _ = await asyncio.gather(authorize(shop.device, lease_id), expiry.EXPIRY.step(context))
        charged = [row for row in await ledger(shop.service) if row[0] == f"PAY{lease_id}"]
        state = (await shop.order(lease_id)).state
        assert (state, len(charged)) == ((status.PROCESSED, 1) if reply.status == 200 else (status.EXPIRED, 0))
    await is_consistent(shop.service)


async def test_a_client_that_disconnects_does_not_end_the_call(shop: Shop) -> None:
    """The approval is committed, and a repeat gets it."""
    shop.acquirer.may_answer.clear()
    lease_id = await at_terminal(shop.device)
    others = shop.service.gauges.connections_open
    url = f"{shop.service.base_url}/device/v1/leases/{lease_id}/authorize"
    headers = {"Authorization": f"Bearer {shop.device.terminal.token}"}
    async with aiohttp.ClientSession() as session:
        body = request_of(shop.device.boot_id)
        request = asyncio.create_task(session.post(url, json=body, headers=headers))
        await shop.acquirer.entered.wait()
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)
    await until(lambda: shop.service.gauges.connections_open == others)
    for _ in range(3):
        # A handler that looks for a disconnected client sees it now.
        advance(0.5)
        await turns()
    shop.acquirer.may_answer.set()
    assert (await authorize(shop.device, lease_id)).body["outcome"] == "approved"
    assert len(shop.acquirer.charges) == 1
    await is_consistent(shop.service)


async def test_a_node_that_stops_leaves_the_outcome_to_another(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The terminal repeats its request there; the answer to the first node is then too late to change anything."""
    monkeypatch.setattr(server, "DRAIN_SECONDS", 0)
    clock = MovableClock()
    acquirer = watched(database, clock)
    acquirer.may_answer.clear()
    async with running(database, clock=clock, workers=False, acquirers=Acquirers(test=acquirer)) as service:
        device = await service_device(service)
        lease_id = await at_terminal(device)
        request = asyncio.create_task(authorize(device, lease_id))
        await acquirer.charged.wait()
    with pytest.raises(aiohttp.ClientError):
        await request
    async with running(database, clock=clock, workers=False, acquirers=Acquirers(test=acquirer)) as again:
        repeat = asyncio.create_task(authorize(replace(device, service=again), lease_id))
        acquirer.may_answer.set()
        assert (await repeat).body["outcome"] == "approved"
        assert await ledger(again) == [(f"PAY{lease_id}", 2490, "approved", False)]
        await is_consistent(again)


async def test_a_node_without_a_line_does_not_fail_what_another_may_have_sent(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other node was killed after the charge: only an inquiry knows of it."""
    monkeypatch.setattr(authorizations, "NOT_SENT_PAUSE_SECONDS", 0.05)
    clock = MovableClock()
    clock.freeze()
    cut, other = watched(database, clock), watched(database, clock)
    cut.answers.extend([NotSent("the line is down")] * 10_000)
    other.may_answer.clear()
    async with running(database, clock=clock, workers=False, acquirers=Acquirers(test=cut)) as first:
        device = await service_device(first)
        lease_id = await at_terminal(device)
        async with running(database, clock=clock, workers=False, acquirers=Acquirers(test=other)) as second:
            request = asyncio.create_task(authorize(device, lease_id))
            await cut.entered.wait()
            before = asyncio.all_tasks()
            repeat = asyncio.create_task(authorize(replace(device, service=second), lease_id))
            await other.charged.wait()
            kill(asyncio.all_tasks() - before)
            assert (await repeat).status == 503
        advance(authorizations.ANSWER_SECONDS_MAX)
        assert (await request).body["outcome"] == "unknown"
        await process_jobs(first, other)
        assert (await first.get(f"ORD{lease_id}"))["status"] == "processed"
        assert await ledger(first) == [(f"PAY{lease_id}", 2490, "approved", False)]
        await is_consistent(first)


async def test_a_repeat_that_joins_does_not_delay_the_failure(shop: Shop) -> None:
    """No call was sent, so the order fails at once for both requests."""
    shop.acquirer.answers.extend([NotSent("the line is down")] * 10_000)
    lease_id, request = await begun(shop)
    repeat = asyncio.create_task(authorize(shop.device, lease_id))
    await until(lambda: waiting(shop.service, lease_id) == 2)
    advance(authorizations.ANSWER_SECONDS_MAX)
    assert (await repeat).raw == (await request).raw
    assert (await shop.order(lease_id)).state == status.FAILED["processing_error"]
    assert await rows(shop.service, "SELECT order_id FROM inquiries") == []


async def test_an_inquiry_may_end_the_order_first(shop: Shop) -> None:
    """By the same approval: the call then changes nothing."""
    shop.acquirer.may_answer.clear()
    lease_id, request = await begun(shop)
    await shop.acquirer.charged.wait()
    await shop.check(lease_id)
    await process_jobs(shop.service, shop.acquirer)
    paid = await shop.order(lease_id)
    assert paid.state == status.PROCESSED
    shop.acquirer.may_answer.set()
    assert (await request).body["outcome"] == "approved"
    assert await shop.order(lease_id) == paid
    assert await rows(shop.service, "SELECT reversal_id FROM reversals") == []
    await is_consistent(shop.service)


async def test_the_call_may_end_the_order_during_the_inquiry(shop: Shop) -> None:
    """The inquiry, which found nothing so far, ends without a reversal."""
    shop.acquirer.may_charge.clear()
    lease_id, request = await begun(shop)
    await shop.check(lease_id)
    await process_jobs(shop.service, shop.acquirer)
    shop.acquirer.may_charge.set()
    assert (await request).body["outcome"] == "approved"
    shop.clock.advance(300_000)
    await process_jobs(shop.service, shop.acquirer)
    assert await rows(shop.service, "SELECT outcome FROM inquiries") == [("result",)]
    assert [row[3] for row in await ledger(shop.service)] == [False]
    await is_consistent(shop.service)


async def test_an_approval_after_an_operators_decline_is_reversed(shop: Shop) -> None:
    """The order stays failed, and so the terminal gets a decline."""
    shop.acquirer.may_answer.clear()
    lease_id, request = await begun(shop)
    await shop.check(lease_id)
    await shop.resolve_declined(lease_id)
    shop.acquirer.may_answer.set()
    reply = await request
    assert (reply.body["outcome"], reply.body["status_detail"]) == ("declined", "processing_error")
    await process_jobs(shop.service, shop.acquirer)
    assert await ledger(shop.service) == [(f"PAY{lease_id}", 2490, "approved", True)]
    assert len(await rows(shop.service, "SELECT reversal_id FROM reversals")) == 1
    await is_consistent(shop.service)


async def test_an_approval_while_the_inquiry_reverses_is_not_applied(shop: Shop) -> None:
    """The order fails once the payment is reversed; nothing remains charged."""
    shop.acquirer.may_charge.clear()
    lease_id, request = await begun(shop)
    await shop.check(lease_id)
    reversing = "UPDATE inquiries SET reversing_ms = $1"
    await shop.service.database.write(lambda tx: tx.run(reversing, shop.clock.now_ms()))
    shop.acquirer.may_charge.set()
    assert (await request).body["outcome"] == "unknown"
    assert (await shop.order(lease_id)).state == status.CHECK_ON_TERMINAL
    await process_jobs(shop.service, shop.acquirer)
    shop.clock.advance(600_000)
    await process_jobs(shop.service, shop.acquirer)
    assert (await authorize(shop.device, lease_id)).body["outcome"] == "declined"
    assert await ledger(shop.service) == [(f"PAY{lease_id}", 2490, "approved", True)]
    await is_consistent(shop.service)


async def test_a_late_charge_is_blocked_by_the_inquirys_reversal(shop: Shop) -> None:
    """The acquirer received the request only after the payment had been reversed as not found."""
    shop.acquirer.may_charge.clear()
    lease_id, request = await begun(shop)
    await shop.check(lease_id)
    for _ in range(6):
        await process_jobs(shop.service, shop.acquirer)
        shop.clock.advance(120_000)
    assert (await shop.order(lease_id)).state == status.FAILED["processing_error"]
    shop.acquirer.may_charge.set()
    assert (await request).body["outcome"] == "declined"
    assert [row[2:] for row in await ledger(shop.service)] == [("declined", True)]
    await is_consistent(shop.service)


@pytest.mark.parametrize("is_answered", [True, False])
async def test_an_approval_after_the_terminals_decline_is_reversed(shop: Shop, is_answered: bool) -> None:  # noqa: FBT001
    """At once, or, if the call had no answer, after an inquiry."""
    shop.acquirer.may_answer.clear()
    shop.acquirer.is_answer_lost = not is_answered
    lease_id, request = await begun(shop)
    declined = await shop.device.result(lease_id, outcome="declined", status_detail="high_risk")
    assert declined.status == 200
    await shop.acquirer.charged.wait()
    shop.acquirer.may_answer.set()
    assert (await request).body["status_detail"] == "high_risk"
    assert len(await rows(shop.service, "SELECT reversal_id FROM reversals")) == is_answered
    await process_jobs(shop.service, shop.acquirer)
    assert [row[2:] for row in await ledger(shop.service)] == [("approved", True)]
    await is_consistent(shop.service)


async def test_a_charge_is_reversed_though_its_node_was_killed_after_the_terminals_decline(shop: Shop) -> None:
    """No answer to the call will come: an inquiry finds the charge."""
    shop.acquirer.may_answer.clear()
    lease_id, request = await begun(shop)
    await shop.acquirer.charged.wait()
    declined = await shop.device.result(lease_id, outcome="declined", status_detail="processing_error")
    assert declined.status == 200
    kill(asyncio.all_tasks())
    assert (await request).status == 503
    await process_jobs(shop.service, shop.acquirer)
    assert [row[2:] for row in await ledger(shop.service)] == [("approved", True)]
    assert (await shop.order(lease_id)).state == status.FAILED["processing_error"]
    await is_consistent(shop.service)


async def test_random_repeats_never_charge_twice(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """With lost answers, requests that are not sent, restarts and inquiries between them."""
    monkeypatch.setattr(authorizations, "NOT_SENT_PAUSE_SECONDS", 0)
    moments = random.Random(11)
    script = ("payment:lost@30", "payment:unheard@20", "payment:not_sent@20", "payment:decline:high_risk@20")
    faults = scripts.translate(" ".join(script), 3)
    shop.acquirer.simulator = Simulator(shop.service.database, shop.clock, script=faults)
    for _ in range(15):
        lease_id = await at_terminal(shop.device)
        while (await shop.order(lease_id)).status in status.LIVE:
            await asyncio.gather(*(authorize(shop.device, lease_id) for _ in range(moments.randint(1, 3))))
            if moments.random() < 0.3:
                shop.device = await shop.service.device(shop.device.terminal)
            shop.clock.advance(moments.randint(0, 30_000))
            await process_jobs(shop.service, shop.acquirer)
    await is_consistent(shop.service)
