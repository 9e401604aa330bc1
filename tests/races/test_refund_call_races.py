"""The acquirer's answer to a refund against the response to its request, the worker, and a restart: one outcome."""

from __future__ import annotations

import asyncio

import pytest

from conftest import short_and_long
from paydesk.engine.invariants import check
from paydesk.engine.payments.acquirer import Approved, Declined, Outcome
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from refund_scene import Refunder, expire_leases, notifications, only, paid, refund, work
from service import Service, running
from waiting import until_found

REFUNDS = "SELECT status FROM refunds WHERE seller_id = $1"
COUNT = short_and_long(8, 24)
DECLINED = Declined("rejected_other_reason")


async def are_ended(service: Service) -> bool:
    """Return whether no refund is being processed."""
    statuses = await service.database.read(lambda tx: tx.all(REFUNDS, service.seller_id))
    return all(status != "processing" for (status,) in statuses)


@pytest.mark.parametrize("count", COUNT)
@pytest.mark.parametrize("answer", [Approved("115019989861", 2490), DECLINED], ids=["approved", "declined"])
async def test_an_answer_comes_as_the_response_is_due(database: Database, count: int, answer: Outcome) -> None:
    """Each request gets one response, which its repeat gets too, and each refund one call and one end."""
    refunder = Refunder(words=[answer] * count, closed=True)
    settings = Settings(refund_answer_seconds=1)
    async with running(database, settings=settings, workers=False, acquirers=refunder.acquirers) as service:
        order_ids = [await paid(service) for _ in range(count)]
        requests = [asyncio.create_task(refund(service, order_id, key=order_id)) for order_id in order_ids]
        await refunder.was_asked.wait()
        asyncio.get_running_loop().call_later(settings.refund_answer_seconds, refunder.opens.set)
        replies = await asyncio.gather(*requests)
        await until_found(lambda: are_ended(service))
        assert len(refunder.asked) == len(set(refunder.asked)) == count
        for order_id, reply in zip(order_ids, replies, strict=True):
            assert (await refund(service, order_id, key=order_id)).raw == reply.raw
            order, events = (
                await service.get(order_id),
                [action for action, _ in await notifications(service, order_id)],
            )
            if isinstance(answer, Approved):
                assert reply.status == 201
                assert (order["status"], events.count("order.refunded")) == ("refunded", 1)
            else:
                # A decline in time is the response; one after it is an event.
                assert reply.status in (201, 409)
                assert (order["status"], events.count("order.refund_failed")) == ("processed", int(reply.status == 201))
    assert await check.check(database) == []


@pytest.mark.parametrize("answer", [Approved("115019989861", 2490), DECLINED], ids=["approved", "declined"])
async def test_a_worker_asks_again_while_the_first_call_goes_on(database: Database, answer: Outcome) -> None:
    """Its lease has run out. Both calls have one key and one answer, and the first that is committed counts."""
    refunder = Refunder(words=[answer] * 2, closed=True)
    settings = Settings(refund_answer_seconds=1)
    async with running(database, settings=settings, workers=False, acquirers=refunder.acquirers) as service:
        order_id = await paid(service)
        reply = await refund(service, order_id)
        assert only(reply)["status"] == "processing"
        await expire_leases(service)
        worker = asyncio.create_task(work(service, refunder=refunder))
        await until_found(lambda: _is_asked_twice(refunder))
        refunder.opens.set()
        assert await worker == 1
        await until_found(lambda: are_ended(service))
        assert refunder.asked == [only(reply)["id"]] * 2
        actions = [action for action, _ in await notifications(service, order_id)]
        assert actions.count("order.refunded") + actions.count("order.refund_failed") == 1
    assert await check.check(database) == []


async def _is_asked_twice(refunder: Refunder) -> bool:
    return len(refunder.asked) == 2
