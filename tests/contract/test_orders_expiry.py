"""Expiry of orders: to the millisecond, by the worker or by the first request that reads the order."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import pytest

from paydesk.core.clock import MovableClock
from paydesk.engine.orders import expiry
from paydesk.engine.orders import store as orders
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from paydesk.platform.worker import WorkerContext
from service import KEYS, Service, running
from skipped_waits import skipped_waits, time_passes


@pytest.fixture
async def service(database: Database, clock: MovableClock) -> AsyncIterator[Service]:
    """A service with a frozen clock."""
    clock.freeze()
    with skipped_waits(database):
        async with running(database, clock=clock) as service:
            yield service


def _advance(service: Service, clock: MovableClock, by_ms: int) -> None:
    """Advance the clock as `POST /dev/clock` does."""
    clock.advance(by_ms)
    service.database.signals.notify(["clock"])


def _seconds_between(order: dict[str, Any]) -> float:
    created, updated = (datetime.fromisoformat(order[name]) for name in ("created_date", "last_updated_date"))
    return (updated - created).total_seconds()


async def test_a_created_order_expires_on_time(service: Service, clock: MovableClock) -> None:
    """Not a millisecond early, and without a request."""
    order_id = (await service.create(await service.terminal(), expiration_time="PT1M30S")).body["id"]
    _advance(service, clock, 89_999)
    await time_passes(0.2)
    assert (await service.get(order_id))["status"] == "created"
    _advance(service, clock, 1)
    order = await service.until(order_id, "canceled")
    assert (order["status_detail"], order["version"]) == ("expired", 2)
    assert order["transactions"]["payments"][0]["status_detail"] == "expired"
    assert _seconds_between(order) == 90


async def test_the_default_expiration_is_15_minutes(service: Service, clock: MovableClock) -> None:
    """For an order without `expiration_time`."""
    order_id = (await service.create(await service.terminal())).body["id"]
    _advance(service, clock, 15 * 60_000)
    assert _seconds_between(await service.until(order_id, "canceled")) == 900


async def test_all_overdue_orders_expire(service: Service, clock: MovableClock) -> None:
    """And no others."""
    due = [(await service.create(await service.terminal(), expiration_time="PT30S")).body["id"] for _ in range(5)]
    later = (await service.create(await service.terminal(), expiration_time="PT3H")).body["id"]
    _advance(service, clock, 60_000)
    for order_id in due:
        assert (await service.until(order_id, "canceled"))["status_detail"] == "expired"
    assert (await service.get(later))["status"] == "created"


async def test_an_order_at_its_terminal_expires_too(service: Service, clock: MovableClock) -> None:
    """Before authorization is permitted."""
    terminal = await service.terminal()
    device = await service.device(terminal)
    order_id = (await service.create(terminal, expiration_time="PT30S")).body["id"]
    await device.ack(order_id[3:])
    _advance(service, clock, 30_000)
    assert (await service.until(order_id, "canceled"))["version"] == 3
    late = await device.authorizing(order_id[3:])
    assert (late.status, late.code) == (409, "order_canceled")


@pytest.mark.on_postgres
async def test_no_expiry_after_authorization_is_permitted(service: Service, clock: MovableClock) -> None:
    """A later approval processes the order."""
    terminal = await service.terminal()
    device = await service.device(terminal)
    order_id = (await service.create(terminal, expiration_time="PT30S")).body["id"]
    await device.ack(order_id[3:])
    assert (await device.authorizing(order_id[3:])).status == 200
    _advance(service, clock, 35_000)
    await time_passes(0.2)
    assert (await service.get(order_id))["status"] == "at_terminal"
    await device.approve(order_id[3:])
    assert (await service.get(order_id))["status"] == "processed"


async def test_cancel_of_an_overdue_order_expires_it(database: Database, clock: MovableClock) -> None:
    """Without a worker too; the cancel returns 409."""
    clock.freeze()
    async with running(database, clock=clock, workers=False) as service:
        order_id = (await service.create(await service.terminal(), expiration_time="PT30S")).body["id"]
        clock.advance(30_000)
        reply = await service.cancel(order_id)
        assert (reply.status, reply.code) == (409, "order_already_canceled")
        assert (await service.get(order_id))["status_detail"] == "expired"


async def test_an_unknown_outcome_is_never_due_for_expiry(database: Database, clock: MovableClock) -> None:
    """Whether or not authorization was permitted."""
    clock.freeze()
    async with running(database, clock=clock, workers=False) as service:
        terminal = await service.terminal()
        device = await service.device(terminal)
        order_id = (await service.create(terminal, expiration_time="PT30S")).body["id"]
        await device.ack(order_id[3:])
        assert (await device.result(order_id[3:], outcome="unknown")).status == 200
        clock.advance(60_000)
        assert await expiry.EXPIRY.step(WorkerContext(database, Settings(), clock, KEYS)) == 0
        assert await database.read(orders.next_expiry_ms) is None
        assert (await service.get(order_id))["status_detail"] == "check_on_terminal"
