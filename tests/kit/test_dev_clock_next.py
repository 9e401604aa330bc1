"""`POST /dev/clock` with `to_next`: the clock advances to what a worker does next, and the answer says what it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from operator_calls import Operator, operator
from paydesk.core.clock import MovableClock, rfc3339
from paydesk.engine.webhooks.schedule import PARKED_MS
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from paydesk_dev.clock import next_due
from plain_rows import CONFIRMATION, DELIVERY, REFUND, REVERSAL, SUBSCRIBE, SUBSCRIPTION, run
from print_scene import print_on
from service import Service, running
from waiting import HANGS_SECONDS

NOW_MS = 1_769_869_602_109
ORDER = "ORD01J67CQQH5904WDBVZEM4JMEP3"
OPEN_INQUIRY = """
INSERT INTO inquiries (seller_id, order_id, live, reason, attempts, next_ms, created_ms)
VALUES ($1, $2, 0, '', 1, $3, 1)"""


@pytest.fixture
async def service(database: Database, clock: MovableClock) -> AsyncIterator[Service]:
    """A development service whose clock is stopped, without workers."""
    clock.frozen_ms = NOW_MS
    async with running(database, clock=clock, development=True, workers=False) as service:
        yield service


async def to_next(desk: Operator) -> dict[str, Any]:
    """Advance the clock to what is due next; return the answer."""
    reply = await desk.service.request("POST", "/dev/clock", {"to_next": True}, token=desk.token, key=None)
    assert reply.status == 200, reply
    answer: dict[str, Any] = reply.body
    return answer


async def test_nothing_due_leaves_the_clock(service: Service, clock: MovableClock) -> None:
    """The answer has no `next`."""
    desk = await operator(service)
    assert await to_next(desk) == {"now": rfc3339(NOW_MS), "frozen": True, "offset_seconds": pytest.approx(0, abs=1e12)}
    clock.resume()
    before_ms = clock.offset_ms
    assert "next" not in await to_next(desk)
    assert clock.offset_ms == before_ms


@pytest.mark.on_postgres
async def test_orders_expire_at_the_next_times(service: Service, clock: MovableClock) -> None:
    """The earliest first; orders that expire at one time are counted together."""
    desk = await operator(service)
    for expiration in ("PT2M", "PT1M", "PT1M"):
        await service.create(await service.terminal(), expiration_time=expiration)
    reached = await to_next(desk)
    assert reached["next"] == {"kind": "order_expiry", "due_date": rfc3339(NOW_MS + 60_000), "count": 2}
    assert (reached["now"], reached["frozen"]) == (reached["next"]["due_date"], True)
    # The orders that are overdue now are no longer ahead, although no worker has ended them.
    assert (await to_next(desk))["next"] == {
        "kind": "order_expiry",
        "due_date": rfc3339(NOW_MS + 120_000),
        "count": 1,
    }
    assert "next" not in await to_next(desk)
    assert clock.now_ms() == NOW_MS + 120_000


async def test_running_clock_reaches_the_time(database: Database, clock: MovableClock) -> None:
    """The worker ends the order at once."""
    async with running(database, clock=clock, development=True) as service:
        desk = await operator(service)
        order = (await service.create(await service.terminal(), expiration_time="PT3H")).body
        reached = await to_next(desk)
        assert reached["next"]["kind"] == "order_expiry"
        assert reached["now"] >= reached["next"]["due_date"]
        assert not reached["frozen"]
        async with asyncio.timeout(HANGS_SECONDS):
            while (await service.get(order["id"]))["status"] == "created":  # noqa: ASYNC110 - as a client polls
                await asyncio.sleep(0.02)


async def test_permitted_order_has_an_outcome_deadline(service: Service) -> None:
    """From the permit on it does not expire."""
    desk, device = await operator(service), await service.device(await service.terminal())
    order_id = (await service.create(device.terminal)).body["id"]
    assert (await device.ack(order_id[3:])).status == 200
    assert (await device.authorizing(order_id[3:])).status == 200
    after_ms = Settings().unknown_after_seconds * 1000
    assert (await to_next(desk))["next"] == {
        "kind": "outcome_deadline",
        "due_date": rfc3339(NOW_MS + after_ms),
        "count": 1,
    }


async def test_cancel_request_has_a_deadline(service: Service) -> None:
    """The terminal has acknowledged the order and does not answer the request."""
    desk, device = await operator(service), await service.device(await service.terminal())
    order_id = (await service.create(device.terminal)).body["id"]
    assert (await device.ack(order_id[3:])).status == 200
    asking = {"X-Allow-Cancelable-Status": "at_terminal"}
    assert (await service.cancel(order_id, headers=asking)).status == 202
    after_ms = Settings().cancel_silence_seconds * 1000
    assert (await to_next(desk))["next"] == {
        "kind": "cancel_deadline",
        "due_date": rfc3339(NOW_MS + after_ms),
        "count": 1,
    }


async def test_print_action_expires(service: Service) -> None:
    """As orders do."""
    desk = await operator(service)
    assert (await print_on(service, await service.terminal())).status == 201
    assert (await to_next(desk))["next"]["kind"] == "print_action_expiry"


@pytest.mark.on_postgres
async def test_attempts_are_due_in_order(service: Service, database: Database) -> None:
    """Of confirmations, refunds, inquiries, reversals and webhooks; deliveries that wait for a resume never are."""
    desk, seller_id = await operator(service), service.seller_id
    await run(database, SUBSCRIBE, SUBSCRIPTION)
    for number, next_ms in enumerate((NOW_MS + 4_000, NOW_MS + 4_000, NOW_MS - 1, PARKED_MS)):
        key = (seller_id, f"{number}.{SUBSCRIPTION}", SUBSCRIPTION, ORDER, number, "pending", 1)
        await run(database, DELIVERY, *key)
        sql = "UPDATE deliveries SET next_ms = $3 WHERE seller_id = $1 AND delivery_id = $2"
        await run(database, sql, *key[:2], next_ms)
    await run(database, CONFIRMATION, seller_id, ORDER)
    sql = "UPDATE confirmations SET status = 'provisional', ended_ms = NULL, next_ms = $2 WHERE seller_id = $1"
    await run(database, sql, seller_id, NOW_MS + 500)
    await run(database, REFUND.replace("'processed'", "'processing'"), seller_id, "REF1")
    await run(database, "UPDATE refunds SET next_ms = $2 WHERE seller_id = $1", seller_id, NOW_MS + 1_000)
    await run(database, OPEN_INQUIRY, seller_id, ORDER, NOW_MS + 2_000)
    await run(database, REVERSAL.replace("'reversed'", "'pending'"), seller_id, "01J67CQQH5904WDBVZEM4JMEP3", "1")
    await run(database, "UPDATE reversals SET next_ms = $2 WHERE seller_id = $1", seller_id, NOW_MS + 3_000)
    found = [(await to_next(desk))["next"] for _ in range(5)]
    assert [(one["kind"], one["count"], one["due_date"]) for one in found] == [
        ("confirmation", 1, rfc3339(NOW_MS + 500)),
        ("refund_attempt", 1, rfc3339(NOW_MS + 1_000)),
        ("inquiry", 1, rfc3339(NOW_MS + 2_000)),
        ("reversal_attempt", 1, rfc3339(NOW_MS + 3_000)),
        ("webhook_delivery", 2, rfc3339(NOW_MS + 4_000)),
    ]
    assert "next" not in await to_next(desk)


async def test_concurrent_moves_never_go_beyond_the_next_two_times(service: Service, clock: MovableClock) -> None:
    """Of concurrent requests each reaches a time that was ahead when it began."""
    desk = await operator(service)
    for minutes in range(1, 9):
        await service.create(await service.terminal(), expiration_time=f"PT{minutes}M")
    answers = await asyncio.gather(*(to_next(desk) for _ in range(4)))
    times = {answer["next"]["due_date"] for answer in answers}
    assert rfc3339(clock.now_ms()) == max(times)
    assert clock.now_ms() - NOW_MS == 60_000 * len(times)


@pytest.mark.on_postgres
async def test_expiry_after_2099_is_not_reached(service: Service, clock: MovableClock) -> None:
    """The clock has a limit."""
    desk = await operator(service)
    clock.frozen_ms = next_due.CLOCK_MS_MAX - 1_000
    await service.create(await service.terminal())
    assert "next" not in await to_next(desk)
    assert clock.frozen_ms == next_due.CLOCK_MS_MAX - 1_000
