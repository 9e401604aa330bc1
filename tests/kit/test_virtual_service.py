"""Virtual terminals with the real service: both sides implement the same protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from oauth_scene import START_MS
from paydesk.core.clock import MovableClock, SystemClock
from paydesk.platform.settings import Settings
from paydesk.platform.storage.database import Database
from paydesk_dev.virtual import journal as journals
from paydesk_dev.virtual.fleet import Fleet
from service import Service, Terminal, running
from skipped_waits import skipped_waits, time_passes
from waiting import until


@pytest.fixture
def clock() -> MovableClock:
    """The service's clock, which runs from the date of the scene."""
    return MovableClock(START_MS - SystemClock().now_ms())


@pytest.fixture
async def service(database: Database, clock: MovableClock) -> AsyncIterator[Service]:
    """A running service with its workers."""
    with skipped_waits(database):
        async with running(database, clock=clock, development=True) as service:
            yield service


@pytest.fixture
async def fleet(service: Service, tmp_path: Path) -> AsyncIterator[Fleet]:
    """An empty fleet of virtual terminals."""
    fleet = Fleet(service.base_url, tmp_path / "terminals")
    await fleet.start()
    yield fleet
    await fleet.stop()


async def _terminal(service: Service, fleet: Fleet, script: str) -> Terminal:
    terminal = await service.terminal()
    await fleet.add(terminal.id, terminal.token, script)
    return terminal


async def _create(service: Service, terminal: Terminal, **fields: Any) -> str:
    reply = await service.create(terminal, **fields)
    assert reply.status == 201, reply
    order_id: str = reply.body["id"]
    return order_id


async def test_approved_order_is_processed(service: Service, fleet: Fleet) -> None:
    """With the payment method, card and amount that the terminal reported."""
    terminal = await _terminal(service, fleet, "approve:0s")
    order = await service.until(await _create(service, terminal, amount="24.90"), "processed")
    (payment,) = order["transactions"]["payments"]
    assert (payment["status_detail"], payment["paid_amount"]) == ("accredited", "24.90")
    assert payment["card"] == {"first_digits": "423564", "last_digits": "5682", "entry_mode": "contactless"}
    assert payment["payment_method"] == {"id": "visa", "type": "credit_card", "installments": 1}


async def test_terminal_is_free_after_each_order(service: Service, fleet: Fleet) -> None:
    """The next order can be created once the last one is processed."""
    terminal = await _terminal(service, fleet, "approve:0s")
    for number in range(1, 6):
        await service.until(await _create(service, terminal, amount=f"{number}"), "processed")


async def test_declined_order_fails(service: Service, fleet: Fleet) -> None:
    """With the detail of the script."""
    terminal = await _terminal(service, fleet, "decline:insufficient_amount:0s")
    order = await service.until(await _create(service, terminal), "failed")
    assert order["transactions"]["payments"][0]["status_detail"] == "insufficient_amount"


async def test_order_canceled_on_the_terminal(service: Service, fleet: Fleet) -> None:
    """The buyer pressed the red key."""
    terminal = await _terminal(service, fleet, "cancel:0s")
    order = await service.until(await _create(service, terminal), "canceled")
    assert order["transactions"]["payments"][0]["status_detail"] == "canceled_on_terminal"


async def test_order_at_the_terminal_can_be_canceled(service: Service, fleet: Fleet) -> None:
    """The terminal releases it and processes the next one."""
    terminal = await _terminal(service, fleet, "hold")
    order_id = await _create(service, terminal)
    await service.until(order_id, "at_terminal")
    reply = await service.cancel(order_id, headers={"X-Allow-Cancelable-Status": "at_terminal"})
    assert reply.status == 202
    order = await service.until(order_id, "canceled")
    assert order["transactions"]["payments"][0]["status_detail"] == "canceled_by_api"
    await fleet.find(terminal.id).set_script("approve:0s")
    await service.until(await _create(service, terminal), "processed")


async def test_order_at_the_terminal_expires(service: Service, fleet: Fleet, clock: MovableClock) -> None:
    """It is canceled, and the terminal processes the next one."""
    terminal = await _terminal(service, fleet, "hold")
    order_id = await _create(service, terminal, expiration_time="PT30S")
    await service.until(order_id, "at_terminal")
    clock.advance(31_000)
    service.database.signals.notify(["clock", "expiry"])
    order = await service.until(order_id, "canceled")
    assert order["status_detail"] == "expired"
    await fleet.find(terminal.id).set_script("approve:0s")
    await service.until(await _create(service, terminal), "processed")


async def test_unacknowledged_order_stays_created(service: Service, fleet: Fleet) -> None:
    """The terminal polls but never acknowledges."""
    terminal = await _terminal(service, fleet, "ignore")
    order_id = await _create(service, terminal)
    await time_passes(10)
    assert (await service.get(order_id))["status"] == "created"


async def test_permit_is_checked_by_a_frozen_clock(service: Service, fleet: Fleet, clock: MovableClock) -> None:
    """The machine's clock is an hour ahead of the service's."""
    terminal = await _terminal(service, fleet, "approve:0s")
    clock.frozen_ms = clock.now_ms() - 3_600_000
    await service.until(await _create(service, terminal), "processed")


@pytest.mark.parametrize("point", ["acknowledged", "result"])
async def test_restarted_terminal_finishes_its_order(
    service: Service, fleet: Fleet, tmp_path: Path, point: str
) -> None:
    """Stopped before or after the authorization, it ends the order once."""
    terminal = await _terminal(service, fleet, "approve:1.5s" if point == "result" else "hold")
    order_id = await _create(service, terminal)
    path = journals.path_of(tmp_path / "terminals", terminal.id)
    await until(lambda: _has_reached(path, point))
    await fleet.stop()
    again = Fleet(service.base_url, tmp_path / "terminals")
    await again.start()
    await again.add(terminal.id, terminal.token, "approve:0s")
    await service.until(order_id, "processed")
    await again.stop()


async def test_restart_during_the_authorization_charges_once(
    database: Database, clock: MovableClock, tmp_path: Path
) -> None:
    """The call is repeated under the payment's id and gets the same answer."""
    slow = Settings(simulator_script="payment:delay:2s")
    async with running(database, clock=clock, development=True, settings=slow) as service:
        terminal = await service.terminal()
        path = journals.path_of(tmp_path / "terminals", terminal.id)
        fleet = Fleet(service.base_url, tmp_path / "terminals")
        await fleet.start()
        await fleet.add(terminal.id, terminal.token, "approve:0s")
        order_id = await _create(service, terminal)
        await until(lambda: _has_reached(path, "presented"))
        await fleet.stop()
        again = Fleet(service.base_url, tmp_path / "terminals")
        await again.start()
        order = await service.until(order_id, "processed")
        await again.stop()
        (payment,) = order["transactions"]["payments"]
        sql = "SELECT COUNT(*), MAX(reference_id) FROM simulator_payments WHERE seller_id = $1"
        row = await database.read(lambda tx: tx.one(sql, service.seller_id))
        assert row is not None
        assert tuple(row) == (1, payment["reference_id"])


def _has_reached(path: Path, point: str) -> bool:
    journal = journals.read(path)
    entries = list(journal.entries.values()) if journal is not None else []
    if not entries:
        return False
    if point in ("result", "presented"):
        return getattr(entries[0], point) is not None
    return entries[0].step == point


@pytest.mark.parametrize("script", ["no_answer:0s", "late:0s"])
async def test_unknown_outcome_is_in_the_ledger(service: Service, fleet: Fleet, script: str) -> None:
    """The terminal reports no outcome, and the order waits for an inquiry."""
    terminal = await _terminal(service, fleet, script)
    order_id = await _create(service, terminal)
    await service.until(order_id, "check_on_terminal", "processed")
    sql = "SELECT outcome, terminal_id FROM simulator_payments WHERE seller_id = $1 AND payment_id = $2"
    row = await service.database.read(lambda tx: tx.one(sql, service.seller_id, f"PAY{order_id[3:]}"))
    assert row is not None
    assert tuple(row) == ("approved", terminal.id)


async def test_order_has_the_reference_and_code_of_the_ledger(service: Service, fleet: Fleet) -> None:
    """Reference, authorization code."""
    terminal = await _terminal(service, fleet, "approve:0s")
    order = await service.until(await _create(service, terminal), "processed")
    (payment,) = order["transactions"]["payments"]
    sql = "SELECT reference_id, authorization_code FROM simulator_payments WHERE seller_id = $1 AND payment_id = $2"
    row = await service.database.read(lambda tx: tx.one(sql, service.seller_id, payment["id"]))
    assert row is not None
    assert tuple(row) == (payment["reference_id"], payment["authorization_code"])
