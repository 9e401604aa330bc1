"""The third message: of a terminal's result, its silence, a restart and the acquirer's second answer one decides."""

from __future__ import annotations

import asyncio
import base64
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

from authorize_scene import (
    BLOCKING,
    WatchedAcquirer,
    at_terminal,
    authorize,
    is_consistent,
    ledger,
    process_jobs,
    rows,
    service_device,
    watched,
)
from conftest import short_and_long
from event_loops import turns
from nodes import two_nodes
from paydesk.core.clock import MovableClock
from paydesk.core.objects import Objects
from paydesk.engine.invariants import check
from paydesk.engine.payments import confirmations
from paydesk.engine.payments.acquirers import Acquirers
from paydesk.platform.jobs import JobWorker
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from paydesk.platform.worker import WorkerContext
from refund_scene import refund
from service import KEYS, Device, Reply, Service, running
from tables import each
from waiting import until

HOLDING = replace(BLOCKING, needs_confirmation=True)
CHIP = base64.b64encode(b"\x95\x01\x00").decode()
ROUNDS = short_and_long(8, 80)
STATE = """
SELECT o.status, c.status FROM orders o JOIN confirmations c ON c.seller_id = o.seller_id AND c.order_id = o.order_id
 WHERE o.order_id = $1"""


@dataclass
class Shop:
    """A service without workers, and an acquirer that holds approvals until they are confirmed."""

    service: Service
    acquirer: WatchedAcquirer
    clock: MovableClock

    async def undo(self) -> None:
        """Make the due attempts of confirmations, as the worker does."""
        context = WorkerContext(
            self.service.database, Settings(), self.clock, KEYS, objects=Objects(Acquirers(test=self.acquirer))
        )
        await JobWorker(context, confirmations.JOB, wall=self.clock).step()

    async def settle(self, lease_id: str) -> None:
        """Make all attempts; the books agree, and each approval is confirmed or reversed."""
        for _ in range(4):
            await process_jobs(self.service, self.acquirer)
            self.clock.advance(60_000)
        ((order, confirmation),) = await rows(self.service, STATE, f"ORD{lease_id}")
        charged = [row[2:] == ("approved", False) for row in await ledger(self.service) if row[0] == f"PAY{lease_id}"]
        is_confirmed = f"CNF{lease_id}" in self.acquirer.confirmed
        paid = order == "processed"
        assert (charged, is_confirmed, confirmation) == ([paid], paid, "confirmed" if paid else "undone"), order
        assert self.acquirer.confirmed.count(f"CNF{lease_id}") <= 1


@pytest.fixture
async def shop(database: Database) -> AsyncIterator[Shop]:
    """A shop whose clock stands still."""
    clock = MovableClock()
    clock.freeze()
    acquirer = watched(database, clock)
    acquirer.can = HOLDING
    async with running(database, clock=clock, workers=False, acquirers=Acquirers(test=acquirer)) as service:
        began_ms = clock.now_ms()
        yield Shop(service, acquirer, clock)
        # As of then: the workers that number events do not run, and the clock has moved on.
        assert await check.check(service.database, began_ms) == []


async def approve(device: Device, lease_id: str, reply: Reply, **changes: Any) -> Reply:
    """Report the acquirer's approval."""
    method = {"id": "visa", "type": "credit_card", "installments": 1}
    content = {"outcome": "approved", "payment_method": method, "paid_amount": "24.90", **changes}
    content = {"reference_id": reply.body["reference_id"], **content}
    digits = {"first_digits": "423564", "last_digits": "5682"}
    return await device.result(lease_id, card=digits, **content)


async def hello(device: Device) -> Reply:
    """Start the terminal again, with its journal."""
    body = {"boot_id": str(uuid.uuid4()), "journal": []}
    return await device.service.request("POST", "/device/v1/hello", body, token=device.terminal.token)


Rival = Callable[[Shop, Device, str], Awaitable[Any]]
RIVALS: dict[str, Rival] = {
    "its time is over": lambda shop, _device, _lease_id: shop.undo(),
    "it is restarted": lambda _shop, device, _lease_id: hello(device),
    "it declines": lambda _shop, device, lease_id: device.result(
        lease_id,
        outcome="declined",
        status_detail="card_disabled",
        chip_data=base64.b64encode(b"\x95\x01\x00").decode(),
    ),
    "it knows nothing": lambda _shop, device, lease_id: device.result(lease_id, outcome="unknown"),
    "the request is repeated": lambda _shop, device, lease_id: authorize(device, lease_id),
}


@pytest.mark.parametrize("rounds", ROUNDS)
@each("rival", list(RIVALS))
async def test_the_terminals_approval_against(shop: Shop, rival: str, rounds: int) -> None:
    """The first decides: the payment is confirmed and the order paid, or it is reversed and the order failed."""
    for number in range(rounds):
        device = await service_device(shop.service)
        lease_id = await at_terminal(device)
        reply = await authorize(device, lease_id)
        shop.clock.advance(40_000)
        calls: list[Callable[[], Awaitable[Any]]] = [
            partial(approve, device, lease_id, reply),
            partial(RIVALS[rival], shop, device, lease_id),
        ]
        first, second = calls[number % 2], calls[1 - number % 2]
        begun = asyncio.ensure_future(first())
        await turns(number * 2)
        await asyncio.gather(begun, second())
        await shop.settle(lease_id)


@pytest.mark.parametrize("rounds", ROUNDS)
async def test_two_nodes_hold_one_approval(database: Database, database_url: str, rounds: int) -> None:
    """Each node asks under the same payment id; one row waits for the result, which confirms it once."""
    clock = MovableClock()
    acquirer = watched(database, clock)
    acquirer.can = HOLDING
    async with two_nodes(database, database_url, clock=clock, acquirers=Acquirers(test=acquirer)) as (first, second):
        for _ in range(rounds):
            device = await service_device(first)
            other = replace(device, service=second)
            lease_id = await at_terminal(device)
            replies = await asyncio.gather(*(authorize(on, lease_id) for on in (device, other) * 2))
            assert {reply.body.get("result_required") for reply in replies} == {True}
            results = await asyncio.gather(*(approve(on, lease_id, replies[0]) for on in (device, other)))
            assert min(result.status for result in results) == 200
            await until(lambda key=f"CNF{lease_id}": key in acquirer.confirmed)  # type: ignore[misc]
        assert len(acquirer.confirmed) == len(set(acquirer.confirmed)) == rounds
        await is_consistent(first)


@pytest.mark.parametrize("rounds", ROUNDS)
async def test_a_refund_against_the_end_of_the_confirmation(shop: Shop, rounds: int) -> None:
    """It is paid back after the confirmation, whichever comes first."""
    for number in range(rounds):
        device = await service_device(shop.service)
        lease_id = await at_terminal(device)
        await approve(device, lease_id, await authorize(device, lease_id))
        confirming = asyncio.create_task(shop.undo())
        await turns(number * 3)
        reply = await refund(shop.service, f"ORD{lease_id}")
        assert reply.status == 201
        await confirming
        await process_jobs(shop.service, shop.acquirer)
        order = await shop.service.get(f"ORD{lease_id}")
        assert order["status"] == "refunded"
        assert f"CNF{lease_id}" in shop.acquirer.confirmed
