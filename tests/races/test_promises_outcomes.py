"""Cancel, acknowledgement, grant, result and expiry of one order race: one of two wins, and the loser is told so."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from nodes import two_nodes
from paydesk import ledger
from paydesk.clock import MovableClock
from paydesk.orders.status import STATES
from paydesk.storage.database import Database
from service import Device, Reply, Service

pytestmark = pytest.mark.usefixtures("batching")

TERMINALS = 40
ROUNDS_OF_CANCEL = 2_000
ROUNDS_OF_EXPIRY = 10
SPREAD_SECONDS = 0.02
# The jump ends the orders' time, but not the forty seconds that a granted terminal has for its outcome.
EXPIRATION_TIME, JUMP_MS = "PT30S", 30_000
WISH = {"X-Allow-Cancelable-Status": "at_terminal"}

Play = Callable[[Service, Device], Awaitable[str]]
"""One round on one terminal, which is free again afterwards; what it came to."""


async def play(database: Database, database_url: str, rounds: int, one_round: Play) -> Counter[str]:
    """Play so many rounds, on all terminals side by side, which call another node than the tills."""
    outcomes: Counter[str] = Counter()
    async with two_nodes(database, database_url) as (tills, terminals):

        async def on_one_terminal() -> None:
            device = await terminals.device(await terminals.terminal())
            for _ in range(rounds // TERMINALS):
                outcomes[await one_round(tills, device)] += 1

        await asyncio.gather(*(on_one_terminal() for _ in range(TERMINALS)))
    return outcomes


async def state(service: Service, order_id: str) -> str:
    """Where the order stands, which must be a state of the table."""
    order = await service.get(order_id)
    payment = order["transactions"]["payments"][0]
    shown = f"{order['status']}/{order['status_detail']}/{payment['status_detail']}"
    assert shown in {str(known) for known in STATES}
    assert payment["status"] == order["status"]
    return shown


async def created(service: Service, device: Device, **fields: str) -> str:
    """A new order on the terminal."""
    reply = await service.create(device.terminal, **fields)
    assert reply.status == 201, reply
    order_id: str = reply.body["id"]
    return order_id


async def some_time_later(call: Callable[[], Awaitable[Reply]]) -> Reply:
    """The reply to a call that begins at once or at a random moment."""
    await asyncio.sleep(random.choice((0, random.random() * SPREAD_SECONDS)))
    return await call()


async def test_cancel_and_acknowledge_exclude_each_other(database: Database, database_url: str) -> None:
    """In two thousand rounds either the order is canceled or the terminal has it, never both, and both do happen."""
    outcomes = await play(database, database_url, ROUNDS_OF_CANCEL, _cancel_against_acknowledge)
    assert outcomes.total() == ROUNDS_OF_CANCEL
    assert set(outcomes) == {"canceled", "taken"}
    assert await ledger.check(database) == []


async def _cancel_against_acknowledge(service: Service, device: Device) -> str:
    order_id = await created(service, device)
    calls = [lambda: service.cancel(order_id), lambda: device.ack(order_id[3:])]
    canceled, taken = await asyncio.gather(*(some_time_later(call) for call in calls))
    stands = await state(service, order_id)
    if canceled.status == 200:
        assert (taken.status, taken.code) == (409, "order_canceled")
        assert stands == "canceled/canceled/canceled_by_api"
        return "canceled"
    assert (canceled.status, canceled.code) == (409, "cannot_cancel_order")
    assert taken.status == 200
    assert stands == "at_terminal/at_terminal/at_terminal"
    assert (await device.result(order_id[3:], outcome="canceled")).status == 200
    return "taken"


async def test_cancel_and_the_grant_exclude_each_other(database: Database, database_url: str) -> None:
    """A terminal that may go to the acquirer is not overtaken by a cancel that was asked at the same time."""
    outcomes = await play(database, database_url, ROUNDS_OF_CANCEL // 5, _cancel_against_authorizing)
    assert set(outcomes) == {"given back", "paid"}
    assert await ledger.check(database) == []


async def _cancel_against_authorizing(service: Service, device: Device) -> str:
    order_id = await created(service, device)
    assert (await device.ack(order_id[3:])).status == 200
    calls = [lambda: service.cancel(order_id, headers=WISH), lambda: device.authorizing(order_id[3:])]
    wish, grant = await asyncio.gather(*(some_time_later(call) for call in calls))
    assert wish.status == 202, wish
    asked = await state(service, order_id)
    given_back = await device.post(f"/leases/{order_id[3:]}/cancel-result", {"boot_id": device.boot_id, "done": True})
    if grant.status == 200:
        assert asked == "at_terminal/at_terminal/at_terminal", "the wish came too late"
        assert (given_back.status, given_back.code) == (409, "order_granted")
        assert (await device.approve(order_id[3:])).status == 200
        assert await state(service, order_id) == "processed/processed/accredited"
        return "paid"
    assert (grant.status, grant.code) == (409, "order_canceled")
    assert asked == "at_terminal/at_terminal/cancellation_requested"
    assert given_back.status == 200
    assert await state(service, order_id) == "canceled/canceled/canceled_by_api"
    return "given back"


async def test_the_grant_and_expiry_exclude_each_other(database: Database, database_url: str) -> None:
    """While time runs out, a terminal is granted and paid, or refused and the order expired."""
    outcomes = await _while_time_runs_out(database, database_url, _authorizing_against_expiry)
    assert set(outcomes) == {"paid", "expired"}
    assert await ledger.check(database) == []


async def _authorizing_against_expiry(service: Service, device: Device, order_id: str) -> str:
    grant = await some_time_later(lambda: device.authorizing(order_id[3:]))
    if grant.status == 200:
        assert grant.body["go"] is True
        await asyncio.sleep(SPREAD_SECONDS)
        assert await state(service, order_id) == "at_terminal/at_terminal/at_terminal"
        assert (await device.approve(order_id[3:])).status == 200
        assert await state(service, order_id) == "processed/processed/accredited"
        return "paid"
    assert (grant.status, grant.code) == (409, "order_canceled")
    assert await state(service, order_id) == "canceled/expired/expired"
    return "expired"


async def test_a_result_and_expiry_exclude_each_other(database: Database, database_url: str) -> None:
    """While time runs out, an approval is the order's payment, or recorded as a late one that is to be given back."""
    outcomes = await _while_time_runs_out(database, database_url, _result_against_expiry)
    assert set(outcomes) == {"paid", "expired"}
    assert await ledger.check(database) == []
    row = await database.read(lambda tx: tx.one("SELECT COUNT(*) FROM reversals"))
    assert row is not None
    assert row[0] == outcomes["expired"]


async def _result_against_expiry(service: Service, device: Device, order_id: str) -> str:
    result = await some_time_later(lambda: device.approve(order_id[3:]))
    if result.status == 200:
        assert await state(service, order_id) == "processed/processed/accredited"
        return "paid"
    assert (result.status, result.code, result.body["recorded"]) == (409, "order_finished", True)
    assert await state(service, order_id) == "canceled/expired/expired"
    return "expired"


async def _while_time_runs_out(
    database: Database, database_url: str, race: Callable[[Service, Device, str], Awaitable[str]]
) -> Counter[str]:
    """Rounds in which the clock jumps past the end of all terminals' orders while each does something with its own."""
    clock, outcomes = MovableClock(), Counter[str]()
    clock.freeze()
    async with two_nodes(database, database_url, clock=clock) as (service, other):
        devices = [await other.device(await other.terminal()) for _ in range(TERMINALS)]
        for _ in range(ROUNDS_OF_EXPIRY):
            orders = await asyncio.gather(*(_taken(service, device) for device in devices))
            races = [race(service, device, order_id) for device, order_id in zip(devices, orders, strict=True)]
            under_way = asyncio.gather(*races)
            await asyncio.sleep(SPREAD_SECONDS / 2)
            clock.advance(JUMP_MS)
            database.signals.wake(["clock"])
            outcomes.update(await under_way)
    return outcomes


async def _taken(service: Service, device: Device) -> str:
    order_id = await created(service, device, expiration_time=EXPIRATION_TIME)
    assert (await device.ack(order_id[3:])).status == 200
    return order_id
