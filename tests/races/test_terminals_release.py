"""An operator's release against the terminal, a cancel and the expiry: one of them wins, and never past the permit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from conftest import short_and_long
from operator_calls import Operator, operator
from paydesk.core.clock import MovableClock
from paydesk.engine.invariants import check
from paydesk.engine.orders import expiry
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from paydesk.platform.worker import WorkerContext
from service import KEYS, Device, Reply, Service, running

pytestmark = pytest.mark.usefixtures("batching")

ROUNDS = short_and_long(12, 100)
CANCEL = {"X-Allow-Cancelable-Status": "at_terminal"}
Rival = Callable[[Service, Device, str], Awaitable[Reply]]


def _acknowledge(_service: Service, device: Device, order_id: str) -> Awaitable[Reply]:
    return device.ack(order_id[3:])


def _authorize(_service: Service, device: Device, order_id: str) -> Awaitable[Reply]:
    return device.authorizing(order_id[3:])


def _approve(_service: Service, device: Device, order_id: str) -> Awaitable[Reply]:
    return device.approve(order_id[3:])


def _decline(_service: Service, device: Device, order_id: str) -> Awaitable[Reply]:
    return device.result(order_id[3:], outcome="declined", status_detail="high_risk")


def _cancel(service: Service, _device: Device, order_id: str) -> Awaitable[Reply]:
    return service.cancel(order_id, headers=CANCEL)


RIVALS: dict[str, tuple[Rival, bool]] = {
    "acknowledge": (_acknowledge, False),
    "authorize": (_authorize, True),
    "approve": (_approve, True),
    "decline": (_decline, True),
    "cancel a created order": (_cancel, False),
    "cancel at the terminal": (_cancel, True),
}
"""The request beside the release, and whether the order is at its terminal before."""


async def _release(person: Operator, device: Device) -> Reply:
    return await person.ask("POST", f"terminals/{device.terminal.id}/release", {"reason": "The terminal is broken."})


@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.parametrize("rival", RIVALS)
async def test_release_and_another_request_have_one_order(database: Database, rival: str, rounds: int) -> None:
    """The order is released, or the release is refused or finds it ended; a permit or a payment is never undone."""
    send, is_at_terminal = RIVALS[rival]
    async with running(database, workers=False) as service:
        person, device = await operator(service), await service.device(await service.terminal())
        for _ in range(rounds):
            order_id = (await service.create(device.terminal)).body["id"]
            if is_at_terminal:
                assert (await device.ack(order_id[3:])).status == 200
            released, other = await asyncio.gather(_release(person, device), send(service, device, order_id))
            order = await person.did("GET", f"orders/{order_id}")
            moves = [event["move"] for event in order["events"]]
            assert released.status in (200, 409), released
            assert ("release" in moves) == (released.status == 200 and "released" in released.body)
            if released.status == 409:
                assert released.code == "cannot_release_terminal"
                assert rival == "authorize"
                assert other.body["go"] is True
            if "release" in moves:
                assert (order["status"], moves[-1]) == ("canceled", "release")
                assert "permitted_date" not in order["times"]
            if order["status"] == "at_terminal":
                assert (await device.result(order_id[3:], outcome="declined", status_detail="high_risk")).status == 200
        assert await check.check(database) == []


async def test_release_and_expiry_end_an_order_once(database: Database, clock: MovableClock) -> None:
    """Whichever comes first."""
    clock.freeze()
    async with running(database, clock=clock, workers=False) as service:
        person, device = await operator(service), await service.device(await service.terminal())
        worker = WorkerContext(database, Settings(), clock, KEYS)
        for number in range(12):
            order_id = (await service.create(device.terminal, expiration_time="PT30S")).body["id"]
            if number % 2:
                assert (await device.ack(order_id[3:])).status == 200
            clock.advance(30_000)
            released, _ = await asyncio.gather(_release(person, device), expiry.EXPIRY.step(worker))
            assert (released.status, released.body) == (200, {})
            order = await service.get(order_id)
            assert order["status_detail"] == "expired"
        assert await check.check(database) == []


async def test_two_operators_release_once(database: Database) -> None:
    """The second one finds the terminal free; one entry of the audit trail each effect."""
    async with running(database, workers=False) as service:
        person, device = await operator(service), await service.device(await service.terminal())
        for _ in range(6):
            await service.create(device.terminal)
            replies = await asyncio.gather(*(_release(person, device) for _ in range(3)))
            assert [reply.status for reply in replies] == [200] * 3
            assert sum("released" in reply.body for reply in replies) == 1
        rows = await database.read(lambda tx: tx.all("SELECT 1 FROM operator_audit WHERE action = 'terminals.release'"))
        assert len(rows) == 6
