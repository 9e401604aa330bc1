"""Removals while orders are created, paid, refunded and canceled: no request fails, and every invariant holds then."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from test_operators_races import while_it_is_committed

from conftest import short_and_long
from event_loops import turns
from paydesk.engine.invariants import check
from paydesk.platform.storage.database import Database, Transaction
from paydesk_dev.reset.reset import EMPTIED
from reset_scene import Resettable, resettable
from service import Reply, Terminal
from virtual_scene import create
from waiting import HANGS_SECONDS, until

EXPECTED = {
    *("order_not_found", "already_queued_order_on_terminal", "resource_locked", "cannot_cancel_order"),
    *("order_already_canceled", "bad_request", "cannot_refund_order", "refund_in_progress", "order_already_refunded"),
}
"""The refusals that a client may get about an order that ended or was removed."""


@pytest.fixture
async def one(database: Database, tmp_path: Path) -> AsyncIterator[Resettable]:
    """A service with its workers, virtual terminals and a subscription."""
    async with resettable(database, tmp_path) as found:
        await found.subscribe()
        yield found


class Clients:
    """Clients that use the service until they are stopped; `failures` are answers that none may get."""

    def __init__(self, one: Resettable) -> None:
        self.one, self.failures, self.created = one, list[tuple[str, int, object]](), 0
        self.are_stopped = False

    def note(self, what: str, reply: Reply) -> None:
        """Note an answer that is neither a success nor an expected refusal."""
        if reply.status >= 400 and (reply.status >= 500 or reply.code not in EXPECTED):
            self.failures.append((what, reply.status, reply.body))

    async def simulate(self, terminal: Terminal) -> None:
        """Create orders, move them to a status, and refund or cancel them."""
        service, number = self.one.service, 0
        while not self.are_stopped:
            number += 1
            created = await service.create(terminal)
            self.note("create", created)
            if created.status != 201:
                continue
            self.created += 1
            path = f"/v1/orders/{created.body['id']}"
            if number % 3:
                body = {"status": "processed" if number % 2 else "failed"}
                self.note("simulate", await service.request("POST", f"{path}/events", body, key=None))
                self.note("refund", await service.request("POST", f"{path}/refund", {}))
            self.note("cancel", await service.request("POST", f"{path}/cancel"))

    async def play(self, terminal: Terminal) -> None:
        """Create an order whenever the virtual terminal is free; it processes them by its script."""
        while not self.are_stopped:
            created = await self.one.service.create(terminal, key=str(uuid.uuid4()))
            self.note("create", created)
            self.created += created.status == 201
            await turns(30)


@pytest.mark.parametrize("resets", short_and_long(4, 60))
async def test_resets_while_orders_are_processed(one: Resettable, resets: int) -> None:
    """After the last one nothing is left of earlier orders."""
    clients = Clients(one)
    terminals = [await one.service.terminal() for _ in range(4)]
    virtual = [await create(one.service, script=script) for script in ("approve:0s", "approve:0.05s", "decline:0s")]
    running = [asyncio.create_task(clients.simulate(terminal)) for terminal in terminals]
    running += [asyncio.create_task(clients.play(each.terminal)) for each in virtual]
    for _ in range(resets):
        created = clients.created
        await until(lambda: clients.created > created + 3)  # noqa: B023 - called in this round
        reply = await one.reset()
        assert (reply.status, reply.body) == (204, None)
    # None of their requests is under way then, which could create an order after the last reset.
    clients.are_stopped = True
    await asyncio.gather(*running)
    assert clients.failures == []
    assert await findings(one) == []
    await asyncio.gather(*(one.reset() for _ in range(3)))
    await until(lambda: one.service.gauges.requests_running <= len(virtual))
    assert {table: count for table, count in (await one.counts(*EMPTIED)).items() if count} == {}
    assert await check.check(one.service.database) == []


async def findings(one: Resettable) -> list[str]:
    """Return what violates an invariant once the orders under way have ended."""
    found, until_seconds = [""], time.monotonic() + HANGS_SECONDS
    while found and time.monotonic() < until_seconds:
        found = [str(finding) for finding in await check.check(one.service.database)]
        await asyncio.sleep(0.02)
    return found


async def test_reset_waits_for_a_transaction_under_way(one: Resettable) -> None:
    """What it commits is removed, too, and nothing of it stays."""

    async def work(tx: Transaction) -> None:
        await tx.run("INSERT INTO payment_references (seller_id, live, reference_id, order_id) VALUES (1, 0, 'r', 'o')")

    reply = await while_it_is_committed(one.service.database, work, one.reset())
    assert reply.status == 204
    assert (await one.counts("payment_references"))["payment_references"] == 0
